"""Ctrl-C in two stages: the first lets calls in flight finish, the second stops at once."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self


class CtrlC:
    """Takes Ctrl-C over while a run lasts, where it is Python's own to handle.

    In another thread than the main one, or where the process ignores Ctrl-C or leaves it to the
    system, nothing changes.

    Args:
        first: Called in the event loop at the first Ctrl-C.
        second: Called in the event loop at the second. The third raises ``KeyboardInterrupt``
            wherever the program is.

    Attributes:
        n_signals: How often Ctrl-C was pressed.
    """

    def __init__(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        self.n_signals = 0
        self._steps = (first, second)
        self._before: Callable[[int, FrameType | None], object] | None = None

    def __enter__(self) -> Self:
        """Begins to listen; needs a running event loop."""
        self._loop = asyncio.get_running_loop()
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(before):
            signal.signal(signal.SIGINT, self._pressed)
            self._before = before
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Gives Ctrl-C back."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def _pressed(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.n_signals += 1
        if self.n_signals > len(self._steps):
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._steps[self.n_signals - 1])
