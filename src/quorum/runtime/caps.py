"""Hard caps on what a run may spend: the worst case of a call is booked before it is sent."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from quorum.records import Request, Usage

UNCHARGED = frozenset({"rate_limit", "overloaded", "rejected", "unsent"})


@dataclass(frozen=True, slots=True)
class Amount:
    """What calls cost: US dollars, number of calls, tokens (input and output)."""

    usd: Decimal = Decimal(0)
    calls: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Ticket:
    """A reservation: its number in the store, its account, the request's key, the worst case."""

    number: int
    account: str
    key: str
    amount: Amount


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
