"""Absence policies: how a prompt reads when some of its players are absent.

Rendering splices spans out of the original text and never joins tokens, so the prompt with every
player present is the original, character for character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Protocol

from annotated_types import Len

from quorum.attribution.snapshots import Snapshot, Span
from quorum.records import Message

Renderer = Callable[[Sequence[bool]], tuple[Message, ...]]
_MessageRenderer = Callable[[Sequence[bool]], str]


class AbsencePolicy(Protocol):
    """A way to render absence."""

    def prepare(self, snapshot: Snapshot, players: Sequence[Span]) -> Renderer:
        """A function from the players present (one bool a player) to the messages to send.

        The players are in text order and do not overlap. Everything that is the same for all
        coalitions is done here, once.
        """

    def render(
        self, snapshot: Snapshot, players: Sequence[Span], present: Sequence[bool]
    ) -> tuple[Message, ...]:
        """The messages with these players present; for many coalitions use `prepare`."""
        return self.prepare(snapshot, players)(present)


@dataclass(frozen=True, slots=True)
class Delete(AbsencePolicy):
    """Drops the span and the white space that it leaves doubled.

    Where white space is left on both sides, the stronger one stays: more line breaks, then more
    characters, then the left one. At the beginning and the end of a message the white space of
    the original's edge stays. A message of white space alone becomes the empty text.

    Args:
        empty_message: What stands for a message that is rendered as the empty text.
    """

    empty_message: str = ""

    def prepare(self, snapshot: Snapshot, players: Sequence[Span]) -> Renderer:
        """See `AbsencePolicy.prepare`."""
        return _spliced(snapshot, players, _deleting, self.empty_message)


@dataclass(frozen=True, slots=True)
class Pad(AbsencePolicy):
    """Puts a placeholder where a player is absent; white space stays as it is.

    Args:
        placeholder: The text that stands for an absent player.
        empty_message: What stands for a message that is rendered as the empty text.
    """

    placeholder: str = "[MASK]"
    empty_message: str = ""

    def prepare(self, snapshot: Snapshot, players: Sequence[Span]) -> Renderer:
        """See `AbsencePolicy.prepare`."""
        return _spliced(
            snapshot, players, _replacing(lambda _: self.placeholder), self.empty_message
        )


@dataclass(frozen=True, slots=True)
class Neutral(AbsencePolicy):
    """Fills the width (in characters) of an absent player with one character.

    Args:
        fill_char: That character.
        empty_message: What stands for a message that is rendered as the empty text.
    """

    fill_char: Annotated[str, Len(1, 1)] = "_"
    empty_message: str = ""

    def prepare(self, snapshot: Snapshot, players: Sequence[Span]) -> Renderer:
        """See `AbsencePolicy.prepare`."""
        return _spliced(
            snapshot,
            players,
            _replacing(lambda text: self.fill_char * len(text)),
            self.empty_message,
        )


def _spliced(
    snapshot: Snapshot,
    players: Sequence[Span],
    renderer: Callable[[list[str], list[str]], _MessageRenderer],
    empty_message: str,
) -> Renderer:
    """Cuts each message that has players into gaps and pieces, and renders it from them."""
    parts: list[tuple[int, str, slice, _MessageRenderer]] = []
    for index, message in enumerate(snapshot.messages):
        own = [i for i, p in enumerate(players) if p.message == index]
        if not own:
            continue
        text = message.content
        edges = [0, *(e for i in own for e in (players[i].start, players[i].end)), len(text)]
        gaps = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
        pieces = [text[players[i].start : players[i].end] for i in own]
        parts.append((index, message.role, slice(own[0], own[-1] + 1), renderer(gaps, pieces)))
    originals = list(snapshot.messages)
    n_players = len(players)

    def render(present: Sequence[bool]) -> tuple[Message, ...]:
        if len(present) != n_players:
            raise ValueError(f"{len(present)} flags for {n_players} players")
        flags = [bool(p) for p in present]
        messages = originals.copy()
        for index, role, own, render_message in parts:
            messages[index] = Message(role, render_message(flags[own]) or empty_message)
        return tuple(messages)

    return render


def _replacing(absent: Callable[[str], str]) -> Callable[[list[str], list[str]], _MessageRenderer]:
    def renderer(gaps: list[str], pieces: list[str]) -> _MessageRenderer:
        choices = [(absent(p) + g, p + g) for p, g in zip(pieces, gaps[1:], strict=True)]

        def render(present: Sequence[bool]) -> str:
            return gaps[0] + "".join(
                [choice[flag] for choice, flag in zip(choices, present, strict=True)]
            )

        return render

    return renderer


_MAX_REMEMBERED = 256  # players of a message; above, joins are made anew (n² of them)


def _deleting(gaps: list[str], pieces: list[str]) -> _MessageRenderer:
    n = len(pieces)
    joins: dict[tuple[int, int], str] = {}

    def joined(before: int, after: int) -> str:
        """What stands between piece `before` (-1: the beginning) and `after` (n: the end)."""
        text = joins.get((before, after))
        if text is None:
            text = _join(gaps[before + 1 : after + 1], at_start=before < 0, at_end=after == n)
            if n <= _MAX_REMEMBERED:
                joins[before, after] = text
        return text

    def render(present: Sequence[bool]) -> str:
        stops = [-1, *[i for i in range(n) if present[i]], n]
        if len(stops) == 2:
            text = joined(-1, n)
            return text if text.strip() else ""
        parts = [joined(-1, stops[1])]
        for before, after in pairwise(stops[1:]):
            parts.append(pieces[before])
            parts.append(joined(before, after))
        return "".join(parts)

    return render


def _join(gaps: list[str], *, at_start: bool, at_end: bool) -> str:
    """The gaps around absent pieces as one, without white space that is left doubled."""
    text = gaps[0]
    for index, gap in enumerate(gaps[1:], start=1):
        if at_start and not text.strip():
            text += gap.lstrip()
        elif at_end and index == len(gaps) - 1 and not gap.strip():
            text = text.rstrip() + gap
        else:
            text = _meet(text, gap)
    return text


def _meet(left: str, right: str) -> str:
    before, after = left.rstrip(), right.lstrip()
    doubled = (left[len(before) :], right[: len(right) - len(after)])
    if not all(doubled):
        return left + right
    return before + max(doubled, key=lambda space: (space.count("\n"), len(space))) + after
