"""One request to one reply: limits, the cap, time-out, retries of what may pass, and the ledger."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import cast

from quorum.backends.base import Backend, ObservedLimits
from quorum.errors import BackendError, RejectedError, TransientBackendError
from quorum.records import Generation, Request, Usage
from quorum.runtime.caps import UNCHARGED, Spending, Ticket
from quorum.runtime.ledger import Call, UsageLedger
from quorum.runtime.limits import Hold, MinuteLimits, Need, Ramp, RateLimit, SharedPause
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import Progress

_NO_USAGE = Usage()
_MAX_TIMEOUTS = 2  # the server may have worked (and charged) for each, so no more than one retry
_IN_A_ROW = 2  # times max_attempts: refusals at a rate limit while no other call is answered
_IN_ALL = 10  # times max_attempts: refusals at a rate limit of one request
_SHOWN_S = 1.0  # shorter waits are not worth a line


@dataclass(slots=True)
class _Pass:
    """What an attempt holds: its place on the ramp, its part of the minute, its reservation."""

    place: object
    hold: Hold | None = None
    ticket: Ticket | None = None


class Caller:
    """Makes the calls of one run to one backend.

    ``max_attempts`` counts attempts for one request, but not those that a rate limit refused and
    told how long to wait: a server at its limit turns away at random, and who keeps its waits
    gets through. Of these there may be twice as many in a row while no call of the run is
    answered, and ten times as many in all.

    Args:
        backend: Who answers.
        options: Limits and patience.
        ledger: Gets one row for each attempt, before the reply goes anywhere; None keeps none.
        progress: Is told of long waits.
        draw: Uniform numbers in [0, 1) for the jitter.
        spending: Is asked before each attempt and told of its end; None has no cap.

    Attributes:
        n_calls: Attempts that were answered.
        n_retries: Attempts after the first one for a request.
        busy_s: Seconds spent in calls, summed over lanes.
    """

    def __init__(
        self,
        backend: Backend,
        options: RuntimeOptions,
        ledger: UsageLedger | None,
        progress: Progress,
        draw: Callable[[], float] = random.random,
        *,
        spending: Spending | None = None,
    ) -> None:
        self.n_calls = 0
        self.n_retries = 0
        self.busy_s = 0.0
        self._backend = backend
        self._target = backend.target
        self._options = options
        self._ledger = ledger
        self._progress = progress
        self._draw = draw
        self._spending = spending
        self._pause = SharedPause(options.backoff_base_s, draw)
        self._ramp = Ramp(options.backoff_base_s, options.max_inflight)
        rate = options.max_requests_per_s
        self._rate = None if rate is None else RateLimit.per_second(rate)
        # no more calls wait for the rate than it lets through in a second: what they may cost is
        # reserved already
        self._near = nullcontext() if rate is None else asyncio.Semaphore(math.ceil(rate))
        limits = MinuteLimits(options, self._target.backend)
        learns = hasattr(backend, "observed_limits")
        self._limits = limits if limits.is_any_set or learns else None
        self._in_flight: set[asyncio.Task[object]] = set()
        self._is_stopped = False

    def stop(self) -> set[asyncio.Task[object]]:
        """No attempt begins any more; returns the tasks that have one in flight.

        A task that comes to its next attempt is cancelled.
        """
        self._is_stopped = True
        return set(self._in_flight)

    async def reply(self, request: Request, key: str, module: str, lane: int) -> Generation:
        """The reply to a request, after as many attempts as it takes and the options allow.

        Raises:
            TransientBackendError: The last attempt failed like those before it.
            BackendError: It cannot pass, or the server asks for more patience than we have.
            SettingsError: It needs more tokens than the user allows in a minute.
            BudgetError: A cap leaves no room for it.
        """
        try:
            return await self._persist(request, key, module, lane)
        except BackendError:
            self._is_stopped = True  # the run ends here: no other worker sends anything more
            raise

    async def _persist(self, request: Request, key: str, module: str, lane: int) -> Generation:
        attempt = n_timeouts = n_refused = n_in_a_row = 0
        most = self._options.max_attempts
        while True:
            attempt += 1
            self.n_retries += attempt > 1
            n_calls_before = self.n_calls
            try:
                return await self._attempt(request, key, module, lane, attempt)
            except TimeoutError as error:
                what = f"no reply within {self._options.timeout_s:g} s"
                failure = TransientBackendError(self._target.backend, what, kind="timeout")
                failure.__cause__ = error
            except TransientBackendError as error:
                failure = error
            n_timeouts += failure.kind == "timeout"
            if failure.kind == "rate_limit" and _asked(failure) is not None:
                n_refused += 1
                n_in_a_row = 1 if self.n_calls > n_calls_before else n_in_a_row + 1
            is_last = attempt - n_refused >= most or n_refused >= _IN_ALL * most
            if is_last or n_in_a_row >= _IN_A_ROW * most or n_timeouts == _MAX_TIMEOUTS:
                raise failure
            self._check_stopped()
            await self._back_off(failure, attempt)

    def _check_stopped(self) -> None:
        if self._is_stopped:
            raise asyncio.CancelledError

    # One attempt

    async def _admit(self, request: Request, key: str) -> _Pass:
        """Returns when the attempt may start, at once; what it may take is reserved."""
        need = None if self._limits is None else self._need(request)
        while True:
            await self._pause.wait()
            if (place := await self._ramp.enter()) is None:
                continue
            going = _Pass(place)
            try:
                async with self._near:
                    if self._limits is not None and need is not None:
                        going.hold = await self._limits.take(need)
                    if self._spending is not None and self._is_open(going):
                        going.ticket = await self._spending.reserve(request, key)
                    if self._rate is not None and self._is_open(going):
                        await self._rate.acquire()
                    self._check_stopped()
            except BaseException:
                self._give_back(going)
                raise
            if self._is_open(going):
                return going
            self._give_back(going)  # a pause was announced meanwhile

    def _is_open(self, going: _Pass) -> bool:
        return not self._pause.left_s and self._ramp.has(going.place)

    def _need(self, request: Request) -> Need:
        ceiling: Callable[[Request], int] | None = getattr(self._backend, "output_ceiling", None)
        return Need.of(request, None if ceiling is None else ceiling(request))

    def _give_back(self, going: _Pass) -> None:
        self._ramp.leave(going.place, is_well=False)
        if going.hold is not None:
            going.hold.cancel()
        if going.ticket is not None and self._spending is not None:
            self._spending.settle(going.ticket, None, "unsent")

    async def _attempt(
        self, request: Request, key: str, module: str, lane: int, attempt: int
    ) -> Generation:
        going = await self._admit(request, key)
        self._ramp.start(going.place)
        if going.hold is not None:
            going.hold.start()
        loop = asyncio.get_running_loop()
        start = loop.time()
        generation = None
        outcome = end = "failed"
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self._in_flight.add(task)
        try:
            async with asyncio.timeout(self._options.timeout_s):
                generation = await self._backend.complete(request, lane)
            outcome = end = generation.finish_reason
        except TimeoutError:
            outcome = end = "timeout"
            raise
        except TransientBackendError as error:
            outcome, end = "transient", error.kind
            raise
        except RejectedError:
            outcome, end = "permanent", "rejected"
            raise
        except BackendError:
            outcome = end = "permanent"
            raise
        except asyncio.CancelledError:
            outcome = end = "cancelled"
            raise
        finally:
            self._in_flight.discard(task)
            seconds = loop.time() - start
            self.busy_s += seconds
            self.n_calls += generation is not None
            self._settle(going, generation, end)
            self._book(request, key, module, attempt, generation, outcome, seconds)
        return generation

    def _settle(self, going: _Pass, generation: Generation | None, end: str) -> None:
        """Puts what the attempt took in the place of what it might have taken."""
        usage = None if generation is None else generation.usage
        self._ramp.leave(going.place, is_well=generation is not None)
        if self._limits is not None:
            observed: ObservedLimits | None = getattr(self._backend, "observed_limits", None)
            self._limits.learn(observed)
        if going.hold is not None and usage is not None:
            going.hold.settle(usage)
        elif going.hold is not None and end in UNCHARGED:
            going.hold.reject()
        if going.ticket is not None and self._spending is not None:
            self._spending.settle(going.ticket, usage, end)

    def _book(
        self,
        request: Request,
        key: str,
        module: str,
        attempt: int,
        generation: Generation | None,
        outcome: str,
        seconds: float,
    ) -> None:
        if self._ledger is not None:
            self._ledger.append(
                Call(
                    module=module,
                    backend=self._target.backend,
                    model=self._target.model,
                    key=key,
                    sample=request.sample,
                    finish_reason=outcome,
                    attempt=attempt,
                    usage=_NO_USAGE if generation is None else generation.usage,
                    seconds=seconds,
                    status="failed" if generation is None else "ok",
                )
            )

    # Between two attempts

    async def _back_off(self, failure: TransientBackendError, attempt: int) -> None:
        """Waits before the next attempt: all workers if the server named a time, else this one."""
        if (asked := _asked(failure)) is None:
            longest = self._options.backoff_base_s * 2.0 ** (attempt - 1)
            await asyncio.sleep(self._draw() * min(longest, self._options.backoff_ceiling_s))
            return
        ceiling = self._options.retry_after_ceiling_s
        if asked > ceiling:
            raise BackendError(
                failure.where,
                f"asks to wait {asked:.0f} s",
                allowed=f"at most {ceiling:.0f} s (runtime.retry_after_ceiling_s)",
                mend="Run the same command again later: what is done is kept",
            ) from failure
        if asked >= self._pause.left_s + _SHOWN_S:
            self._progress.note(f"{failure.where} asks to wait {asked:.0f} s")
        self._pause.extend(asked)
        self._ramp.restart()


def _asked(failure: TransientBackendError) -> float | None:
    """Seconds that the server asked to wait; None where it named no time, or none with sense."""
    asked = failure.retry_after_s
    return asked if asked is not None and asked > 0 else None
