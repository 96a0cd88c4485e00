"""Section H of the known bugs of others (rate limits and retries), each with its number."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from quorum.backends.base import ObservedLimits
from quorum.errors import (
    BackendError,
    BudgetError,
    RejectedError,
    SettingsError,
    TransientBackendError,
)
from quorum.records import Generation, Usage
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import NoProgress
from quorum.runtime.retry import Caller
from quorum.runtime.scheduler import run_jobs


class Notes(NoProgress):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


@dataclass
class Books:
    """A cap that lets all through and remembers what it was told, with the moments."""

    told: list[tuple] = field(default_factory=list)
    wait_s: float = 0.0
    n_open: int = 0
    most_open: int = 0

    async def reserve(self, request, key):
        self.n_open += 1
        self.most_open = max(self.most_open, self.n_open)
        if self.wait_s:
            await asyncio.sleep(self.wait_s)
        self.told.append(("reserve", key[:1], asyncio.get_running_loop().time()))
        return len(self.told)

    def settle(self, ticket, usage, outcome):
        self.n_open -= 1
        self.told.append(("settle", usage, outcome))

    @property
    def settled(self):
        return [entry[1:] for entry in self.told if entry[0] == "settle"]


def failing(jobs, *errors):
    """An answer that fails so before it comes, and the moments of its attempts."""
    moments, left = [], list(errors)

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        if left:
            raise left.pop(0)
        return jobs.reply_to(request)

    return answer, moments


def caller_of(backend, progress=None, spending=None, draw=lambda: 0.5, **options):
    options = RuntimeOptions(**options)
    return Caller(backend, options, None, progress or NoProgress(), draw, spending=spending)


async def reply(caller, jobs, text="x", **more):
    return await caller.reply(jobs.ask(text, **more), "k" * 64, "generate", 0)


def turned_away(seconds, kind="rate_limit", what="429"):
    return TransientBackendError("spy", what, retry_after_s=seconds, kind=kind)


@pytest.mark.parametrize(("number", "seconds"), [(112, 171.0), (113, 121.0)])
def test_112_113_the_announced_wait_is_kept_whole_and_shown(
    spy, jobs, run_virtual, number, seconds
):
    answer, moments = failing(jobs, turned_away(seconds))
    progress = Notes()
    run_virtual(reply(caller_of(spy(answer), progress), jobs))
    assert moments == pytest.approx([0.0, seconds + 0.25])  # half of the spread of 0.5 s
    assert progress.notes == [f"spy asks to wait {seconds:.0f} s"]


def test_112_a_wait_above_the_runs_limit_ends_it_and_nothing_more_is_sent(
    harness, spy, store, jobs, run_virtual
):
    async def answer(request, lane):
        await asyncio.sleep(0.1)
        if lane == 0:
            raise turned_away(601.0)
        return jobs.reply_to(request)

    backend = spy(answer)
    with pytest.raises(BackendError, match="asks to wait 601 s; allowed at most 600 s"):
        run_virtual(harness.run(backend, store, jobs.singles(400), max_inflight=2))
    assert backend.started == ["q 0", "q 1"]
    assert store._db.execute("SELECT count(*) FROM lease").fetchone() == (0,)


def test_115_what_the_text_says_decides_nothing(spy, jobs, run_virtual):
    answer, moments = failing(jobs, turned_away(None, what="INSUFFICIENT QUOTA, invalid api key"))
    run_virtual(reply(caller_of(spy(answer)), jobs))
    assert len(moments) == 2
    answer, moments = failing(jobs, RejectedError("spy", "rate limit, try again in 1 s"))
    with pytest.raises(RejectedError):
        run_virtual(reply(caller_of(spy(answer)), jobs))
    assert len(moments) == 1


def test_116_the_scheduler_starts_no_more_calls_than_the_limit_in_any_window(
    harness, spy, store, jobs, run_virtual
):
    moments = []

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.3)
        return jobs.reply_to(request)

    work = harness.run(
        spy(answer), store, jobs.singles(60), max_inflight=50, max_requests_per_s=20.0
    )
    run_virtual(work)
    for period, most in ((1.0, 20), (2.0, 40)):
        assert max(sum(s <= m <= s + period for m in moments) for s in moments) <= most
    assert moments[-1] <= 3.1


def test_118_fifty_workers_that_are_turned_away_at_once_come_back_spread(spy, jobs, run_virtual):
    """Without an announced wait each backs off on its own: full jitter of a doubling time."""
    moments = []

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        if len(moments) <= 50:
            raise turned_away(None)
        return jobs.reply_to(request)

    draws = iter(range(50))
    caller = caller_of(spy(answer), draw=lambda: next(draws) / 50, backoff_base_s=5.0)

    async def fifty():
        await asyncio.gather(*(reply(caller, jobs, f"q {i}") for i in range(50)))

    run_virtual(fifty())
    assert moments[:50] == [0.0] * 50
    assert sorted(moments[50:]) == pytest.approx([i / 10 for i in range(50)])


def test_118_one_pause_holds_all_workers_and_is_said_once(spy, jobs, run_virtual):
    moments, progress = [], Notes()

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1.0 if len(moments) <= 50 else 0.0)
        if len(moments) <= 50:
            raise turned_away(30.0)
        return jobs.reply_to(request)

    caller = caller_of(spy(answer), progress)

    async def hundred():
        first = [asyncio.create_task(reply(caller, jobs, f"q {i}")) for i in range(50)]
        await asyncio.sleep(2.0)  # another fifty begin inside the pause
        await asyncio.gather(*first, *(reply(caller, jobs, f"r {i}") for i in range(50)))

    run_virtual(hundred())
    assert len(moments) == 150
    assert min(moments[50:]) >= 31.0
    assert progress.notes == ["spy asks to wait 30 s"]


def test_119_what_is_asked_again_takes_slots_and_budget(spy, store, jobs, run_virtual):
    backend, books, moments = spy(), Books(), []

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        return Generation("?" if "again" not in request.messages[0].content else "B")

    backend.answer = answer

    def on_result(job, generation, from_store):
        return [[jobs.Job(jobs.ask(f"again {job.tag}"), None)]] if generation.text == "?" else ()

    work = run_jobs(
        backend,
        store,
        jobs.singles(5),
        on_result=on_result,
        options=RuntimeOptions(max_requests_per_s=1.0),
        spending=books,
    )
    run_virtual(work)
    assert len(moments) == 10
    assert all(later - earlier > 1.0 for earlier, later in pairwise(moments))
    assert len(books.settled) == 10


def test_121_one_call_above_the_allowance_is_an_error_before_anything_is_sent(
    harness, spy, store, jobs, run_virtual
):
    backend = spy()
    groups = [[jobs.Job(jobs.ask("word " * 24_000, options={"max_tokens": 10}), 0)]]
    with pytest.raises(SettingsError, match=r"runtime.max_tokens_per_min: .* about 30,014 of"):
        run_virtual(harness.run(backend, store, groups, max_tokens_per_min=20_000))
    assert backend.started == []


@pytest.mark.parametrize("by", ["our patience", "the backend's"])
def test_122_a_time_out_is_tried_once_more_and_booked_as_possible_cost(spy, jobs, run_virtual, by):
    """The server goes on for 0.8 s and is paid, whoever hung up."""
    n_paid = 0

    async def answer(request, lane):
        nonlocal n_paid
        n_paid += 1
        if by == "the backend's":
            raise TransientBackendError("spy", "no reply in time", kind="timeout")
        await asyncio.sleep(0.8)
        return jobs.reply_to(request)

    books = Books()
    caller = caller_of(spy(answer), spending=books, timeout_s=0.5)
    with pytest.raises(TransientBackendError, match="no reply"):
        run_virtual(reply(caller, jobs))
    assert n_paid == 2
    assert books.settled == [(None, "timeout")] * 2


@pytest.mark.parametrize("seconds", [-3.0, 0.0, float("nan"), None])
def test_124_a_wait_without_sense_is_ignored(spy, jobs, run_virtual, seconds):
    answer, moments = failing(jobs, turned_away(seconds))
    run_virtual(reply(caller_of(spy(answer)), jobs))
    assert moments == pytest.approx([0.0, 0.25])


# How often a request is tried


@pytest.mark.parametrize(
    ("n_refused", "n_failed", "n_sent"), [(5, 2, None), (99, 0, 6), (5, 9, 8), (0, 9, 3)]
)
def test_refusals_with_a_wait_may_come_twice_as_often_in_a_row(
    spy, jobs, run_virtual, n_refused, n_failed, n_sent
):
    errors = [turned_away(1.0)] * n_refused + [turned_away(None)] * n_failed
    answer, moments = failing(jobs, *errors)
    work = reply(caller_of(spy(answer), max_attempts=3), jobs)
    if n_sent is None:
        run_virtual(work)
        assert len(moments) == len(errors) + 1
    else:
        with pytest.raises(TransientBackendError):
            run_virtual(work)
        assert len(moments) == n_sent


def test_an_outage_with_waits_is_given_up_after_max_attempts(spy, jobs, run_virtual):
    answer, moments = failing(jobs, *[turned_away(1.0, "overloaded")] * 99)
    with pytest.raises(TransientBackendError):
        run_virtual(reply(caller_of(spy(answer)), jobs))
    assert len(moments) == 5


@pytest.mark.parametrize(("n_refused", "n_sent"), [(29, 30), (99, 30)])
def test_while_others_are_answered_refusals_may_come_ten_times_as_often(
    spy, jobs, run_virtual, n_refused, n_sent
):
    n_tried = 0

    async def answer(request, lane):
        nonlocal n_tried
        await asyncio.sleep(0.5)
        if request.messages[0].content == "unlucky":
            n_tried += 1
            if n_tried <= n_refused:
                raise turned_away(1.0)
        return jobs.reply_to(request)

    caller = caller_of(spy(answer), max_attempts=3)

    async def both():
        unlucky = asyncio.create_task(reply(caller, jobs, "unlucky"))
        while not unlucky.done():
            with contextlib.suppress(asyncio.CancelledError):  # as the run ends
                await reply(caller, jobs)
        return (await asyncio.gather(unlucky, return_exceptions=True))[0]

    found = run_virtual(both())
    assert isinstance(found, TransientBackendError) == (n_refused == 99)
    assert n_tried == n_sent


def test_after_a_wait_calls_come_back_one_two_four_at_a_time(spy, jobs, run_virtual):
    """Each takes 10 s; one that is not turned away within the base of the backoff is sure."""
    moments = []

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.0 if len(moments) == 1 else 10.0)
        if len(moments) == 1:
            raise turned_away(100.0)
        return jobs.reply_to(request)

    caller = caller_of(spy(answer), draw=lambda: 0.0, backoff_base_s=0.5, max_inflight=16)

    async def sixteen():
        first = asyncio.create_task(reply(caller, jobs, "first"))
        await asyncio.sleep(1.0)
        await asyncio.gather(first, *(reply(caller, jobs, f"q {i}") for i in range(20)))

    run_virtual(sixteen())
    back = Counter(round(moment - 100.0, 6) for moment in moments[1:])
    # room 1, 2, 4, 8; at 16 the ramp has ended
    assert back == {0.0: 1, 0.5: 2, 1.0: 4, 1.5: 8, 2.0: 6}


def test_a_second_refusal_begins_the_way_back_anew(spy, jobs, run_virtual):
    moments = []

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        n = len(moments)
        await asyncio.sleep(0.1)
        if n in (1, 3):
            raise turned_away(100.0)
        return jobs.reply_to(request)

    caller = caller_of(spy(answer), draw=lambda: 0.0)

    async def five():
        await asyncio.gather(*(reply(caller, jobs, f"q {i}") for i in range(1)))
        await asyncio.gather(*(reply(caller, jobs, f"r {i}") for i in range(4)))

    run_virtual(five())
    # one, two of which one is refused, then one at a time until two have turned out well
    assert moments == pytest.approx([0.0, 100.1, 100.2, 100.2, 200.3, 200.4, 200.5])


def test_after_a_permanent_failure_nothing_more_is_sent(harness, spy, store, jobs, run_virtual):
    async def answer(request, lane):
        await asyncio.sleep(1.0)  # all 64 come back in one turn of the loop
        if request.messages[0].content == "q 0":
            raise RejectedError("spy", "no credit")
        return jobs.reply_to(request)

    backend = spy(answer)
    with pytest.raises(RejectedError):
        run_virtual(harness.run(backend, store, jobs.singles(500), max_inflight=64))
    assert len(backend.started) == 64


# What the cap is told


def test_each_attempt_is_reserved_before_and_settled_after(spy, jobs, run_virtual):
    answer, moments = failing(
        jobs,
        turned_away(None),
        turned_away(None, "overloaded"),
        turned_away(None, "server"),
        turned_away(None, "connection"),
    )
    books = Books()
    run_virtual(reply(caller_of(spy(answer), spending=books), jobs))
    assert [entry[0] for entry in books.told] == ["reserve", "settle"] * 5
    assert [entry[2] for entry in books.told[::2]] == moments
    assert books.settled == [
        (None, "rate_limit"),
        (None, "overloaded"),
        (None, "server"),
        (None, "connection"),
        (Usage(1, 0, 2, 1), "stop"),
    ]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RejectedError("spy", "bad key"), "rejected"),
        (BackendError("spy", "unreadable"), "permanent"),
        (ZeroDivisionError(), "failed"),
    ],
)
def test_the_cap_is_told_how_an_attempt_failed(spy, jobs, run_virtual, error, outcome):
    answer, _ = failing(jobs, error)
    books = Books()
    with pytest.raises(type(error)):
        run_virtual(reply(caller_of(spy(answer), spending=books), jobs))
    assert books.settled == [(None, outcome)]


def test_a_cancelled_attempt_may_have_cost(spy, jobs, run_virtual):
    async def hangs(request, lane):
        await asyncio.Event().wait()

    books = Books()

    async def cancelled():
        task = asyncio.create_task(reply(caller_of(spy(hangs), spending=books), jobs))
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(cancelled())
    assert books.settled == [(None, "cancelled")]


def test_a_cap_without_room_ends_the_request_and_nothing_is_sent(spy, jobs, run_virtual):
    class Full(Books):
        async def reserve(self, request, key):
            raise BudgetError("budget.max_usd", "the cap is reached")

    backend = spy()
    caller = caller_of(backend, spending=Full(), max_requests_per_min=1)

    async def twice():
        for _ in range(2):  # the slot was given back: no minute passes
            with pytest.raises(BudgetError):
                await reply(caller, jobs)
        return asyncio.get_running_loop().time()

    assert run_virtual(twice()) == 0.0
    assert backend.started == []


def test_a_pause_that_comes_while_the_cap_is_asked_is_kept(spy, jobs, run_virtual):
    """One is turned away at 1 s while the other waits for its reservation until 2 s."""
    moments = []

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        if len(moments) == 1:
            await asyncio.sleep(1.0)
            raise turned_away(10.0)
        return jobs.reply_to(request)

    books = Books()
    caller = caller_of(spy(answer), spending=books, draw=lambda: 0.0)

    async def both():
        first = asyncio.create_task(reply(caller, jobs, "a"))
        await asyncio.sleep(0.5)
        books.wait_s = 1.5
        await asyncio.gather(first, reply(caller, jobs, "b"))

    run_virtual(both())
    assert moments == pytest.approx([0.0, 12.5, 14.0])  # one goes ahead; another 1.5 s for the cap
    assert sorted(outcome for _, outcome in books.settled) == [
        "rate_limit",
        "stop",
        "stop",
        "unsent",
    ]
    assert books.n_open == 0


def test_few_reservations_wait_for_the_rate(harness, spy, store, jobs, run_virtual):
    books = Books()
    work = run_jobs(
        spy(),
        store,
        jobs.singles(100),
        on_result=lambda *_: (),
        options=RuntimeOptions(max_inflight=64, max_requests_per_s=2.0),
        spending=books,
    )
    run_virtual(work)
    assert books.most_open <= 4  # two that wait and two that were just sent


def test_interrupted_while_it_waits_for_the_rate_a_reservation_is_given_back(
    spy, jobs, run_virtual
):
    books = Books()
    caller = caller_of(spy(), spending=books, max_requests_per_s=0.01)

    async def work():
        await reply(caller, jobs)
        task = asyncio.create_task(reply(caller, jobs))
        await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.wait([task])

    run_virtual(work())
    assert books.settled == [(Usage(1, 0, 2, 1), "stop"), (None, "unsent")]


# What the server states


def test_limits_of_the_headers_are_kept_where_the_user_set_none(spy, jobs, run_virtual):
    moments = []

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        backend.observed_limits = ObservedLimits(requests_per_min=3)
        return jobs.reply_to(request)

    backend = spy(answer)
    backend.observed_limits = None
    caller = caller_of(backend)

    async def ten():
        for i in range(10):
            await reply(caller, jobs, f"q {i}")

    run_virtual(ten())
    assert moments == pytest.approx([0, 0, 0, 63.0, 63.0, 63.0, 126.0, 126.0, 126.0, 189.0])


def test_a_backend_that_thinks_says_how_long_a_reply_may_be(spy, jobs, run_virtual):
    moments = []

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        return Generation("x")  # no token counted: what was reserved stays

    backend = spy(answer)
    backend.output_ceiling = lambda request: 600
    caller = caller_of(backend, max_output_tokens_per_min=1000)

    async def two():
        for i in range(2):
            await reply(caller, jobs, f"q {i}", options={"max_tokens": 5})

    run_virtual(two())
    assert moments == pytest.approx([0.0, 63.0])
