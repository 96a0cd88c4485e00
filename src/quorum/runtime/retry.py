"""One request to one reply: start limits, time-out, retries of what may pass, and the ledger."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import cast

from quorum.backends.base import Backend
from quorum.errors import BackendError, TransientBackendError
from quorum.records import Generation, Request, Usage
from quorum.runtime.ledger import Call, UsageLedger
from quorum.runtime.limits import RateLimit, SharedPause
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import Progress

_NO_USAGE = Usage()
_MAX_TIMEOUTS = 2  # the server may have worked (and charged) for each, so no more than one retry


class Caller:
    """Makes the calls of one run to one backend.

    Args:
        backend: Who answers.
        options: Limits and patience.
        ledger: Gets one row for each attempt, before the reply goes anywhere; None keeps none.
        progress: Is told of long waits.
        draw: Uniform numbers in [0, 1) for the jitter.

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
        self._pause = SharedPause(options.backoff_base_s, draw)
        rate = options.max_requests_per_s
        self._limit = None if rate is None else RateLimit.per_second(rate)
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
        """
        attempt = n_timeouts = 0
        while True:
            attempt += 1
            self.n_retries += attempt > 1
            await self._pause.wait()
            if self._limit is not None:
                await self._limit.acquire()
            if self._is_stopped:
                raise asyncio.CancelledError
            try:
                return await self._attempt(request, key, module, lane, attempt)
            except TimeoutError as error:
                n_timeouts += 1
                failure = TransientBackendError(
                    self._target.backend, f"no reply within {self._options.timeout_s:g} s"
                )
                if n_timeouts == _MAX_TIMEOUTS or attempt == self._options.max_attempts:
                    raise failure from error
            except TransientBackendError as error:
                failure = error
                if attempt == self._options.max_attempts:
                    raise
            if self._is_stopped:
                raise asyncio.CancelledError
            await self._back_off(failure, attempt)

    async def _attempt(
        self, request: Request, key: str, module: str, lane: int, attempt: int
    ) -> Generation:
        loop = asyncio.get_running_loop()
        start = loop.time()
        generation = None
        outcome = "failed"
        task = cast("asyncio.Task[object]", asyncio.current_task())
        self._in_flight.add(task)
        try:
            async with asyncio.timeout(self._options.timeout_s):
                generation = await self._backend.complete(request, lane)
            outcome = generation.finish_reason
        except TimeoutError:
            outcome = "timeout"
            raise
        except TransientBackendError:
            outcome = "transient"
            raise
        except BackendError:
            outcome = "permanent"
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self._in_flight.discard(task)
            seconds = loop.time() - start
            self.busy_s += seconds
            self.n_calls += generation is not None
            if self._ledger is not None:
                usage = _NO_USAGE if generation is None else generation.usage
                status = "failed" if generation is None else "ok"
                target = self._target
                self._ledger.append(
                    Call(
                        module=module,
                        backend=target.backend,
                        model=target.model,
                        key=key,
                        sample=request.sample,
                        finish_reason=outcome,
                        attempt=attempt,
                        usage=usage,
                        seconds=seconds,
                        status=status,
                    )
                )
        return generation

    async def _back_off(self, failure: TransientBackendError, attempt: int) -> None:
        """Waits before the next attempt: all workers if the server named a time, else this one."""
        asked = failure.retry_after_s
        if asked is not None and asked > 0:
            ceiling = self._options.retry_after_ceiling_s
            if asked > ceiling:
                raise BackendError(
                    failure.where,
                    f"asks to wait {asked:.0f} s",
                    allowed=f"at most {ceiling:.0f} s (runtime.retry_after_ceiling_s)",
                    mend="Run the same command again later: what is done is kept",
                ) from failure
            self._pause.extend(asked)
            self._progress.note(f"{failure.where} asks to wait {asked:.0f} s")
            return
        longest = self._options.backoff_base_s * 2.0 ** (attempt - 1)
        await asyncio.sleep(self._draw() * min(longest, self._options.backoff_ceiling_s))
