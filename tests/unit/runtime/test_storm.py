"""A thousand requests to a server that turns half of them away: all are answered, few are wasted.

In virtual time with a scripted server, whose every moment is exact; and against a provider on
loopback, through the real client. A request is wasted that leaves us inside a wait that we know
of, or after an error that is for good.
"""

from __future__ import annotations

import asyncio
import csv
import math
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field

import pytest
from provider_stub import Failure, Reply

from quorum.backends.base import Capabilities
from quorum.backends.openai import OpenAI
from quorum.errors import RejectedError, TransientBackendError
from quorum.records import Generation, Message, Request, Target, Usage
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, run_jobs
from quorum.runtime.store import GenerationStore

N = 1000
PADDING = "x" * 180  # about the 50 tokens that the servers count


def groups(n=N):
    for i in range(n):
        yield [Job(Request((Message("user", f"q {i} {PADDING}"),), {"max_tokens": 100}), i)]


async def run(backend, store, ledger=None, n=N, **options):
    replies = {}
    random.seed(0)  # the jitter

    def keep(job, generation, from_store):
        assert job.tag not in replies
        replies[job.tag] = generation.text
        return ()

    stats = await run_jobs(
        backend,
        store,
        groups(n),
        on_result=keep,
        options=RuntimeOptions(max_attempts=8, **options),
        ledger=ledger,
    )
    return stats, replies


def most_in_a_window(moments, amounts, period_s):
    """The largest sum of amounts whose moments lie within a closed window."""
    best = total = first = 0
    for moment, amount in zip(moments, amounts, strict=True):
        total += amount
        while moments[first] < moment - period_s:
            total -= amounts[first]
            first += 1
        best = max(best, total)
    return best


@dataclass
class Storm:
    """A scripted server 50 ms away: half of all answers 429, 5 % dropped, 2 % take 40 s.

    A reply takes log-normal time around half a second. ``wasted`` counts what left us inside a
    wait that we had been told of, or after an error for good.
    """

    seed: int
    dies_at: int | None = None
    capabilities: Capabilities = field(default_factory=Capabilities)
    lanes: int | None = None
    target: Target = field(default_factory=lambda: Target("storm", "m"))
    arrivals: list[float] = field(default_factory=list)
    charged: list[int] = field(default_factory=list)
    kinds: Counter = field(default_factory=Counter)
    wasted: int = 0

    def __post_init__(self):
        self._rng = random.Random(self.seed)
        self._known_until = 0.0

    async def complete(self, request, lane=0):
        loop, rng = asyncio.get_running_loop(), self._rng
        self.wasted += loop.time() < self._known_until
        await asyncio.sleep(0.05)
        self.arrivals.append(loop.time())
        draw, i = rng.random(), len(self.charged)
        self.charged.append(50)
        if len(self.arrivals) == self.dies_at:
            await asyncio.sleep(0.05)
            self._known_until = math.inf
            raise RejectedError("storm", "no credit")
        if draw < 0.5:
            self.kinds["429"] += 1
            wait = rng.uniform(0.2, 3.0)
            await asyncio.sleep(0.05)
            self._known_until = max(self._known_until, loop.time() + wait)
            raise TransientBackendError("storm", "429", retry_after_s=wait, kind="rate_limit")
        if draw < 0.55:
            self.kinds["dropped"] += 1
            await asyncio.sleep(0.3)
            raise TransientBackendError("storm", "dropped", kind="connection")
        self.kinds["slow" if draw < 0.57 else "quick"] += 1
        self.charged[i] = 70
        await asyncio.sleep(40.0 if draw < 0.57 else rng.lognormvariate(math.log(0.5), 0.5))
        return Generation(f"re {request.messages[0].content[:-181]}", usage=Usage(50, 0, 20, 0))

    async def close(self): ...


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("most", "most_tokens"), [(40, 100_000), (100_000, 2_400)])
def test_a_storm_passes_with_nothing_lost_nothing_wasted_and_no_limit_overrun(
    run_virtual, seed, most, most_tokens
):
    storm = Storm(seed)
    with GenerationStore() as store:
        stats, replies = run_virtual(
            run(
                storm,
                store,
                max_inflight=64,
                max_requests_per_min=most,
                max_tokens_per_min=most_tokens,
                max_requests_per_s=5.0,
            )
        )
    assert replies == {i: f"re q {i}" for i in range(N)}
    assert stats.n_calls == storm.kinds["quick"] + storm.kinds["slow"] == N
    assert stats.n_retries == len(storm.arrivals) - N > 0.9 * N
    assert storm.wasted == 0
    ones = [1] * len(storm.arrivals)
    assert most_in_a_window(storm.arrivals, ones, 1.0) <= 5
    n_most = most_in_a_window(storm.arrivals, ones, 60.0)
    n_most_tokens = most_in_a_window(storm.arrivals, storm.charged, 60.0)
    assert n_most <= most
    assert n_most_tokens <= most_tokens
    assert n_most == 40 or n_most_tokens >= 0.75 * 2_400  # one limit binds


@pytest.mark.parametrize("seed", range(3))
def test_after_an_error_for_good_not_one_request_leaves(run_virtual, seed):
    storm = Storm(seed, dies_at=500)
    with GenerationStore() as store, pytest.raises(RejectedError, match="no credit"):
        run_virtual(run(storm, store, max_inflight=64))
    assert storm.wasted == 0


def test_a_storm_at_full_speed_wastes_nothing_that_it_knows_of(run_virtual):
    storm = Storm(0)
    with GenerationStore() as store:
        _, replies = run_virtual(run(storm, store, max_inflight=64))
    assert len(replies) == N
    assert storm.wasted == 0


class Watched:
    """The real backend; the moments at which calls left and waits became known."""

    def __init__(self, backend):
        self._backend = backend
        self.n_sent = self.wasted = 0
        self._known_until = 0.0

    def __getattr__(self, name):
        return getattr(self._backend, name)

    async def complete(self, request, lane=0):
        self.n_sent += 1
        self.wasted += time.monotonic() < self._known_until
        try:
            return await self._backend.complete(request, lane)
        except TransientBackendError as error:
            if error.retry_after_s is not None:
                until = time.monotonic() + error.retry_after_s
                self._known_until = max(self._known_until, until)
            raise


def storming(seed, announced):
    """Answers of a provider: half 429 with a wait of 10 ms, 5 % dropped, 2 % slow.

    ``announced`` gets the moments at which a wait is sent and at which it ends.
    """
    rng = random.Random(seed)

    def answer(seen):
        draw = rng.random()
        if draw < 0.5:
            threading.Event().wait(0.005)
            announced.append((time.monotonic(), time.monotonic() + 0.01))
            return Failure(429, "rate_limit_exceeded", headers={"retry-after-ms": "10"})
        if draw < 0.55:
            return Failure(is_dropped=True)
        return Reply(input_tokens=50, output_tokens=20, delay_s=0.3 if draw < 0.57 else 0.005)

    return answer


def test_a_storm_over_the_wire_passes_with_at_most_two_percent_wasted(
    provider, monkeypatch, tmp_path
):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    announced = []
    provider.answer = storming(0, announced)
    backend = Watched(OpenAI(base_url=provider.openai_url))
    ledger = UsageLedger(tmp_path)

    async def work():
        try:
            return await run(
                backend,
                store,
                ledger,
                max_inflight=16,
                backoff_base_s=0.05,
                max_requests_per_s=150.0,
                max_tokens_per_min=10_000_000,
            )
        finally:
            await backend.close()

    with GenerationStore() as store:
        stats, replies = asyncio.run(work())
    ledger.finish()
    calls = provider.calls
    assert len(replies) == stats.n_calls == len(provider.paid) == N
    assert len(calls) == backend.n_sent == N + stats.n_retries
    assert backend.wasted == 0
    late = [any(start < call.at < end for start, end in announced) for call in calls]
    moments = [call.at for call in calls]
    assert sum(late) <= 0.02 * len(calls)
    assert most_in_a_window(moments, [1] * len(moments), 1.0) <= 150
    rows = list(csv.DictReader((tmp_path / "usage.csv").read_text("utf-8").splitlines()))
    assert len(rows) == len(calls)
    assert sum(int(row["output_tokens"]) for row in rows) == 20 * N


def test_116_a_rate_holds_where_the_calls_arrive(provider, monkeypatch):
    """One more than 20 in a second: a busy machine delivers some calls some milliseconds late."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    backend = OpenAI(base_url=provider.openai_url)

    async def work():
        try:
            return await run(backend, store, n=60, max_inflight=32, max_requests_per_s=20.0)
        finally:
            await backend.close()

    with GenerationStore() as store:
        asyncio.run(work())
    moments = [call.at for call in provider.calls]
    assert len(moments) == 60
    assert most_in_a_window(moments, [1] * 60, 1.0) <= 21
