"""Stage ``aggregate``: simulations become statistics over replicates, tables, plots and a page.

Writes ``simulation_summary.json`` (statistics of every cell), ``simulation_summary.csv`` (a row a
simulation), ``simulation_aggregate.csv`` (a row a cell and metric), ``metrics.csv`` and
``report.html`` into the result; metrics and plots into data/report; run.json and
config.resolved.yaml into the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import cast

import quorum
from quorum.config.simulation_views import AggregateView
from quorum.digests import digest
from quorum.pipeline import artifacts
from quorum.pipeline.manifest import write_record
from quorum.pipeline.simulation import grid as grid_file
from quorum.pipeline.simulation.grid import Grid
from quorum.pipeline.simulation.kinds import SHOWN
from quorum.pipeline.simulation.score import Result, read_all
from quorum.report.simulation import simulation_page
from quorum.report.simulation_plots import SERIES_COLUMNS, series_rows
from quorum.report.tables import csv_text
from quorum.simulation.statistics import Statistics, statistics

STATISTICS = ("mean", "sd", "se", "low", "high", "n", "n_null", "reason")
METRIC_COLUMNS = (
    "metric",
    "cell",
    "value",
    "unit",
    "sd",
    "se",
    "n",
    "n_null",
    "reason",
    "settings",
)
Row = dict[str, object]


def run(root: Path) -> None:
    """Writes all that people read."""
    view = AggregateView.read(root)
    grid = grid_file.read(root / artifacts.PARTITION)
    results = read_all(grid, root / artifacts.SCORE)
    summary = summarise(grid, results, view)
    identity = digest([view.manifest.settings_digest, grid.digest])
    result = artifacts.fresh_folder(root / artifacts.AGGREGATE)
    _write_tables(grid, results, summary, result)
    shown = asdict(SHOWN[grid.kind])
    facts = run_facts(summary, view, identity)
    artifacts.write_text(result / "report.html", simulation_page(summary, shown, facts))
    settings = view.manifest.settings_digest[:12]
    records = metric_records(summary, settings)
    table = artifacts.csv_text(METRIC_COLUMNS, records)
    artifacts.write_text(result / "metrics.csv", table)
    metrics = {
        "run": {"settings": settings},
        "simulation": scalars(summary, results),
        "records": records,
    }
    report = root / artifacts.REPORT
    artifacts.write_text(report / "metrics.json", artifacts.json_text(metrics))
    plots = artifacts.fresh_folder(report / "plots")
    rows = series_rows(summary, shown)
    artifacts.write_text(plots / "simulation.csv", csv_text(SERIES_COLUMNS, rows))
    _write_log(summary, view, identity, artifacts.fresh_folder(root / artifacts.AGGREGATE_LOG))


def summarise(grid: Grid, results: Sequence[Result], view: AggregateView) -> Row:
    """The object of simulation_summary.json: counts, and the statistics of every cell."""
    by_id = {str(result["simulation"]): result for result in results}
    cells = [
        {
            "cell": cell,
            "varied": dict(found[0].varied),
            "parameters": dict(found[0].parameters),
            "metrics": {
                name: asdict(of)
                for name, of in _statistics([by_id[s.id] for s in found], view.level).items()
            },
        }
        for cell, found in grid.cells().items()
    ]
    return {
        "sweep": view.sweep,
        "sweep_digest": grid.digest,
        "kind": grid.kind,
        "level": view.level,
        "seed": view.seed,
        "varied": list(grid.varied),
        "replicates": len(next(iter(grid.cells().values()))),
        "n_cells": len(cells),
        "n_simulations": len(results),
        "n_worlds": len({_world(result) for result in results}),
        "cells": cells,
    }


def _statistics(results: Sequence[Result], level: float) -> dict[str, Statistics]:
    """Of each metric over the replicates of a cell."""
    rows = [_metrics(result) for result in results]
    return {
        name: statistics(
            [cast("float | None", row[name]["value"]) for row in rows],
            [cast("str | None", row[name]["reason"]) for row in rows],
            level,
        )
        for name in rows[0]
    }


def _metrics(result: Result) -> dict[str, Row]:
    return {str(row["metric"]): row for row in cast("list[Row]", result["metrics"])}


def _world(result: Result) -> object:
    return cast("Mapping[str, object]", result["world"])["name"]


def _cells(summary: Mapping[str, object]) -> list[dict[str, object]]:
    return cast("list[dict[str, object]]", summary["cells"])


def _write_tables(
    grid: Grid, results: Sequence[Result], summary: Mapping[str, object], folder: Path
) -> None:
    artifacts.write_text(folder / "simulation_summary.json", artifacts.json_text(summary))
    names = [*_metrics(results[0])]
    columns = (*grid_file.columns(grid.varied), *names)
    rows = [
        {
            **grid_file.row(simulation),
            **{name: row["value"] for name, row in _metrics(result).items()},
        }
        for simulation, result in zip(grid.simulations, results, strict=True)
    ]
    text = artifacts.csv_text(columns, rows)
    artifacts.write_text(folder / "simulation_summary.csv", text)
    long = [
        {"cell": cell["cell"], **cast("Row", cell["varied"]), "metric": name, **of}
        for cell in _cells(summary)
        for name, of in cast("dict[str, Row]", cell["metrics"]).items()
    ]
    text = artifacts.csv_text(("cell", *grid.varied, "metric", *STATISTICS), long)
    artifacts.write_text(folder / "simulation_aggregate.csv", text)


def metric_records(summary: Mapping[str, object], settings: str) -> list[Row]:
    """A record a cell and metric, with the settings it rests on."""
    return [
        {
            "metric": name,
            "cell": cell["cell"],
            "value": of["mean"],
            "unit": "simulation",  # what is counted: the mean is over them
            **{key: of[key] for key in ("sd", "se", "n", "n_null", "reason")},
            "settings": settings,
        }
        for cell in _cells(summary)
        for name, of in cast("dict[str, Row]", cell["metrics"]).items()
    ]


def scalars(summary: Mapping[str, object], results: Sequence[Result]) -> Row:
    """What ``dvc exp show`` shows: counts, and means over all simulations that have the number."""
    found: Row = {name: summary[name] for name in ("n_cells", "n_simulations", "n_worlds")}
    for metric, name in SHOWN[str(summary["kind"])].scalars.items():
        values = [_metrics(result)[metric]["value"] for result in results]
        known = sorted(cast("float", value) for value in values if value is not None)
        found[name] = fmean(known) if known else None
    return found


def run_facts(summary: Mapping[str, object], view: AggregateView, identity: str) -> Row:
    """What the page tells about the run."""
    return {
        "title": f"Sweep {view.sweep}: {view.manifest.input['title'].lower()}",
        "input": dict(view.manifest.input),
        "sweep_digest": summary["sweep_digest"],
        "seed": view.seed,
        "quorum": quorum.__version__,
        "settings_digest": view.manifest.settings_digest,
        "run_id": identity,
    }


def _write_log(
    summary: Mapping[str, object], view: AggregateView, identity: str, folder: Path
) -> None:
    counts = ("n_cells", "n_simulations", "n_worlds", "replicates", "sweep_digest")
    record = {
        "run_id": identity,
        "study": view.study,
        "sweep": view.sweep,
        "kind": view.kind,
        "label": "synthetic worlds: nobody and no model was asked",
        "policies": {"level": view.level},
        **{name: summary[name] for name in counts},
        "stop_reason": "complete",
    }
    write_record(folder, record, view.manifest, view.resolved)
