"""Word weights: a payoff that one can compute by hand, for teaching and for golden tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from quorum.attribution.segmentation import tokens_of
from quorum.attribution.values.base import FloatArray, Reply, by_text


@dataclass(frozen=True, slots=True)
class WordWeights:
    """The sum of the weights of all words and marks of the reply, each as often as it occurs.

    With a backend that echoes the prompt the game is additive: the value of a player is its
    word's weight. The reference text plays no role.

    Args:
        weights: The weight of a word, written exactly so (case counts).
        default_weight: The weight of every word or mark not named in `weights`.
    """

    needs: ClassVar[Literal["text", "continuation"]] = "text"
    weights: Mapping[str, float] = field(default_factory=dict)
    default_weight: float = 0.0

    def payoffs(
        self,
        replies: Sequence[Reply],
        reference: str,  # noqa: ARG002 - the family's signature
    ) -> FloatArray:
        """See `ValueFunction.payoffs`."""
        return by_text(replies, lambda texts: [self._sum(text) for text in texts])

    def _sum(self, text: str) -> float:
        return math.fsum(self.weights.get(w, self.default_weight) for w in tokens_of(text))
