"""diagnostics.json: all that the pages of a reconstruction show, as JSON-able values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING

from quorum.config.reconstruction_views import ScoreView
from quorum.pipeline.reconstruction.fitting import Fitted
from quorum.pipeline.reconstruction.panel import MIN_CELL, modes_of
from quorum.reconstruction.position import Shown, position_audit

if TYPE_CHECKING:
    from quorum.pipeline.reconstruction.score import Scored

SCHEMA = 1
Row = dict[str, object]

LABELS = {
    "panel": "Real people's answers, weighted to match a population's shares. No line stands for a "
    "single person.",
    "embedded": "Negative control: the embedded model's answers mostly follow the place of an "
    "option on the list. They are model-generated and nobody's opinions.",
    "model": "Model-generated answers, weighted to match a population's shares. They are not "
    "answers of people.",
}


def diagnostics(scored: Scored, view: ScoreView) -> Row:
    """What the interface of the pages wants, but for what describes the survey."""
    pool = scored.pool
    backend = str(pool.facts["backend"])
    label = "panel" if pool.is_panel else backend if backend in LABELS else "model"
    split = scored.split
    return {
        "schema": SCHEMA,
        "study": "reconstruction",
        "respondents": pool.facts["respondents"],
        "label": LABELS[label],
        "model": {key: pool.facts[key] for key in ("backend", "model", "identity")},
        "n_requests": scored.n_requests,
        "policy": view.policies[0],
        "level": view.level,
        "seed": view.seed,
        "split": {
            "by": split["by"],
            "train_share": split["train_share"],
            "n_train": split["n_train"],
            "n_test": split["n_test"],
            "largest_similarity": split["largest_similarity"],
            "pair": split["pair"],
            "test": view.test,
        },
        "cleaning": _cleaning(scored),
        "elicitation": _elicitation(scored, view),
        "rules": _rules(scored),
        "targets": [_target(fitted, view) for fitted in scored.fits],
        "personas": None if pool.is_panel else _personas(scored),
        "cells": _cells(scored) if pool.is_panel else None,
        "position_bias": _position_bias(scored),
        "entropy": dict(pool.entropy),
        "mode_summary": _mode_summary(scored),
        "stop_reason": pool.facts["stop_reason"],
        "notes": _notes(scored),
    }


def _cleaning(scored: Scored) -> Row:
    cleaned = scored.sheet.cleaned
    return {
        "policy": cleaned.policy,
        "counts": [dict(row) for row in cleaned.counts],
        "n_personas": len(scored.answers),
        "n_personas_kept": len(scored.sheet.personas),
        "n_questions_dropped": len(scored.questions) - len(scored.sheet.questions),
    }


def _elicitation(scored: Scored, view: ScoreView) -> Row:
    masses = [
        answer.mass
        for found in scored.answers.values()
        for answer in found.values()
        if answer.mass is not None
    ]
    options = view.elicitation.options
    return {
        "name": view.elicitation.name,
        "orders": options.get("orders"),
        "calibration": options.get("calibration", "none"),
        "mean_mass": fmean(masses) if masses else None,
    }


def _rules(scored: Scored) -> list[Row]:
    """By which rule replies were read, and why some could not be."""
    counts = Counter(
        reading.rule or str(reading.reason)
        for found in scored.answers.values()
        for answer in found.values()
        for reading in answer.readings
    )
    return [{"rule": rule, "n": n} for rule, n in sorted(counts.items())]


def _target(fitted: Fitted, view: ScoreView) -> Row:
    found, evaluation = fitted.found, fitted.evaluation
    fit, solver = found.fit, found.fit.solver
    labels = {name: q.options for name, q in fitted.questions.items()}
    return {
        "target": fitted.name,
        "fit": {
            "ensemble": view.weighting.ensemble.name,
            "anchor": fit.anchor,
            "lam": fit.lam,
            "lam_rule": _rule(view),
            "unit": view.weighting.ensemble.options.get("unit"),
            "mass": fit.mass,
            "n_active": int((fit.weights != 0).sum()),
            "effective_size": solver.effective_size,
            "max_weight": float(fit.weights.max()),
            "intercept": fit.intercept,
            "reference": fit.reference,
            "solver": {
                key: value
                for key, value in asdict(solver).items()
                if key not in {"n_active", "effective_size"}
            },
            "cv": [dict(row) for row in fit.curve],
        },
        "questions": fitted.question_rows(),
        "records": fitted.records(),
        "paired": fitted.paired(),
        "interval_coverage": dict(evaluation.interval_coverage),
        "noise_floor": evaluation.noise_floor,
        "noise_floor_reason": evaluation.noise_floor_reason,
        "uncovered": [
            {**row, "option": labels[str(row["question"])][int(str(row["option"]))].label}
            for row in map(dict, evaluation.uncovered)
        ],
        "misfit": [dict(row) for row in evaluation.misfit],
    }


def _rule(view: ScoreView) -> str | None:
    lam = view.weighting.ensemble.options.get("lam")
    if lam != "cv":
        return None if lam is None else "given"
    return "cv, one standard error" if view.weighting.ensemble.options.get("one_se") else "cv"


def _personas(scored: Scored) -> list[Row]:
    """Personas with weight for any target."""
    by_id = {p.id: p for p in scored.pool.personas}
    rows: list[Row] = []
    for column, persona in enumerate(scored.sheet.personas):
        weights = {f.name: float(f.weights[column]) for f in scored.fits}
        if any(weights.values()):
            made = by_id[persona]
            text = scored.pool.text(made)
            rows.append({"id": persona, "mode": made.mode, "text": text, "weights": weights})
    return rows


def _cells(scored: Scored) -> list[Row]:
    """People by attribute and value: counts and weights of groups of at least ten."""
    column = {persona: i for i, persona in enumerate(scored.sheet.personas)}
    members: dict[tuple[str, str], list[int]] = {}
    for person in scored.pool.personas:
        if person.id in column:
            for pair in person.attributes:
                members.setdefault(pair, []).append(column[person.id])
    labels = {attribute.id: attribute.label for attribute in scored.pool.bank.attributes}
    return [
        {
            "attribute": labels[attribute],
            "value": value,
            "n": len(found),
            "share": len(found) / len(column),
            "weights": {f.name: float(f.weights[found].sum()) for f in scored.fits},
        }
        for (attribute, value), found in sorted(members.items())
        if len(found) >= MIN_CELL
    ]


def _position_bias(scored: Scored) -> Row | None:
    """The audit; null where people answered: the places were not theirs."""
    if scored.pool.is_panel:
        return None
    shown = (
        Shown(persona, question, reading.order, reading.shown)
        for persona, found in scored.answers.items()
        for question, answer in found.items()
        for reading in answer.readings
        if reading.shown is not None
    )
    return position_audit(shown)


def _mode_summary(scored: Scored) -> list[Row]:
    """Modes with the weight that their personas have for the first target."""
    pool = scored.pool
    weights = dict(zip(scored.sheet.personas, map(float, scored.fits[0].weights), strict=True))
    members: dict[str, list[str]] = {}
    for persona in pool.personas:
        members.setdefault(persona.mode, []).append(persona.id)
    if pool.is_panel:
        members = modes_of(pool.personas)
    return [
        {**row, "total_weight": sum(weights.get(p, 0.0) for p in members[str(row["mode"])])}
        for row in pool.summary
    ]


def _notes(scored: Scored) -> list[str]:
    notes = [str(note) for note in _texts(scored.split)]
    notes += [f"{f.name}: {note}" for f in scored.fits for note in f.found.fit.notes]
    if scored.pool.facts["stop_reason"] == "cap":
        n_left_out = len(scored.pool.personas) - len(scored.answers)
        notes.append(f"A cap ended the run: {n_left_out} personas without test answers left out.")
    if not scored.asked_all:
        notes.append("Test questions were asked of the personas with weight only.")
    return notes


def _texts(split: Mapping[str, object]) -> list[object]:
    notes = split["notes"]
    assert isinstance(notes, list)
    return notes
