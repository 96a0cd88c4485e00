"""The target × metric table: a row a target, everything that compares targets in columns."""

from __future__ import annotations

from collections.abc import Sequence

from quorum.report.charts import Scale, decimal, percent
from quorum.report.escape import visible_label, visible_text
from quorum.report.reconstruction_charts import View, forest
from quorum.report.reconstruction_records import Diagnostics, Paired, Target
from quorum.report.reconstruction_texts import SOURCES, VERDICTS, Reasons, row_digits
from quorum.report.reconstruction_views import cv_mse, lead, pick

Cell = tuple[float | None, str]  # the number to sort by, the text


def overview_rows(diagnostics: Diagnostics, scale: Scale) -> View:
    """The target × metric table: differences first, then errors with baselines, then the fit.

    Keys: ``heads`` (name, unit), ``rows`` (pairs and cells, each with the number to sort by, None
    where there is none) and ``reasons``.
    """
    reasons = Reasons()
    places = row_digits(row.difference for target in diagnostics.targets for row in lead(target))
    rows = [
        {
            "index": index,
            "name": _name_parts(target.name),
            "pairs": [
                _overview_pair(lead(target), name, scale, places)
                for name in ("pool_mean", "uniform")
            ],
            "cells": _overview_cells(target, diagnostics.policy, reasons),
        }
        for index, target in enumerate(diagnostics.targets, start=1)
    ]
    heads = [("cv_mse", "squared share"), ("test_mse", "squared share")]
    heads += [(SOURCES[name], "squared share") for name in list(SOURCES)[1:]]
    heads += [("Total variation", "share"), ("Modal accuracy", "% of questions")]
    heads += [(f"In {percent(diagnostics.level)} interval", "% of test options")]
    heads += [("Active", "weights above 0"), ("Effective size", "Kish"), ("Mass", "sum of weights")]
    return {"heads": heads, "rows": rows, "reasons": reasons.lines()}


def _overview_cells(target: Target, policy: str, reasons: Reasons) -> list[Cell]:
    """A target's errors beside the baselines, other metrics of the fit, what the fit rests on."""
    values, why = [cv_mse(target, policy)], ["not recorded"]
    for source in SOURCES:
        record = pick(target, "mse", "test", source, policy)
        values.append(None if record is None else record.value)
        why.append("not recorded" if record is None else record.reason)
    digits = row_digits(values)
    errors = [(v, reasons.shown(v, digits, r)) for v, r in zip(values, why, strict=True)]
    distance, modal = (
        pick(target, metric, "test", "fit", policy)
        for metric in ("total_variation", "modal_accuracy")
    )
    far = None if distance is None else distance.value
    far_reason = "not recorded" if distance is None else distance.reason
    return [
        *errors,
        (far, reasons.shown(far, 3, far_reason)),
        _share_cell(
            None if modal is None else modal.value,
            "not recorded" if modal is None else modal.reason,
            reasons,
        ),
        _share_cell(target.test_coverage, target.coverage_reason, reasons),
        _plain(target, "n_active", 0),
        _plain(target, "effective_size", 1),
        _plain(target, "mass", 3),
    ]


def _share_cell(value: float | None, reason: str, reasons: Reasons) -> Cell:
    return value, reasons.missing(reason) if value is None else percent(value)


def _plain(target: Target, name: str, digits: int) -> Cell:
    value = target.fit.get(name)
    if not isinstance(value, (int, float)):
        return None, "n/a"
    return float(value), decimal(float(value), digits)


def _name_parts(name: str) -> list[str]:
    """A target's name as one piece, or cut behind its ``=``, where a line may break."""
    shown = visible_label(name)
    head, sign, tail = shown.partition("=")
    return [head + sign, tail] if sign else [shown]


def _overview_pair(rows: Sequence[Paired], against: str, scale: Scale, digits: int) -> View:
    row = next((row for row in rows if row.against == against), None)
    if row is None or row.difference is None:
        reason = visible_text(row.reason) if row else "not recorded"
        return {"text": f"n/a: {reason}", "sign": "none", "chart": None, "sort": None}
    sign = {"closer": "pos", "further": "neg"}.get(row.verdict(), "none")
    return {
        "text": decimal(row.difference, digits, signed=True),
        "interval": "" if row.low is None or row.high is None else _ends(row.low, row.high, digits),
        "verdict": VERDICTS[row.verdict()],
        "sign": sign,
        "chart": forest(scale, row),
        "sort": row.difference,
    }


def _ends(low: float, high: float, digits: int) -> str:
    return f"[{decimal(low, digits, signed=True)}, {decimal(high, digits, signed=True)}]"
