"""What a value function is, and what it may look at: replies and one reference text.

A value function turns the replies to all coalitions of one snapshot into payoffs. It sees the
generated texts only, never the prompts, and gives equal replies equal payoffs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reply:
    """A coalition's generation: its text, or what the model thinks of the reference text.

    ``token_logprobs`` holds the natural log-likelihood of each token of the reference text given
    the coalition's prompt, for a value function that needs the continuation.
    """

    text: str
    token_logprobs: tuple[float, ...] | None = None


class ValueFunction(Protocol):
    """How much a coalition's reply is worth.

    ``needs`` says what is asked of the backend: the generated text, or the log-likelihood of the
    reference text as a given continuation.
    """

    needs: ClassVar[Literal["text", "continuation"]]

    def payoffs(self, replies: Sequence[Reply], reference: str) -> FloatArray:
        """The payoff of each reply, shape (m,); the order of replies changes no bit of it.

        Args:
            replies: The replies to all coalitions of one snapshot.
            reference: The base generation, or the snapshot's target.
        """


def by_text(
    replies: Sequence[Reply],
    payoffs_of: Callable[[list[str]], Sequence[float] | FloatArray],
) -> FloatArray:
    """Payoffs that depend on the text alone: each distinct text, in sorted order, once."""
    texts = sorted({reply.text for reply in replies})
    payoff = dict(zip(texts, payoffs_of(texts), strict=True))
    return np.array([payoff[reply.text] for reply in replies], dtype=np.float64)
