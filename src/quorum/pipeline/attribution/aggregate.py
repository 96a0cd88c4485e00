"""Stage ``aggregate``: payoffs become values with standard errors, tables, plots and pages.

Writes ``attributions.jsonl``, ``attributions.csv``, ``metrics.csv`` and the pages into the
result; metrics and plots into data/report; the run's record (run.json, config.resolved.yaml) into
the log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import cast

import numpy as np

import quorum
from quorum.attribution.convergence import convergence, unknown
from quorum.attribution.estimators.base import Estimator
from quorum.attribution.faithfulness import curves
from quorum.attribution.normalisers import Normaliser
from quorum.config.attribution_views import AggregateView
from quorum.digests import digest
from quorum.pipeline import artifacts
from quorum.pipeline.attribution import payoffs as payoffs_file
from quorum.pipeline.attribution import plan as plan_file
from quorum.pipeline.attribution.masked import as_rows
from quorum.pipeline.attribution.payoffs import Scored
from quorum.pipeline.attribution.plan import Plan, Planned, player_dicts
from quorum.pipeline.manifest import write_record
from quorum.report import pages, plots, tables

Attribution = dict[str, object]
METRIC_COLUMNS = ("metric", "snapshot", "value", "unit", "coverage", "reason", "settings")
PLOTS = {
    "values": (plots.VALUE_COLUMNS, plots.value_rows),
    "curves": (plots.CURVE_COLUMNS, plots.curve_rows),
    "convergence": (plots.CONVERGENCE_COLUMNS, plots.convergence_rows),
}


def run(root: Path) -> None:
    """Aggregates the scored run and writes all that people read."""
    plan = plan_file.read(root / artifacts.PARTITION)
    scored = payoffs_file.read(root / artifacts.SCORE, plan)
    model = artifacts.read_json(root / artifacts.SCORE / "facts.json")
    n_requests = cast("int", model.pop("n_requests"))
    view = AggregateView.read(root)
    attributions = aggregate(plan, scored, view, model)
    result = artifacts.fresh_folder(root / artifacts.AGGREGATE)
    artifacts.write_text(result / "attributions.jsonl", artifacts.jsonl_text(attributions))
    artifacts.write_text(result / "attributions.csv", tables.attributions_csv(attributions))
    facts = {**run_facts(plan, view, model), "n_requests": n_requests}
    for name, text in pages.attribution_pages(attributions, facts, replies(scored)).items():
        artifacts.write_text(result / name, text)
    _write_report(attributions, plan, view, n_requests, root)
    _write_log(
        plan, view, model, attributions, artifacts.fresh_folder(root / artifacts.AGGREGATE_LOG)
    )


def run_id(plan: Plan, view: AggregateView, model: Mapping[str, object]) -> str:
    """Digest of the settings that change results, the prompts, and the model that answered."""
    prompts = sorted([p.id, p.snapshot.digest] for p in plan.snapshots)
    return digest([view.manifest.settings_digest, prompts, model])


def aggregate(
    plan: Plan, scored: Mapping[str, Scored], view: AggregateView, model: Mapping[str, object]
) -> list[Attribution]:
    """One attribution object a snapshot, sorted by id."""
    estimator = cast("Estimator", view.estimator.make())
    normaliser = cast("Normaliser", view.normaliser.make())
    identity = run_id(plan, view, model)
    return [
        _attribution(p, scored[p.id], estimator, normaliser, view, {"run_id": identity, **model})
        for p in plan.snapshots
    ]


def _attribution(
    planned: Planned,
    scored: Scored,
    estimator: Estimator,
    normaliser: Normaliser,
    view: AggregateView,
    run: Mapping[str, object],
) -> Attribution:
    if scored.reason is None:
        found = _estimated(planned, scored, estimator, normaliser)
    else:
        found = _undefined(planned, scored.reason)
    return {
        **found,
        "snapshot": planned.id,
        "snapshot_digest": planned.snapshot.digest,
        "run_id": run["run_id"],
        "estimator": view.estimator.name,
        "estimand": estimator.estimand,
        "control_variate": view.estimator.options.get("control_variate"),
        "value_function": view.value,
        "reference": view.reference,
        "normaliser": view.normaliser.name,
        "partitioner": planned.partitioner,
        "absence": view.absence,
        "n_players": len(planned.players),
        "n_coalitions": len(scored.payoffs),
        "n_requests": scored.n_requests,
        "budget_binding": planned.binding,
        "base_generation": scored.base_generation,
        "empty_generation": scored.empty_generation,
        "base_finish_reason": scored.finish_reason,
        "players": player_dicts(planned.snapshot, planned.players),
        "messages": [{"role": m.role, "content": m.content} for m in planned.snapshot.messages],
        "protected_share": planned.protected_share,
        "noise": _noise(scored),
        "level": view.level,
        "manifest": _manifest(view, run),
    }


def _estimated(
    planned: Planned, scored: Scored, estimator: Estimator, normaliser: Normaliser
) -> Attribution:
    estimate = estimator.attribute(
        scored.coalitions, scored.payoffs, planned.n_coalitions, planned.seed
    )
    values, reason = normaliser.normalise(estimate.values)
    points = convergence(
        estimator,
        scored.coalitions,
        scored.payoffs,
        planned.n_coalitions,
        planned.seed,
        estimate,
    )
    n_present = scored.coalitions.sum(axis=1)
    base_value = float(scored.payoffs[np.argmin(n_present)])
    grand_value = float(scored.payoffs[np.argmax(n_present)])
    errors = estimate.standard_errors
    return {
        "values": None if values is None else values.tolist(),
        "values_reason": reason or None,
        "raw_values": estimate.values.tolist(),
        "standard_errors": None if errors is None else errors.tolist(),
        "standard_errors_reason": estimate.se_reason or None,
        "base_value": base_value,
        "grand_value": grand_value,
        "efficiency_residual": float(estimate.values.sum()) - (grand_value - base_value),
        "faithfulness": curves(scored.coalitions, scored.payoffs, estimate.values),
        "convergence": [point.as_row() for point in points],
        "notes": [*estimate.notes, *_notes(planned, scored)],
    }


def _undefined(planned: Planned, reason: str) -> Attribution:
    n = len(planned.players)
    points = [{"k": k, "payoff": None} for k in range(n + 1)]
    curve = {"points": points, "coverage": 0.0, "area": None, "reason": reason}
    budgets = unknown(n, planned.n_coalitions, reason)
    return {
        "values": None,
        "values_reason": reason,
        "raw_values": None,
        "standard_errors": None,
        "standard_errors_reason": reason,
        "base_value": None,
        "grand_value": None,
        "efficiency_residual": None,
        "faithfulness": {"deletion": curve, "insertion": curve},
        "convergence": [point.as_row() for point in budgets],
        "notes": [reason],
    }


def _manifest(view: AggregateView, run: Mapping[str, object]) -> dict[str, object]:
    return {
        "input": dict(view.manifest.input),
        "backend": {
            "name": run["backend"],
            "model": run["model"],
            "identity": run["identity"],
        },
        "settings_digest": view.manifest.settings_digest,
        "seed": view.seed,
        "quorum": quorum.__version__,
    }


def _noise(scored: Scored) -> dict[str, object] | None:
    if scored.noise is not None and len(scored.noise) > 1:
        spread = float(np.std(scored.noise, ddof=1))
        return {"n_repeats": len(scored.noise), "payoff_sd": spread}
    known = scored.spreads[~np.isnan(scored.spreads)]
    if len(known):
        pooled = math.sqrt(float(np.mean(known**2)))
        return {"n_repeats": scored.n_samples, "payoff_sd": pooled}
    return None


def _notes(planned: Planned, scored: Scored) -> list[str]:
    notes = []
    if planned.coarsened_from is not None:
        notes.append(
            f"{planned.coarsened_from} gave too many players: {planned.partitioner} instead"
        )
    if planned.binding == "max_coalitions":
        notes.append("budget.max_coalitions limits the coalitions, not budget.fraction")
    if scored.finish_reason == "length":
        notes.append("the base generation was cut at generation.max_tokens")
    if scored.finish_reason == "refusal":
        notes.append("the model refused the whole prompt: values explain the refusal")
    return notes


def run_facts(plan: Plan, view: AggregateView, model: Mapping[str, object]) -> dict[str, object]:
    """What the index page tells about the run."""
    notes = [f"skipped {name}: {why}" for name, why in sorted(plan.skipped.items())]
    return {
        "title": f"Attribution: {view.manifest.input['title']}",
        "run_id": run_id(plan, view, model),
        "notes": notes,
        **_manifest(view, {"run_id": "", **model}),
    }


def replies(scored: Mapping[str, Scored]) -> dict[str, dict[str, object]]:
    """What the pages show of masked generations, by snapshot."""
    return {
        name: {"shown": as_rows(one.masked), "n_masked": one.n_masked, "n_samples": one.n_samples}
        for name, one in scored.items()
    }


def metric_records(attributions: Sequence[Attribution], settings: str) -> list[dict[str, object]]:
    """All metrics of a run, each with its snapshot, unit, coverage and settings digest."""
    records: list[dict[str, object]] = []

    def add(name: str, source: Attribution, value: object, unit: str, **more: object) -> None:
        row = {"metric": name, "snapshot": source["snapshot"], "value": value, "unit": unit}
        records.append({**row, "coverage": 1.0, "reason": None, **more, "settings": settings})

    for source in attributions:
        for name in ("base_value", "grand_value", "efficiency_residual"):
            why = source["values_reason"] if source[name] is None else None
            add(name, source, source[name], "payoff", reason=why)
        errors = cast("list[float] | None", source["standard_errors"])
        mean_error = fmean(errors) if errors else None
        reason = None if errors else source["standard_errors_reason"]
        add("mean_standard_error", source, mean_error, "payoff", reason=reason)
        faithfulness = cast("dict[str, dict[str, object]]", source["faithfulness"])
        for name, curve in sorted(faithfulness.items()):
            add(
                f"{name}_area",
                source,
                curve["area"],
                "payoff",
                coverage=curve["coverage"],
                reason=curve["reason"],
            )
    return records


def scalars(attributions: Sequence[Attribution]) -> dict[str, object]:
    """What ``dvc exp show`` shows: at most eight numbers that the result rests on.

    Means are over the snapshots (standard errors: over all players) that have the number, null
    where none has.
    """
    known = [a for a in attributions if a["raw_values"] is not None]
    errors = [e for a in known for e in cast("list[float]", a["standard_errors"] or [])]
    spans = [cast("float", a["grand_value"]) - cast("float", a["base_value"]) for a in known]
    residuals = [abs(cast("float", a["efficiency_residual"])) for a in known]
    return {
        "n_snapshots": len(attributions),
        "n_coalitions": sum(cast("int", a["n_coalitions"]) for a in attributions),
        "mean_payoff_span": fmean(spans) if spans else None,
        "mean_standard_error": fmean(errors) if errors else None,
        "max_residual": max(residuals, default=None),
    }


def _write_report(
    attributions: Sequence[Attribution],
    plan: Plan,
    view: AggregateView,
    n_requests: int,
    root: Path,
) -> None:
    folder = root / artifacts.REPORT
    records = metric_records(attributions, view.manifest.settings_digest[:12])
    metrics = {
        "run": {"settings": view.manifest.settings_digest[:12], "n_skipped": len(plan.skipped)},
        "attribution": {**scalars(attributions), "n_requests": n_requests},
        "records": records,
    }
    artifacts.write_text(folder / "metrics.json", artifacts.json_text(metrics))
    # beside the tables: DVC would read a CSV file among its metrics as YAML
    table = artifacts.csv_text(METRIC_COLUMNS, records)
    artifacts.write_text(root / artifacts.AGGREGATE / "metrics.csv", table)
    plot_folder = artifacts.fresh_folder(folder / "plots")
    for name, (columns, rows) in PLOTS.items():
        text = tables.csv_text(columns, rows(attributions))
        artifacts.write_text(plot_folder / f"{name}.csv", text)


def _write_log(
    plan: Plan,
    view: AggregateView,
    model: Mapping[str, object],
    attributions: Sequence[Attribution],
    folder: Path,
) -> None:
    record = {
        "run_id": run_id(plan, view, model),
        "study": view.study,
        "snapshots": {p.id: p.snapshot.digest for p in plan.snapshots},
        "skipped": dict(plan.skipped),
        "model": dict(model),
        "policies": {"absence": view.absence, "reference": view.reference, "value": view.value},
        "n_attributions": len(attributions),
        "stop_reason": "complete",
    }
    write_record(folder, record, view.manifest, view.resolved)
