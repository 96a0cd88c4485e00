"""Partitioners: which pieces of a prompt are players.

A player is a span of one message's content. White space between players belongs to no player and
is kept, and so are characters that only format (zero-width space, direction marks). Text of a
role outside ``roles`` is protected: it can never be absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import regex

from quorum.attribution.segmentation import (
    NEWLINE,
    VISIBLE,
    line_spans,
    paragraph_spans,
    sentence_spans,
    token_spans,
    word_spans,
)
from quorum.attribution.snapshots import Snapshot, Span
from quorum.errors import InputError, SettingsError

Overflow = Literal["error", "coarsen", "skip"]


class Partitioner(Protocol):
    """A way to cut a snapshot into players."""

    def spans(self, snapshot: Snapshot, roles: tuple[str, ...]) -> list[Span]:
        """The players in text order, without overlap, only in messages of these roles."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A player a word, number, punctuation mark, symbol or emoji.

    An apostrophe or joiner inside a word, and a point or comma between digits, stay in it.
    Scripts written without spaces (Chinese, Japanese, Thai, …) give a player a grapheme cluster,
    Katakana a player a run. An emoji stays whole with its joiners, flags and skin tones.
    """

    def spans(self, snapshot: Snapshot, roles: tuple[str, ...]) -> list[Span]:
        """The tokens."""
        return _cut(snapshot, roles, token_spans)


@dataclass(frozen=True, slots=True)
class Words:
    """A player a piece between white space: a word with the marks that cling to it.

    Scripts written without spaces are cut as by `Tokens`, with their marks attached.
    """

    def spans(self, snapshot: Snapshot, roles: tuple[str, ...]) -> list[Span]:
        """The words."""
        return _cut(snapshot, roles, word_spans)


@dataclass(frozen=True, slots=True)
class Sentences:
    """A player a sentence.

    A sentence ends at . ! ? … before white space (and ؟ ۔ । ॥ alike), at 。！？ anywhere, at a
    blank line, and at a line break unless the next line begins with a lower-case letter. A point
    ends none after a list mark ("1.") or a common abbreviation ("e.g."), nor before a lower-case
    letter.
    """

    def spans(self, snapshot: Snapshot, roles: tuple[str, ...]) -> list[Span]:
        """The sentences."""
        return _cut(snapshot, roles, sentence_spans)


@dataclass(frozen=True, slots=True)
class Lines:
    """A player a line that is not blank, without the white space at its ends."""

    def spans(self, snapshot: Snapshot, roles: tuple[str, ...]) -> list[Span]:
        """The lines."""
        return _cut(snapshot, roles, line_spans)


@dataclass(frozen=True, slots=True)
class Paragraphs:
    """A player a block of lines between blank lines."""

    def spans(self, snapshot: Snapshot, roles: tuple[str, ...]) -> list[Span]:
        """The paragraphs."""
        return _cut(snapshot, roles, paragraph_spans)


@dataclass(frozen=True, slots=True)
class Messages:
    """A player a message."""

    def spans(self, snapshot: Snapshot, roles: tuple[str, ...]) -> list[Span]:
        """The messages."""
        return _cut(snapshot, roles, lambda text: [(0, len(text))])


@dataclass(frozen=True, slots=True)
class Turns:
    """A player a speaker's turn.

    A message is a turn; where it holds a transcript, a line that begins with one of the labels
    and a colon ("Agent:", "Q:") begins a new one. What stands before the first label is a turn.

    Args:
        labels: The speakers' labels; case does not matter.
    """

    labels: tuple[str, ...] = (
        "user", "assistant", "system", "human", "ai", "bot", "agent", "customer",
        "q", "a", "question", "answer", "input", "output",
    )  # fmt: skip

    def spans(self, snapshot: Snapshot, roles: tuple[str, ...]) -> list[Span]:
        """The turns."""
        names = "|".join(regex.escape(label) for label in self.labels) or r"(?!)"
        head = regex.compile(
            rf"(?:^|(?<={NEWLINE}))[^\S\n\r]*(?:{names})[ \t]*[:：]", regex.IGNORECASE
        )

        def cut(text: str) -> Iterator[tuple[int, int]]:
            starts = [0, *(m.start() for m in head.finditer(text))]
            return zip(starts, [*starts[1:], len(text)], strict=True)

        return _cut(snapshot, roles, cut)


@dataclass(frozen=True, slots=True)
class Regex:
    """A player a match of a pattern; what no match covers is protected.

    Args:
        pattern: Of the `regex` package, which knows Unicode properties. Where it has a
            group named ``player``, that group is the player.
    """

    pattern: str

    def spans(self, snapshot: Snapshot, roles: tuple[str, ...]) -> list[Span]:
        """The matches that are not blank.

        Raises:
            SettingsError: The pattern is none, or takes more than 5 s on one message.
        """
        try:
            compiled = regex.compile(self.pattern, regex.V1)
        except regex.error as error:
            raise SettingsError(
                "partition.pattern", f"not a regular expression: {error}", got=self.pattern
            ) from None
        group = "player" if "player" in compiled.groupindex else 0

        def cut(text: str) -> list[tuple[int, int]]:
            found = (m.span(group) for m in compiled.finditer(text, timeout=5))
            return [(start, end) for start, end in found if text[start:end].strip()]

        try:
            return _cut(snapshot, roles, cut, trim=False)
        except TimeoutError:
            raise SettingsError(
                "partition.pattern", "takes more than 5 s on one message", got=self.pattern
            ) from None


@dataclass(frozen=True, slots=True)
class Spans:
    """The players that the snapshot itself gives in ``spans``."""

    def spans(self, snapshot: Snapshot, roles: tuple[str, ...]) -> list[Span]:
        """The given spans.

        Raises:
            InputError: The snapshot gives none, or one lies in a protected message.
        """
        where = f"snapshot {snapshot.id!r}"
        if snapshot.spans is None:
            raise InputError(where, "has no spans, which the partitioner spans needs")
        for span in snapshot.spans:
            role = snapshot.messages[span.message].role
            if role not in roles:
                raise InputError(
                    where,
                    f"the span {span.start}–{span.end} is in a protected {role} message",
                    allowed=f"roles {', '.join(roles)}",
                    mend=f"Add {role} to partition.roles",
                )
        return list(snapshot.spans)


def _cut(
    snapshot: Snapshot,
    roles: tuple[str, ...],
    cut: Callable[[str], Iterable[tuple[int, int]]],
    *,
    trim: bool = True,
) -> list[Span]:
    spans: list[Span] = []
    for index, message in enumerate(snapshot.messages):
        if message.role not in roles:
            continue
        text = message.content
        for start, end in cut(text):
            if not VISIBLE.search(text, start, end):
                continue
            piece = text[start:end]
            left = len(piece) - len(piece.lstrip()) if trim else 0
            right = len(piece) - len(piece.rstrip()) if trim else 0
            spans.append(Span(index, start + left, end - right))
    return spans


# -- from partitioner to partition --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Partition:
    """The players of one snapshot.

    Args:
        players: Spans in text order; empty where the snapshot is skipped.
        partitioner: Name of the partitioner that gave them.
        skipped: Why the snapshot is left out; None where it is not.
        protected_share: Share, 0 to 1, of the conversation's visible characters (white space
            does not count) that no player holds: they are never absent.
        coarsened_from: Name of the partitioner that gave too many players; None where none did.
    """

    players: tuple[Span, ...]
    partitioner: str
    skipped: str | None
    protected_share: float
    coarsened_from: str | None = None


Make = Callable[[Mapping[str, object]], Partitioner]

_COARSER = {
    "tokens": ("sentences", "paragraphs"),
    "words": ("sentences", "paragraphs"),
    "sentences": ("paragraphs",),
    "lines": ("paragraphs",),
}


def partition(
    snapshot: Snapshot,
    partitioner: Mapping[str, object],
    roles: tuple[str, ...],
    max_players: int,
    overflow: Overflow,
    make: Make,
) -> Partition:
    """The players of one snapshot; see `partition_all`."""
    return partition_all([snapshot], partitioner, roles, max_players, overflow, make)[0]


def partition_all(
    snapshots: Sequence[Snapshot],
    partitioner: Mapping[str, object],
    roles: tuple[str, ...],
    max_players: int,
    overflow: Overflow,
    make: Make,
) -> list[Partition]:
    """The players of every snapshot, in order.

    Args:
        snapshots: What to cut.
        partitioner: ``{"name": …, option: …}``; a snapshot's own ``partition`` goes before it.
        roles: Whose text can be absent, unless a snapshot's own partition says it.
        max_players: The largest number of players allowed in a snapshot.
        overflow: What happens above it: one error for all, the first of sentences and paragraphs
            that fits, or leaving the snapshot out.
        make: Gives the partitioner for ``{"name": …, option: …}``.

    Raises:
        InputError: A snapshot has nothing to explain.
        SettingsError: Snapshots are over the limit (one error names all), or a partitioner gave
            spans that overlap, are out of order or out of the text.
    """
    results: list[Partition] = []
    over: list[str] = []
    for snapshot in snapshots:
        spec = dict(snapshot.partition or partitioner)
        own_roles = spec.pop("roles", None)
        may_go = tuple(own_roles) if isinstance(own_roles, list | tuple) else roles
        name = str(spec["name"])
        players = _players(snapshot, make(spec), name, may_go)
        if len(players) <= max_players:
            results.append(_partition(snapshot, players, name))
            continue
        fit = _fitting(snapshot, name, may_go, max_players, make)
        if overflow == "coarsen" and fit:
            results.append(_partition(snapshot, fit[1], fit[0], coarsened_from=name))
        elif overflow == "skip":
            reason = f"{len(players)} players are over partition.max_players = {max_players}"
            results.append(Partition((), name, reason, 1.0))
        else:
            fits = f"{fit[0]} would give {len(fit[1])}" if fit else "nothing coarser fits"
            over.append(f"{snapshot.id!r} has {len(players)} ({name}; {fits})")
    if over:
        raise SettingsError(
            "partition.max_players",
            f"{len(over)} of {len(snapshots)} snapshots have more players than {max_players}: "
            + ", ".join(over),
            mend="Choose a coarser partition, set partition.overflow to coarsen or skip, "
            "or raise the limit",
        )
    return results


def _players(
    snapshot: Snapshot, partitioner: Partitioner, name: str, roles: tuple[str, ...]
) -> tuple[Span, ...]:
    players = tuple(partitioner.spans(snapshot, roles))
    if not players:
        raise InputError(
            f"snapshot {snapshot.id!r}",
            f"nothing to explain: the partitioner {name} finds no player in the text of "
            f"{', '.join(roles)}",
        )
    last = Span(0, 0, 0)
    for span in players:
        inside = 0 <= span.message < len(snapshot.messages) and (
            span.start < span.end <= len(snapshot.messages[span.message].content)
        )
        if not inside or (span.message, span.start) < (
            last.message,
            last.end if span.message == last.message else 0,
        ):
            raise SettingsError(
                "partition.name",
                f"the partitioner {name} gave a span of snapshot {snapshot.id!r} that is empty, "
                "overlaps, is out of order or out of the text",
                got=(span.message, span.start, span.end),
            )
        last = span
    return players


def _fitting(
    snapshot: Snapshot, name: str, roles: tuple[str, ...], max_players: int, make: Make
) -> tuple[str, tuple[Span, ...]] | None:
    for coarser in _COARSER.get(name, ()):
        players = _players(snapshot, make({"name": coarser}), coarser, roles)
        if len(players) <= max_players:
            return coarser, players
    return None


def _partition(
    snapshot: Snapshot, players: tuple[Span, ...], name: str, coarsened_from: str | None = None
) -> Partition:
    visible = sum(_visible(m.content) for m in snapshot.messages)
    held = sum(_visible(snapshot.messages[p.message].content[p.start : p.end]) for p in players)
    return Partition(players, name, None, 1.0 - held / visible, coarsened_from)


def _visible(text: str) -> int:
    return sum(not c.isspace() for c in text)
