"""The embedded model through our scheduler, against the bare runtime on the same requests.

Run: ``python benchmarks/embedded.py`` (about two minutes). Six segments, all 64 masks, 16 tokens.
Target: at least 0.9 of the bare runtime's speed, in CPU seconds of this process.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence

from quorum.backends.embedded import Embedded, find_weights
from quorum.backends.engine import Engine
from quorum.records import Generation, Message, Request
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, run_jobs
from quorum.runtime.store import GenerationStore

SEGMENTS = (
    "You help customers of a small bookshop. ",
    "A reader writes that a parcel came two days late. ",
    "The cover of one book was torn. ",
    "The reader is friendly and patient. ",
    "The shop can send a new copy for free. ",
    "Write one short and polite answer.",
)
OPTIONS = {"max_tokens": 16, "temperature": 0.0, "seed": 0}
RUN = 16
TARGET = 0.9


def requests(*, is_sorted: bool) -> list[Request]:
    """All 64 masked prompts, sorted by text (depth-first by prefix) or shuffled."""
    texts = [
        "".join(s for i, s in enumerate(SEGMENTS) if mask >> i & 1) or "Hello" for mask in range(64)
    ]
    texts.sort()
    if not is_sorted:
        random.Random(1).shuffle(texts)
    return [Request((Message("user", text),), OPTIONS) for text in texts]


def bare(todo: Sequence[Request]) -> None:
    """The runtime alone: one engine, one request after the other."""
    engine = Engine(find_weights(), 1024)
    for request in todo:
        engine.chat(request)
    engine.close()


def ours(todo: Sequence[Request], engines: int, *, group: bool) -> None:
    """The same requests through scheduler and store."""

    def nothing(job: Job, generation: Generation, from_store: bool) -> list[Sequence[Job]]:  # noqa: ARG001, FBT001
        return []

    async def drive() -> None:
        backend = Embedded(engines=engines)
        jobs = [Job(request, None) for request in todo]
        groups = [jobs[i : i + RUN] for i in range(0, len(jobs), RUN)]
        options = RuntimeOptions(group_by_prefix=group, progress="off")
        with GenerationStore() as store:
            await run_jobs(backend, store, groups, on_result=nothing, options=options)
        await backend.close()

    asyncio.run(drive())


def measured(call: Callable[[], None]) -> tuple[float, float]:
    """CPU and wall milliseconds a generation."""
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return (time.process_time() - cpu) * 1e3 / 64, (time.perf_counter() - wall) * 1e3 / 64


def main() -> None:
    """Prints the table."""
    done, mixed = requests(is_sorted=True), requests(is_sorted=False)
    bare(done[:4])  # reads the weights into the page cache
    rows = [
        ("bare runtime, sorted, 1 engine", *measured(lambda: bare(done))),
        ("ours, sorted, 1 engine", *measured(lambda: ours(done, 1, group=True))),
        ("ours, shuffled, 1 engine", *measured(lambda: ours(mixed, 1, group=False))),
        ("ours, sorted, 2 engines", *measured(lambda: ours(done, 2, group=True))),
    ]
    base = rows[0][1]
    print("| run | CPU ms a generation | generations a CPU second | wall ms | speed against bare |")
    print("|---|---|---|---|---|")
    for name, cpu, wall in rows:
        print(f"| {name} | {cpu:.0f} | {1e3 / cpu:.2f} | {wall:.0f} | {base / cpu:.2f} |")
    share = base / rows[1][1]
    verdict = "met" if share >= TARGET else "MISSED"
    print(
        f"\nTarget: ours, sorted, 1 engine: at least {TARGET} of the bare: {share:.2f}, {verdict}."
    )
    print(f"Prefix order against none: {rows[2][1] / rows[1][1]:.2f} times the speed.")
    print(f"Two engines against one: {rows[1][2] / rows[3][2]:.2f} times the speed (wall, noisy).")


if __name__ == "__main__":
    main()
