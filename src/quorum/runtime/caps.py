"""Hard caps on what a run may spend: the worst case of a call is booked before it is sent.

The books lie in the store's file, so that processes on one store share a cap, and a run keeps its
account over all resumptions. What was sent and whose end is unknown stays booked at its worst case.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from types import TracebackType
from typing import Protocol, Self

from quorum.errors import BudgetError, SettingsError
from quorum.records import Request, Usage
from quorum.runtime.accounts import Amount, Books, Kind, Ticket, Totals
from quorum.runtime.store import GenerationStore

__all__ = [
    "UNCHARGED",
    "Account",
    "Amount",
    "Caps",
    "Spending",
    "Ticket",
    "Totals",
    "worst_tokens",
]

UNCHARGED = frozenset({"rate_limit", "overloaded", "rejected", "unsent"})
_LOG = logging.getLogger(__name__)
_NOTHING = Amount()
_NO_USAGE = Usage()
_POLL_S = 0.05  # how often we look whether another process's calls have come to their end
_MAX_POLL_S = 1.0  # and how often where they take long
_LONG_S = 60.0  # a wait that is worth a line
_PER_MESSAGE = 16  # tokens that a chat template may put around a message
_PER_REQUEST = 64  # and around the whole conversation


class Spending(Protocol):
    """What is asked before each attempt of a call, and told of its end."""

    async def reserve(self, request: Request, key: str) -> Ticket:
        """Books the worst case of one attempt; waits while only calls in flight are in the way.

        Raises:
            BudgetError: The cap leaves no room for it, whatever the calls in flight will cost.
        """

    def settle(self, ticket: Ticket, usage: Usage | None, outcome: str) -> None:
        """Books what the attempt did cost; every ticket is settled, also of a cancelled attempt.

        Args:
            ticket: What ``reserve`` gave; a settled one is settled already, nothing happens.
            usage: Tokens of the answer; None where none came.
            outcome: The finish reason, or how the attempt failed. Without usage it decides:
                ``UNCHARGED`` (``rate_limit``, ``overloaded``: the server turned it away;
                ``rejected``: bad key, no credit, bad request, by the server's own error code;
                ``unsent``: it never left) frees the reservation; all else (``timeout``,
                ``connection``, ``server``, ``cancelled``, ``permanent``, ``failed``, …) leaves
                it booked as possible cost, because the server may have worked.
        """


@dataclass(frozen=True, slots=True)
class Caps:
    """What an account may spend at most; None is no cap.

    Args:
        max_usd: US dollars.
        max_calls: Calls, attempts that the server turned away not counted.
        max_tokens: Tokens of input and output together.

    Raises:
        SettingsError: A cap is negative or not finite.
    """

    max_usd: Decimal | None = None
    max_calls: int | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Checks the caps."""
        usd: object = self.max_usd
        if usd is not None and not (isinstance(usd, Decimal) and usd.is_finite() and usd >= 0):
            raise _no_cap("max_usd", usd)
        for name, value in (("max_calls", self.max_calls), ("max_tokens", self.max_tokens)):
            if value is not None and value < 0:
                raise _no_cap(name, value)

    def exceeded(self, amount: Amount) -> str:
        """The first cap that an amount exceeds; empty where it is within all of them."""
        if self.max_usd is not None and amount.usd > self.max_usd:
            return "max_usd"
        if self.max_calls is not None and amount.calls > self.max_calls:
            return "max_calls"
        if self.max_tokens is not None and amount.tokens > self.max_tokens:
            return "max_tokens"
        return ""


class Account:
    """The spending of one account under caps; fulfils ``Spending``.

    Before an attempt, known + possible + open + its worst case ≤ cap holds for every cap, across
    all processes that use the account. Attempts that only those in flight keep from fitting wait
    in line, first come, first served.

    Args:
        store: Where the books lie; those of a store in memory end with it.
        name: The account; by default a run has its own, several runs may share one.
        caps: What it may spend.
        worst_case: What one attempt of a request may cost at most.
        actual: What an answer with such usage costs.
    """

    def __init__(
        self,
        store: GenerationStore,
        name: str,
        caps: Caps,
        worst_case: Callable[[Request], Amount],
        actual: Callable[[Usage], Amount],
    ) -> None:
        self.name = name
        self.caps = caps
        self._store = store
        self._books = Books(store, name)
        self._worst_case = worst_case
        self._actual = actual
        self._open: set[int] = set()
        self._line: deque[asyncio.Future[None]] = deque()
        self._change: asyncio.Future[None] | None = None
        self._flush: asyncio.Task[None] | None = None  # the one under way
        self._next_flush: asyncio.Task[None] | None = None  # and the one that waits for its end
        self._warned = False

    # Before an attempt

    async def reserve(self, request: Request, key: str) -> Ticket:
        """Books the worst case of one attempt; it outlives a kill, and a power cut if it is money.

        Raises:
            BudgetError: The cap leaves no room, whatever the calls in flight will cost.
            RefusedError: The store cannot be written.
        """
        worst = self._worst_case(request)
        ticket = None if self._line else self._take(key, worst)
        if ticket is None:
            ticket = await self._wait_in_line(key, worst)
        if worst.usd and self._store.is_file:
            try:
                await self.keep()
            except BaseException:
                self.settle(ticket, None, "unsent")
                raise
        return ticket

    def try_reserve(self, request: Request, key: str) -> Ticket | None:
        """A ticket without any wait, for calls that are sent together; ``keep`` before the send.

        Returns:
            None where calls in flight (also those reserved before) leave no room for it now.

        Raises:
            BudgetError: The cap leaves no room, whatever the calls in flight will cost.
            RefusedError: The store cannot be written.
        """
        return None if self._line else self._take(key, self._worst_case(request))

    def _take(self, key: str, worst: Amount) -> Ticket | None:
        """A ticket; None where calls in flight must end first."""
        with self._store.transaction() as db:
            totals = self._books.totals(db)
            if self.caps.exceeded(totals.booked + worst):
                totals = self._books.bury(db)
            if not self.caps.exceeded(totals.booked + worst):
                ticket = self._books.open(db, totals, key, worst)
                self._open.add(ticket.number)
                return ticket
        if cap := self.caps.exceeded(totals.spent + worst):
            raise self._reached(cap, totals, worst)
        return None

    async def _wait_in_line(self, key: str, worst: Amount) -> Ticket:
        loop = asyncio.get_running_loop()
        place = loop.create_future()
        self._line.append(place)
        try:
            if self._line[0] is not place:
                await place
            poll_s, since = _POLL_S, loop.time()
            while (ticket := self._take(key, worst)) is None:
                self._change = loop.create_future()
                await asyncio.wait([self._change], timeout=poll_s)
                poll_s = min(1.1 * poll_s, _MAX_POLL_S)
                if loop.time() > since + _LONG_S:
                    since = math.inf
                    _LOG.warning(
                        "account %s: calls in flight could reach the cap; the next one waits",
                        self.name,
                    )
            return ticket
        finally:
            self._line.remove(place)
            if self._line and not self._line[0].done():
                self._line[0].set_result(None)

    async def keep(self) -> None:
        """Returns when all reservations so far would outlive a power cut; many share one flush."""
        if self._next_flush is None or self._next_flush.done():
            self._next_flush = asyncio.create_task(self._flush_after(self._flush))
        await asyncio.shield(self._next_flush)

    async def _flush_after(self, before: asyncio.Task[None] | None) -> None:
        if before is not None and before.get_loop() is asyncio.get_running_loop():
            await asyncio.wait([before])
        self._flush, self._next_flush = self._next_flush, None
        await asyncio.to_thread(self._store.flush)

    # After it

    def settle(self, ticket: Ticket, usage: Usage | None, outcome: str) -> None:
        """Books what the attempt did cost, or leaves its worst case as possible cost.

        An answer without a single token counted is one whose usage is unknown. A ticket may be
        settled after its possible cost was booked, also by another process: the late answer's
        cost takes its place.

        Raises:
            RefusedError: The store cannot be written; the worst case stays booked.
        """
        if usage is not None and usage != _NO_USAGE:
            cost: Amount | None = self._actual(usage)
        else:
            cost = _NOTHING if usage is None and outcome in UNCHARGED else None
        with self._store.transaction() as db:
            worst = self._books.settle(db, ticket.number, cost, outcome)
        self._open.discard(ticket.number)
        if self._change is not None and not self._change.done():
            self._change.set_result(None)
        if worst is not None and cost is not None and not self._warned:
            self._warn_if_above(cost, worst)

    def _warn_if_above(self, cost: Amount, worst: Amount) -> None:
        if cost.usd > worst.usd or cost.tokens > worst.tokens:
            self._warned = True
            _LOG.warning(
                "account %s: a call cost %s and %d tokens, more than the most that was reckoned"
                " with (%s, %d tokens); the cap may be passed by the difference",
                self.name,
                dollars(cost.usd),
                cost.tokens,
                dollars(worst.usd),
                worst.tokens,
            )

    # The books

    def totals(self) -> Totals:
        """The sums of the account; what processes that are gone had in flight is possible cost."""
        with self._store.transaction() as db:
            return self._books.bury(db)

    def tickets(self, key: str) -> list[tuple[Ticket, Kind]]:
        """Reservations for a request that are open or possible cost, oldest first.

        Who goes on with another process's calls (a batch) settles them by these tickets.
        """
        with self._store.transaction() as db:
            return self._books.tickets(db, key)

    def close(self) -> None:
        """Makes possible cost of what was not settled; safe to call twice."""
        if self._open:
            with self._store.transaction() as db:
                for number in self._open:
                    self._books.settle(db, number, None, "abandoned")
            self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _reached(self, cap: str, totals: Totals, worst: Amount) -> BudgetError:
        limit = getattr(self.caps, cap)
        unit = cap.removeprefix("max_")
        alone = self.caps.exceeded(worst) == cap
        spent, possible = getattr(totals.spent, unit), getattr(totals.possible, unit)
        parts = [f"{_shown(unit, spent)} of {_shown(unit, limit)} spent by account {self.name}"]
        if possible:
            parts.append(f"of it {_shown(unit, possible)} possibly (calls whose end is unknown)")
        if unit != "calls":
            parts.append(f"in {totals.spent.calls:,} calls")
        parts.append(f"{_shown(unit, max(limit - spent, type(limit)(0)))} left")
        if unit != "calls":
            parts.append(f"the next call may take {_shown(unit, getattr(worst, unit))}")
        what = "one call may take more than the whole cap" if alone else "the cap is reached"
        return BudgetError(
            f"budget.{cap}",
            f"{what}: {', '.join(parts)}",
            mend=f"Raise budget.{cap}{' or ask for shorter answers' if alone else ''} and run the"
            " same command again: it goes on from here, what is done is kept",
        )


def worst_tokens(request: Request, max_output_tokens: int) -> tuple[int, int]:
    """The most tokens that a request can take: input and output.

    Input ≤ UTF-8 bytes of all texts + 16 a message + 64: a token stands for a byte at least, in
    byte-level vocabularies as well. Output ≤ the request's ``max_tokens``, else the model's own
    maximum.

    Args:
        request: What is sent.
        max_output_tokens: The most that the model writes where the request sets no limit.
    """
    n_input = sum(_n_bytes(text) for text in _texts(request))
    n_input += _PER_MESSAGE * len(request.messages) + _PER_REQUEST
    asked = request.options.get("max_tokens")
    is_set = isinstance(asked, int) and not isinstance(asked, bool)
    return n_input, int(asked) if is_set and asked is not None else max_output_tokens


def _texts(request: Request) -> Iterator[str]:
    for message in request.messages:
        yield message.content
        yield message.role
    yield from request.choices
    yield request.continuation or ""
    for value in request.options.values():  # a schema is sent as well
        if isinstance(value, str):
            yield value


def _n_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def dollars(usd: Decimal) -> str:
    """An amount of money to the cent, and as many digits more as it has, at most six.

    Raises:
        ValueError: It is not finite.
    """
    if not usd.is_finite():
        raise ValueError(f"no amount of money: {usd}")
    cents = usd.quantize(Decimal("0.000001"))
    text = f"{cents:,f}".rstrip("0")
    whole, _, digits = text.partition(".")
    return f"${whole}.{digits:0<2}"


def _shown(unit: str, value: Decimal | int) -> str:
    return dollars(value) if isinstance(value, Decimal) else f"{value:,} {unit}"


def _no_cap(name: str, value: object) -> SettingsError:
    where = f"budget.{name}"
    return SettingsError(where, "is no cap", got=value, allowed="a number from 0, or null")
