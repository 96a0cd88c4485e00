"""How a run ends at a cap: calls in flight finish, the store is delivered, the rest is counted."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from quorum.backends.base import Capabilities
from quorum.errors import BackendError, BudgetError, TransientBackendError
from quorum.records import Generation, Usage
from quorum.runtime.caps import Account, Amount, Caps, Totals
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import run_jobs
from quorum.runtime.store import GenerationStore

QUICK = {"backoff_base_s": 1e-9, "backoff_ceiling_s": 1e-9}


def cost(_: object) -> Amount:
    return Amount(Decimal("0.01"), 1, 4)


class Run:
    """A run under a cap of calls, and what came of it."""

    def __init__(self, store, backend, max_calls, on_cap="partial", on_result=None, **options):
        self.replies: dict[object, bool] = {}
        self.notes: list[str] = []
        self.account = Account(store, "run", Caps(max_calls=max_calls), cost, cost)
        self._given = (backend, store)
        self._more = {"spending": self.account, "on_cap": on_cap, "progress": self}
        self._options = RuntimeOptions(**{**QUICK, **options})
        self._on_result = on_result

    def advance(self, *, from_store: bool) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    def keep(self, job, generation: Generation, from_store: bool):
        assert job.tag not in self.replies
        self.replies[job.tag] = from_store
        return () if self._on_result is None else self._on_result(job, generation, from_store)

    def start(self, groups):
        backend, store = self._given
        return run_jobs(
            backend, store, groups, on_result=self.keep, options=self._options, **self._more
        )

    def go(self, groups):
        return asyncio.run(self.start(groups))


@pytest.mark.parametrize("max_inflight", [1, 4])
def test_a_partial_run_returns_what_the_cap_allowed_and_says_what_is_left(
    store, spy, jobs, max_inflight
):
    backend = spy()
    run = Run(store, backend, 10, max_inflight=max_inflight)
    stats = run.go(jobs.singles(25))
    assert sorted(run.replies) == list(range(10))
    assert (stats.stopped, stats.n_left, stats.n_distinct, stats.n_calls) == ("cap", 15, 10, 10)
    assert backend.cancelled == []
    assert len(run.notes) == 1
    assert "budget.max_calls: the cap is reached" in run.notes[0]
    assert run.account.totals() == Totals(known=Amount(Decimal("0.10"), 10, 40))


def test_a_run_within_its_cap_is_not_stopped(store, spy, jobs):
    run = Run(store, spy(), 25, on_cap="fail")
    stats = run.go(jobs.singles(25))
    assert (stats.stopped, stats.n_left, len(run.replies)) == ("", 0, 25)


def test_a_failing_run_says_what_is_done_and_left_after_calls_in_flight_have_finished(
    store, spy, jobs
):
    backend = spy()
    run = Run(store, backend, 10, on_cap="fail", max_inflight=4)
    with pytest.raises(BudgetError) as raised:
        run.go(jobs.singles(25))
    assert raised.value.exit_code == 4
    assert str(raised.value) == (
        "budget.max_calls: the cap is reached: 10 calls of 10 calls spent by account run, 0 calls"
        " left. Of this run 10 requests are answered, 15 are left. Raise budget.max_calls and run"
        " the same command again: it goes on from here, what is done is kept"
    )
    assert backend.cancelled == []
    assert len(store) == len(run.replies) == 10
    assert store._db.execute("SELECT count(*) FROM lease").fetchone() == (0,)


def test_calls_in_flight_at_the_cap_are_waited_for(store, spy, jobs):
    last = asyncio.Event()

    async def answer(request, lane):
        if request.messages[0].content == "q 0":
            await last.wait()  # until the cap has stopped the run
        return jobs.reply_to(request)

    run = Run(store, spy(answer), 4, max_inflight=4)
    run.note = lambda text: last.set()
    run.account._worst_case = lambda request: Amount(  # one is too dear whatever else happens
        Decimal(1), calls=9 if request.messages[0].content == "q 1" else 1, tokens=9
    )
    stats = run.go(jobs.singles(8))
    assert stats.stopped == "cap"
    assert 0 in run.replies
    assert 1 not in run.replies


def test_what_the_store_has_is_delivered_after_the_cap_too(store, spy, jobs):
    first = jobs.singles(30)
    Run(store, spy(), 10).go(first[20:])
    backend = spy()
    run = Run(store, backend, 15)  # the account goes on: 5 calls are left
    stats = run.go(first)
    assert len(backend.started) == 5
    assert sorted(run.replies) == [*range(5), *range(20, 30)]
    assert (stats.n_left, stats.n_from_store) == (15, 10)


def test_what_follows_from_a_stored_reply_is_delivered_or_left_after_the_cap(store, spy, jobs):
    def late(job, generation, from_store):
        more = [[jobs.Job(jobs.ask(f"late {i}"), f"late {i}") for i in range(3)]]
        return more if job.tag == 0 else ()

    Run(store, spy(), 2).go([[jobs.Job(jobs.ask("late 1"), 1)], [jobs.Job(jobs.ask("q 0"), 0)]])
    run = Run(store, spy(), 2, on_result=late)
    stats = run.go([[jobs.Job(jobs.ask("new"), "new")], [jobs.Job(jobs.ask("q 0"), 0)]])
    assert run.replies == {0: True, "late 1": True}
    assert stats.n_left == 3


def test_equal_requests_are_left_once(store, spy, jobs):
    groups = [[jobs.Job(jobs.ask(f"q {i % 5}"), i)] for i in range(50)]
    stats = Run(store, spy(), 2, max_inflight=3).go(groups)
    assert (stats.n_distinct, stats.n_left, stats.n_jobs) == (2, 3, 20)


def test_a_raised_cap_goes_on_with_the_rest(store, spy, jobs):
    for limit, n_new in [(10, 10), (10, 0), (25, 15), (25, 0)]:
        backend = spy()
        stats = Run(store, backend, limit).go(jobs.singles(30))
        assert len(backend.started) == n_new
        assert stats.n_left == 30 - min(limit, 30)


def test_groups_with_a_common_beginning_stop_too(store, spy, jobs):
    groups = [[jobs.Job(jobs.ask(f"{g} {i}"), (g, i)) for i in range(10)] for g in range(3)]
    backend = spy(capabilities=Capabilities(prefix_reuse=True), lanes=2)
    stats = Run(store, backend, 12).go(groups)
    assert (stats.n_distinct, stats.n_left) == (12, 18)


def test_what_another_process_is_at_is_not_waited_for_after_the_cap(tmp_path, spy, jobs):
    path = tmp_path / "store.sqlite"
    backend = spy()
    keys = [jobs.ask(f"q {i}").key(backend.target) for i in range(3)]
    with GenerationStore(path) as store, GenerationStore(path) as other:
        assert all(other.acquire(key) for key in keys)
        stats = Run(store, backend, 2, max_inflight=2).go(jobs.singles(8))
    assert (stats.n_distinct, stats.n_left) == (2, 6)


def test_a_retry_needs_room_as_well(store, spy, jobs):
    async def drops(request, lane):
        raise TransientBackendError("spy", "dropped", kind="connection")

    run = Run(store, spy(drops), 3, max_inflight=1)
    stats = run.go(jobs.singles(5))
    assert run.account.totals().possible.calls == 3
    assert (stats.stopped, stats.n_left, stats.n_calls) == ("cap", 5, 0)


def test_a_call_that_timed_out_stays_possible_cost_and_its_retry_is_booked_apart(
    store, spy, jobs, run_virtual
):
    async def slow_once(request, lane):
        if len(backend.started) == 1:
            await asyncio.sleep(1000.0)  # the server goes on, and charges
        return jobs.reply_to(request)

    backend = spy(slow_once)
    run = Run(store, backend, 5, timeout_s=1.0)
    stats = run_virtual(run.start(jobs.singles(1)))
    assert (stats.n_calls, stats.n_retries) == (1, 1)
    assert run.account.totals() == Totals(cost(None), cost(None))


def test_calls_that_were_turned_away_take_no_room(store, spy, jobs):
    turned_away = set()

    async def answer(request, lane):
        name = request.messages[0].content
        if name not in turned_away:
            turned_away.add(name)
            raise TransientBackendError("spy", "429", kind="rate_limit")
        return jobs.reply_to(request)

    run = Run(store, spy(answer), 5)
    stats = run.go(jobs.singles(5))
    assert (stats.stopped, stats.n_calls, stats.n_retries) == ("", 5, 5)
    assert run.account.totals() == Totals(known=Amount(Decimal("0.05"), 5, 20))


def test_another_failure_ends_the_run_as_ever_and_its_calls_stay_booked(store, spy, jobs):
    async def answer(request, lane):
        if request.messages[0].content == "q 3":
            raise BackendError("spy", "unreadable")
        await asyncio.sleep(0)
        return Generation("", usage=Usage(1, 0, 1))

    run = Run(store, spy(answer), 100, max_inflight=2)
    with pytest.raises(BackendError, match="unreadable"):
        run.go(jobs.singles(10))
    totals = run.account.totals()
    assert totals.open == Amount()
    assert totals.possible.calls >= 1
    assert totals.booked.calls <= 5
