from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from quorum.errors import TransientBackendError
from quorum.runtime.interrupt import CtrlC
from quorum.runtime.progress import NoProgress


class Notes(NoProgress):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def press():
    signal.raise_signal(signal.SIGINT)


def leases(store):
    return store._db.execute("SELECT count(*) FROM lease").fetchone()[0]


def slow(jobs, seconds):
    async def answer(request, lane):
        await asyncio.sleep(seconds)
        return jobs.reply_to(request)

    return answer


def interrupted(run_virtual, work, *moments_s):
    """Runs the work and presses Ctrl-C at these moments."""

    async def pressing():
        loop = asyncio.get_running_loop()
        for moment in moments_s:
            loop.call_later(moment, press)
        try:
            await work
        finally:
            pressing.end = loop.time()

    with pytest.raises(KeyboardInterrupt):
        run_virtual(pressing())
    return pressing.end


def test_94_ctrl_c_once_finishes_the_calls_in_flight_and_saves_them(
    new_harness, spy, store, jobs, run_virtual
):
    backend, harness, progress = spy(slow(jobs, 10.0)), new_harness(), Notes()
    work = harness.run(backend, store, jobs.singles(40), progress=progress, max_inflight=4)
    end = interrupted(run_virtual, work, 15.0)
    assert end == pytest.approx(20.0)  # the second four of 10 s each, begun at 10
    assert len(store) == len(harness.replies) == len(backend.ended) == 8
    assert backend.cancelled == []
    assert leases(store) == 0
    assert progress.notes == ["waits for 4 calls; Ctrl-C again stops them"]


def test_94_ctrl_c_twice_stops_now(new_harness, spy, store, jobs, run_virtual):
    backend, harness = spy(slow(jobs, 10.0)), new_harness()
    work = harness.run(backend, store, jobs.singles(40), max_inflight=4)
    assert interrupted(run_virtual, work, 15.0, 16.0) == pytest.approx(16.0)
    assert len(store) == len(harness.replies) == 4
    assert len(backend.cancelled) == 4
    assert leases(store) == 0


@pytest.mark.parametrize("moments_s", [(15.0,), (15.0, 16.0)])
def test_94_the_run_goes_on_after_either(new_harness, spy, store, jobs, run_virtual, moments_s):
    work = new_harness().run(spy(slow(jobs, 10.0)), store, jobs.singles(40), max_inflight=4)
    interrupted(run_virtual, work, *moments_s)
    n_kept = len(store)
    backend, harness = spy(), new_harness()
    asyncio.run(harness.run(backend, store, jobs.singles(40)))
    assert len(backend.started) == 40 - n_kept
    assert harness.replies == {i: f"re: q {i}" for i in range(40)}


def test_94_ctrl_c_does_not_wait_for_a_retry_or_for_a_slot(
    new_harness, spy, store, jobs, run_virtual
):
    async def answer(request, lane):
        if request.messages[0].content == "q 0":
            raise TransientBackendError("spy", "429", retry_after_s=500.0)
        return jobs.reply_to(request)

    backend = spy(answer)
    work = new_harness().run(backend, store, jobs.singles(40), max_inflight=4)
    assert interrupted(run_virtual, work, 5.0) == pytest.approx(5.0)
    n_started = len(backend.started)
    limited = new_harness().run(
        backend, store, jobs.singles(40, "r"), max_inflight=4, max_requests_per_s=0.01
    )
    assert interrupted(run_virtual, limited, 5.0) == pytest.approx(5.0)
    assert len(backend.started) == n_started + 1
    assert leases(store) == 0


def test_94_a_call_that_fails_after_ctrl_c_is_not_tried_again(
    new_harness, spy, store, jobs, run_virtual
):
    async def answer(request, lane):
        await asyncio.sleep(10.0)
        if request.messages[0].content == "q 0":
            raise TransientBackendError("spy", "503")
        return jobs.reply_to(request)

    backend = spy(answer)
    work = new_harness().run(backend, store, jobs.singles(40), max_inflight=4)
    assert interrupted(run_virtual, work, 5.0) == pytest.approx(10.0)
    assert backend.started == [f"q {i}" for i in range(4)]
    assert len(store) == 3


def test_94_what_a_reply_would_have_brought_is_not_begun(
    new_harness, spy, store, jobs, run_virtual
):
    def more(job, generation, from_store):
        return [[jobs.Job(jobs.ask(f"next {job.tag}"), f"next {job.tag}")]]

    backend, harness = spy(slow(jobs, 10.0)), new_harness()
    work = harness.run(backend, store, jobs.singles(3), more, max_inflight=4)
    interrupted(run_virtual, work, 5.0)
    assert sorted(harness.replies) == [0, 1, 2]


def test_94_the_third_ctrl_c_gets_through_a_program_that_hangs():
    steps = []

    async def hangs():
        with CtrlC(lambda: steps.append("first"), lambda: steps.append("second")):
            press()
            press()
            with pytest.raises(KeyboardInterrupt):
                press()
            await asyncio.sleep(0)

    asyncio.run(hangs())
    assert steps == ["first", "second"]


def test_ctrl_c_is_given_back(harness, spy, store, jobs):
    before = signal.getsignal(signal.SIGINT)
    asyncio.run(harness.run(spy(), store, jobs.singles(3)))
    assert signal.getsignal(signal.SIGINT) is before


def test_a_process_that_ignores_ctrl_c_goes_on_ignoring_it(harness, spy, store, jobs):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        asyncio.run(
            harness.run(spy(), store, jobs.singles(20), lambda *_: press() or (), max_inflight=2)
        )
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(harness.replies) == 20


def test_another_thread_leaves_ctrl_c_alone():
    before, found = signal.getsignal(signal.SIGINT), []

    async def enter():
        with CtrlC(lambda: None, lambda: None):
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=lambda: asyncio.run(enter()))
    thread.start()
    thread.join()
    assert found == [before]
