"""What a provider of batches is to the run that uses it, and how patient that run is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Protocol

from quorum.backends.base import Capabilities
from quorum.errors import BackendError
from quorum.records import Generation, Request, Target


class LineResult(Protocol):
    """What became of one line of a batch: a reply, or why there is none."""

    @property
    def custom_id(self) -> str:
        """The line's name, as it was submitted."""

    @property
    def generation(self) -> Generation | None:
        """The reply; None where the line failed."""

    @property
    def error(self) -> BackendError | None:
        """Why there is no reply; a ``TransientBackendError`` where another try may help."""

    @property
    def outcome(self) -> str:
        """How it ended: the reply's finish reason, else a word such as expired or rejected."""

    @property
    def is_charged(self) -> bool:
        """Whether a line without a reply may have been charged all the same."""


class BatchStatus(Protocol):
    """How far a batch is."""

    @property
    def is_ended(self) -> bool:
        """Whether nothing more will come."""

    @property
    def n_done(self) -> int:
        """Lines that have an outcome, as far as the server says."""

    @property
    def error(self) -> BackendError | None:
        """Why the batch as a whole was turned away after it had been taken; nothing is charged."""


class Found(Protocol):
    """What a look-up has found."""

    @property
    def batch(self) -> str | None:
        """The batch's id; None where there is none, or none yet that could be told for sure."""

    @property
    def is_sure(self) -> bool:
        """Whether None means that there is none; else it must be looked up again later."""


class BatchBackend(Protocol):
    """A provider that takes files of requests and answers them within a day.

    Every call but ``create`` may be repeated without harm. All raise ``TransientBackendError``
    where it may pass and ``BackendError`` where it will not.
    """

    @property
    def target(self) -> Target:
        """Which model answers: that of the same backend's single calls, so they share replies."""

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""

    @property
    def max_requests(self) -> int:
        """The most lines of one batch."""

    @property
    def max_bytes(self) -> int:
        """The most bytes of one batch."""

    def line(self, request: Request, custom_id: str) -> bytes:
        """The line of a request; pure."""

    async def upload(self, lines: Sequence[bytes], submission: str) -> str:
        """Brings the lines to the server where that is a step of its own, which costs nothing.

        Returns:
            The file's id; empty where ``create`` sends the lines.
        """

    async def create(self, upload: str, lines: Sequence[bytes], submission: str) -> str:
        """Starts the batch, which is what costs; returns its id."""

    async def find(
        self, submission: str, n_lines: int, since: float, known: AbstractSet[str]
    ) -> Found:
        """The batch that a submission has become, if its ``create`` arrived at all.

        Args:
            submission: Our name of it: in the metadata, or the end of each custom id.
            n_lines: How many lines it has.
            since: When ``create`` was about to be called (Unix time).
            known: Batches that are known to be others.
        """

    async def status(self, batch: str) -> BatchStatus:
        """How far a batch is."""

    async def results(self, batch: str, requests: Mapping[str, Request]) -> Sequence[LineResult]:
        """All results of a batch that has ended, in any order.

        Args:
            batch: Its id.
            requests: What was asked, by custom id; results of others are left out.
        """

    async def close(self) -> None:
        """Frees what was opened; safe to call twice."""


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How batches are sent; no field is part of any digest."""

    poll_first_s: float = 10.0  # first look at a new batch, then ever later
    poll_ceiling_s: float = 300.0  # but never less often than this
    grace_s: float = 60.0  # how long a batch may take to show up in the server's list
    transfer_timeout_s: float = 3600.0  # one upload or download
    max_requests: int | None = None  # lines of one batch; null: as many as the provider takes
    max_bytes: int | None = None  # bytes of one batch; null: likewise
    max_in_flight: int = 8  # batches at the provider at once
    stall_s: float = 2.0  # a cap that frees nothing for so long: what is reserved is sent
