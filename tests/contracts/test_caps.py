"""What a cap promises to processes that share it, are killed at any moment, and go on.

The truth is what the server charged: it writes down each call before it answers, and some answers
never arrive. One driver process forks the runs, so that many can be killed in little time.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

N_JOBS = 24
MAX_INFLIGHT = 4
PER_TOKEN = Decimal("0.000123456789")
LIMITS = ["0.01", "0.02", "0.0273", "100"]  # caps in dollars; the last one is enough for all
KILLS = 36
CROWDS = 6
DRIVER = """
import asyncio, hashlib, json, os, random, signal, sys
from decimal import Decimal
from pathlib import Path
from quorum.backends.base import Capabilities
from quorum.errors import BudgetError, RejectedError, TransientBackendError
from quorum.records import Generation, Message, Request, Target, Usage
from quorum.runtime.caps import Account, Amount, Caps
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, run_jobs
from quorum.runtime.store import GenerationStore

given = json.loads(sys.argv[1])
TARGET = Target("server", "m")
PER_TOKEN = Decimal(given["per_token"])

def price(tokens):
    return Amount(tokens * PER_TOKEN, 1, tokens)

def worst(request):
    return price(request.options["max_tokens"])

def actual(usage):
    return price(usage.input_tokens + usage.output_tokens)

class Server:
    target, capabilities, lanes = TARGET, Capabilities(priced=True), None

    def __init__(self, log, event):
        self.log, self.event, self.tries = log, event, {}

    async def complete(self, request, lane=0):
        key = request.key(TARGET)
        self.event()
        self.tries[key] = n = self.tries.get(key, 0) + 1
        fate = int(key[:2], 16)
        if fate % 5 == 0 and n == 1:
            raise TransientBackendError("server", "busy", kind="rate_limit")
        tokens = 1 + int(key[2:6], 16) % request.options["max_tokens"]
        os.write(self.log, f"{key} {tokens}\\n".encode())  # charged from here on
        self.event()
        for _ in range(fate % 4):
            await asyncio.sleep(0)
        self.event()
        if fate % 7 == 0 and n == 1:
            raise TransientBackendError("server", "dropped", kind="connection")
        return Generation("answer", usage=Usage(tokens - tokens // 2, 0, tokens // 2, 0))

    async def close(self): ...

def run(folder, limit, kill_at, shift, on_cap):
    n = 0
    def event(*_):
        nonlocal n
        n += 1
        if n == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
    log = os.open(folder / "server", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    requests = [
        Request((Message("user", f"q {i}"),), {"max_tokens": 10 + i}) for i in range(given["n"])
    ]
    jobs = [[Job(request, i)] for i, request in enumerate(requests)]
    jobs = jobs[shift:] + jobs[:shift]
    replies = set()
    def keep(job, generation, from_store):
        replies.add(job.tag)
        return ()
    options = RuntimeOptions(
        max_inflight=given["max_inflight"], backoff_base_s=1e-9, backoff_ceiling_s=1e-9
    )
    out = {"code": 0}
    with GenerationStore(folder / "store.sqlite") as store:
        store._db.set_trace_callback(event)  # a kill before any statement
        with Account(store, "run", Caps(max_usd=Decimal(limit)), worst, actual) as spending:
            try:
                stats = asyncio.run(run_jobs(
                    Server(log, event), store, jobs, on_result=keep, options=options,
                    spending=spending, on_cap=on_cap,
                ))
                out |= {"stopped": stats.stopped, "n_left": stats.n_left}
            except BudgetError as error:
                out |= {"code": error.exit_code, "error": str(error)}
    out |= {"n_events": n, "n_replies": len(replies)}
    return out

def start(folder, limit, kill_at=0, shift=0, on_cap="fail"):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            os.write(write, json.dumps(run(folder, limit, kill_at, shift, on_cap)).encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    return pid, read

def end(started):
    pid, read = started
    with os.fdopen(read, "rb") as pipe:
        out = json.loads(pipe.read() or "{}")
    out["status"] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return out

def look(folder, limit):
    with GenerationStore(folder / "store.sqlite") as store:
        totals = Account(store, "run", Caps(), worst, actual).totals()
        n_kept = len(store)
    server = [line.split() for line in (folder / "server").read_text().splitlines()]
    return {
        "limit": limit,
        "booked": str(totals.booked.usd), "known": str(totals.known.usd),
        "open": str(totals.open.usd), "booked_calls": totals.booked.calls,
        "charged": str(sum((int(tokens) * PER_TOKEN for _, tokens in server), Decimal(0))),
        "n_charged": len(server), "n_kept": n_kept,
    }

def chain(folder, kills):
    # killed at each of the points, then to the end under caps that are raised again and again
    folder.mkdir()
    (folder / "server").touch()
    seen = []
    limits = given["limits"]
    for kill_at in kills:
        seen.append(end(start(folder, limits[0], kill_at)) | look(folder, limits[0]))
    for limit in limits:
        seen.append(end(start(folder, limit)) | look(folder, limit))
    return seen

def crowd(folder, seed):
    # three processes under one cap, one of them killed; then they go on under a higher one
    folder.mkdir()
    (folder / "server").touch()
    rng = random.Random(seed)
    seen = []
    for limit in given["limits"]:
        on_cap = rng.choice(["fail", "partial"])
        kill_at = rng.randint(20, 200) if seed % 2 else 0
        runs = [
            start(folder, limit, kill_at * (i == 1), rng.randrange(given["n"]), on_cap)
            for i in range(3)
        ]
        ends = [end(run) for run in runs]
        seen.append({"ends": ends, "on_cap": on_cap} | look(folder, limit))
    return seen

folder = Path(given["folder"])
if "kills" in given:
    found = [chain(folder / f"chain{i}", kills) for i, kills in enumerate(given["kills"])]
else:
    found = [crowd(folder / f"crowd{seed}", seed) for seed in range(given["crowds"])]
print(json.dumps(found))
"""


def drive(folder: Path, **given: object) -> list[list[dict[str, object]]]:
    options = {
        "folder": str(folder),
        "n": N_JOBS,
        "max_inflight": MAX_INFLIGHT,
        "per_token": str(PER_TOKEN),
        "limits": LIMITS,
        **given,
    }
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, json.dumps(options)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """A run that nothing disturbs, under one cap after the other."""
    return drive(tmp_path_factory.mktemp("straight"), kills=[[]])[0]


@pytest.fixture(scope="module")
def killed(tmp_path_factory, straight):
    """Chains of runs that are killed once or twice, at points of any kind, and go on."""
    rng = random.Random(36)
    points = sorted(rng.sample(range(1, straight[0]["n_events"]), KILLS))
    kills = [[p, rng.randint(1, 60)] if p % 2 else [p] for p in points]
    return drive(tmp_path_factory.mktemp("killed"), kills=kills)


def cap_holds(seen: dict[str, object]) -> None:
    """What the server charged is within what is booked, and that within the cap."""
    charged, booked = Decimal(seen["charged"]), Decimal(seen["booked"])
    assert charged <= booked <= Decimal(seen["limit"])
    assert seen["n_charged"] <= seen["booked_calls"]
    assert Decimal(seen["open"]) == 0


def test_a_cap_stops_a_run_and_a_higher_one_goes_on_where_it_stopped(straight):
    for seen in straight:
        cap_holds(seen)
    *stopped, last = straight
    assert [seen["code"] for seen in straight] == [4, 4, 4, 0]
    for seen in stopped:
        done, left = seen["n_kept"], N_JOBS - seen["n_kept"]
        assert f"Of this run {done} requests are answered, {left} are left" in seen["error"]
        assert "Raise budget.max_usd and run the same command again" in seen["error"]
        worst = PER_TOKEN * (10 + N_JOBS)
        assert Decimal(seen["limit"]) - worst < Decimal(seen["booked"])  # the cap is used up
    n_kept = [seen["n_kept"] for seen in straight]
    assert n_kept == sorted(n_kept)
    assert last["n_replies"] == last["n_kept"] == N_JOBS
    n_dropped = last["booked_calls"] - N_JOBS
    assert n_dropped > 0  # answers that never came, and were paid for
    assert last["n_charged"] == N_JOBS + n_dropped


@pytest.mark.parametrize("chain", range(KILLS))
def test_killed_at_any_point_no_cap_is_passed_and_all_is_answered_in_the_end(
    killed, straight, chain
):
    seen = killed[chain]
    n_kills = len(seen) - len(LIMITS)
    for step in seen:
        cap_holds(step)
    assert seen[0]["status"] == -9
    last = seen[-1]
    assert (last["code"], last["n_replies"], last["n_kept"]) == (0, N_JOBS, N_JOBS)
    # a kill costs at most what was in flight (an answer that is lost is asked for again)
    assert last["n_charged"] <= straight[-1]["n_charged"] + 2 * MAX_INFLIGHT * n_kills


@pytest.fixture(scope="module")
def crowds(tmp_path_factory):
    return drive(tmp_path_factory.mktemp("crowds"), crowds=CROWDS)


@pytest.mark.parametrize("seed", range(CROWDS))
def test_three_processes_share_one_cap_also_when_one_is_killed(crowds, seed):
    for step in crowds[seed]:
        cap_holds(step)
        for end in step["ends"]:
            assert end["status"] in ((0, -9) if seed % 2 else (0,))
        finished = [end for end in step["ends"] if end["status"] == 0]
        if step["limit"] != LIMITS[-1]:
            for end in finished:
                is_partial = step["on_cap"] == "partial"
                assert end["code"] == (0 if is_partial else 4)
                assert not is_partial or (end["stopped"] == "cap" and end["n_left"] > 0)
    assert crowds[seed][-1]["n_kept"] == N_JOBS
