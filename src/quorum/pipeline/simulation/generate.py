"""Stage ``generate``: the worlds are drawn; no model is called.

Writes ``worlds.jsonl`` (seed, digest, truths and facts of each world) and the log that every study
has: usage of nothing, and counts and seconds of this execution.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from quorum.config.view import RuntimeView
from quorum.pipeline import artifacts
from quorum.pipeline.simulation import grid as grid_file
from quorum.pipeline.simulation import worlds
from quorum.runtime.executor import map_unordered
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import progress_for


def run(root: Path) -> None:
    """Draws every world of the sweep once."""
    options = runtime_options(root)
    tasks = worlds.tasks(grid_file.read(root / artifacts.PARTITION))
    start = time.monotonic()
    rows: list[Mapping[str, object]] = []
    with progress_for(options.progress, "generate", len(tasks)) as progress:
        for _, row in map_unordered(worlds.draw_record, tasks, options):
            rows.append(row)
            progress.advance(from_store=False)
    worlds.write(rows, artifacts.fresh_folder(root / artifacts.GENERATE))
    seconds = time.monotonic() - start
    _write_log(artifacts.fresh_folder(root / artifacts.GENERATE_LOG), len(rows), seconds)


def runtime_options(root: Path) -> RuntimeOptions:
    """How the run is carried out."""
    return RuntimeOptions(**cast("dict[str, Any]", RuntimeView.read(root).options))


def _write_log(log: Path, n_worlds: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        UsageLedger(Path(folder)).finish()  # of no call
        for name in ("usage.csv", "usage.json"):
            artifacts.write_text(log / name, (Path(folder) / name).read_text(encoding="utf-8"))
    cost = {"known_usd": "0.00", "possible_usd": "0.00", "n_possible": 0, "status": "local"}
    stats = {"n_calls": 0, "n_worlds": n_worlds, "wall_s": seconds, "cost": cost}
    artifacts.write_text(log / "generation.json", artifacts.json_text(stats))
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines = [f"{made} generate: {key} = {value}" for key, value in sorted(stats.items())]
    artifacts.write_text(log / "pipeline.log", "\n".join(lines) + "\n")
