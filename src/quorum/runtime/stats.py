"""What a run of the scheduler did: counts, times and sums of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from quorum.records import Usage


@dataclass(frozen=True, slots=True)
class RunStats:
    """What a run did.

    Args:
        n_jobs: Jobs, equal requests counted each time.
        n_distinct: Distinct requests.
        n_from_store: Of these, answered without a call of this run.
        n_calls: Calls of this run that were answered.
        n_retries: Attempts after the first one for a request.
        n_damaged: Rows of the store that were damaged and asked for again.
        busy_s: Seconds spent in calls, summed over workers.
        wall_s: Seconds from start to end.
        n_workers: How many calls could be in flight.
        usage_called: Tokens of this run's calls.
        usage_total: Tokens that all distinct replies rest on, whenever they were paid for.
        stopped: ``cap`` where a cap ended the run before all was answered; else empty.
        n_left: Distinct requests without a reply then; what would follow from them comes on top.
    """

    n_jobs: int
    n_distinct: int
    n_from_store: int
    n_calls: int
    n_retries: int
    n_damaged: int
    busy_s: float
    wall_s: float
    n_workers: int
    usage_called: Usage
    usage_total: Usage
    stopped: str = ""
    n_left: int = 0

    @property
    def utilisation(self) -> float:
        """Share of the workers' time that was spent in calls, in [0, 1]; 0 for an empty run."""
        return self.busy_s / (self.n_workers * self.wall_s) if self.wall_s > 0 else 0.0


class UsageSum:
    """A sum of tokens that grows."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums = [0, 0, 0, 0, 0]

    def add(self, usage: Usage) -> None:
        """Adds the tokens of one call."""
        sums = self._sums
        sums[0] += usage.input_tokens
        sums[1] += usage.cached_input_tokens
        sums[2] += usage.output_tokens
        sums[3] += usage.reasoning_tokens
        sums[4] += usage.cache_write_tokens

    @property
    def usage(self) -> Usage:
        """The sum so far."""
        n_input, n_cached, n_output, n_reasoning, n_written = self._sums
        return Usage(
            input_tokens=n_input,
            cached_input_tokens=n_cached,
            output_tokens=n_output,
            reasoning_tokens=n_reasoning,
            cache_write_tokens=n_written,
        )
