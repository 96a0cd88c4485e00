"""The scheduler beside a server with real latencies, and beside one that answers at once.

Run: ``python benchmarks/latency.py`` (below a minute). 5,000 calls of log-normal latency (σ = 0.5),
64 in flight, store and ledger on disk, limits on requests and tokens a minute set but never
reached: makespan at most 1.05 times max(total latency / 64, longest call), which no scheduler can
be below. An instant backend in process: at least 2,000 requests a second, with the store in memory
and with store and ledger on disk.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from accuracy import peers_python
from quorum.backends.base import Capabilities
from quorum.records import Generation, Message, Request, Target, Usage
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, RunStats, run_jobs
from quorum.runtime.store import GenerationStore

N = 5_000
IN_FLIGHT = 64
MEDIAN_S = 0.15  # a fast API's second, scaled down
SIGMA = 0.5
N_REPEATS = 3
MOST = 1.05
LEAST_PER_S = 2_000
REPLY = Generation("The capital is Lisbon, on the Tagus.", usage=Usage(12, 0, 8, 0))


class Latent:
    """Takes the next latency of a list for each call; without one it answers at once."""

    target = Target("latent", "none")
    capabilities = Capabilities()
    lanes = None

    def __init__(self, latencies: list[float]) -> None:
        self._left = iter(latencies)

    async def complete(self, request: Request, lane: int = 0) -> Generation:
        """The one reply, after the next latency."""
        del request, lane
        await asyncio.sleep(next(self._left, 0.0))
        return REPLY

    async def close(self) -> None:
        """Nothing is open."""


def groups(n: int) -> Iterator[list[Job]]:
    """As many different requests."""
    for i in range(n):
        text = f"{i}: what is the capital of all land west of Spain"
        yield [Job(Request((Message("user", text),), {"max_tokens": 16}), i)]


def measure(latencies: list[float], folder: Path | None, *, is_limited: bool) -> RunStats:
    """One run; store and ledger lie in the folder, or in memory and nowhere."""
    options = RuntimeOptions(max_inflight=IN_FLIGHT, progress="off")
    if is_limited:
        options = replace(options, max_requests_per_min=10**9, max_tokens_per_min=10**12)
    ledger = None if folder is None else UsageLedger(folder)
    with GenerationStore(":memory:" if folder is None else folder / "store.sqlite") as store:
        work = run_jobs(
            Latent(latencies),
            store,
            groups(N),
            on_result=lambda *_: (),
            options=options,
            ledger=ledger,
        )
        stats = asyncio.run(work)
    if ledger is not None:
        ledger.close()
    assert stats.n_calls == N
    return stats


def main() -> int:
    """Measures, prints the tables; 1 where a target is missed."""
    ratios, rows = [], []
    for seed in range(N_REPEATS):
        draws = np.random.default_rng([seed, N]).lognormal(np.log(MEDIAN_S), SIGMA, N)
        latencies = [float(draw) for draw in draws]
        bound = max(sum(latencies) / IN_FLIGHT, *latencies)
        cpu = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            stats = measure(latencies, Path(folder), is_limited=True)
        cpu = time.process_time() - cpu
        ratios.append(stats.wall_s / bound)
        rows.append((seed, bound, stats.wall_s, ratios[-1], stats.utilisation, 1e3 * cpu / N))
    print("| seed | bound s | ours s | ratio | utilisation | own CPU ms a request |")
    print("|---|---|---|---|---|---|")
    for seed, bound, wall, ratio, share, cpu_ms in rows:
        print(f"| {seed} | {bound:.2f} | {wall:.2f} | {ratio:.3f} | {share:.3f} | {cpu_ms:.3f} |")
    print(f"\nMedian ratio {np.median(ratios):.3f}, at most {MOST}.\n")
    print("| instant backend | requests a second | at least |\n|---|---|---|")
    rates: list[float] = []
    own: list[float] = []  # CPU milliseconds a request
    for name, is_on_disk, is_limited in (
        ("store in memory", False, False),
        ("store in memory, limits a minute", False, True),
        ("store and ledger on disk", True, False),
    ):
        walls, cpus = [], []
        for _ in range(N_REPEATS):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) if is_on_disk else None
                start = time.process_time()
                walls.append(measure([], path, is_limited=is_limited).wall_s)
                cpus.append(time.process_time() - start)
        rates.append(N / min(walls))
        own.append(1e3 * min(cpus) / N)
        print(f"| {name} | {rates[-1]:,.0f} | {LEAST_PER_S:,} |")
    is_behind = print_peer(own)
    return int(float(np.median(ratios)) > MOST or min(rates) < LEAST_PER_S or is_behind)


def print_peer(own: list[float]) -> bool:
    """A peer in the same run, where a Python 3.12 is found; whether we need more than a third."""
    python = peers_python("")
    if python is None:
        print("\nPeers: no Python 3.12 was found, so they were not run.")
        return False
    script = Path(__file__).with_name("peers_requests.py")
    done = subprocess.run([python, script], check=True, capture_output=True, text=True)
    ((name, value),) = json.loads(done.stdout).items()
    print("\n| own CPU ms a request, instant model | ours | " + name + " | ours / peer | at most |")
    print("|---|---|---|---|---|")
    for kind, ours in (("in memory", own[0]), ("store and ledger on disk", own[2])):
        print(f"| {kind} | {ours:.3f} | {value:.3f} | {ours / value:.2f} | 0.33 |")
    return max(own[0], own[2]) / value > 1 / 3


if __name__ == "__main__":
    sys.exit(main())
