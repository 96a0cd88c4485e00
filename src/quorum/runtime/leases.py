"""Who holds a lease on a key, and whether that process still lives.

A process is named by pid, start time and boot: a pid alone comes round again. The processes that
share a store must see each other (one machine, one pid namespace).
"""

from __future__ import annotations

import functools
import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import cast

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Holder:
    """One process: its pid, when it started (in the system's own words), and which boot."""

    pid: int
    start_time: str
    boot_id: str

    def is_alive(self) -> bool:
        """Whether this very process still runs."""
        return self.boot_id == boot_id() and _start_time(self.pid) == self.start_time


def this_process() -> Holder:
    """The holder that this process is."""
    pid = os.getpid()
    return Holder(pid, _start_time(pid) or "", boot_id())


@functools.cache
def boot_id() -> str:
    """What changes when the machine starts anew: the kernel's boot id, else its boot time."""
    if _BOOT_ID.exists():
        return _BOOT_ID.read_text(encoding="ascii").strip()
    psutil = importlib.import_module("psutil")  # comes with DVC
    return f"booted {psutil.boot_time():.0f}"


def _start_time(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; None where there is no such process."""
    if not _BOOT_ID.exists():
        return _start_time_elsewhere(pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()  # the name before it may hold anything
    state, start_time = fields[0], fields[19]
    return None if state in (b"Z", b"X") else start_time.decode("ascii")


def _start_time_elsewhere(pid: int) -> str | None:
    psutil = importlib.import_module("psutil")
    if not psutil.pid_exists(pid):
        return None
    return f"{cast('float', psutil.Process(pid).create_time()):.2f}"
