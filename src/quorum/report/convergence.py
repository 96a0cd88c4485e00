"""Values over the budget: a chart with a line a player, and a table of the highest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from quorum.report.charts import Scale, decimal, digits_for, ticks
from quorum.report.document import Attribution, BudgetPoint
from quorum.report.escape import visible_label, visible_text

View = dict[str, object]

MAX_NAMED = 8  # lines with a colour, a number and a row of the table
WIDTH, HEIGHT = 480.0, 260.0
_LEFT, _TOP, _BOTTOM = 54.0, 12.0, 42.0
_STEP = 10.0  # between the intervals of two named players, right of the lines
_GAP = 18.0  # between the lines and the first interval


def convergence_view(attribution: Attribution) -> View | None:
    """What the page shows of the values at each budget; None where nothing was recorded.

    Keys: ``chart`` (None below two budgets with values), ``heads``, ``rows`` (number, player,
    cells) and ``reasons``.
    """
    points = attribution.convergence
    if not points:
        return None
    named = _named(attribution)
    known = [point for point in points if None not in point.values]
    values = [point.values[index] for point in known for index in named]
    digits = digits_for(values)
    return {
        "chart": _chart(attribution, named, points) if len(known) > 1 and named else None,
        "heads": [f"{point.budget:,}" for point in points],
        "rows": [
            {
                "number": number,
                "player": visible_label(attribution.players[index].text, limit=40),
                "cells": [_cell(point, index, digits) for point in points],
            }
            for number, index in enumerate(named, start=1)
        ]
        if known
        else [],
        "n_rest": attribution.n_players - len(named),
        "reasons": _reasons(points),
        "is_single": len(points) == 1,
    }


def _named(attribution: Attribution) -> list[int]:
    """The players with the largest magnitudes of the final value, at most eight."""
    raw = attribution.raw_values
    known = [index for index in range(attribution.n_players) if raw[index] is not None]
    return sorted(known, key=lambda i: (-abs(raw[i] or 0.0), i))[:MAX_NAMED]


def _cell(point: BudgetPoint, index: int, digits: int) -> tuple[str, str]:
    value, error = point.values[index], point.standard_errors[index]
    if value is None:
        return "n/a", ""
    shown = decimal(value, digits, signed=True)
    return shown, "" if error is None else f"± {decimal(error, digits)}"


def _reasons(points: Sequence[BudgetPoint]) -> list[str]:
    """Each reason once, with the budgets where values, or only their errors, are missing."""
    found: dict[tuple[str, str], list[str]] = {}
    for point in points:
        if None in point.values or None in point.standard_errors:
            what = "values" if None in point.values else "standard errors"
            reason = visible_text(point.reason) or "no reason was recorded"
            found.setdefault((what, reason), []).append(f"{point.budget:,}")
    return [
        f"No {what} with a budget of {', '.join(budgets)}: {reason}."
        for (what, reason), budgets in found.items()
    ]


def _chart(attribution: Attribution, named: Sequence[int], points: Sequence[BudgetPoint]) -> View:
    """Coordinates: lines of the named players, one path for the others, final intervals."""
    intervals = [attribution.interval(index) for index in named]
    ends = [end for interval in intervals for end in interval or ()]
    values = [value for point in points for value in point.values if value is not None]
    low, high = min([0.0, *values, *ends]), max([0.0, *values, *ends])
    margin = 0.05 * (high - low) or 0.5
    y = Scale(low - margin, high + margin, HEIGHT - _BOTTOM, _TOP)
    right = WIDTH - 8.0 - (_GAP + _STEP * (len(named) - 1) if ends else 0.0)
    places = [math.log2(point.budget) for point in points]
    x = Scale(places[0], places[-1], _LEFT, right)
    xs = [x.at(place) for place in places]
    others = [index for index in range(attribution.n_players) if index not in named]
    marks = ticks(y.low, y.high)
    decimals = max(0, digits_for([marks[-1] - marks[0]]) - 2) if len(marks) > 1 else 3
    columns = [right + _GAP + _STEP * number for number in range(len(named))]
    return {
        "others": "".join(_line(points, index, xs, y) for index in others),
        "lines": [_line(points, index, xs, y) for index in named],
        "dots": [_dots(points, index, xs, y) for index in named],
        "intervals": [
            (str(number), f"{column:g}", f"M{column:g} {y.at(ends[0])}V{y.at(ends[1])}")
            for number, (column, ends) in enumerate(zip(columns, intervals, strict=True), start=1)
            if ends is not None
        ],
        "right": f"{right:g}",
        "zero": y.at(0.0),
        "x_ticks": _budget_ticks(points, xs),
        "y_ticks": [(y.at(mark), decimal(mark, decimals)) for mark in marks],
    }


def _budget_ticks(points: Sequence[BudgetPoint], xs: Sequence[str]) -> list[tuple[str, str]]:
    """Every budget as a tick; a label that would touch the one right of it is left out."""
    found: list[tuple[str, str]] = []
    limit = math.inf
    for point, place in reversed(list(zip(points, xs, strict=True))):
        is_free = float(place) <= limit
        found.append((place, f"{point.budget:,}" if is_free else ""))
        limit = float(place) - 34.0 if is_free else limit
    return found[::-1]


def _runs(
    points: Sequence[BudgetPoint], index: int, xs: Sequence[str], y: Scale
) -> list[list[str]]:
    runs: list[list[str]] = [[]]
    for point, place in zip(points, xs, strict=True):
        value = point.values[index]
        if value is None:
            runs.append([])
        else:
            runs[-1].append(f"{place} {y.at(value)}")
    return [run for run in runs if run]


def _line(points: Sequence[BudgetPoint], index: int, xs: Sequence[str], y: Scale) -> str:
    return "".join("M" + "L".join(run) for run in _runs(points, index, xs, y) if run[1:])


def _dots(points: Sequence[BudgetPoint], index: int, xs: Sequence[str], y: Scale) -> str:
    return "".join(f"M{place}h0" for run in _runs(points, index, xs, y) for place in run)
