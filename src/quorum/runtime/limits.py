"""Limits on when a call may start: a rate, sums over each minute, and a pause shared by all."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from asyncio_throttle.throttler import Throttler

from quorum.backends.base import ObservedLimits
from quorum.errors import BackendError, SettingsError
from quorum.records import Request, Usage
from quorum.runtime.options import RuntimeOptions

_MARGIN = 1.01  # a window is 1 % longer, so that a start that comes late cannot crowd it
_SHORTEST_S = 0.02  # no window is shorter
_MINUTE_S = 60.0
_MINUTE_MARGIN = 1.05  # what leaves us together may be up to 3 s apart when it arrives
_BYTES_PER_TOKEN = 4  # of English text; characters/4, and more where a character is more bytes
_ESTIMATE = 1.25  # what an estimate may be too low by; what was too high comes back
_PER_MESSAGE = 4  # tokens that a chat template puts around a message
_UNSET_OUTPUT = 1024  # reserved for a reply whose length the request does not limit
_DOUBT = 2  # calls that must turn out well for each refusal on the way back
_MOST_DOUBT = 6
_CHOICE_OUTPUT = 16  # and for one that names one of a few options


class RateLimit:
    """At most ``limit`` starts in any window of ``period_s`` seconds, first come, first served.

    Args:
        limit: Starts in a window.
        period_s: Length of the window in seconds.
    """

    def __init__(self, limit: int, period_s: float) -> None:
        poll_s = period_s / 100
        self._throttler = Throttler(limit, period_s * _MARGIN, poll_s)
        self._turn = asyncio.Lock()  # one polls, the others sleep

    @classmethod
    def per_second(cls, rate: float) -> RateLimit:
        """The limit of ``rate`` starts a second, evenly spaced: 2.5 is one in 0.4 s.

        What leaves us in one burst arrives spread, and with the next burst; so there is none.
        Above 50 a second a few start together, every 20 ms.
        """
        limit = math.ceil(rate * _SHORTEST_S)
        return cls(limit, limit / rate)

    async def acquire(self) -> None:
        """Returns as soon as one more call may start, and counts it as started."""
        async with self._turn:
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

    @property
    def left_s(self) -> float:
        """Seconds until a call may start; 0 where there is no pause."""
        return max(self._until - asyncio.get_running_loop().time(), 0.0)

    def extend(self, seconds: float) -> None:
        """No call starts before so many seconds from now."""
        self._until = max(self._until, asyncio.get_running_loop().time() + seconds)

    async def wait(self) -> None:
        """Returns when the pause is over; at once where there is none."""
        while left := self.left_s:  # noqa: ASYNC110 - it may be extended
            await asyncio.sleep(left + self._spread_s * self._draw())


class Ramp:
    """After a wait that a server asked for, calls come back one, then two, four, eight at a time.

    All at once would run into the next refusal together. A call is unsure until it is answered or
    has been under way for ``step_s`` (who turns away does it at once); there are at most ``room``
    unsure ones, and each that turns out well makes room for one more; where refusals go on, room
    stays one until twice as many calls as were refused (at most 6) have turned out well.

    Args:
        step_s: How long a call is unsure.
        most: Room at which the ramp has ended.
    """

    def __init__(self, step_s: float, most: int) -> None:
        self._step_s = step_s
        self._most = most
        self._room: int | None = None  # None: as many as there are
        self._doubt = 0  # calls that must turn out well before there is more room
        self._unsure: set[object] = set()
        self._waiting: list[asyncio.Future[None]] = []

    def restart(self) -> None:
        """A server asked to wait: who has a place loses it, who waits for one is sent back."""
        self._doubt = 0 if self._room is None else min(self._doubt + _DOUBT, _MOST_DOUBT)
        self._room = 1
        self._unsure = set()
        self._wake()

    async def enter(self) -> object | None:
        """A place on the ramp; None where the ramp has begun anew meanwhile."""
        now = self._unsure
        while self._room is not None and len(self._unsure) >= self._room:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
            if self._unsure is not now:
                return None
        place = object()
        if self._room is not None:
            self._unsure.add(place)
        return place

    def has(self, place: object) -> bool:
        """Whether a call with this place may start now."""
        return self._room is None or place in self._unsure

    def start(self, place: object) -> None:
        """The call starts."""
        if self._room is not None:
            asyncio.get_running_loop().call_later(self._step_s, self._is_sure, place)

    def _is_sure(self, place: object) -> None:
        self.leave(place, is_well=True)

    def leave(self, place: object, *, is_well: bool) -> None:
        """The call was answered (well), has failed or was not sent."""
        if self._room is None or place not in self._unsure:
            return
        self._unsure.discard(place)
        if is_well and self._doubt:
            self._doubt -= 1
        else:
            self._room += is_well
        if self._room >= self._most:
            self._room, self._unsure = None, set()
        self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)


@dataclass(frozen=True, slots=True)
class Need:
    """Tokens that a call may take, before it is made.

    Args:
        input_tokens: UTF-8 bytes / 4 + 4 a message.
        output_tokens: The longest reply.
    """

    input_tokens: int
    output_tokens: int

    @classmethod
    def of(cls, request: Request, ceiling: int | None = None) -> Need:
        """The estimate for a request.

        Args:
            request: What is sent.
            ceiling: The longest reply, where the backend knows it (it may think before it
                replies); None goes by the request.
        """
        n_bytes = sum(len(text.encode("utf-8", "surrogatepass")) for text in _texts(request))
        n_input = math.ceil(n_bytes / _BYTES_PER_TOKEN) + _PER_MESSAGE * len(request.messages)
        if ceiling is not None:
            return cls(n_input, ceiling)
        if request.continuation is not None:
            return cls(n_input, 0)
        asked = request.options.get("max_tokens")
        if isinstance(asked, int) and not isinstance(asked, bool):
            return cls(n_input, asked)
        return cls(n_input, _CHOICE_OUTPUT if request.choices else _UNSET_OUTPUT)

    def amounts(self, factor: float = 1.0) -> tuple[int, int, int, int]:
        """Requests, input, output and all tokens, with ``factor`` times the input."""
        n_input = math.ceil(factor * self.input_tokens)
        return 1, n_input, self.output_tokens, n_input + self.output_tokens


def _texts(request: Request) -> Iterator[str]:
    for message in request.messages:
        yield message.content
    yield request.continuation or ""
    for value in request.options.values():  # a schema is sent as well
        if isinstance(value, str):
            yield value


class Hold:
    """What one call has taken of each minute's sum: first reserved, then started, then settled."""

    __slots__ = ("_limits", "amounts", "is_counted", "started")

    def __init__(self, limits: MinuteLimits, amounts: list[int]) -> None:
        self._limits = limits
        self.amounts = amounts
        self.started: float | None = None
        self.is_counted = True  # in the sums

    def start(self) -> None:
        """The call starts now: its minute begins."""
        self._limits.start(self)

    def cancel(self) -> None:
        """The call was never sent."""
        self._limits.change(self, [0] * len(self.amounts))

    def reject(self) -> None:
        """The server turned the call away: it counts, but nothing was written."""
        n_requests, n_input, _, _ = self.amounts
        self._limits.change(self, [n_requests, n_input, 0, n_input])

    def settle(self, usage: Usage) -> None:
        """Puts the tokens of the answer in the place of the estimate.

        Input read from a cache is no part of the limit on input tokens. An answer without any
        token counted leaves the estimate.
        """
        if usage.input_tokens or usage.output_tokens:
            n_new = usage.input_tokens - usage.cached_input_tokens
            n_all = usage.input_tokens + usage.output_tokens
            self._limits.change(self, [1, n_new, usage.output_tokens, n_all])


class MinuteLimits:
    """Sums of requests and tokens that no window of a minute exceeds, first come, first served.

    A call counts from its start for 63 s; one that waits between ``take`` and ``start`` counts
    until it starts. Where the user sets no limit, the one that the server states is kept.

    Args:
        options: The limits that the user set.
        where: The backend, for errors.
        period_s: Length of the window in seconds.
    """

    names = (
        "max_requests_per_min",
        "max_input_tokens_per_min",
        "max_output_tokens_per_min",
        "max_tokens_per_min",
    )

    def __init__(self, options: RuntimeOptions, where: str, period_s: float = _MINUTE_S) -> None:
        self._where = where
        self._period_s = period_s * _MINUTE_MARGIN
        self._set: list[int | None] = [getattr(options, name) for name in self.names]
        self._limits = list(self._set)
        self._sums = [0] * len(self.names)
        self._holds: deque[Hold] = deque()  # those that started, in the order of their starts
        self._turn = asyncio.Lock()
        self._changed: asyncio.Future[None] | None = None

    @property
    def is_any_set(self) -> bool:
        """Whether the user set any."""
        return any(limit is not None for limit in self._set)

    def learn(self, observed: ObservedLimits | None) -> None:
        """Keeps what the server states where the user set nothing."""
        if observed is None:
            return
        for i, name in enumerate(self.names):
            stated = getattr(observed, name.removeprefix("max_"))
            if self._set[i] is None and stated is not None and stated > 0:
                self._limits[i] = stated
        self._wake()

    async def take(self, need: Need) -> Hold:
        """Reserves what a call may take as soon as there is room for it.

        Raises:
            SettingsError: It needs more than the user allows in a whole minute.
            BackendError: It needs more than the server allows in a whole minute.
        """
        self._check(need)
        async with self._turn:
            while (hold := self._try(need)) is None:
                await self._wait()
        return hold

    def _try(self, need: Need) -> Hold | None:
        self._check(need)
        self._expire()
        amounts = list(need.amounts(_ESTIMATE))
        for i, limit in enumerate(self._limits):
            if limit is not None:
                amounts[i] = min(amounts[i], limit)  # only the margin is above it
                if self._sums[i] + amounts[i] > limit:
                    return None
        self._add(amounts)
        return Hold(self, amounts)

    def _check(self, need: Need) -> None:
        for i, (amount, limit) in enumerate(zip(need.amounts(), self._limits, strict=True)):
            if limit is not None and amount > limit:
                raise self._above(i, amount, limit)

    def _above(self, i: int, amount: int, limit: int) -> BackendError | SettingsError:
        name = self.names[i]
        what = f"one request needs about {amount:,} of them, more than a whole minute allows"
        allowed = f"at most {limit:,}"
        if self._set[i] is not None:
            mend = "Raise it, or shorten the prompt or generation.max_tokens"
            return SettingsError(f"runtime.{name}", what, allowed=allowed, mend=mend)
        kind = name.removeprefix("max_").replace("_per_min", " a minute").replace("_", " ")
        mend = "Shorten the prompt or generation.max_tokens, or have the provider raise the limit"
        return BackendError(self._where, f"{kind}: {what}", allowed=allowed, mend=mend)

    async def _wait(self) -> None:
        """Until the oldest call has left the window, or a sum or a limit has changed."""
        loop = asyncio.get_running_loop()
        self._changed = changed = loop.create_future()
        oldest = self._holds[0].started if self._holds else None
        timer = None
        if oldest is not None:
            timer = loop.call_at(oldest + self._period_s, self._wake)
        try:
            await changed
        finally:
            if timer is not None:
                timer.cancel()
            self._changed = None

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._holds and (self._holds[0].started or 0.0) + self._period_s <= now:
            hold = self._holds.popleft()
            if hold.is_counted:
                hold.is_counted = False
                self._add([-amount for amount in hold.amounts])

    def _add(self, amounts: list[int]) -> None:
        self._sums = [total + amount for total, amount in zip(self._sums, amounts, strict=True)]

    def start(self, hold: Hold) -> None:
        """Its window begins now."""
        hold.started = asyncio.get_running_loop().time()
        self._holds.append(hold)
        self._wake()

    def change(self, hold: Hold, amounts: list[int]) -> None:
        """Puts other amounts in the place of what a call has taken, if it still counts."""
        if hold.is_counted:
            self._add([new - old for new, old in zip(amounts, hold.amounts, strict=True)])
            hold.amounts = amounts
            self._wake()
