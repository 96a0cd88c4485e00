"""Limits on when a call may start: a rate that no window exceeds, and a pause shared by all."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable

from asyncio_throttle.throttler import Throttler

_MARGIN = 1.01  # a window is 1 % longer, so that a start that comes late cannot crowd it


class RateLimit:
    """At most ``limit`` starts in any window of ``period_s`` seconds.

    Args:
        limit: Starts in a window.
        period_s: Length of the window in seconds.
    """

    def __init__(self, limit: int, period_s: float) -> None:
        poll_s = period_s / 100
        self._throttler = Throttler(limit, period_s * _MARGIN, poll_s)

    @classmethod
    def per_second(cls, rate: float) -> RateLimit:
        """The limit of ``rate`` starts a second; 2.5 is 3 starts in 1.2 s, 0.5 is 1 in 2 s."""
        limit = math.ceil(rate)
        return cls(limit, limit / rate)

    async def acquire(self) -> None:
        """Returns as soon as one more call may start, and counts it as started."""
        await self._throttler.acquire()  # type: ignore[no-untyped-call]


class SharedPause:
    """A wait that one worker was told of and that all workers of a backend keep.

    Args:
        spread_s: After the pause each worker waits up to so much longer, so that not all come
            back at once.
        draw: Uniform numbers in [0, 1).
    """

    def __init__(self, spread_s: float, draw: Callable[[], float] = random.random) -> None:
        self._spread_s = spread_s
        self._draw = draw
        self._until = 0.0

    def extend(self, seconds: float) -> None:
        """No call starts before so many seconds from now."""
        self._until = max(self._until, asyncio.get_running_loop().time() + seconds)

    async def wait(self) -> None:
        """Returns when the pause is over; at once where there is none."""
        loop = asyncio.get_running_loop()
        while (left := self._until - loop.time()) > 0:  # noqa: ASYNC110 - it may be extended
            await asyncio.sleep(left + self._spread_s * self._draw())
