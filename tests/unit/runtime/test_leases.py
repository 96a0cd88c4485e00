from __future__ import annotations

import subprocess
import sys

from quorum.runtime import leases
from quorum.runtime.leases import Holder, this_process


def child_of(process: subprocess.Popen) -> Holder:
    start = leases._start_time(process.pid)
    assert start is not None
    return Holder(process.pid, start, leases.boot_id())


def test_a_process_lives_until_it_ends_even_before_it_is_reaped():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with child:
        holder = child_of(child)
        assert this_process().is_alive()
        assert holder.is_alive()
        child.kill()
        child.wait()
        assert not holder.is_alive()


def test_without_proc_psutil_tells_the_same(monkeypatch, tmp_path):
    monkeypatch.setattr(leases, "_BOOT_ID", tmp_path / "missing")
    leases.boot_id.cache_clear()
    try:
        me = this_process()
        assert me.boot_id.startswith("booted ")
        assert me.is_alive()
        assert not Holder(me.pid, "0.00", me.boot_id).is_alive()
        assert not Holder(2**22 + 1, me.start_time, me.boot_id).is_alive()
    finally:
        leases.boot_id.cache_clear()
