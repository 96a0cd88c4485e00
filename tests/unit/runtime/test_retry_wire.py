"""Limits and retries through the real client, against a provider on loopback that counts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
from provider_stub import Failure, Reply

from quorum.backends.openai import OpenAI
from quorum.errors import BackendError, RejectedError
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import NoProgress
from quorum.runtime.retry import Caller


class Notes(NoProgress):
    def __init__(self):
        self.notes = []
        self.any = asyncio.Event()

    def note(self, text):
        self.notes.append(text)
        self.any.set()


@pytest.fixture
def caller_of(provider, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")

    def make(progress=None, **options):
        backend = OpenAI(base_url=provider.openai_url)
        options = RuntimeOptions(**{"backoff_base_s": 0.001, **options})
        return backend, Caller(backend, options, None, progress or NoProgress())

    return make


def ask(jobs, backend, caller, n=1):
    async def work():
        try:
            for i in range(n):
                await caller.reply(jobs.ask(f"q {i}"), "k", "generate", 0)
        finally:
            await backend.close()

    asyncio.run(work())


def waits_of(provider):
    moments = [call.at for call in provider.calls]
    return [later - earlier for earlier, later in pairwise(moments)]


@pytest.mark.parametrize(
    ("name", "value", "at_least_s", "below_s"),
    [
        ("retry-after-ms", "300", 0.3, 5.0),
        ("retry-after", "0.3", 0.3, 5.0),
        ("retry-after", "-300", 0.0, 5.0),
        ("retry-after", "abc", 0.0, 5.0),
    ],
)
def test_124_the_forms_of_the_wait_header(
    provider, jobs, caller_of, name, value, at_least_s, below_s
):
    provider.script(Failure(429, "rate_limit_exceeded", headers={name: value}))
    ask(jobs, *caller_of())
    (wait,) = waits_of(provider)
    assert at_least_s <= wait < below_s


def test_124_a_date_is_a_wait(provider, jobs, caller_of):
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    provider.script(Failure(429, "rate_limit_exceeded", headers={"retry-after": date}))
    with pytest.raises(BackendError, match=r"asks to wait 3(600|59\d) s; allowed at most 600 s"):
        ask(jobs, *caller_of())
    assert len(provider.calls) == 1


@pytest.mark.parametrize(("number", "seconds"), [(112, 171), (113, 121)])
def test_112_113_a_long_wait_is_our_loops_to_keep_not_the_sdks(
    provider, jobs, caller_of, number, seconds
):
    provider.script(Failure(429, "rate_limit_exceeded", headers={"retry-after": str(seconds)}))
    progress = Notes()
    backend, caller = caller_of(progress)

    async def work():
        call = asyncio.create_task(caller.reply(jobs.ask("q"), "k", "generate", 0))
        await progress.any.wait()
        assert seconds - 1 < caller._pause.left_s <= seconds
        call.cancel()
        await asyncio.wait([call])
        await backend.close()

    asyncio.run(work())
    assert progress.notes == [f"backend openai asks to wait {seconds} s"]
    assert len(provider.calls) == 1


def test_115_a_rate_limit_that_sounds_like_no_credit_is_tried_again(provider, jobs, caller_of):
    provider.script(Failure(429, None, "INSUFFICIENT QUOTA"), Reply())
    ask(jobs, *caller_of())
    assert len(provider.calls) == 2


def test_115_no_credit_is_not_tried_again_whatever_it_sounds_like(provider, jobs, caller_of):
    provider.script(Failure(429, "insufficient_quota", "try again in a second"))
    with pytest.raises(RejectedError):
        ask(jobs, *caller_of())
    assert len(provider.calls) == 1


def test_limits_that_the_headers_state_hold_from_the_next_call_on(provider, jobs, caller_of):
    provider.headers["x-ratelimit-limit-requests"] = "3"
    backend, caller = caller_of()

    async def work():
        calls = [caller.reply(jobs.ask(f"q {i}"), "k", "generate", 0) for i in range(4)]
        for call in calls[:3]:
            await call
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(calls[3], 0.2)  # the next minute is far
        await backend.close()

    asyncio.run(work())
    assert len(provider.calls) == 3


def test_121_a_stated_limit_below_one_request_is_an_error_before_it_is_sent(
    provider, jobs, caller_of
):
    provider.headers["x-ratelimit-limit-tokens"] = "1000"
    with pytest.raises(BackendError, match=r"tokens a minute: one request needs about 1,029"):
        ask(jobs, *caller_of(), n=2)
    assert len(provider.calls) == 1
