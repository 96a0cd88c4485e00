"""The scheduler: a few workers turn requests into replies, each of them paid for once.

The workers pull groups of jobs lazily from one iterator over all prompts. What the store has is
delivered from there, equal requests share one call, and every reply is in the store before it
counts as done. A result may bring further groups (the second phase of one prompt): they go to the
front, and no other prompt waits for them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from quorum.backends.base import Backend
from quorum.digests import text_digest
from quorum.errors import BudgetError, RefusedError
from quorum.records import Generation, Request
from quorum.runtime.caps import Spending
from quorum.runtime.interrupt import CtrlC
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import NoProgress, Progress
from quorum.runtime.retry import Caller
from quorum.runtime.stats import RunStats, UsageSum
from quorum.runtime.store import GenerationStore

__all__ = ["Groups", "Job", "OnResult", "RunStats", "run_jobs"]

_MAX_BATCH = 256  # keys in one look-up, while the store has them all
_MAX_POLL_S = 0.05  # how often we look whether another process has finished our key
_MAX_HELD = 4  # keys a worker may put off because another process is at them


@dataclass(frozen=True, slots=True)
class Job:
    """A request, the caller's address for its reply, and the module it is booked under."""

    request: Request
    tag: object
    module: str = "generate"


Groups = Iterable[Sequence[Job]]
OnResult = Callable[[Job, Generation, bool], Groups]


async def run_jobs(
    backend: Backend,
    store: GenerationStore,
    groups: Groups,
    *,
    on_result: OnResult,
    options: RuntimeOptions,
    ledger: UsageLedger | None = None,
    progress: Progress | None = None,
    spending: Spending | None = None,
    on_cap: Literal["fail", "partial"] = "fail",
) -> RunStats:
    """Answers all jobs, from the store where it can, else from the backend.

    Args:
        backend: Who answers; the caller closes it.
        store: Where replies are looked up and kept.
        groups: Runs of jobs that one worker goes through in order (a shared prompt prefix);
            pulled lazily. A backend without prefix reuse gets its jobs one by one.
        on_result: Called in the event loop for every job with its reply and whether it came
            without a call of its own; may return further groups.
        options: Limits and patience.
        ledger: Gets a row for each call.
        progress: Is told of each job.
        spending: Is asked before each attempt; None for calls without a cap.
        on_cap: What happens where a cap leaves no room for a call. No other call begins then,
            those in flight finish, and what the store has is delivered; after that ``fail``
            raises, ``partial`` returns what there is.

    Returns:
        Counts, times and token totals.

    Raises:
        QuorumError: The first failure, bare; the other calls have been cancelled and awaited,
            and what had finished is in the store.
        RefusedError: ``options.calls`` is ``forbid`` and the store lacks a request.
        BudgetError: The cap is reached; it says what is done, what is left and how to go on.
        KeyboardInterrupt: Ctrl-C: after the first one, calls in flight have finished and are in
            the store; after the second one they have been cancelled.
    """
    run = _Run(backend, store, on_result, options, ledger, progress or NoProgress(), spending)
    loop = asyncio.get_running_loop()
    start = loop.time()
    run.push(groups)
    with CtrlC(run.finish_calls, run.stop_now) as ctrl_c:
        try:
            async with asyncio.TaskGroup() as tasks:
                run.workers = [tasks.create_task(run.work(lane)) for lane in range(run.n_workers)]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
    if ctrl_c.n_signals:
        raise KeyboardInterrupt
    if run.cap is not None and on_cap == "fail":
        raise run.unfinished(run.cap) from run.cap
    return run.stats(loop.time() - start)


@dataclass(frozen=True, slots=True)
class _Miss:
    """A job that the store did not have, and how often another process was found calling."""

    job: Job
    key: str
    canonical: str
    n_waits: int = 0


_Rest = deque[Job | _Miss]


class _Run:
    """The state that the workers of one run share."""

    def __init__(
        self,
        backend: Backend,
        store: GenerationStore,
        on_result: OnResult,
        options: RuntimeOptions,
        ledger: UsageLedger | None,
        progress: Progress,
        spending: Spending | None,
    ) -> None:
        lanes = options.max_inflight if backend.lanes is None else backend.lanes
        self.n_workers = min(lanes, options.max_inflight)
        self.workers: list[asyncio.Task[None]] = []
        self.cap: BudgetError | None = None  # that of the call for which there was no room
        self._left: set[bytes] = set()
        self._target = backend.target
        self._keeps_groups = options.group_by_prefix and backend.capabilities.prefix_reuse
        self._forbids_calls = options.calls == "forbid"
        self._store = store
        self._n_damaged_before = len(store.damaged)
        self._on_result = on_result
        self._progress = progress
        self._caller = Caller(backend, options, ledger, progress, spending=spending)
        self._sources: list[Iterator[Sequence[Job]]] = []  # the last one is the front
        self._rests: list[_Rest] = [deque() for _ in range(self.n_workers)]
        self._held: deque[_Miss] = deque()
        self._batch = 1
        self._waiting: list[asyncio.Future[None]] = []
        self._is_over = False
        self._inflight: dict[str, list[Job]] = {}  # key: equal jobs that came meanwhile
        self._seen: set[bytes] = set()  # half a digest each: 1e6 requests in about 100 MB
        self._n_jobs = self._n_from_store = 0
        self._called, self._total = UsageSum(), UsageSum()

    # Where a worker's next job comes from

    def push(self, groups: Groups) -> None:
        """Puts groups at the front and wakes the workers that have nothing to do."""
        if self._keeps_groups:
            self._sources.append(iter(groups))
        else:
            self._sources.append((job,) for job in chain.from_iterable(groups))
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    def _pull(self, rest: _Rest) -> bool:
        """Fills an empty rest: the next group, or as many single jobs as one look-up takes.

        What another process is at is put off, so that processes on one store share the work.
        """
        if len(self._held) >= _MAX_HELD * self.n_workers:
            rest.append(self._held.popleft())
        wanted = 1 if self._keeps_groups else self._batch
        while self._sources and len(rest) < wanted:
            source = self._sources[-1]
            group = next(source, None)
            if group is None:
                self._sources.remove(source)
            else:
                rest.extend(group)
        if not (rest or self._steal(rest)) and self._held:
            rest.append(self._held.popleft())
        return bool(rest)

    def _steal(self, rest: _Rest) -> bool:
        """Takes the second half of the longest rest, so that no lane ends alone."""
        longest = max(self._rests, key=len)
        if len(longest) < (2 if self._keeps_groups else 1):
            return False
        rest.extendleft(longest.pop() for _ in range((len(longest) + 1) // 2))
        return True

    async def _has_more(self, rest: _Rest) -> bool:
        while not (rest or self._is_over or self._pull(rest)):
            if len(self._waiting) + 1 == self.n_workers:
                self._is_over = True
                self._wake()
            else:
                waiter = asyncio.get_running_loop().create_future()
                self._waiting.append(waiter)
                await waiter
        return not self._is_over

    # How it ends early

    def finish_calls(self) -> None:
        """Lets the calls in flight finish; nothing else is begun, waited for or tried again."""
        self._is_over = True
        in_flight = self._caller.stop()
        for worker in self.workers:
            if worker not in in_flight:
                worker.cancel()
        if in_flight:
            self._progress.note(f"waits for {len(in_flight)} calls; Ctrl-C again stops them")

    def stop_now(self) -> None:
        """Cancels the calls in flight too."""
        for worker in self.workers:
            worker.cancel()

    def _stop_at_cap(self, error: BudgetError) -> None:
        """From now on only what the store has is delivered; calls in flight go on to their end."""
        if self.cap is None:
            self.cap = error
            self._progress.note(f"{error.where}: the cap is reached; calls in flight finish")
            self._wake()

    def _leave(self, miss: _Miss, equal: Sequence[Job]) -> None:
        """Delivers what another process has answered meanwhile; else it is left for a next run."""
        generation = self._store.get(miss.key)
        if generation is None:
            self._left.add(bytes.fromhex(miss.key[:32]))
        else:
            for job in (miss.job, *equal):
                self._deliver(job, miss.key, generation, from_store=True)

    def unfinished(self, cap: BudgetError) -> BudgetError:
        """The error of a cap with what is done and what is left of this run."""
        n_done, n_left = len(self._seen), len(self._left - self._seen)
        what = f"{cap.what}. Of this run {n_done:,} requests are answered, {n_left:,} are left"
        return BudgetError(cap.where, what, mend=cap.mend)

    # What a worker does with it

    async def work(self, lane: int) -> None:
        """One worker: until no worker has anything left and none can bring more."""
        rest = self._rests[lane]
        while await self._has_more(rest):
            first = rest.popleft()
            if isinstance(first, _Miss):
                await self._call(first, lane)
            else:
                rest.appendleft(first)
                await self._look_up(rest)

    async def _look_up(self, rest: _Rest) -> None:
        """Delivers what the store has of the next jobs; the others go back as misses."""
        looked_up: list[_Miss] = []
        while rest and len(looked_up) < self._batch and isinstance(rest[0], Job):
            job = rest[0]
            rest.popleft()
            canonical = job.request.canonical(self._target)
            looked_up.append(_Miss(job, text_digest(canonical), canonical))
        found = self._store.get_many([item.key for item in looked_up])
        misses: list[_Miss] = []
        for item in looked_up:
            if (generation := found.get(item.key)) is not None:
                self._deliver(item.job, item.key, generation, from_store=True)
            elif item.key in self._inflight:
                self._inflight[item.key].append(item.job)
            else:
                misses.append(item)
        rest.extendleft(reversed(misses))
        self._batch = 1 if misses else min(2 * self._batch, _MAX_BATCH)
        if not misses:
            await asyncio.sleep(0)  # let Ctrl-C through

    async def _call(self, miss: _Miss, lane: int) -> None:
        if (equal := self._inflight.get(miss.key)) is not None:
            equal.append(miss.job)
            return
        if self.cap is not None:
            self._leave(miss, [])
            return
        self._inflight[miss.key] = equal = []
        try:
            reply = await self._obtain(miss, lane)
        except BudgetError as error:
            self._stop_at_cap(error)
            self._leave(miss, equal)
            return
        finally:
            del self._inflight[miss.key]
        if reply is None:
            if miss.n_waits:
                await asyncio.sleep(min(0.001 * 2.0 ** min(miss.n_waits, 10), _MAX_POLL_S))
            self._held.append(replace(miss, n_waits=miss.n_waits + 1))
            self._wake()
            return
        generation, from_store = reply
        self._deliver(miss.job, miss.key, generation, from_store=from_store)
        for job in equal:
            self._deliver(job, miss.key, generation, from_store=True)

    async def _obtain(self, miss: _Miss, lane: int) -> tuple[Generation, bool] | None:
        """The reply, and whether another run has put it into the store since we looked.

        None where another process is making the call.
        """
        if self._forbids_calls:
            raise _forbidden(miss)
        store, key = self._store, miss.key
        if not store.acquire(key):
            found = store.get(key)
            return None if found is None else (found, True)
        try:
            job = miss.job
            generation = await self._caller.reply(job.request, key, job.module, lane)
            if not store.put(key, miss.canonical, generation):
                return store.get(key) or generation, False
        finally:
            store.release(key)
        return generation, False

    def _deliver(self, job: Job, key: str, generation: Generation, *, from_store: bool) -> None:
        self._n_jobs += 1
        half = bytes.fromhex(key[:32])
        if half not in self._seen:
            self._seen.add(half)
            self._n_from_store += from_store
            self._total.add(generation.usage)
            if not from_store:
                self._called.add(generation.usage)
        self._progress.advance(from_store=from_store)
        more = self._on_result(job, generation, from_store)
        if more:
            self.push(more)

    def stats(self, wall_s: float) -> RunStats:
        """What the run did."""
        caller = self._caller
        return RunStats(
            n_jobs=self._n_jobs,
            n_distinct=len(self._seen),
            n_from_store=self._n_from_store,
            n_calls=caller.n_calls,
            n_retries=caller.n_retries,
            n_damaged=len(self._store.damaged) - self._n_damaged_before,
            busy_s=caller.busy_s,
            wall_s=wall_s,
            n_workers=self.n_workers,
            usage_called=self._called.usage,
            usage_total=self._total.usage,
            stopped="" if self.cap is None else "cap",
            n_left=len(self._left - self._seen),
        )


def _forbidden(miss: _Miss) -> RefusedError:
    messages = miss.job.request.messages
    return RefusedError(
        f"request {miss.key[:12]}",
        "is not in the store, and runtime.calls is forbid",
        got=messages[-1].content[:60] if messages else "",
        mend="Import the generations that the run rests on, or set runtime.calls=allow",
    )
