from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
from decimal import Decimal

import pytest

from quorum.errors import BudgetError, RefusedError, SettingsError
from quorum.records import Generation, Message, Request, Target, Usage
from quorum.runtime import store as store_module
from quorum.runtime.accounts import Books
from quorum.runtime.caps import (
    UNCHARGED,
    Account,
    Amount,
    Caps,
    Ticket,
    Totals,
    dollars,
    worst_tokens,
)
from quorum.runtime.leases import Holder
from quorum.runtime.schema import VERSION
from quorum.runtime.store import GenerationStore

KEY = "ab" * 32
RATE = Decimal("0.0000001")  # odd digits far behind the cents
Q = Request((Message("user", "q"),), {"max_tokens": 100})


def usage_of(tokens: int) -> Usage:
    return Usage(input_tokens=tokens)


def price(tokens: int) -> Amount:
    return Amount(tokens * RATE, 1, tokens)


def actual(usage: Usage) -> Amount:
    return price(usage.input_tokens + usage.output_tokens)


def worst(request: Request) -> Amount:
    """The request's own max_tokens says what it costs at most."""
    return price(int(request.options["max_tokens"]))


def asking(tokens: int) -> Request:
    return Request((Message("user", "q"),), {"max_tokens": tokens})


def account(store: GenerationStore, name: str = "run", **caps: object) -> Account:
    return Account(store, name, Caps(**caps), worst, actual)


def usd(text: str) -> Decimal:
    return Decimal(text)


def book_and_rows_agree(store: GenerationStore, name: str = "run") -> None:
    """The sums of an account are those of its rows."""
    sums = {"open": Amount(), "possible": Amount()}
    query = "SELECT state, usd, calls, tokens FROM reservation WHERE account=?"
    for state, money, calls, tokens in store._db.execute(query, (name,)):
        sums[state] += Amount(Decimal(money), calls, tokens)
    with store.transaction() as db:
        totals = Books(store, name).totals(db)
    assert (totals.open, totals.possible) == (sums["open"], sums["possible"])


# One attempt


def test_an_attempt_is_booked_at_its_worst_before_and_at_its_cost_after(store):
    spending = account(store, max_usd=usd("1"))

    async def work():
        ticket = await spending.reserve(asking(1000), KEY)
        assert spending.totals() == Totals(open=price(1000))
        spending.settle(ticket, usage_of(337), "stop")
        assert spending.totals() == Totals(known=price(337))
        spending.settle(ticket, usage_of(337), "stop")  # a second time: nothing happens
        assert spending.totals() == Totals(known=price(337))

    asyncio.run(work())
    assert spending.totals().known.usd == usd("0.0000337")


@pytest.mark.parametrize(
    "outcome", ["timeout", "connection", "server", "cancelled", "permanent", "failed", "transient"]
)
def test_an_attempt_that_the_server_may_have_worked_on_stays_as_possible_cost(store, outcome):
    spending = account(store)
    ticket = asyncio.run(spending.reserve(Q, KEY))
    spending.settle(ticket, None, outcome)
    assert spending.totals() == Totals(possible=price(100))
    assert spending.tickets(KEY) == [(ticket, "possible")]


@pytest.mark.parametrize("outcome", sorted(UNCHARGED))
def test_an_attempt_that_was_turned_away_costs_nothing(store, outcome):
    spending = account(store)
    spending.settle(asyncio.run(spending.reserve(Q, KEY)), None, outcome)
    assert spending.totals() == Totals()
    assert spending.tickets(KEY) == []


def test_an_answer_without_any_token_counted_is_of_unknown_cost_not_free(store):
    spending = account(store)
    spending.settle(asyncio.run(spending.reserve(Q, KEY)), Usage(), "stop")
    assert spending.totals() == Totals(possible=price(100))


def test_a_late_answer_takes_the_place_of_its_possible_cost_once(tmp_path):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store, GenerationStore(path) as later:
        first = account(store)
        first.settle(asyncio.run(first.reserve(Q, KEY)), None, "timeout")
        other = account(later)
        [(ticket, kind)] = other.tickets(KEY)
        assert kind == "possible"
        for _ in range(9):  # a batch that is polled nine times
            other.settle(ticket, usage_of(40), "stop")
        assert first.totals() == Totals(known=price(40))


def test_a_ticket_of_another_account_changes_nothing(store):
    mine, other = account(store, "mine"), account(store, "other")
    ticket = asyncio.run(mine.reserve(Q, KEY))
    other.settle(ticket, usage_of(1), "stop")
    assert (mine.totals(), other.totals()) == (Totals(open=price(100)), Totals())


def test_what_was_not_settled_is_possible_cost_when_the_account_is_closed(store):
    with account(store) as spending:
        ticket = asyncio.run(spending.reserve(Q, KEY))
        assert spending.totals() == Totals(open=price(100))
    spending.close()
    assert spending.totals() == Totals(possible=price(100))
    spending.settle(ticket, usage_of(10), "stop")
    assert spending.totals() == Totals(known=price(10))


def test_a_call_dearer_than_its_worst_case_is_booked_in_full_and_told_once(store, caplog):
    spending = account(store, max_tokens=200)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            spending.settle(asyncio.run(spending.reserve(asking(50), KEY)), usage_of(90), "stop")
    assert spending.totals().known == Amount(180 * RATE, 2, 180)
    assert len(caplog.records) == 1
    assert "90 tokens, more than the most" in caplog.text
    with pytest.raises(BudgetError):
        asyncio.run(spending.reserve(asking(50), KEY))


# The cap


def test_a_cap_is_reached_to_the_last_digit_and_not_passed(store):
    spending = account(store, max_usd=usd("0.0000300"))
    for _ in range(3):
        spending.settle(asyncio.run(spending.reserve(asking(100), KEY)), usage_of(100), "stop")
    assert spending.totals().known.usd == usd("0.00003")
    with pytest.raises(BudgetError):
        asyncio.run(spending.reserve(asking(1), KEY))
    assert spending.totals() == Totals(known=Amount(usd("0.00003"), 3, 300))


def test_the_error_says_what_is_spent_what_is_left_and_how_to_go_on(store):
    def dear(request):
        return Amount(usd("0.4"), 1, 1000)

    spending = Account(store, "ab12", Caps(max_usd=usd("1")), dear, actual)
    spending.settle(asyncio.run(spending.reserve(Q, KEY)), None, "timeout")
    spending.settle(asyncio.run(spending.reserve(Q, KEY)), usage_of(3_000_000), "stop")
    with pytest.raises(BudgetError) as raised:
        asyncio.run(spending.reserve(Q, KEY))
    assert raised.value.exit_code == 4
    assert str(raised.value) == (
        "budget.max_usd: the cap is reached: $0.70 of $1.00 spent by account ab12, of it $0.40"
        " possibly (calls whose end is unknown), in 2 calls, $0.30 left, the next call may take"
        " $0.40. Raise budget.max_usd and run the same command again: it goes on from here, what"
        " is done is kept"
    )


@pytest.mark.parametrize(
    ("caps", "where", "words"),
    [
        ({"max_calls": 2}, "budget.max_calls", "2 calls of 2 calls spent"),
        ({"max_tokens": 150}, "budget.max_tokens", "20 tokens of 150 tokens spent"),
    ],
)
def test_calls_and_tokens_have_caps_too(store, caps, where, words):
    spending = account(store, **caps)
    for _ in range(2):
        spending.settle(asyncio.run(spending.reserve(asking(10), KEY)), usage_of(10), "stop")
    with pytest.raises(BudgetError, match=words) as raised:
        asyncio.run(spending.reserve(asking(140), KEY))
    assert raised.value.where == where


def test_a_call_that_is_dearer_than_the_whole_cap_is_refused_at_once_with_a_mend(store):
    spending = account(store, max_tokens=99)
    with pytest.raises(BudgetError, match=r"more than the whole cap.*shorter answers"):
        asyncio.run(spending.reserve(asking(100), KEY))
    assert spending.totals() == Totals()


def test_raising_the_cap_goes_on_and_a_lower_one_stops_at_once(tmp_path):
    path = tmp_path / "store.sqlite"

    def spend(limit: int) -> int:
        """Calls of 10 tokens until the cap."""
        with GenerationStore(path) as store:
            spending = account(store, max_tokens=limit)
            n = 0
            try:
                while True:
                    ticket = asyncio.run(spending.reserve(asking(10), KEY))
                    spending.settle(ticket, usage_of(10), "stop")
                    n += 1
            except BudgetError:
                assert spending.totals().booked.tokens <= max(limit, 250)
            return n

    assert [spend(100), spend(100), spend(255), spend(50), spend(300)] == [10, 0, 15, 0, 5]


def test_accounts_do_not_share_caps(store):
    one, two = account(store, "one", max_calls=1), account(store, "two", max_calls=1)
    asyncio.run(one.reserve(Q, KEY))
    asyncio.run(two.reserve(Q, KEY))
    assert one.totals().open.calls == two.totals().open.calls == 1


# Waiting for calls in flight


def test_who_does_not_fit_waits_in_line_for_calls_in_flight(store):
    spending = account(store, max_tokens=100)
    order = []

    async def one(name: str, tokens: int) -> None:
        await spending.reserve(asking(tokens), KEY)
        order.append(name)

    async def work() -> None:
        first = await spending.reserve(asking(60), KEY)
        second = await spending.reserve(asking(40), KEY)
        large = asyncio.create_task(one("large", 70))
        small = asyncio.create_task(one("small", 10))
        await asyncio.sleep(0)
        spending.settle(second, usage_of(10), "stop")  # 30 are free: enough for the small one
        for _ in range(5):
            await asyncio.sleep(0)
        assert order == []  # but it came later
        spending.settle(first, usage_of(10), "stop")
        await asyncio.gather(large, small)

    asyncio.run(work())
    assert order == ["large", "small"]
    assert spending.totals().booked == Amount(100 * RATE, 4, 100)


def test_who_waits_is_refused_when_the_calls_in_flight_have_taken_the_room(store):
    spending = account(store, max_tokens=100)

    async def work() -> None:
        first = await spending.reserve(asking(90), KEY)
        waiting = [asyncio.create_task(spending.reserve(asking(n), KEY)) for n in (20, 11, 10)]
        await asyncio.sleep(0)
        spending.settle(first, None, "timeout")
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(item) for item in found] == [BudgetError, BudgetError, Ticket]

    asyncio.run(work())


def test_a_cancelled_wait_takes_nothing_and_lets_the_next_one_through(store):
    spending = account(store, max_tokens=100)

    async def work() -> None:
        first = await spending.reserve(asking(90), KEY)
        waiting = [asyncio.create_task(spending.reserve(asking(n), KEY)) for n in (50, 60, 10)]
        await asyncio.sleep(0)
        for task in waiting[:2]:
            task.cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(found[2], Ticket)
        assert spending.totals().open.tokens == 100
        spending.settle(first, usage_of(1), "stop")

    asyncio.run(work())
    asyncio.run(spending.reserve(asking(89), KEY))  # another loop, the same account


def test_the_calls_of_another_process_are_waited_for(tmp_path, run_virtual, caplog):
    path = tmp_path / "store.sqlite"

    def tokens_only(request):
        return Amount(tokens=worst(request).tokens)

    async def work(store, other) -> None:
        here, there = (Account(s, "run", caps, tokens_only, tokens_only) for s in (store, other))
        ticket = await there.reserve(asking(90), KEY)
        waiting = asyncio.create_task(here.reserve(asking(20), KEY))
        await asyncio.sleep(2.0)
        assert not waiting.done()
        assert caplog.text == ""
        await asyncio.sleep(100.0)
        assert not waiting.done()
        assert caplog.text.count("calls in flight could reach the cap") == 1
        there.settle(ticket, None, "rate_limit")
        await asyncio.wait_for(waiting, 1.0)

    caps = Caps(max_tokens=100)
    with GenerationStore(path) as store, GenerationStore(path) as other:
        run_virtual(work(store, other))


@pytest.mark.parametrize("gone", ["pid", "start", "boot"])
def test_what_a_process_that_is_gone_had_in_flight_is_possible_cost_at_once(tmp_path, gone):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store, GenerationStore(path) as dead:
        me = store.holder
        holder = {
            "pid": Holder(2**22 + 1, me.start_time, me.boot_id),  # above any pid_max
            "start": Holder(me.pid, "1", me.boot_id),  # the pid came round again
            "boot": Holder(me.pid, me.start_time, "another"),
        }[gone]
        dead._me = (holder.pid, holder.start_time, holder.boot_id)
        killed = account(dead, max_tokens=100)
        asyncio.run(killed.reserve(asking(90), KEY))
        spending = account(store, max_tokens=100)
        with pytest.raises(BudgetError, match="of it 90 tokens possibly"):
            asyncio.run(spending.reserve(asking(20), KEY))
        assert spending.totals() == Totals(possible=price(90))
        book_and_rows_agree(store)


def test_calls_that_are_sent_together_take_what_fits_and_do_not_wait(store):
    spending = account(store, max_tokens=100)
    tickets = [spending.try_reserve(asking(30), KEY) for _ in range(5)]
    assert [ticket is None for ticket in tickets] == [False, False, False, True, True]
    for ticket in tickets[:3]:
        spending.settle(ticket, usage_of(30), "stop")
    with pytest.raises(BudgetError):
        spending.try_reserve(asking(30), KEY)

    async def behind_the_line() -> None:
        first = spending.try_reserve(asking(5), KEY)
        waiting = asyncio.create_task(spending.reserve(asking(8), KEY))
        await asyncio.sleep(0)
        assert spending.try_reserve(asking(1), KEY) is None
        spending.settle(first, usage_of(1), "stop")
        await waiting

    asyncio.run(behind_the_line())


# Durability


def test_money_is_on_the_disk_before_the_call_and_many_share_one_flush(tmp_path, monkeypatch):
    flushed = []

    def flush(path):
        with sqlite3.connect(tmp_path / "store.sqlite") as db:
            flushed.append(db.execute("SELECT count(*) FROM reservation").fetchone()[0])
        db.close()
        assert path == tmp_path / "store.sqlite-wal"  # never the main file: its locks would go

    monkeypatch.setattr(store_module, "_fsync", flush)
    with GenerationStore(tmp_path / "store.sqlite") as store:
        spending = account(store)

        async def work() -> None:
            await asyncio.gather(*(spending.reserve(Q, KEY) for _ in range(50)))
            assert flushed == [50]
            await spending.reserve(Q, KEY)
            assert flushed == [50, 51]

        asyncio.run(work())
        free = Account(store, "free", Caps(max_calls=9), lambda _: Amount(calls=1), actual)
        asyncio.run(free.reserve(Q, KEY))
        assert flushed == [50, 51]


def test_a_call_whose_reservation_cannot_be_kept_is_not_made_and_costs_nothing(
    tmp_path, monkeypatch
):
    def broken(path):
        raise OSError(5, "Input/output error")

    with GenerationStore(tmp_path / "store.sqlite") as store:
        spending = account(store)
        monkeypatch.setattr(store_module, "_fsync", broken)
        with pytest.raises(RefusedError, match="Input/output error"):
            asyncio.run(spending.reserve(Q, KEY))
        assert spending.totals() == Totals()


def test_a_worker_that_is_cancelled_while_its_reservation_is_kept_gives_it_back(tmp_path):
    with GenerationStore(tmp_path / "store.sqlite") as store:
        spending = account(store)

        async def work() -> None:
            task = asyncio.create_task(spending.reserve(Q, KEY))
            await asyncio.sleep(0)
            assert spending.totals() == Totals(open=price(100))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(work())
        assert spending.totals() == Totals()


def test_a_store_of_the_first_version_is_taken_along(tmp_path):
    path = tmp_path / "store.sqlite"
    target = Target("t", "m")
    key, canonical = Q.key(target), Q.canonical(target)
    with GenerationStore(path) as store:
        store.put(key, canonical, Generation("kept"))
        assert store.acquire(KEY)
        store._held.clear()  # the lease of a run that is under way
    with sqlite3.connect(path) as db:
        for table in ("account", "reservation", "imported"):
            db.execute(f"DROP TABLE {table}")
        db.execute("PRAGMA user_version=1")
    db.close()
    with GenerationStore(path) as store, GenerationStore(path) as again:
        assert store.get(key) == Generation("kept")
        assert not store.acquire(KEY)
        asyncio.run(account(store).reserve(Q, KEY))
        assert account(again).totals() == Totals(open=price(100))
        assert store._db.execute("PRAGMA user_version").fetchone() == (VERSION,)


# Any order of events


class Model:
    """The books in plain Python, and random events that both keep."""

    def __init__(self, rng: random.Random, accounts: list[Account]) -> None:
        self.rng = rng
        self.accounts = accounts
        self.known = Amount()
        self.doubtful: dict[Ticket, Amount] = {}
        self.in_flight: dict[Ticket, Amount] = {}

    @property
    def totals(self) -> Totals:
        possible = sum(self.doubtful.values(), Amount())
        return Totals(self.known, possible, sum(self.in_flight.values(), Amount()))

    async def step(self) -> None:
        spending = self.rng.choice(self.accounts)
        choice = self.rng.random()
        if choice < 0.5:
            await self.reserve(spending)
        elif choice < 0.9:
            self.end(spending)
        elif self.doubtful:  # a late answer
            ticket = self.rng.choice(list(self.doubtful))
            self.answer(spending, ticket, self.doubtful.pop(ticket))

    async def reserve(self, spending: Account) -> None:
        request = asking(self.rng.randint(1, 120))
        task = asyncio.create_task(spending.reserve(request, KEY))
        if spending.caps.exceeded(self.totals.spent + worst(request)):
            with pytest.raises(BudgetError):
                await task
        elif not spending.caps.exceeded(self.totals.booked + worst(request)):
            self.in_flight[await task] = worst(request)
        else:
            await asyncio.sleep(0)
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    def end(self, spending: Account) -> None:
        if not self.in_flight:
            return
        ticket = self.rng.choice(list(self.in_flight))
        most = self.in_flight.pop(ticket)
        how = self.rng.random()
        if how < 0.6:
            self.answer(spending, ticket, most)
        elif how < 0.8:
            spending.settle(ticket, None, self.rng.choice(["timeout", "server", "cancelled"]))
            self.doubtful[ticket] = most
        else:
            spending.settle(ticket, None, self.rng.choice(sorted(UNCHARGED)))

    def answer(self, spending: Account, ticket: Ticket, most: Amount) -> None:
        tokens = self.rng.randint(1, most.tokens)
        spending.settle(ticket, usage_of(tokens), "stop")
        self.known += price(tokens)


@pytest.mark.parametrize("seed", range(40))
def test_in_any_order_of_events_the_books_are_right_and_no_cap_is_passed(tmp_path, seed):
    rng = random.Random(seed)
    caps = {
        "max_usd": rng.choice([None, RATE * rng.randint(50, 2000)]),
        "max_calls": rng.choice([None, rng.randint(1, 40)]),
        "max_tokens": rng.choice([None, rng.randint(50, 2000)]),
    }
    shared = seed % 4 == 0  # by three holders of one file
    path = tmp_path / "store.sqlite" if shared else ":memory:"
    stores = [GenerationStore(path) for _ in range(3 if shared else 1)]
    model = Model(rng, [account(store, **caps) for store in stores])

    async def work() -> None:
        for _ in range(80):
            await model.step()
            totals = rng.choice(model.accounts).totals()
            assert totals == model.totals
            assert not model.accounts[0].caps.exceeded(totals.booked)

    asyncio.run(work())
    book_and_rows_agree(stores[0])
    for store in stores:
        store.close()


@pytest.mark.parametrize("seed", range(10))
def test_many_workers_spend_a_cap_as_far_as_it_goes_and_never_hang(store, seed):
    """What is left at the end is less than one more worst case."""
    rng = random.Random(seed)
    limit = rng.randint(500, 5000)
    spending = account(store, max_tokens=limit)
    paid = 0

    async def worker() -> None:
        nonlocal paid
        while True:
            ticket = await spending.reserve(asking(100), KEY)
            for _ in range(rng.randint(0, 3)):
                await asyncio.sleep(0)
            tokens = rng.randint(1, 100)
            paid += tokens
            spending.settle(ticket, usage_of(tokens), "stop")

    async def work() -> None:
        ends = await asyncio.gather(*(worker() for _ in range(16)), return_exceptions=True)
        assert {type(end) for end in ends} == {BudgetError}

    asyncio.run(work())
    assert paid == spending.totals().known.tokens == spending.totals().booked.tokens
    assert limit - 100 < paid <= limit


# Helpers


def test_the_most_tokens_are_counted_in_bytes_with_the_chat_template_and_the_schema():
    plain = Request((Message("user", "abcd"), Message("user", "ä😀")), {"max_tokens": 7})
    assert worst_tokens(plain, 4096) == (4 + 6 + 2 * 4 + 2 * 16 + 64, 7)
    schema = Request((Message("user", ""),), {"schema": "x" * 50}, choices=("a", "bc"))
    assert worst_tokens(schema, 4096) == (4 + 50 + 3 + 16 + 64, 4096)
    scored = Request((Message("user", ""),), continuation="abc")
    assert worst_tokens(scored, 8) == (4 + 3 + 16 + 64, 8)


@pytest.mark.parametrize(
    ("money", "text"),
    [("0", "$0.00"), ("5", "$5.00"), ("1234.5", "$1,234.50"), ("0.000670", "$0.00067")],
)
def test_money_is_shown_with_at_least_its_cents(money, text):
    assert dollars(usd(money)) == text


@pytest.mark.parametrize(
    ("caps", "where"),
    [
        ({"max_usd": usd("-1")}, "budget.max_usd"),
        ({"max_usd": usd("NaN")}, "budget.max_usd"),
        ({"max_usd": 5.0}, "budget.max_usd"),
        ({"max_calls": -1}, "budget.max_calls"),
        ({"max_tokens": -1}, "budget.max_tokens"),
    ],
)
def test_what_is_no_cap_is_refused(caps, where):
    with pytest.raises(SettingsError, match=f"{where}: is no cap"):
        Caps(**caps)


@pytest.mark.parametrize("wrong", [usd("NaN"), usd("-1"), usd("Infinity"), 0.5])
def test_what_is_no_money_is_no_amount(wrong):
    with pytest.raises(ValueError, match="no amount of money"):
        Amount(wrong)
    with pytest.raises(ValueError, match="negative counts"):
        Amount(calls=-1)


def test_sums_of_money_are_exact_over_any_number_of_calls():
    amounts = [Amount(usd(f"0.{'0' * i}1")) for i in range(30)]
    total = sum(amounts, Amount())
    assert str(total.usd) == "0." + "1" * 30
    assert all((total - amount) + amount == total for amount in amounts)
