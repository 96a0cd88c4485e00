"""Masked prompts beside their replies: what was absent, and what the reply has that another had.

Absent players are struck out. A reply is compared with the base generation word by word: words
that only the base generation has are struck out, words that only this reply has are underlined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby

from quorum.errors import InputError
from quorum.report.charts import decimal, digits_for
from quorum.report.document import Attribution, Player, integer, number, records, text
from quorum.report.escape import file_slug, visible_label, visible_text

View = dict[str, object]
Piece = tuple[str, str]  # kind ("", "del", "ins"), text

MAX_STRETCH = 400  # characters of a stretch of a prompt that are shown whole
MAX_NAMED = 3  # present players that a heading names
MAX_COMPARED = 1_000_000  # words of one reply times words of the other
MIN_COMMON = 0.25  # share of common words below which marks would hide the reply
_RULES = (
    ("without_one", "One player absent, lowest payoff first"),
    ("lowest", "Lowest payoffs of the others"),
    ("highest", "Highest payoffs of the others"),
)
_FINISH = {"length": "cut at the token limit", "refusal": "refused"}


def masked_view(attribution: Attribution, replies: Mapping[str, object]) -> View | None:
    """The masked generations of a snapshot; None where there are none to show.

    Args:
        attribution: The snapshot's.
        replies: ``shown`` (as ``masked_generations`` in ``replies.jsonl``), ``n_masked`` (how many
            there are) and ``n_samples`` (repeats of each).

    Raises:
        InputError: A coalition names players that there are not.
    """
    shown = records(replies, "shown")
    if not shown:
        return None
    payoffs = [number(item, "payoff") for item in shown]
    digits = digits_for([*payoffs, attribution.grand_value])
    cards = [_card(attribution, item, digits) for item in shown]
    rules = [text(item, "rule") for item in shown]
    groups = [
        (title, [card for card, of in zip(cards, rules, strict=True) if of == rule])
        for rule, title in _RULES
    ]
    return {
        "groups": [group for group in groups if group[1]],
        "n_shown": f"{len(shown):,}",
        "n_masked": f"{integer(replies, 'n_masked'):,}",
        "n_samples": integer(replies, "n_samples"),
        "file": f"generations/{file_slug(attribution.snapshot)}.jsonl",
    }


def _card(attribution: Attribution, item: Mapping[str, object], digits: int) -> View:
    present = _present(attribution, text(item, "coalition"))
    payoff, grand = number(item, "payoff"), attribution.grand_value
    reply, base = text(item, "generation"), attribution.texts["base_generation"]
    compared = compare(base, reply)
    finish, remark = text(item, "finish_reason"), ""
    if not reply:
        remark = "empty"
    elif compared is None:
        remark = "few words in common with the base generation, no marks"
    elif reply == base:
        remark = "the same as the base generation"
    return {
        **_name(attribution, present),
        "payoff": "not available" if payoff is None else decimal(payoff, digits),
        "change": ""
        if payoff is None or grand is None
        else decimal(payoff - grand, digits, signed=True),
        "messages": _messages(attribution, present),
        "reply": [("", visible_text(reply))] if compared is None else compared,
        "remarks": [part for part in (_FINISH.get(finish, ""), remark) if part],
    }


def _present(attribution: Attribution, coalition: str) -> list[bool]:
    where = f"replies, snapshot {attribution.snapshot!r}"
    if re.fullmatch(r"[0-9a-f]+", coalition) is None:
        raise InputError(where, "coalition is no hexadecimal bitmask", got=coalition)
    bits = int(coalition, 16)
    if bits >> attribution.n_players:
        raise InputError(where, "coalition names players that there are not", got=coalition)
    return [bool(bits >> index & 1) for index in range(attribution.n_players)]


def _name(attribution: Attribution, present: Sequence[bool]) -> View:
    """A card's heading: the absent player, the few that are present, or how many they are."""
    both = list(zip(attribution.players, present, strict=True))
    absent = [player for player, is_there in both if not is_there]
    if len(absent) == 1:
        return {"name": "Without", "players": [_label(absent[0])]}
    if sum(present) <= MAX_NAMED:
        return {"name": "Only", "players": [_label(player) for player, there in both if there]}
    return {"name": f"{sum(present):,} of {len(present):,} players", "players": []}


def _label(player: Player) -> str:
    return visible_label(player.text, limit=40)


def _messages(attribution: Attribution, present: Sequence[bool]) -> list[View]:
    """The messages that hold players: stretches of present and of absent text in turn."""
    views: list[View] = []
    for index, (role, content) in enumerate(attribution.messages):
        inside = [player for player in attribution.players if player.message == index]
        if inside:
            absent = [(p.start, p.end) for p in inside if not present[p.index]]
            pieces = [(kind, _shortened(stretch)) for kind, stretch in _stretches(content, absent)]
            views.append({"role": role, "pieces": pieces})
    return views


def _stretches(content: str, absent: Iterable[tuple[int, int]]) -> Iterator[Piece]:
    """Present and absent text in turn; blanks between two absent players count as absent."""
    pieces: list[Piece] = []
    position = 0
    for start, end in sorted(absent):
        pieces.append(("", content[position:start]))
        pieces.append(("del", content[start:end]))
        position = end
    pieces.append(("", content[position:]))
    inner = [
        ("del" if kind == "" and 0 < place < len(pieces) - 1 and not piece.strip() else kind, piece)
        for place, (kind, piece) in enumerate(pieces)
    ]
    for kind, run in groupby((piece for piece in inner if piece[1]), key=lambda piece: piece[0]):
        yield kind, "".join(piece for _, piece in run)


def _shortened(stretch: str) -> str:
    if len(stretch) <= MAX_STRETCH:
        return visible_text(stretch)
    half = MAX_STRETCH // 2
    left_out = len(stretch) - 2 * half
    ends = visible_text(stretch[:half]), visible_text(stretch[-half:])
    return f"{ends[0]} […{left_out:,} characters…] {ends[1]}"


def compare(base: str, reply: str) -> list[Piece] | None:
    """The words of both replies in turn: ``del`` only in the base, ``ins`` only in this one.

    None where less than a quarter of the longer one's words are common, or both are too long.
    """
    before, after = (re.findall(r"\s*\S+\s*|\s+", whole) for whole in (base, reply))
    if len(before) * len(after) > MAX_COMPARED:
        return None
    a_words, b_words = ([word.strip() for word in words] for words in (before, after))
    matcher = SequenceMatcher(None, a_words, b_words, autojunk=False)
    common = sum(block.size for block in matcher.get_matching_blocks())
    if common < MIN_COMMON * max(len(before), len(after)):
        return None
    pieces: list[Piece] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            pieces.append(("", "".join(after[c:d])))
        else:
            pieces += [("del", "".join(before[a:b])), ("ins", "".join(after[c:d]))]
    return _apart([(kind, visible_text(piece)) for kind, piece in pieces if piece])


def _apart(pieces: Iterable[Piece]) -> list[Piece]:
    """A blank between pieces where the end of one reply meets a word of the other."""
    found: list[Piece] = []
    for kind, piece in pieces:
        touches = bool(found) and not found[-1][1][-1].isspace() and not piece[0].isspace()
        found.append((kind, f" {piece}" if touches else piece))
    return found
