"""Stage ``aggregate``: metrics, plots and pages of a reconstruction.

Writes ``diagnostics.json`` (with what describes the survey), ``metrics.csv`` and the pages into
the result; metrics and plots into data/report; run.json and config.resolved.yaml into the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import quorum
from quorum.config.reconstruction_views import AggregateView
from quorum.digests import digest
from quorum.pipeline import artifacts
from quorum.pipeline.manifest import write_record
from quorum.pipeline.reconstruction.questions import QUESTIONS
from quorum.report import reconstruction_plots as plots
from quorum.report.reconstruction import reconstruction_pages
from quorum.report.tables import Cell, csv_text

METRIC_COLUMNS = (
    "metric",
    "value",
    "reason",
    "split",
    "unit",
    "policy",
    "source",
    "group",
    "n_questions",
    "coverage",
    "seed",
    "settings",
)
PLOTS: dict[
    str, tuple[tuple[str, ...], Callable[[Mapping[str, object]], Sequence[Mapping[str, Cell]]]]
] = {
    "entropy": (plots.ENTROPY_COLUMNS, plots.entropy_rows),
    "mode_entropy": (plots.MODE_ENTROPY_COLUMNS, plots.mode_entropy_rows),
    "question_entropy": (plots.QUESTION_ENTROPY_COLUMNS, plots.question_entropy_rows),
    "predictions": (plots.PREDICTION_COLUMNS, plots.prediction_rows),
    "cross_validation": (plots.CV_COLUMNS, plots.cv_rows),
}
Row = dict[str, object]


def run(root: Path) -> None:
    """Writes all that people read."""
    view = AggregateView.read(root)
    scored = artifacts.read_json(root / artifacts.SCORE / "diagnostics.json")
    questions = (root / artifacts.PARTITION / QUESTIONS).read_text(encoding="utf-8")
    found = {**scored, "survey": dict(view.survey)}
    identity = digest([view.manifest.settings_digest, questions, found["model"]])
    result = artifacts.fresh_folder(root / artifacts.AGGREGATE)
    artifacts.write_text(result / "diagnostics.json", artifacts.json_text(found))
    for name, text in reconstruction_pages(found, run_facts(found, view, identity)).items():
        artifacts.write_text(result / name, text)
    settings = view.manifest.settings_digest[:12]
    records = metric_records(found, settings)
    table = artifacts.csv_text(METRIC_COLUMNS, records)
    artifacts.write_text(result / "metrics.csv", table)
    metrics = {
        "run": {"settings": settings},
        "reconstruction": scalars(found),
        "records": records,
    }
    report = root / artifacts.REPORT
    artifacts.write_text(report / "metrics.json", artifacts.json_text(metrics))
    folder = artifacts.fresh_folder(report / "plots")
    for name, (columns, rows) in PLOTS.items():
        artifacts.write_text(folder / f"{name}.csv", csv_text(columns, rows(found)))
    _write_log(found, view, identity, artifacts.fresh_folder(root / artifacts.AGGREGATE_LOG))


def run_facts(found: Mapping[str, object], view: AggregateView, identity: str) -> Row:
    """What the pages tell about the run."""
    model = cast("Mapping[str, object]", found["model"])
    return {
        "model": model["model"],
        "backend": model["backend"],
        "requests": found["n_requests"],
        "seed": view.seed,
        "quorum": quorum.__version__,
        "settings_digest": view.manifest.settings_digest,
        "run_id": identity,
    }


def metric_records(found: Mapping[str, object], settings: str) -> list[Row]:
    """All metrics of a run, each with its target, split, unit, policy, coverage and settings."""
    return [
        {column: {**record, "settings": settings}.get(column) for column in METRIC_COLUMNS}
        for target in cast("list[Mapping[str, list[Row]]]", found["targets"])
        for record in target["records"]
    ]


def scalars(found: Mapping[str, object]) -> Row:
    """What ``dvc exp show`` shows, of the first target: at most eight numbers."""
    target = cast("list[dict[str, object]]", found["targets"])[0]
    fit = cast("Mapping[str, object]", target["fit"])
    cleaning = cast("Mapping[str, object]", found["cleaning"])

    def mse(split: str, source: str) -> object:
        for record in cast("list[Row]", target["records"]):
            place = (record["metric"], record["unit"], record["split"], record["source"])
            if place == ("mse", "cell", split, source):
                return record["value"]
        return None

    return {
        "cv_mse": mse("cv", "fit"),
        "n_active": fit["n_active"],
        "n_personas": cleaning["n_personas_kept"],
        "n_requests": found["n_requests"],
        "test_coverage": cast("Mapping[str, object]", target["interval_coverage"])["test"],
        "test_mse": mse("test", "fit"),
        "test_mse_pool_mean": mse("test", "pool_mean"),
        "test_mse_uniform": mse("test", "uniform"),
    }


def _write_log(
    found: Mapping[str, object], view: AggregateView, identity: str, folder: Path
) -> None:
    record = {
        "run_id": identity,
        "study": view.study,
        "label": found["label"],
        "split": found["split"],
        "model": found["model"],
        "policies": {"cleaning": view.cleaning, "prediction": list(view.policies)},
        "cleaning": found["cleaning"],
        "elicitation": found["elicitation"],
        "sources": dict(view.sources),
        "n_targets": len(cast("list[object]", found["targets"])),
        "stop_reason": found["stop_reason"],
    }
    write_record(folder, record, view.manifest, view.resolved)
