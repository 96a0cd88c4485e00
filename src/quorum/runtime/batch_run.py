"""One run of batches: jobs in, replies out, and how it ends.

A single task does it all, step after step; what takes long is the provider's part.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain, islice

from quorum.digests import text_digest
from quorum.errors import BackendError, BudgetError, RefusedError, TransientBackendError
from quorum.records import Generation, Target
from quorum.runtime.batch_flight import Flights
from quorum.runtime.batch_journal import Journal, Line, with_attempt
from quorum.runtime.batch_port import BatchOptions
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import Progress
from quorum.runtime.scheduler import Groups, Job, OnResult
from quorum.runtime.stats import RunStats, UsageSum
from quorum.runtime.store import GenerationStore

_CHUNK = 256  # jobs in one look-up
_GROWTH = 1.5  # of the time between two looks at a batch
_HELD_S = 5.0  # how often we look at what other processes are at, at least
_PATIENCE = 10  # times max_attempts: looks in a row that may fail


@dataclass(slots=True)
class _Pace:
    """When to look at the batches again: soon after something moved, then ever later."""

    first_s: float
    ceiling_s: float
    next_s: float = 0.0

    def delay(self, *, has_moved: bool) -> float:
        """Seconds until the next look."""
        self.next_s = self.first_s if has_moved or not self.next_s else self.next_s * _GROWTH
        self.next_s = min(self.next_s, self.ceiling_s)
        return self.next_s


class BatchRun:
    """The state of one run: jobs that wait, lines to send, and how it ends."""

    flights: Flights
    journal: Journal

    def __init__(
        self,
        target: Target,
        store: GenerationStore,
        on_result: OnResult,
        options: RuntimeOptions,
        batch: BatchOptions,
        progress: Progress,
    ) -> None:
        self.stop = asyncio.Event()
        self.error: BackendError | None = None
        self.cap: BudgetError | None = None
        self._target = target
        self._store = store
        self._on_result = on_result
        self._options = options
        self._batch = batch
        self._progress = progress
        self._n_damaged_before = len(store.damaged)
        self._sources: list[Iterator[Job]] = []  # the last one is the front
        self._waiting: dict[str, list[Job]] = {}
        self._ready: dict[str, Line] = {}
        self._held: dict[str, Line] = {}  # other processes are at them
        self._leased: set[str] = set()
        self._left: set[bytes] = set()
        self._seen: set[bytes] = set()
        self._pace = _Pace(batch.poll_first_s, batch.poll_ceiling_s)
        self._not_before = 0.0
        self._has_stalled = False
        self._n_failed = self._n_troubles = 0
        self._n_jobs = self._n_from_store = 0
        self._busy_s = 0.0
        self._called, self._total = UsageSum(), UsageSum()

    # The loop

    async def work(self, groups: Groups) -> None:
        """Until nothing is left to deliver, send or wait for; or Ctrl-C."""
        self._sources.append(chain.from_iterable(groups))
        loop = asyncio.get_running_loop()
        if self._options.calls != "forbid":
            self._adopt()
        while not self.stop.is_set():
            await self._fill()
            if self._is_over:
                self._leave_rest()
            if self._may_send(loop.time()):
                await self._launch()
            elif self._ready or self._held or (self._waiting and self.flights.active):
                start, is_busy = loop.time(), bool(self.flights.active)
                await self._wait(loop.time())
                if not self.stop.is_set():
                    await self._look()
                self._busy_s += (loop.time() - start) * is_busy
            elif self.error is not None or not self._sources:
                return
        if n_active := len(self.flights.active):
            self._progress.note(
                f"{n_active} batches go on at the provider; the same command collects them"
            )

    @property
    def _is_over(self) -> bool:
        return self.error is not None or self.cap is not None

    def _may_send(self, now: float) -> bool:
        return (
            bool(self._ready)
            and not (self._has_stalled or self.flights.is_full)
            and len(self.flights.active) < self._batch.max_in_flight
            and now >= self._not_before
        )

    async def _wait(self, now: float) -> None:
        delay = self._pace.next_s or self._pace.delay(has_moved=True)
        if self._held:
            delay = min(delay, _HELD_S)
        if self._ready and self._not_before > now:
            delay = min(delay, self._not_before - now)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stop.wait(), delay)

    async def _look(self) -> None:
        """At the batches, and at what other processes are at."""
        n_active = len(self.flights.active)
        has_moved, trouble = await self.flights.poll()
        if len(self.flights.active) < n_active or not n_active:
            self._has_stalled = False
        self._pace.delay(has_moved=has_moved)
        if trouble is None:
            self._n_troubles = 0
        else:
            self._n_troubles += 1
            if self._n_troubles >= _PATIENCE * self._options.max_attempts:
                raise trouble
            self._progress.note(f"{trouble.where}: {trouble.what}; looks again")
            self._pace.next_s = max(self._pace.next_s, trouble.retry_after_s or 0.0)
        self._ready.update(self._held)
        self._held.clear()

    # Jobs

    async def _fill(self) -> None:
        """Pulls jobs until there is as much to send as one batch takes, or no more."""
        on_way = self.flights.keys
        while self._sources and self.error is None and not self.stop.is_set():
            if len(self._ready) >= self.flights.max_requests:
                return
            jobs: list[Job] = []
            while self._sources and len(jobs) < _CHUNK:
                part = list(islice(self._sources[-1], _CHUNK - len(jobs)))
                jobs += part
                if not part:
                    self._sources.pop()
            self._look_up(jobs, on_way)
            await asyncio.sleep(0)  # let Ctrl-C through

    def _look_up(self, jobs: Sequence[Job], on_way: AbstractSet[str]) -> None:
        canonical: dict[str, str] = {}
        new: dict[str, list[Job]] = {}
        for job in jobs:
            text = job.request.canonical(self._target)
            key = text_digest(text)
            if key in self._waiting:
                self._waiting[key].append(job)
            else:
                canonical[key] = text
                new.setdefault(key, []).append(job)
        found = self._store.get_many(list(new))
        for key, equal in new.items():
            self._waiting[key] = equal
            if (generation := found.get(key)) is not None:
                self._answer(key, generation, from_store=True)
            elif self._options.calls == "forbid":
                raise _forbidden(key, equal[0])
            elif key not in on_way:
                self._ready[key] = Line(key, canonical[key], equal[0].module)

    def deliver(self, key: str, generation: Generation) -> None:
        """A batch has brought a reply, which is in the store."""
        self._release(key)
        self._answer(key, generation, from_store=False)

    def _answer(self, key: str, generation: Generation, *, from_store: bool) -> None:
        self._ready.pop(key, None)
        self._held.pop(key, None)
        for number, job in enumerate(self._waiting.pop(key, ())):
            is_stored = from_store or number > 0
            self._n_jobs += 1
            half = bytes.fromhex(key[:32])
            if half not in self._seen:
                self._seen.add(half)
                self._n_from_store += is_stored
                self._total.add(generation.usage)
                if not is_stored:
                    self._called.add(generation.usage)
            self._progress.advance(from_store=is_stored)
            more = self._on_result(job, generation, is_stored)
            if more:
                self._sources.append(chain.from_iterable(more))

    # Sending

    async def _launch(self) -> None:
        """Sends the next batch, of what nobody else is at."""
        lines = self._lease(list(islice(self._ready.values(), self.flights.max_requests)))
        self._adopt()
        on_way, foreign = self.flights.keys, self.journal.foreign_keys()
        for key in self._ready.keys() & on_way:  # of a process that has ended meanwhile
            del self._ready[key]
        for line in lines:
            if line.key in self._ready and line.key in foreign:
                self._hold(line)
        found = self._store.get_many([line.key for line in lines if line.key in self._ready])
        for key, generation in found.items():
            self._release(key)
            self._answer(key, generation, from_store=True)
        lines = [line for line in lines if line.key in self._ready and line.key in self._leased]
        if not lines:
            return
        for line in lines:
            del self._ready[line.key]
        sent = await self.flights.submit(lines)
        self._ready.update((line.key, line) for line in sent.rest)
        if sent.was_sent:
            self._pace.next_s = 0.0
        if sent.reserved.cap is not None and not any(s.is_adopted for s in self.flights.active):
            self.cap = sent.reserved.cap
            self._progress.note(f"{self.cap.where}: the cap is reached; batches in flight finish")
        elif sent.reserved.has_stalled or sent.reserved.cap is not None:
            self._has_stalled = True

    def _adopt(self) -> None:
        """Takes up what processes that are gone have left; the provider is not asked yet."""
        for key in self.flights.adopt():
            self._acquire(key)

    def _lease(self, lines: Sequence[Line]) -> list[Line]:
        taken: list[Line] = []
        for line in lines:
            if self._acquire(line.key):
                taken.append(line)
            elif (generation := self._store.get(line.key)) is not None:
                self._answer(line.key, generation, from_store=True)
            else:
                self._hold(line)
        return taken

    def _acquire(self, key: str) -> bool:
        if key not in self._leased and not self._store.acquire(key):
            return False
        self._leased.add(key)
        return True

    def _release(self, key: str) -> None:
        self._store.release(key)
        self._leased.discard(key)

    def _hold(self, line: Line) -> None:
        self._release(line.key)
        self._held[line.key] = self._ready.pop(line.key)

    def free(self) -> None:
        """Frees the leases, also where the store cannot be written any more."""
        with contextlib.suppress(RefusedError):
            for key in list(self._leased):
                self._release(key)

    # What goes wrong

    def try_again(self, line: Line, error: TransientBackendError) -> None:
        """A line is sent once more, if anybody still waits for it and it may be."""
        if line.key not in self._waiting:
            self._release(line.key)
        elif line.attempt >= self._options.max_attempts:
            self.fail(line, error)
        else:
            self._ready[line.key] = with_attempt(line, line.attempt + 1)
            self._back_off(line.attempt, error)

    def _back_off(self, attempt: int, error: TransientBackendError) -> None:
        options = self._options
        longest = min(options.backoff_base_s * 2.0 ** (attempt - 1), options.backoff_ceiling_s)
        wait = error.retry_after_s or random.random() * longest  # noqa: S311 - jitter
        now = asyncio.get_running_loop().time()
        self._not_before = max(self._not_before, now + min(wait, options.retry_after_ceiling_s))

    def fail(self, line: Line | None, error: BackendError) -> None:
        """Nothing more is sent; what is in flight is kept, then the first failure is raised."""
        self._n_failed += line is not None
        if self.error is None:
            self.error = error
            self._progress.note(f"{error}; batches in flight are kept first")
        if line is not None:
            self._waiting.pop(line.key, None)
            self._release(line.key)

    def last_word(self, error: BackendError) -> BackendError:
        """The first failure, with the number of those like it."""
        if self._n_failed < 2:
            return error
        what = f"{self._n_failed:,} requests failed for good, the first: {error.what}"
        return BackendError(error.where, what, mend=error.mend)

    def _leave_rest(self) -> None:
        """After a failure or at the cap: delivers what is there by now, leaves the rest."""
        keys = [*self._ready, *self._held]
        for key, generation in self._store.get_many(keys).items():
            self._release(key)
            self._answer(key, generation, from_store=True)
        for key in (*self._ready, *self._held):
            self._release(key)
            self._waiting.pop(key, None)
            self._left.add(bytes.fromhex(key[:32]))
        self._ready.clear()
        self._held.clear()

    def unfinished(self, cap: BudgetError) -> BudgetError:
        """The error of a cap with what is done and what is left of this run."""
        n_done, n_left = len(self._seen), len(self._left - self._seen)
        what = f"{cap.what}. Of this run {n_done:,} requests are answered, {n_left:,} are left"
        return BudgetError(cap.where, what, mend=cap.mend)

    def stats(self, wall_s: float) -> RunStats:
        """What the run did."""
        return RunStats(
            n_jobs=self._n_jobs,
            n_distinct=len(self._seen),
            n_from_store=self._n_from_store,
            n_calls=self.flights.n_calls,
            n_retries=self.flights.n_retries,
            n_damaged=len(self._store.damaged) - self._n_damaged_before,
            busy_s=self._busy_s,
            wall_s=wall_s,
            n_workers=1,
            usage_called=self._called.usage,
            usage_total=self._total.usage,
            stopped="" if self.cap is None else "cap",
            n_left=len(self._left - self._seen),
        )


def _forbidden(key: str, job: Job) -> RefusedError:
    messages = job.request.messages
    return RefusedError(
        f"request {key[:12]}",
        "is not in the store, and runtime.calls is forbid",
        got=messages[-1].content[:60] if messages else "",
        mend="Import the generations that the run rests on, or set runtime.calls=allow",
    )
