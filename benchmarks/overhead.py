"""What Quorum adds to each coalition: CPU for plan, render, schedule, store; memory a request.

Run: ``python benchmarks/overhead.py`` (below a minute). Targets: at most 0.14 ms of own CPU a
coalition with the store in memory, 0.45 ms with store and ledger on disk, and
150 bytes a request at a million requests.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from accuracy import peers_python
from quorum.attribution.snapshots import Snapshot
from quorum.backends.base import Capabilities
from quorum.config.attribution_views import BudgetView, GenerateView, PartitionView
from quorum.config.view import InputFile, Part
from quorum.pipeline.attribution.partition import make_plan
from quorum.pipeline.attribution.plan import Plan
from quorum.pipeline.attribution.pool import Pool
from quorum.records import Generation, Message, Request, Target, Usage
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, run_jobs
from quorum.runtime.store import GenerationStore

PROMPT = "What is the capital of all land west of Spain"  # 10 players
DELETE = Part("absence", "delete", {})
N_PROMPTS = 20
N_COALITIONS = 512
REPLY = Generation("The capital is Lisbon, on the Tagus.", usage=Usage(12, 0, 8, 0))
OPTIONS = {"max_tokens": 16, "temperature": 0.0}


class Instant:
    """Answers at once: what is left is our own time."""

    target = Target("instant", "none", {"base_url": "none"})
    capabilities = Capabilities()
    lanes = None

    async def complete(self, request: Request, lane: int = 0) -> Generation:
        """The one reply."""
        del request, lane
        await asyncio.sleep(0)
        return REPLY

    async def close(self) -> None:
        """Nothing is open."""


def planned() -> Plan:
    """Twenty prompts of ten players, half of the 1,024 coalitions each."""
    snapshots = [
        Snapshot(f"p{i}", (Message("system", f"Prompt {i}."), Message("user", PROMPT)))
        for i in range(N_PROMPTS)
    ]
    view = PartitionView(
        study="attribution",
        input=InputFile("", ""),
        partitioner=Part("partition", "tokens", {}),
        roles=("user",),
        max_players=64,
        overflow="error",
        absence=DELETE,
        estimator=Part("estimator", "complementary", {}),
        budget=BudgetView(N_COALITIONS / 1024, 10_000, None),
        seed=0,
    )
    return make_plan(snapshots, view)


def pool(plan: Plan) -> Pool:
    """The pipeline's own pool: renders as it is pulled, keeps what comes back."""
    view = GenerateView(
        study="attribution",
        backend=Part("backend", "scripted", {}),
        absence=DELETE,
        max_tokens=16,
        temperature=0.0,
        samples=1,
        noise_repeats=0,
        seed=0,
        needs="text",
        reference=None,
        estimator=None,
        value=None,
    )
    return Pool(plan, view, Instant.target, group_by_prefix=False)


def cpu_of(work: Callable[[], object]) -> float:
    """Seconds of this process's CPU."""
    start = time.process_time()
    work()
    return time.process_time() - start


def run(store: GenerationStore, ledger: UsageLedger | None = None) -> None:
    """Plan, render, schedule, store: all coalitions of all prompts, once."""
    plan = planned()
    jobs = pool(plan)
    options = RuntimeOptions(progress="off")
    asyncio.run(
        run_jobs(
            Instant(), store, jobs.groups(), on_result=jobs.accept, options=options, ledger=ledger
        )
    )
    assert sum(len(state.rows) for state in jobs.snapshots) == N_PROMPTS * N_COALITIONS


def bytes_per_request(n: int) -> float:
    """Growth of the process while it goes through n stored-nowhere requests, per request."""

    class Nothing(GenerationStore):
        """Finds everything, so that only the scheduler's own memory grows."""

        def get_many(self, keys: list[str]) -> dict[str, Generation]:
            return dict.fromkeys(keys, REPLY)

    def many() -> Iterator[list[Job]]:
        for i in range(n):
            yield [Job(Request((Message("user", str(i)),), OPTIONS), i)]

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    options = RuntimeOptions(progress="off")
    work = run_jobs(Instant(), Nothing(), many(), on_result=lambda *_: (), options=options)
    stats = asyncio.run(work)
    assert stats.n_distinct == n
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / n


def main() -> int:
    """Measures, prints the table; 1 where a target is missed."""
    n = N_PROMPTS * N_COALITIONS
    plan = planned()
    only_plan = min(cpu_of(planned) for _ in range(3)) / n
    only_render = min(cpu_of(lambda: list(pool(plan).groups())) for _ in range(3)) / n
    in_memory = min(cpu_of(lambda: run(GenerationStore())) for _ in range(3)) / n
    durable, again = [], []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            ledger = UsageLedger(path)
            with GenerationStore(path / "store.sqlite") as store:
                durable.append(cpu_of(lambda: run(store, ledger)) / n)  # noqa: B023 - runs at once
                again.append(cpu_of(lambda: run(store, ledger)) / n)  # noqa: B023
            ledger.close()
    memory = bytes_per_request(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
    rows = [
        ("plan alone, ms", 1e3 * only_plan, None),
        ("render alone, ms", 1e3 * only_render, None),
        ("plan, render, schedule, store in memory, ms", 1e3 * in_memory, 0.14),
        ("the same, store and ledger on disk, ms", 1e3 * min(durable), 0.45),
        ("the same, all in the store already, ms", 1e3 * min(again), None),
        ("memory a request, bytes", memory, 150.0),
    ]
    print("| own CPU or memory a coalition | measured | target | ratio |\n|---|---|---|---|")
    for name, value, target in rows:
        tail = " | |" if target is None else f" {target} | {value / target:.2f} |"
        print(f"| {name} | {value:.3f} |{tail}")
    print_peers({"in memory": 1e3 * in_memory, "with archive": 1e3 * min(durable)})
    return int(any(target is not None and value > target for _, value, target in rows))


def print_peers(own: dict[str, float]) -> None:
    """The peers in the same run, where a Python 3.12 is found; they score with tf-idf as well."""
    python = peers_python("")
    if python is None:
        print("\nPeers: no Python 3.12 was found, so they were not run.")
        return
    script = Path(__file__).with_name("peers_overhead.py")
    done = subprocess.run([python, script], check=True, capture_output=True, text=True)
    print(
        "\n| peer, all of n = 10, scores included | CPU ms a coalition | ours / peer |"
        "\n|---|---|---|"
    )
    for name, value in json.loads(done.stdout).items():
        kind = next(kind for kind in own if kind in name)
        print(f"| {name} | {value:.3f} | {own[kind] / value:.2f} |")


if __name__ == "__main__":
    sys.exit(main())
