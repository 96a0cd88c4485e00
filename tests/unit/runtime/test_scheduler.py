from __future__ import annotations

import asyncio
import signal
import sqlite3

import pytest

from quorum.backends.base import Capabilities
from quorum.errors import BackendError, RefusedError, TransientBackendError
from quorum.records import Target, Usage
from quorum.runtime.store import GenerationStore

PREFIX_REUSE = Capabilities(prefix_reuse=True)


def test_every_job_is_answered_and_in_the_store(harness, spy, store, jobs):
    backend = spy()
    stats = asyncio.run(harness.run(backend, store, jobs.singles(40), max_inflight=4))
    assert harness.replies == {i: f"re: q {i}" for i in range(40)}
    assert not any(harness.from_store.values())
    assert len(store) == len(backend.started) == 40
    assert backend.most_in_flight == 4
    assert (stats.n_jobs, stats.n_distinct, stats.n_calls, stats.n_from_store) == (40, 40, 40, 0)
    assert stats.usage_called == stats.usage_total == Usage(80, 0, 80, 40)


def test_a_reply_is_in_the_store_before_it_counts_as_done(harness, spy, store, jobs):
    backend = spy()

    def check(job, generation, from_store):
        assert store.get(job.request.key(backend.target)) == generation
        return ()

    asyncio.run(harness.run(backend, store, jobs.singles(5), check))


def test_what_the_store_has_is_not_asked_again(new_harness, spy, store, jobs):
    asyncio.run(new_harness().run(spy(), store, jobs.singles(30)))
    backend, again = spy(), new_harness()
    stats = asyncio.run(again.run(backend, store, jobs.singles(50)))
    assert sorted(backend.started) == sorted(f"q {i}" for i in range(30, 50))
    assert [again.from_store[i] for i in range(50)] == [True] * 30 + [False] * 20
    assert (stats.n_from_store, stats.n_calls) == (30, 20)
    assert (stats.usage_called.input_tokens, stats.usage_total.input_tokens) == (40, 100)


def test_switching_back_and_forth_asks_nothing_again(new_harness, spy, store, jobs):
    for prefix, n_calls in [("a", 20), ("b", 20), ("a", 0), ("b", 0)]:
        backend = spy()
        asyncio.run(new_harness().run(backend, store, jobs.singles(20, prefix)))
        assert len(backend.started) == n_calls


def test_another_model_is_asked_anew(new_harness, spy, store, jobs):
    asyncio.run(new_harness().run(spy(target=Target("spy", "a")), store, jobs.singles(3)))
    other = spy(target=Target("spy", "b"))
    asyncio.run(new_harness().run(other, store, jobs.singles(3)))
    assert len(other.started) == 3


def test_samples_of_one_prompt_are_asked_each(harness, spy, store, jobs):
    groups = [[jobs.Job(jobs.ask("x", sample=i), i)] for i in range(5)]
    backend = spy()
    asyncio.run(harness.run(backend, store, groups))
    assert len(backend.started) == len(store) == 5


def test_equal_requests_share_one_call_in_flight_and_later(harness, spy, store, jobs):
    groups = [[jobs.Job(jobs.ask(f"q {i % 7}"), i)] for i in range(70)]
    backend = spy()
    stats = asyncio.run(harness.run(backend, store, groups, max_inflight=5))
    assert sorted(backend.started) == sorted(f"q {i}" for i in range(7))
    assert harness.replies == {i: f"re: q {i % 7}" for i in range(70)}
    assert sum(not came for came in harness.from_store.values()) == 7
    assert (stats.n_jobs, stats.n_distinct, stats.n_calls) == (70, 7, 7)
    assert stats.usage_total.input_tokens == 14


@pytest.mark.parametrize("max_inflight", [1, 8])
def test_the_number_in_flight_changes_no_reply(harness, spy, store, jobs, max_inflight):
    asyncio.run(harness.run(spy(), store, jobs.singles(30), max_inflight=max_inflight))
    assert harness.replies == {i: f"re: q {i}" for i in range(30)}


def test_groups_are_pulled_lazily(harness, spy, store, jobs):
    backend = spy()
    pulled = 0

    def groups():
        nonlocal pulled
        for group in jobs.singles(100):
            pulled += 1
            assert pulled <= len(backend.ended) + 4
            yield group

    asyncio.run(harness.run(backend, store, groups(), max_inflight=4))
    assert pulled == 100


def test_a_backend_with_prefix_reuse_gets_a_group_on_one_lane_in_order(harness, spy, store, jobs):
    groups = [[jobs.Job(jobs.ask(f"{g} {i}"), (g, i)) for i in range(10)] for g in range(2)]
    backend = spy(capabilities=PREFIX_REUSE, lanes=2)
    asyncio.run(harness.run(backend, store, groups, max_inflight=8))
    assert backend.most_in_flight == 2
    for g in range(2):
        assert len({backend.lanes_used[f"{g} {i}"] for i in range(10)}) == 1
        assert [s for s in backend.started if s[0] == str(g)] == [f"{g} {i}" for i in range(10)]


def test_a_lane_without_work_takes_half_of_the_longest_rest(harness, spy, store, jobs):
    groups = [[jobs.Job(jobs.ask(f"q {i}"), i) for i in range(100)]]
    backend = spy(capabilities=PREFIX_REUSE, lanes=2)
    asyncio.run(harness.run(backend, store, groups))
    per_lane = [list(backend.lanes_used.values()).count(lane) for lane in (0, 1)]
    assert min(per_lane) >= 45
    assert sorted(harness.replies) == list(range(100))


@pytest.mark.parametrize("group_by_prefix", [True, False])
def test_without_prefix_reuse_or_with_grouping_off_jobs_come_one_by_one(
    harness, spy, store, jobs, group_by_prefix
):
    groups = [[jobs.Job(jobs.ask(f"{g} {i}"), (g, i)) for i in range(10)] for g in range(2)]
    reuse = Capabilities(prefix_reuse=not group_by_prefix)
    backend = spy(capabilities=reuse)
    options = {"max_inflight": 4, "group_by_prefix": group_by_prefix}
    asyncio.run(harness.run(backend, store, groups, **options))
    assert backend.started[:4] == ["0 0", "0 1", "0 2", "0 3"]


def test_a_second_phase_goes_to_the_front_and_others_do_not_wait(harness, spy, store, jobs):
    def second_phase(job, generation, from_store):
        if job.tag == 0:
            return ([jobs.Job(jobs.ask(f"phase {i}"), f"p{i}")] for i in range(3))
        return ()

    backend = spy()
    groups = jobs.singles(20)
    asyncio.run(harness.run(backend, store, groups, second_phase, max_inflight=1))
    assert backend.started[:5] == ["q 0", "phase 0", "phase 1", "phase 2", "q 1"]
    assert len(harness.replies) == 23


def test_a_last_result_may_bring_work_for_all_idle_workers(harness, spy, store, jobs):
    def second_phase(job, generation, from_store):
        return jobs.singles(12, "late") if job.tag == "only" else ()

    backend = spy()
    groups = [[jobs.Job(jobs.ask("only"), "only")]]
    asyncio.run(harness.run(backend, store, groups, second_phase, max_inflight=4))
    assert backend.most_in_flight == 4
    assert len(harness.replies) == 13


def test_a_stored_result_may_bring_work_too(new_harness, spy, store, jobs):
    def second_phase(job, generation, from_store):
        return jobs.singles(2, "late") if job.tag == "only" else ()

    for n_calls in (3, 0):
        backend, harness = spy(), new_harness()
        groups = [[jobs.Job(jobs.ask("only"), "only")]]
        asyncio.run(harness.run(backend, store, groups, second_phase))
        assert len(backend.started) == n_calls
        assert len(harness.replies) == 3


def test_no_jobs_are_no_calls(harness, spy, store):
    stats = asyncio.run(harness.run(spy(), store, []))
    assert (stats.n_jobs, stats.n_calls, stats.usage_total) == (0, 0, Usage())


def test_the_first_failure_is_raised_bare_and_the_rest_cancelled_and_awaited(
    harness, spy, store, jobs
):
    failure = BackendError("spy", "no credit")
    five_done = asyncio.Event()
    unwound = []

    async def answer(request, lane):
        name = request.messages[0].content
        if name == "q 0":
            await five_done.wait()
            raise failure
        if name == "q 6":
            five_done.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                unwound.append(name)
        return jobs.reply_to(request)

    backend = spy(answer)
    with pytest.raises(BackendError) as raised:
        asyncio.run(harness.run(backend, store, jobs.singles(40), max_inflight=2))
    assert raised.value is failure
    assert unwound == ["q 6"]
    assert backend.cancelled == ["q 0", "q 6"]
    assert backend.started == [f"q {i}" for i in range(7)]
    assert sorted(harness.replies) == [1, 2, 3, 4, 5]
    assert len(store) == 5
    assert store._db.execute("SELECT count(*) FROM lease").fetchone() == (0,)


def test_after_a_failure_the_next_run_asks_only_for_the_rest(new_harness, spy, store, jobs):
    async def fails_at_30(request, lane):
        if request.messages[0].content == "q 30":
            raise BackendError("spy", "down")
        return jobs.reply_to(request)

    with pytest.raises(BackendError, match="down"):
        asyncio.run(new_harness().run(spy(fails_at_30), store, jobs.singles(50), max_inflight=1))
    backend, resumed, straight = spy(), new_harness(), new_harness()
    asyncio.run(resumed.run(backend, store, jobs.singles(50)))
    assert backend.started == [f"q {i}" for i in range(30, 50)]
    with GenerationStore() as fresh:
        asyncio.run(straight.run(spy(), fresh, jobs.singles(50)))
    assert resumed.replies == straight.replies


def test_an_error_in_the_callers_callback_ends_the_run(harness, spy, store, jobs):
    def broken(job, generation, from_store):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(harness.run(spy(), store, jobs.singles(40), broken))
    assert len(store) >= 1


def test_ctrl_c_keeps_what_finished_and_the_run_can_go_on(new_harness, spy, store, jobs):
    def interrupt(job, generation, from_store):
        if job.tag == 10:
            signal.raise_signal(signal.SIGINT)
        return ()

    backend = spy()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(new_harness().run(backend, store, jobs.singles(40), interrupt, max_inflight=4))
    assert 11 <= len(store) == len(backend.ended) < 40
    again, harness = spy(), new_harness()
    asyncio.run(harness.run(again, store, jobs.singles(40)))
    assert len(again.started) == 40 - len(backend.ended)
    assert len(harness.replies) == 40


def test_ctrl_c_gets_through_a_run_that_is_all_in_the_store(new_harness, spy, store, jobs):
    asyncio.run(new_harness().run(spy(), store, jobs.singles(2000)))

    def interrupt(job, generation, from_store):
        if job.tag == 10:
            signal.raise_signal(signal.SIGINT)
        return ()

    harness = new_harness()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(harness.run(spy(), store, jobs.singles(2000), interrupt))
    assert len(harness.replies) < 2000


def test_forbidden_calls_name_the_request_that_is_missing(new_harness, spy, store, jobs):
    asyncio.run(new_harness().run(spy(), store, jobs.singles(10)))
    backend, harness = spy(), new_harness()
    asyncio.run(harness.run(backend, store, jobs.singles(10), calls="forbid"))
    assert len(harness.replies) == 10
    key = jobs.ask("q 10").key(backend.target)
    with pytest.raises(RefusedError, match=f"request {key[:12]}: .*forbid, got 'q 10'"):
        asyncio.run(new_harness().run(backend, store, jobs.singles(11), calls="forbid"))
    assert backend.started == []


def test_a_damaged_row_is_asked_for_again_and_counted(tmp_path, new_harness, spy, jobs):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store:
        asyncio.run(new_harness().run(spy(), store, jobs.singles(10)))
    db = sqlite3.connect(path)
    key = jobs.ask("q 4").key(spy().target)
    db.execute("UPDATE generation SET generation=x'00' WHERE hex(key)=?", [key.upper()])
    db.commit()
    db.close()
    backend, harness = spy(), new_harness()
    with GenerationStore(path) as store:
        stats = asyncio.run(harness.run(backend, store, jobs.singles(10)))
    assert backend.started == ["q 4"]
    assert stats.n_damaged == 1
    assert harness.replies[4] == "re: q 4"


def test_a_key_that_another_process_holds_is_waited_for(tmp_path, harness, spy, jobs, run_virtual):
    path = tmp_path / "store.sqlite"
    request = jobs.ask("q 0")
    backend = spy()
    key, canonical = request.key(backend.target), request.canonical(backend.target)

    async def both(store, other):
        assert other.acquire(key)
        run = asyncio.create_task(harness.run(backend, store, jobs.singles(1)))
        await asyncio.sleep(7.0)
        other.put(key, canonical, jobs.reply_to(request))
        stats = await run
        assert 7.0 <= stats.wall_s <= 7.051  # looks every 50 ms
        return stats

    with GenerationStore(path) as store, GenerationStore(path) as other:
        stats = run_virtual(both(store, other))
    assert (stats.n_calls, stats.n_from_store) == (0, 1)
    assert harness.replies == {0: "re: q 0"}


@pytest.mark.parametrize("n_held", [1, 7])
def test_what_another_process_is_at_is_put_off_and_the_rest_done_first(
    tmp_path, harness, spy, jobs, run_virtual, n_held
):
    path = tmp_path / "store.sqlite"
    backend = spy()
    held = [jobs.ask(f"q {i}") for i in range(n_held)]

    async def both(store, other):
        for request in held:
            assert other.acquire(request.key(backend.target))
        run = asyncio.create_task(harness.run(backend, store, jobs.singles(30), max_inflight=1))
        await asyncio.sleep(7.0)
        n_early = len(harness.replies)
        for request in held:
            key, canonical = request.key(backend.target), request.canonical(backend.target)
            other.put(key, canonical, jobs.reply_to(request))
        return n_early, await run

    with GenerationStore(path) as store, GenerationStore(path) as other:
        n_early, stats = run_virtual(both(store, other))
    # one worker puts off at most 4 keys; with 7 held it waits for one of them
    assert n_early == (29 if n_held == 1 else 0)
    assert (stats.n_calls, stats.n_from_store) == (30 - n_held, n_held)
    assert harness.replies == {i: f"re: q {i}" for i in range(30)}


def test_a_key_whose_holder_gives_up_is_called_by_us(tmp_path, harness, spy, jobs, run_virtual):
    path = tmp_path / "store.sqlite"
    backend = spy()
    key = jobs.ask("q 0").key(backend.target)

    async def both(store, other):
        assert other.acquire(key)
        run = asyncio.create_task(harness.run(backend, store, jobs.singles(1)))
        await asyncio.sleep(7.0)
        other.release(key)
        return await run

    with GenerationStore(path) as store, GenerationStore(path) as other:
        assert run_virtual(both(store, other)).n_calls == 1


def test_what_another_process_gave_up_is_called_by_all_workers_at_once(
    tmp_path, harness, spy, jobs, run_virtual
):
    async def one_second(request, lane):
        await asyncio.sleep(1.0)
        return jobs.reply_to(request)

    path = tmp_path / "store.sqlite"
    backend = spy(one_second)
    keys = [jobs.ask(f"q {i}").key(backend.target) for i in range(8)]

    async def both(store, other):
        assert all(other.acquire(key) for key in keys)
        run = asyncio.create_task(harness.run(backend, store, jobs.singles(8), max_inflight=8))
        await asyncio.sleep(7.0)
        for key in keys:
            other.release(key)
        return await run

    with GenerationStore(path) as store, GenerationStore(path) as other:
        stats = run_virtual(both(store, other))
    assert backend.most_in_flight == 8
    assert 8.0 <= stats.wall_s <= 8.1


def test_workers_are_busy_all_the_time_when_there_is_work(harness, spy, store, jobs, run_virtual):
    async def one_second(request, lane):
        await asyncio.sleep(1.0)
        return jobs.reply_to(request)

    stats = run_virtual(harness.run(spy(one_second), store, jobs.singles(80), max_inflight=8))
    assert stats.wall_s == pytest.approx(10.0)  # 80 calls of 1 s, 8 at once
    assert stats.busy_s == pytest.approx(80.0)
    assert stats.utilisation == pytest.approx(1.0)


def test_two_runs_in_one_process_both_complete(new_harness, spy, jobs):
    for _ in range(2):
        with GenerationStore() as store:
            harness = new_harness()
            asyncio.run(harness.run(spy(), store, jobs.singles(20)))
            assert len(harness.replies) == 20


def test_a_transient_failure_counts_as_a_retry_not_as_a_second_answer(
    harness, spy, store, jobs, run_virtual
):
    failed = []

    async def once(request, lane):
        if not failed:
            failed.append(request)
            raise TransientBackendError("spy", "429")
        return jobs.reply_to(request)

    stats = run_virtual(harness.run(spy(once), store, jobs.singles(3)))
    assert (stats.n_calls, stats.n_retries, stats.n_distinct) == (3, 1, 3)
    assert harness.replies == {i: f"re: q {i}" for i in range(3)}
