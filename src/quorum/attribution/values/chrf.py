"""The character n-gram F-score: how much of the reference's spelling a reply shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt

from quorum.attribution.values.base import FloatArray, Reply, by_text


@dataclass(frozen=True, slots=True)
class Chrf:
    """chrF = (1 + β²)·P·R / (β²·P + R), 0 to 1; 1 exactly for the reference text.

    P and R are the shares of matched character n-grams in the reply and in the reference,
    averaged over n = 1..order; an order for which one of the two texts has no n-gram is left out
    of the averages. Two empty texts score 1, one of them 0.

    Args:
        order: The longest n-gram, in characters.
        beta: How many times more recall weighs than precision.
        whitespace: White space counts as characters.

    Source: Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation", §2. We
    deviate in giving a share, not percent, and in leaving out orders longer than a text.
    """

    needs: ClassVar[Literal["text", "continuation"]] = "text"
    order: Annotated[int, Ge(1)] = 6
    beta: Annotated[float, Gt(0)] = 2.0
    whitespace: bool = False

    def payoffs(self, replies: Sequence[Reply], reference: str) -> FloatArray:
        """See `ValueFunction.payoffs`."""
        wanted = self._ngrams(reference)
        return by_text(
            replies,
            lambda texts: [
                1.0 if text == reference else self._score(self._ngrams(text), wanted)
                for text in texts
            ],
        )

    def _ngrams(self, text: str) -> list[Counter[str]]:
        """One count an order; empty at the end where the text is shorter than the order."""
        body = text if self.whitespace else "".join(text.split())
        orders = range(1, min(self.order, len(body)) + 1)
        return [Counter(body[i : i + n] for i in range(len(body) - n + 1)) for n in orders]

    def _score(self, reply: list[Counter[str]], wanted: list[Counter[str]]) -> float:
        if not reply and not wanted:
            return 1.0
        shared = [(a, b, (a & b).total()) for a, b in zip(reply, wanted, strict=False)]
        if not any(both for _, _, both in shared):
            return 0.0
        precision = sum(both / a.total() for a, _, both in shared) / len(shared)
        recall = sum(both / b.total() for _, b, both in shared) / len(shared)
        weight = self.beta**2
        return (1.0 + weight) * precision * recall / (weight * precision + recall)
