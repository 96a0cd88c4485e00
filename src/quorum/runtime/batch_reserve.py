"""What the lines of a batch may cost is reserved before they are sent, and settled by results.

A single call waits while others in flight may free its room. The lines of one batch must not wait
for each other: where nothing moves for a while, what is reserved is sent, and the rest comes later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from quorum.errors import BudgetError
from quorum.records import Usage
from quorum.runtime.accounts import Kind, Ticket
from quorum.runtime.batch_journal import Line, Submission
from quorum.runtime.caps import Spending

_AT_ONCE = 64  # reservations that share one flush of the store
_Tickets = Callable[[str], list[tuple[Ticket, Kind]]]


@dataclass(slots=True)
class Reserved:
    """What could be reserved, by key; the cap that has no room; whether others must end first."""

    tickets: dict[str, Ticket] = field(default_factory=dict)
    cap: BudgetError | None = None
    has_stalled: bool = False


class Reserver:
    """The reservations of a run's batches.

    Args:
        spending: Where they are booked; None for calls without a cap.
        stall_s: How long nothing may move before what is reserved is sent.
    """

    def __init__(self, spending: Spending | None, stall_s: float) -> None:
        self._spending = spending
        self._stall_s = stall_s
        self._tickets = cast("_Tickets | None", getattr(spending, "tickets", None))

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to reserve."""
        return self._spending is not None

    @property
    def account(self) -> str:
        """The account's name; empty where it has none."""
        return str(getattr(self._spending, "name", ""))

    def before(self, lines: Sequence[Line]) -> dict[str, list[int]]:
        """Reservations that other calls of the same requests have left, by key."""
        if self._tickets is None:
            return {}
        found = {x.key: [ticket.number for ticket, _ in self._tickets(x.key)] for x in lines}
        return {key: numbers for key, numbers in found.items() if numbers}

    async def reserve(self, lines: Sequence[Line]) -> Reserved:
        """Reserves line after line, until the cap or calls in flight are in the way."""
        done = Reserved()
        for start in range(0, len(lines), _AT_ONCE):
            await self._reserve_some(lines[start : start + _AT_ONCE], done)
            if done.cap is not None or done.has_stalled:
                break
        return done

    async def _reserve_some(self, lines: Sequence[Line], done: Reserved) -> None:
        spending = cast("Spending", self._spending)
        tasks = {
            asyncio.ensure_future(spending.reserve(line.request, line.key)): line for line in lines
        }
        try:
            waiting = set(tasks)
            while waiting:
                ended, waiting = await asyncio.wait(
                    waiting, timeout=self._stall_s, return_when=asyncio.FIRST_COMPLETED
                )
                if any(task.exception() is not None for task in ended):
                    break
                if not ended:
                    done.has_stalled = True
                    break
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        failure = None
        for line, result in zip(tasks.values(), results, strict=True):
            if isinstance(result, BudgetError):
                done.cap = done.cap or result
            elif isinstance(result, Ticket):
                done.tickets[line.key] = result
            elif not isinstance(result, asyncio.CancelledError):
                failure = failure or result
        if failure is not None:
            raise failure

    def settle(self, submission: Submission, line: Line, usage: Usage | None, end: str) -> None:
        """Books what a line has cost."""
        ticket = submission.tickets.get(line.key)
        if self._spending is not None and ticket is not None:
            self._spending.settle(ticket, usage, end)

    def free(self, submission: Submission) -> None:
        """Frees the reservations of a submission that was not begun.

        That of a process which was killed while it reserved left no list of them: they are those
        that were not there before.
        """
        if self._spending is None or submission.account != self.account:
            return
        tickets = list(submission.tickets.values())
        if not tickets and self._tickets is not None:
            for line in submission.lines:
                old = submission.before.get(line.key, ())
                tickets += [t for t, _ in self._tickets(line.key) if t.number not in old]
        for ticket in tickets:
            self._spending.settle(ticket, None, "unsent")
