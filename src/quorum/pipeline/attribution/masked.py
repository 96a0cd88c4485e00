"""Which masked generations stand beside the base generation: a bounded choice by a stated rule.

All replies stand in generate's result; what is chosen here goes through ``replies.jsonl`` to the
pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import cast

from quorum.pipeline.attribution.replies import ReplyRow

MAX_SHOWN = 24  # masked generations of a snapshot
MAX_WITHOUT_ONE = 16  # of them with a single player absent


@dataclass(frozen=True, slots=True)
class Masked:
    """A masked generation that is shown.

    Args:
        coalition: Hexadecimal, as in ``payoffs.csv``.
        rule: Why it is shown: ``without_one``, ``lowest`` or ``highest``.
        payoff: Mean over the repeats.
        generation: The reply, the first of the repeats.
        finish_reason: How that reply ended.
    """

    coalition: str
    rule: str
    payoff: float
    generation: str
    finish_reason: str


def choose(
    payoffs: Mapping[int, float], replies: Sequence[ReplyRow], n: int
) -> tuple[tuple[Masked, ...], int]:
    """The masked generations that are shown, and how many there are.

    First coalitions without one player, lowest payoff first, at most 16; the places left up to 24
    go to the lowest and the highest payoffs of the others, half and half (the odd one to the
    lowest). ∅ and N are no masked generations: they stand on the page by themselves. Ties go by
    the coalition's number; within a rule they stand by payoff, lowest first.

    Args:
        payoffs: By coalition.
        replies: Of the first repeat, with text.
        n: Number of players.
    """
    grand = (1 << n) - 1
    texts = {row.coalition: row for row in replies if row.sample == 0}
    there = [bits for bits in payoffs if bits in texts and 0 < bits < grand]
    there.sort(key=lambda bits: (payoffs[bits], bits))
    without_one = [bits for bits in there if bits.bit_count() == n - 1][:MAX_WITHOUT_ONE]
    rest = [bits for bits in there if bits.bit_count() < n - 1]
    left = min(MAX_SHOWN - len(without_one), len(rest))
    cut = (left + 1) // 2
    chosen = [("without_one", bits) for bits in without_one]
    chosen += [("lowest", bits) for bits in rest[:cut]]
    chosen += [("highest", bits) for bits in rest[len(rest) - (left - cut) :]]
    shown = tuple(_masked(rule, payoffs[bits], texts[bits]) for rule, bits in chosen)
    return shown, len(there)


def _masked(rule: str, payoff: float, row: ReplyRow) -> Masked:
    generation = row.generation
    return Masked(f"{row.coalition:x}", rule, payoff, generation.text, generation.finish_reason)


def as_rows(masked: Sequence[Masked]) -> list[dict[str, object]]:
    """Masked generations as they stand in ``replies.jsonl``."""
    return [asdict(one) for one in masked]


def from_rows(rows: Sequence[Mapping[str, object]]) -> tuple[Masked, ...]:
    """Masked generations as ``as_rows`` left them."""
    return tuple(
        Masked(
            coalition=str(row["coalition"]),
            rule=str(row["rule"]),
            payoff=cast("float", row["payoff"]),
            generation=str(row["generation"]),
            finish_reason=str(row["finish_reason"]),
        )
        for row in rows
    )
