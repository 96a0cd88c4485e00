"""What a backend is: it answers requests, and says what it can do before it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from quorum.records import Generation, Request, Target


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do; checked against what a study needs before any call."""

    continuation: bool = False  # log-likelihood of a given reply
    choice_probs: bool = False  # exact probabilities of one-token answers
    structured: bool = False  # option ``schema`` (JSON Schema as text) binds the reply's form
    seed: bool = False  # the same seed gives the same draw
    deterministic: bool = False  # temperature 0 gives the same text every time
    prefix_reuse: bool = False  # a shared beginning of the prompt is cheaper the second time
    empty_message: bool = True  # takes a message without text
    priced: bool = False  # calls cost money
    batch: bool = False  # takes files of requests, answered within a day at a lower price
    input_tokens_per_s: float | None = None  # measured speed of one lane, for a first forecast
    output_tokens_per_s: float | None = None  # the same for what is generated


@dataclass(frozen=True, slots=True)
class ObservedLimits:
    """The limits that a server states in the headers of its answers; None where it does not.

    A backend that reads them has the attribute ``observed_limits``, that of its last answer.
    ``tokens_per_min`` counts input and output together where the server does; one that limits
    them apart states ``input_tokens_per_min`` and ``output_tokens_per_min``.
    """

    requests_per_min: int | None = None
    tokens_per_min: int | None = None
    input_tokens_per_min: int | None = None
    output_tokens_per_min: int | None = None


class Backend(Protocol):
    """A model behind one door.

    ``lanes`` is how many calls run truly in parallel (engines of a local model); None means
    that the caller's ``max_inflight`` alone limits it. A call names its lane, so that a local
    engine keeps the prefix that its lane has just computed.
    """

    @property
    def target(self) -> Target:
        """Which model answers; part of every request's key."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    @property
    def lanes(self) -> int | None:
        """How many calls run truly in parallel."""

    async def complete(self, request: Request, lane: int = 0) -> Generation:
        """The reply to a request.

        Raises:
            TransientBackendError: It may pass; the scheduler retries.
            BackendError: It will not pass.
        """

    async def close(self) -> None:
        """Ends calls in flight and frees what was opened; safe to call twice."""
