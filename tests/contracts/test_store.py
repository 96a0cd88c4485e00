"""What the store and the scheduler promise together, to processes that share, crash and resume."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from quorum.runtime.store import GenerationStore

N_REQUESTS = 60
MAX_INFLIGHT = 4
STARTED: list[subprocess.Popen[str]] = []
WORKER = """
import asyncio, hashlib, json, sys
from pathlib import Path
from quorum.backends.scripted import Scripted
from quorum.records import Message, Request
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, run_jobs
from quorum.runtime.store import GenerationStore

given = json.loads(sys.argv[1])
folder = Path(given["folder"])
if given.get("gate"):
    print("ready", flush=True)
    sys.stdin.readline()
backend = Scripted(
    rules=({"contains": "7", "reply": {"choices": ["seven", "SEVEN"]}},),
    latency_s=given.get("latency_s", 0.0),
    call_log=str(folder / "calls"),
    crash_after=given.get("crash_after"),
)

class Telling:  # says when the last of eight lanes starts its first call
    target, capabilities, lanes = backend.target, backend.capabilities, None

    async def complete(self, request, lane=0):
        if lane == 7:
            print("all lanes", flush=True)
        return await backend.complete(request, lane)

options = {"temperature": 1.0}
groups = [
    [Job(Request((Message("user", f"question {i}"),), options), i)] for i in range(given["n"])
]
replies = {}

def keep(job, generation, from_store):
    replies[job.tag] = generation.text
    if len(replies) == given.get("tell"):
        print("told", flush=True)
    if job.tag % 10 == 0:
        late = Request((Message("user", f"late {job.tag}"),), options)
        return [[Job(late, job.tag + 1_000_001)]]
    return ()

ledger = UsageLedger(folder / given.get("log", "log"))
with GenerationStore(folder / "store.sqlite") as store:
    stats = asyncio.run(
        run_jobs(
            Telling() if given.get("holds") else backend,
            store, groups, on_result=keep, ledger=ledger,
            options=RuntimeOptions(max_inflight=given["max_inflight"]),
        )
    )
ledger.finish()
text = json.dumps(sorted(replies.items()))
print(json.dumps([hashlib.sha256(text.encode()).hexdigest(), stats.n_calls, len(replies)]))
"""


def start(folder: Path, **given: object) -> subprocess.Popen[str]:
    options = {"n": N_REQUESTS, "max_inflight": MAX_INFLIGHT, **given, "folder": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    STARTED.append(process)
    return process


@pytest.fixture(autouse=True)
def _no_process_is_left_behind():
    yield
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
        process.communicate()


def end(process: subprocess.Popen[str], *, code: int = 0) -> tuple[str, int, int]:
    out, err = process.communicate()
    assert process.returncode == code, err
    return tuple(json.loads(out.splitlines()[-1])) if code == 0 else ("", 0, 0)


def calls(folder: Path) -> Counter[str]:
    """How often each key was called, counted at the backend."""
    path = folder / "calls"
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return Counter(line.split()[0] for line in lines)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Digest of all replies of a run that nothing disturbed, one call at a time."""
    folder = tmp_path_factory.mktemp("straight")
    digest, n_calls, n_replies = end(start(folder, max_inflight=1))
    assert n_calls == n_replies == 66
    return digest


def test_eight_in_flight_give_the_replies_of_one_in_flight(tmp_path, uninterrupted):
    assert end(start(tmp_path, max_inflight=8))[0] == uninterrupted


@pytest.mark.parametrize("event", sorted(random.Random(20).sample(range(1, 2 * 66), 20)))
def test_a_killed_run_goes_on_and_calls_again_only_what_was_in_flight(
    tmp_path, uninterrupted, event
):
    end(start(tmp_path, crash_after=event), code=-9)
    first = calls(tmp_path)
    assert set(first.values()) <= {1}
    with GenerationStore(tmp_path / "store.sqlite") as store:
        kept = store.contains_many(first)
    in_flight = set(first) - kept
    assert len(in_flight) <= MAX_INFLIGHT

    digest, n_calls, n_replies = end(start(tmp_path))
    both = calls(tmp_path)
    assert {key for key, n in both.items() if n > 1} == in_flight
    assert max(both.values()) <= 2
    assert digest == uninterrupted
    assert (n_calls, n_replies) == (66 - len(kept), 66)
    usage = json.loads((tmp_path / "log" / "usage.json").read_text(encoding="utf-8"))
    assert 66 <= usage["total"]["n_calls"] <= 66 + len(in_flight)  # paid, maybe not kept


def test_after_a_finished_run_nothing_is_called(tmp_path, uninterrupted):
    end(start(tmp_path))
    digest, n_calls, n_replies = end(start(tmp_path))
    assert (digest, n_calls, n_replies) == (uninterrupted, 0, 66)
    assert sum(calls(tmp_path).values()) == 66


def test_a_larger_run_pays_only_the_difference_and_back_costs_nothing(tmp_path):
    for n, n_new in [(30, 33), (60, 33), (30, 0), (60, 0)]:
        assert end(start(tmp_path, n=n))[1] == n_new


def expect(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout.readline() == f"{line}\n"


def go(process: subprocess.Popen[str]) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


CROWD = {"n": 200, "max_inflight": 8, "gate": True}


def test_three_processes_on_one_store_never_make_the_same_call_twice(tmp_path):
    crowd = [start(tmp_path, **CROWD, log=f"log{i}", latency_s=0.001) for i in range(3)]
    for process in crowd:
        expect(process, "ready")
    for process in crowd:
        go(process)
    found = [end(process) for process in crowd]
    counted = calls(tmp_path)
    assert len(counted) == sum(counted.values()) == 220
    assert sum(n_calls for _, n_calls, _ in found) == 220
    assert len({digest for digest, _, _ in found}) == 1


def test_others_do_the_rest_and_take_over_what_a_killed_process_had_in_flight(tmp_path):
    holder = start(tmp_path, **CROWD, log="holder", latency_s=1e6, holds=True)
    others = [start(tmp_path, **CROWD, log=f"log{i}", tell=200) for i in range(2)]
    for process in (holder, *others):
        expect(process, "ready")
    go(holder)
    expect(holder, "all lanes")
    for process in others:
        go(process)
    for process in others:
        expect(process, "told")  # 200 of 220 replies, though 8 are held
    holder.kill()
    end(holder, code=-9)
    found = [end(process) for process in others]
    counted = calls(tmp_path)
    assert len(counted) == 220
    assert max(counted.values()) == 2
    assert 227 <= sum(counted.values()) <= 228  # the last lane may not have begun
    assert len({digest for digest, _, _ in found}) == 1


def test_a_store_holds_what_its_requests_say(tmp_path):
    end(start(tmp_path, n=10))
    with GenerationStore(tmp_path / "store.sqlite") as store:
        rows = list(store.rows())
    assert len(rows) == 11
    for row in rows:
        assert hashlib.sha256(row.request.encode()).hexdigest() == row.key
        assert json.loads(row.request)["backend"] == "scripted"
