"""How close the scheduler comes to a queue without overhead, 16 calls in flight.

Run: ``python benchmarks/makespan.py`` (below two minutes). Latencies are log-normal (σ = 0.5), the
same ones for us and for the simulated first-in-first-out queue. Targets: makespan at most 1.03
times the queue's at 256 and 1,024 calls; at least 0.95 of the lanes' time in calls at 1,024 calls,
0.90 with two phases over many prompts.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from quorum.backends.base import Capabilities
from quorum.records import Generation, Message, Request, Target
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, RunStats, run_jobs
from quorum.runtime.store import GenerationStore

LANES = 16
MEDIAN_S = 0.08  # a fast API's second, scaled down
SIGMA = 0.5
N_REPEATS = 3


class Waiting:
    """Takes the next latency of a list for each call, in the order of the calls."""

    target = Target("waiting", "none")
    capabilities = Capabilities()
    lanes = None

    def __init__(self, latencies: list[float]) -> None:
        self._left = iter(latencies)

    async def complete(self, request: Request, lane: int = 0) -> Generation:
        """A reply after the next latency."""
        del request, lane
        await asyncio.sleep(next(self._left))
        return Generation("reply")

    async def close(self) -> None:
        """Nothing is open."""


def latencies(n: int, seed: int) -> list[float]:
    """The n latencies of a seed, in seconds."""
    return list(np.random.default_rng([seed, n]).lognormal(np.log(MEDIAN_S), SIGMA, n))


def queue_makespan(durations: list[float]) -> float:
    """Makespan of a first-in-first-out queue with LANES servers and no overhead, in seconds."""
    free = [0.0] * LANES
    for duration in durations:
        heapq.heapreplace(free, free[0] + duration)
    return max(free)


def job(prompt: int, index: int) -> Job:
    """The job of one coalition of one prompt."""
    return Job(Request((Message("user", f"prompt {prompt} coalition {index}"),)), (prompt, index))


def measure(n_prompts: int, first: int, second: int, durations: list[float]) -> RunStats:
    """One run of n_prompts × (first + second) calls; a second phase needs its prompt's first."""
    backend = Waiting(durations)
    left = dict.fromkeys(range(n_prompts), first)

    def on_result(done: Job, *_: object) -> list[list[Job]]:
        prompt, index = done.tag
        if index >= first:
            return []
        left[prompt] -= 1
        if left[prompt]:
            return []
        return [[job(prompt, first + i)] for i in range(second)]

    def groups() -> Iterator[list[Job]]:
        for prompt in range(n_prompts):
            for index in range(first):
                yield [job(prompt, index)]

    with tempfile.TemporaryDirectory() as folder:
        ledger = UsageLedger(Path(folder))
        with GenerationStore(Path(folder) / "store.sqlite") as store:
            options = RuntimeOptions(max_inflight=LANES, progress="off")
            work = run_jobs(
                backend, store, groups(), on_result=on_result, options=options, ledger=ledger
            )
            stats = asyncio.run(work)
        ledger.close()
    assert stats.n_calls == n_prompts * (first + second)
    return stats


def main() -> int:
    """Measures, prints the table; 1 where a target is missed."""
    failed = False
    cases = [
        ("256 calls", 1, 256, 0, 1.03, None),
        ("1,024 calls", 1, 1024, 0, 1.03, 0.95),
        ("16 prompts, two phases of 32", 16, 32, 32, None, 0.90),
    ]
    print(
        "| case | queue s | ours s | ratio | ≤ | utilisation | ≥ |\n|---|---|---|---|---|---|---|"
    )
    for name, n_prompts, first, second, most, least in cases:
        ratios, shares, ours, queues = [], [], [], []
        for seed in range(N_REPEATS):
            durations = latencies(n_prompts * (first + second), seed)
            stats = measure(n_prompts, first, second, durations)
            queues.append(queue_makespan(durations))
            ours.append(stats.wall_s)
            ratios.append(stats.wall_s / queues[-1])
            shares.append(stats.utilisation)
        ratio, share = float(np.median(ratios)), float(np.median(shares))
        failed |= (most is not None and ratio > most) or (least is not None and share < least)
        print(
            f"| {name} | {np.median(queues):.2f} | {np.median(ours):.2f} | {ratio:.3f} "
            f"| {most or ''} | {share:.3f} | {least or ''} |"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
