"""How far a run is: a bar on a terminal, one plain ASCII line every 10 % elsewhere, or nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TextIO

from quorum.runtime.options import ProgressMode

_REFRESH_S = 0.1


class Progress(Protocol):
    """What the scheduler tells the user."""

    def advance(self, *, from_store: bool) -> None:
        """One more request is done."""

    def note(self, text: str) -> None:
        """Something worth a line of its own, such as a long wait."""

    def __enter__(self) -> Self:
        """Starts the display."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the display."""


def progress_for(
    mode: ProgressMode, label: str, total: int, stream: TextIO | None = None
) -> Progress:
    """The display for a mode.

    Args:
        mode: ``auto`` is a bar where the stream is a terminal and plain lines where it is not.
        label: What is being done, a word or two.
        total: How many requests there are.
        stream: Where to; standard error if None.
    """
    out = sys.stderr if stream is None else stream
    if mode == "off":
        return NoProgress()
    if mode == "auto" and out.isatty() and os.environ.get("TERM") != "dumb":
        return BarProgress(label, total, out)
    return PlainProgress(label, total, out)


class _Base:
    """Does nothing at start and end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None


class NoProgress(_Base):
    """Says nothing."""

    def advance(self, *, from_store: bool) -> None:
        """Says nothing."""

    def note(self, text: str) -> None:
        """Says nothing."""


class _Counts:
    """Counts, rate and time left; the rate is that of the calls, not of the store."""

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        self.total = total
        self.n_done = 0
        self.n_from_store = 0
        self._clock = clock
        self._start = clock()

    def count(self, *, from_store: bool) -> None:
        self.n_done += 1
        self.n_from_store += from_store

    def pace(self) -> str:
        """Such as ``4.2/s, 25 s left``; empty until a call has been made."""
        n_called = self.n_done - self.n_from_store
        elapsed = self._clock() - self._start
        if n_called == 0 or elapsed <= 0:
            return ""
        rate = n_called / elapsed
        left = max(self.total - self.n_done, 0) / rate
        return f"{rate:.1f}/s, {_duration(left)} left"


class PlainProgress(_Base):
    """One ASCII line every 10 %, for logs and pipes."""

    def __init__(
        self, label: str, total: int, out: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._label = label
        self._out = out
        self._counts = _Counts(total, clock)
        self._tenths = 0

    def advance(self, *, from_store: bool) -> None:
        """Counts; prints when another tenth is full."""
        counts = self._counts
        counts.count(from_store=from_store)
        tenths = 10 * counts.n_done // max(counts.total, 1)
        if tenths > self._tenths:
            self._tenths = tenths
            pace = counts.pace()
            self._print(
                f"{self._label}: {10 * tenths} % ({counts.n_done} of {counts.total}), "
                f"{counts.n_from_store} from store" + (f", {pace}" if pace else "")
            )

    def note(self, text: str) -> None:
        """Prints a line."""
        self._print(f"{self._label}: {text}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Says how much it was where there was less to do than the total."""
        counts = self._counts
        if kind is None and 0 < counts.n_done < counts.total:
            self.note(f"done, {counts.n_done} were enough, {counts.n_from_store} from store")

    def _print(self, line: str) -> None:
        self._out.write(line.encode("ascii", "backslashreplace").decode("ascii") + "\n")
        self._out.flush()


class BarProgress(_Base):
    """A bar with done and total, from the store, rate and time left."""

    def __init__(
        self, label: str, total: int, out: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as RichBar

        self._counts = _Counts(total, clock)
        self._clock = clock
        self._shown = float("-inf")
        self._bar = RichBar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[said]}", markup=False),
            console=Console(file=out),
            auto_refresh=False,  # no second thread; a refresh comes with the results
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task(label, total=total, said="")

    def advance(self, *, from_store: bool) -> None:
        """Counts; redraws at most ten times a second."""
        self._counts.count(from_store=from_store)
        if self._clock() - self._shown >= _REFRESH_S:
            self._draw()

    def _draw(self) -> None:
        counts = self._counts
        parts = (f"{counts.n_from_store} from store", counts.pace())
        said = ", ".join(part for part in parts if part)
        self._bar.update(self._task, completed=counts.n_done, said=said)
        self._bar.refresh()
        self._shown = self._clock()

    def note(self, text: str) -> None:
        """Prints a line above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._draw()
        self._bar.stop()


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
