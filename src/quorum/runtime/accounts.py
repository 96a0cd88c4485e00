"""The books of an account in the store: what is known to be spent, what may be, what is open.

An attempt is one row ``reservation`` from before it is sent until its cost is known; the account's
row holds the sums, so that a look at them costs the same however long a run is. Every step is one
transaction: a process that is killed leaves either none of it or all of it.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from typing import Literal

from quorum.runtime.leases import Holder
from quorum.runtime.store import GenerationStore

_EXACT = Context(prec=60, rounding=ROUND_CEILING)  # sums of money round up, if ever
_FIELDS = tuple(
    f"{kind}_{unit}"
    for kind in ("known", "possible", "open")
    for unit in ("usd", "calls", "tokens")
)
_READ = f"SELECT {', '.join(_FIELDS)} FROM account WHERE name=?"  # noqa: S608 - constants only
_SAVE = (
    f"INSERT INTO account (name, {', '.join(_FIELDS)}) VALUES (?{',?' * len(_FIELDS)})"  # noqa: S608
    f" ON CONFLICT DO UPDATE SET {', '.join(f'{name}=excluded.{name}' for name in _FIELDS)}"
)
_OPEN = (
    "INSERT INTO reservation (account, key, usd, calls, tokens, state, outcome, pid, start_time,"
    " boot_id, since) VALUES (?,?,?,?,?,'open','',?,?,?,?)"
)
_TICKET = "SELECT number, account, key, usd, calls, tokens, state FROM reservation"
_FIND = f"{_TICKET} WHERE number=? AND account=?"
_HOLDERS = (
    "SELECT DISTINCT pid, start_time, boot_id FROM reservation WHERE account=? AND state='open'"
)
_HELD = (
    "SELECT number FROM reservation"
    " WHERE account=? AND state='open' AND pid=? AND start_time=? AND boot_id=?"
)
_DOUBT = "UPDATE reservation SET state='possible', outcome=? WHERE number=?"
_DROP = "DELETE FROM reservation WHERE number=?"

Kind = Literal["known", "possible", "open"]


@dataclass(frozen=True, slots=True)
class Amount:
    """What calls cost: US dollars, number of calls, tokens (input and output)."""

    usd: Decimal = Decimal(0)
    calls: int = 0
    tokens: int = 0

    def __post_init__(self) -> None:
        """Checks that it can be added up and never makes room.

        Raises:
            ValueError: It is negative, not finite, or no Decimal.
        """
        usd: object = self.usd
        if not isinstance(usd, Decimal) or not usd.is_finite() or usd < 0:
            raise ValueError(f"no amount of money: {usd!r}")
        if self.calls < 0 or self.tokens < 0:
            raise ValueError(f"negative counts: {self.calls} calls, {self.tokens} tokens")

    def __add__(self, other: Amount) -> Amount:
        """The exact sum."""
        usd = _EXACT.add(self.usd, other.usd)
        return Amount(usd, self.calls + other.calls, self.tokens + other.tokens)

    def __sub__(self, other: Amount) -> Amount:
        """The exact difference."""
        usd = _EXACT.subtract(self.usd, other.usd)
        return Amount(usd, self.calls - other.calls, self.tokens - other.tokens)


@dataclass(frozen=True, slots=True)
class Ticket:
    """A reservation: its number in the store, its account, the request's key, the worst case."""

    number: int
    account: str
    key: str
    amount: Amount


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of an account.

    Args:
        known: Of attempts whose usage is known.
        possible: Worst cases of attempts whose end is unknown: time-outs, dropped connections,
            whatever a process that is gone had in flight.
        open: Worst cases of attempts in flight.
    """

    known: Amount = field(default_factory=Amount)
    possible: Amount = field(default_factory=Amount)
    open: Amount = field(default_factory=Amount)

    @property
    def spent(self) -> Amount:
        """What the account has spent at most, without what is in flight."""
        return self.known + self.possible

    @property
    def booked(self) -> Amount:
        """What the account will have spent at most."""
        return self.spent + self.open


class Books:
    """One account in a store; the steps are made within ``store.transaction()``.

    Args:
        store: Where it lies.
        account: Its name.
    """

    def __init__(self, store: GenerationStore, account: str) -> None:
        self._account = account
        self._me = store.holder

    def totals(self, db: sqlite3.Connection) -> Totals:
        """The sums as they stand."""
        row = db.execute(_READ, (self._account,)).fetchone()
        if row is None:
            return Totals()
        return Totals(*(Amount(Decimal(row[i]), row[i + 1], row[i + 2]) for i in (0, 3, 6)))

    def open(self, db: sqlite3.Connection, totals: Totals, key: str, worst: Amount) -> Ticket:
        """Books the worst case of an attempt that is about to be sent."""
        me = self._me
        holder = (me.pid, me.start_time, me.boot_id, time.time())
        row = (self._account, bytes.fromhex(key), *_row(worst), *holder)
        number = db.execute(_OPEN, row).lastrowid
        assert number is not None
        self._save(db, Totals(totals.known, totals.possible, totals.open + worst))
        return Ticket(number, self._account, key, worst)

    def settle(
        self, db: sqlite3.Connection, number: int, cost: Amount | None, outcome: str
    ) -> Amount | None:
        """Books what an attempt has cost; None leaves its worst case as possible cost.

        Returns:
            What had been reserved; None where the ticket was settled before.
        """
        found = db.execute(_FIND, (number, self._account)).fetchone()
        if found is None:
            return None
        worst, state = Amount(Decimal(found[3]), found[4], found[5]), found[6]
        sums = self.totals(db)
        known, possible, in_flight = sums.known, sums.possible, sums.open
        if cost is not None:
            db.execute(_DROP, (number,))
            known = known + cost
            possible = possible - worst if state == "possible" else possible
        elif state == "open":
            db.execute(_DOUBT, (outcome, number))
            possible = possible + worst
        if state == "open":
            in_flight = in_flight - worst
        self._save(db, Totals(known, possible, in_flight))
        return worst

    def bury(self, db: sqlite3.Connection) -> Totals:
        """Makes possible cost of what processes that are gone had in flight."""
        for held in db.execute(_HOLDERS, (self._account,)).fetchall():
            if not Holder(*held).is_alive():
                for (number,) in db.execute(_HELD, (self._account, *held)).fetchall():
                    self.settle(db, number, None, "killed")
        return self.totals(db)

    def tickets(self, db: sqlite3.Connection, key: str) -> list[tuple[Ticket, Kind]]:
        """The reservations for a request that are open or possible, oldest first."""
        query = f"{_TICKET} WHERE key=? AND account=? ORDER BY number"
        rows = db.execute(query, (bytes.fromhex(key), self._account)).fetchall()
        return [
            (Ticket(number, account, key, Amount(Decimal(usd), calls, tokens)), state)
            for number, account, _, usd, calls, tokens, state in rows
        ]

    def _save(self, db: sqlite3.Connection, sums: Totals) -> None:
        row = (*_row(sums.known), *_row(sums.possible), *_row(sums.open))
        db.execute(_SAVE, (self._account, *row))


def _row(amount: Amount) -> tuple[str, int, int]:
    return str(amount.usd), amount.calls, amount.tokens
