from __future__ import annotations

import asyncio
import csv
from itertools import pairwise

import pytest

from quorum.errors import BackendError, TransientBackendError
from quorum.runtime import retry
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import NoProgress
from quorum.runtime.retry import Caller


class Notes(NoProgress):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def failing(jobs, times, error):
    """An answer that fails so often before it comes, and the moments of its attempts."""
    moments = []

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        if len(moments) <= times:
            raise error
        return jobs.reply_to(request)

    return answer, moments


def rows_of(folder):
    text = (folder / "usage.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


async def reply(caller, jobs, text="x"):
    request = jobs.ask(text)
    return await caller.reply(request, "k" * 64, "generate", 0)


def test_waits_grow_as_full_jitter_of_a_doubling_time(spy, jobs, run_virtual):
    answer, moments = failing(jobs, 4, TransientBackendError("spy", "503"))
    options = RuntimeOptions(backoff_base_s=2.0, backoff_ceiling_s=10.0)
    caller = Caller(spy(answer), options, None, NoProgress(), draw=lambda: 0.5)
    run_virtual(reply(caller, jobs))
    # half of min(2·2^(k−1), 10): 1, 2, 4, 5
    assert moments == pytest.approx([0.0, 1.0, 3.0, 7.0, 12.0])
    assert (caller.n_calls, caller.n_retries) == (1, 4)


def test_a_failure_that_stays_is_raised_after_max_attempts(spy, jobs, run_virtual):
    error = TransientBackendError("spy", "503")
    answer, moments = failing(jobs, 99, error)
    caller = Caller(spy(answer), RuntimeOptions(max_attempts=3), None, NoProgress())
    with pytest.raises(TransientBackendError) as raised:
        run_virtual(reply(caller, jobs))
    assert raised.value is error
    assert len(moments) == 3


def test_a_permanent_failure_is_not_repeated(spy, jobs, run_virtual):
    answer, moments = failing(jobs, 99, BackendError("spy", "bad key"))
    caller = Caller(spy(answer), RuntimeOptions(), None, NoProgress())
    with pytest.raises(BackendError, match="bad key"):
        run_virtual(reply(caller, jobs))
    assert len(moments) == 1


def test_the_time_that_the_server_names_is_kept_and_shown(spy, jobs, run_virtual):
    answer, moments = failing(jobs, 1, TransientBackendError("spy", "429", retry_after_s=171.0))
    progress = Notes()
    caller = Caller(spy(answer), RuntimeOptions(), None, progress, draw=lambda: 0.0)
    run_virtual(reply(caller, jobs))
    assert moments == pytest.approx([0.0, 171.0])
    assert progress.notes == ["spy asks to wait 171 s"]


def test_a_time_above_our_patience_ends_the_run_cleanly(spy, jobs, run_virtual):
    answer, moments = failing(jobs, 1, TransientBackendError("spy", "429", retry_after_s=171.0))
    options = RuntimeOptions(retry_after_ceiling_s=170.0)
    caller = Caller(spy(answer), options, None, NoProgress())
    with pytest.raises(BackendError, match="asks to wait 171 s; allowed at most 170 s") as raised:
        run_virtual(reply(caller, jobs))
    assert not isinstance(raised.value, TransientBackendError)
    assert moments == [0.0]


@pytest.mark.parametrize("retry_after_s", [-5.0, float("nan"), 0.0, None])
def test_a_time_without_sense_is_ignored(spy, jobs, run_virtual, retry_after_s):
    error = TransientBackendError("spy", "429", retry_after_s=retry_after_s)
    answer, moments = failing(jobs, 1, error)
    options = RuntimeOptions(backoff_base_s=2.0)
    caller = Caller(spy(answer), options, None, NoProgress(), draw=lambda: 0.5)
    run_virtual(reply(caller, jobs))
    assert moments == pytest.approx([0.0, 1.0])


def test_all_workers_keep_the_pause_and_come_back_spread(spy, jobs, run_virtual):
    moments = []

    async def answer(request, lane):
        moments.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.1)
        if len(moments) <= 50:
            raise TransientBackendError("spy", "429", retry_after_s=10.0)
        return jobs.reply_to(request)

    draws = iter(range(10_000))
    options = RuntimeOptions(backoff_base_s=5.0)
    caller = Caller(spy(answer), options, None, NoProgress(), lambda: next(draws) % 50 / 50)

    async def fifty():
        await asyncio.gather(*(reply(caller, jobs, f"q {i}") for i in range(50)))

    run_virtual(fifty())
    assert moments[:50] == [0.0] * 50
    back = sorted(moments[50:])
    assert back[0] >= 10.1
    assert back[-1] <= 15.2
    assert len({round(moment, 6) for moment in back}) == 50


def test_a_call_that_hangs_is_tried_once_more_only(spy, jobs, run_virtual):
    n_attempts = 0

    async def hangs(request, lane):
        nonlocal n_attempts
        n_attempts += 1
        await asyncio.Event().wait()

    caller = Caller(spy(hangs), RuntimeOptions(timeout_s=5.0), None, NoProgress())
    with pytest.raises(TransientBackendError, match="no reply within 5 s"):
        run_virtual(reply(caller, jobs))
    assert n_attempts == 2
    assert caller.busy_s == pytest.approx(10.0)


def test_the_ledger_has_a_row_for_each_attempt(spy, jobs, run_virtual, tmp_path):
    answer, _ = failing(jobs, 2, TransientBackendError("spy", "503"))
    ledger = UsageLedger(tmp_path)
    caller = Caller(spy(answer), RuntimeOptions(), ledger, NoProgress())
    run_virtual(reply(caller, jobs))
    ledger.close()
    rows = rows_of(tmp_path)
    found = [(r["attempt"], r["status"], r["finish_reason"], r["output_tokens"]) for r in rows]
    assert found == [
        ("1", "failed", "transient", "0"),
        ("2", "failed", "transient", "0"),
        ("3", "ok", "stop", "2"),
    ]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(BackendError("spy", "bad"), "permanent"), (ZeroDivisionError(), "failed")],
)
def test_the_ledger_says_how_an_attempt_failed(spy, jobs, run_virtual, tmp_path, error, outcome):
    answer, _ = failing(jobs, 1, error)
    ledger = UsageLedger(tmp_path)
    caller = Caller(spy(answer), RuntimeOptions(), ledger, NoProgress())
    with pytest.raises(type(error)):
        run_virtual(reply(caller, jobs))
    ledger.close()
    (row,) = rows_of(tmp_path)
    assert (row["status"], row["finish_reason"]) == ("failed", outcome)


def test_a_cancelled_attempt_is_booked(spy, jobs, run_virtual, tmp_path):
    async def hangs(request, lane):
        await asyncio.Event().wait()

    ledger = UsageLedger(tmp_path)
    caller = Caller(spy(hangs), RuntimeOptions(), ledger, NoProgress())

    async def cancelled():
        task = asyncio.create_task(reply(caller, jobs))
        await asyncio.sleep(1.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_virtual(cancelled())
    ledger.close()
    (row,) = rows_of(tmp_path)
    assert (row["status"], row["finish_reason"], row["seconds"]) == (
        "failed",
        "cancelled",
        "1.000000",
    )


def test_repeated_attempts_take_rate_limit_slots(spy, jobs, run_virtual):
    answer, moments = failing(jobs, 3, TransientBackendError("spy", "503"))
    options = RuntimeOptions(max_requests_per_s=0.5)
    caller = Caller(spy(answer), options, None, NoProgress(), draw=lambda: 0.0)
    run_virtual(reply(caller, jobs))
    assert all(later - earlier > 2.0 for earlier, later in pairwise(moments))


def test_at_most_one_retry_follows_a_time_out():
    assert retry._MAX_TIMEOUTS == 2
