"""One prompt, straight to its attribution: the four stages in memory, on the same store."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import cast

from quorum.attribution.snapshots import Snapshot
from quorum.config.attribution_stages import (
    aggregate_view,
    generate_view,
    partition_view,
    score_view,
)
from quorum.config.compose import Settings
from quorum.config.prompts import check_targets
from quorum.config.stages import runtime_view
from quorum.config.view import InputFile
from quorum.pipeline.attribution.aggregate import aggregate
from quorum.pipeline.attribution.generate import generate, make_backend, run_digest
from quorum.pipeline.attribution.partition import make_plan
from quorum.pipeline.attribution.score import score
from quorum.pipeline.driving import Driver
from quorum.pipeline.spending import account
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.store import GenerationStore, store_path

COMMAND_LINE = {
    "name": "command line",
    "title": "One prompt from the command line",
    "licence": "not stated",
    "attribution": "",
    "citation": "",
}


def explain(root: Path, snapshot: Snapshot, settings: Settings) -> dict[str, object]:
    """The attribution object of one prompt, with scheduler metrics and timings beside it.

    Args:
        root: The project's folder.
        snapshot: The prompt.
        settings: Checked settings; their input is not read.

    Returns:
        The object of ``attributions.jsonl`` plus ``scheduler`` (counts and tokens of this
        execution) and ``timings`` (seconds by step).
    """
    settings = {**settings, "input": dict(COMMAND_LINE)}
    check_targets([snapshot], settings)
    marks = [time.perf_counter()]
    plan = make_plan([snapshot], partition_view(settings, InputFile("command line", "")))
    marks.append(time.perf_counter())
    view, runtime = generate_view(settings), runtime_view(settings)
    path = store_path()
    name = run_digest(plan, view)
    backend = make_backend(view, runtime)
    with GenerationStore(path) as store, account(root, name, backend, runtime, store) as spending:
        folder = Path(path).parent / "runs" / name
        ledger = UsageLedger(folder)
        driver = Driver(backend, store, runtime, folder, spending)
        generated = generate(plan, view, driver, ledger)
    ledger.finish()
    marks.append(time.perf_counter())
    scored = score(plan, generated.rows, score_view(settings), generated.incomplete)
    marks.append(time.perf_counter())
    (attribution,) = aggregate(plan, scored, aggregate_view(settings), generated.identity)
    marks.append(time.perf_counter())
    steps = ("partition", "generate", "score", "aggregate")
    timings = {
        f"{step}_s": later - earlier
        for step, earlier, later in zip(steps, marks, marks[1:], strict=False)
    }
    scheduler = {**asdict(generated.stats), "utilisation": generated.stats.utilisation}
    return {**attribution, "scheduler": scheduler, "timings": cast("object", timings)}
