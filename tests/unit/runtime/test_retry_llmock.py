"""Limits and retries before an independent judge: llmock sees every attempt and its moment."""

from __future__ import annotations

import asyncio

import pytest

from quorum.backends.openai import OpenAI
from quorum.errors import RejectedError, TransientBackendError
from quorum.records import Message, Request
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, run_jobs
from quorum.runtime.store import GenerationStore


def run(llmock, n=20, **options):
    backend = OpenAI(base_url=f"{llmock.url}/v1")
    groups = [[Job(Request((Message("user", f"q {i}"),), {"max_tokens": 5}), i)] for i in range(n)]
    options = RuntimeOptions(**{"backoff_base_s": 0.02, **options})

    async def work():
        try:
            return await run_jobs(backend, store, groups, on_result=lambda *_: (), options=options)
        finally:
            await backend.close()

    with GenerationStore() as store:
        return asyncio.run(work())


def test_waits_that_are_announced_are_kept_by_all(llmock):
    llmock.rate_limit(times=6, retry_after=0.3)
    assert run(llmock).n_calls == 20
    llmock.assert_resilient(strict=True)


def test_quotas_that_refill_are_lived_with(llmock):
    llmock.limits(rpm=1200)
    assert run(llmock, n=40).n_calls == 40
    llmock.assert_resilient()


def test_a_bad_key_is_tried_once(llmock):
    llmock.fail(status=401, times=None)
    with pytest.raises(RejectedError):
        run(llmock, n=1)
    llmock.assert_resilient()


def test_an_outage_is_given_up_after_a_while_without_a_storm(llmock):
    llmock.outage()
    with pytest.raises(TransientBackendError):
        run(llmock, n=1)
    llmock.assert_resilient()
