"""Log-likelihood: how likely the model finds the reference text after the masked prompt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from quorum.attribution.values.base import FloatArray, Reply
from quorum.errors import BackendError


@dataclass(frozen=True, slots=True)
class LogProb:
    """Mean natural log-likelihood of a token of the reference text, in nats, at most 0.

    The reference text (the base generation, or the target) is forced as the reply to each
    coalition's prompt. Nothing stands in for a missing log-likelihood.
    """

    needs: ClassVar[Literal["text", "continuation"]] = "continuation"

    def payoffs(
        self,
        replies: Sequence[Reply],
        reference: str,  # noqa: ARG002 - the family's signature
    ) -> FloatArray:
        """See `ValueFunction.payoffs`.

        Raises:
            BackendError: A reply has no log-likelihoods, none at all for an empty reference text,
                or one that is not finite.
        """
        return np.array([_mean(reply.token_logprobs) for reply in replies], dtype=np.float64)


def _mean(logprobs: tuple[float, ...] | None) -> float:
    if logprobs is None:
        raise BackendError(
            "value logprob",
            "the backend gave no log-likelihoods of the reference text",
            mend="Choose a backend that scores a given continuation, or another value function",
        )
    if not logprobs:
        raise BackendError(
            "value logprob",
            "the reference text has no token, so it has no mean log-likelihood",
            mend="Choose another value function, or give the snapshot a target",
        )
    if not all(map(math.isfinite, logprobs)):
        raise BackendError(
            "value logprob", "a log-likelihood is not finite", got=min(logprobs, key=math.isfinite)
        )
    return math.fsum(logprobs) / len(logprobs)
