from __future__ import annotations

import asyncio
import heapq
import types
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field

import pytest

from quorum.backends.base import Capabilities
from quorum.records import Generation, Message, Request, Target, Usage
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, RunStats, run_jobs
from quorum.runtime.store import GenerationStore


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer as soon as nothing else can run."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        while self._scheduled and self._scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(self._scheduled)._scheduled = False
        if self._scheduled and not self._ready:
            self.now = max(self.now, self._scheduled[0]._when)
        super()._run_once()


@pytest.fixture
def run_virtual(monkeypatch):
    """Runs a coroutine in virtual time: waits cost nothing and every moment is exact."""

    def run(work: Coroutine[object, object, object]) -> object:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            clock = types.SimpleNamespace(monotonic=runner.get_loop().time)
            monkeypatch.setattr("asyncio_throttle.throttler.time", clock)
            return runner.run(work)

    return run


@pytest.fixture(scope="session")
def virtual_loop():
    """As ``run_virtual``, for waits of asyncio alone; one for all examples of a property."""

    def run(work: Coroutine[object, object, object]) -> object:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(work)

    return run


async def _echo(request: Request, lane: int) -> Generation:
    await asyncio.sleep(0)
    return reply_to(request)


def reply_to(request: Request) -> Generation:
    words = request.messages[0].content.split()
    return Generation("re: " + " ".join(words), usage=Usage(len(words), 0, 2, 1))


@dataclass
class SpyBackend:
    """Answers with ``answer`` and remembers who was in flight."""

    answer: Callable[[Request, int], Awaitable[Generation]] = _echo
    capabilities: Capabilities = field(default_factory=Capabilities)
    lanes: int | None = None
    target: Target = field(default_factory=lambda: Target("spy", "m"))
    started: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    lanes_used: dict[str, int] = field(default_factory=dict)
    most_in_flight: int = 0

    async def complete(self, request: Request, lane: int = 0) -> Generation:
        name = request.messages[0].content
        self.started.append(name)
        self.lanes_used[name] = lane
        in_flight = len(self.started) - len(self.ended) - len(self.cancelled)
        self.most_in_flight = max(self.most_in_flight, in_flight)
        try:
            generation = await self.answer(request, lane)
        except BaseException:
            self.cancelled.append(name)
            raise
        self.ended.append(name)
        return generation

    async def close(self) -> None: ...


def ask(text: str, **more: object) -> Request:
    return Request((Message("user", text),), **more)


def singles(n: int, prefix: str = "q") -> list[list[Job]]:
    return [[Job(ask(f"{prefix} {i}"), i)] for i in range(n)]


class Harness:
    """Runs jobs and keeps what came: tag → text, and whether it came without a call."""

    def __init__(self) -> None:
        self.replies: dict[object, str] = {}
        self.from_store: dict[object, bool] = {}

    async def run(
        self, backend, store, groups, on_result=None, ledger=None, progress=None, **options
    ) -> RunStats:
        def keep(job: Job, generation: Generation, from_store: bool):
            assert job.tag not in self.replies
            self.replies[job.tag] = generation.text
            self.from_store[job.tag] = from_store
            return () if on_result is None else on_result(job, generation, from_store)

        return await run_jobs(
            backend,
            store,
            groups,
            on_result=keep,
            options=RuntimeOptions(**options),
            ledger=ledger,
            progress=progress,
        )


@pytest.fixture
def harness():
    return Harness()


@pytest.fixture
def new_harness():
    return Harness


@pytest.fixture
def spy():
    return SpyBackend


@pytest.fixture
def store():
    with GenerationStore() as store:
        yield store


@pytest.fixture
def jobs():
    return types.SimpleNamespace(ask=ask, singles=singles, Job=Job, reply_to=reply_to)
