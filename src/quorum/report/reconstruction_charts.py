"""Geometry of a reconstruction's charts: scatter, lines, intervals, one path for many points.

Coordinates are texts to a tenth of a unit, as in ``charts``. A point is a line without length
under a round cap: nine bytes instead of a circle's fifty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from quorum.report.charts import Scale, decimal, digits_for, ticks
from quorum.report.reconstruction_records import CvPoint, Paired, Question

View = dict[str, object]
Points = Sequence[tuple[float, float | None]]

WIDTH, HEIGHT = 400.0, 260.0
SQUARE = 340.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 12.0, 12.0, 42.0
_EMPTY: View = {"series": [], "x_ticks": [], "y_ticks": [], "error": "", "chosen": ""}


def scatter(questions: Iterable[Question], policy: str) -> View:
    """Predicted against target share, training and test apart; a test point has its interval.

    Keys: ``train``, ``test``, ``error`` (paths; empty where nothing is known), ``diagonal``,
    ``x_ticks``, ``y_ticks`` (position, text), ``n_train`` and ``n_test`` (points).
    """
    points: dict[str, list[tuple[float, float]]] = {"train": [], "test": []}
    intervals: list[tuple[float, float, float]] = []
    for question in questions:
        for option in question.options:
            predicted = option.predicted.get(policy)
            if option.target is None or predicted is None:
                continue
            points[question.split].append((option.target, predicted))
            if question.split == "test" and option.low is not None and option.high is not None:
                intervals.append((option.target, option.low, option.high))
    both = points["train"] + points["test"]
    # Predictions of policy raw may leave 0..1; both axes have one scale, so that closeness shows.
    low = min([0.0, *(value for point in both for value in point)])
    high = max([0.2, *(value for point in both for value in point)])
    margin = 0.03 * (high - low)
    x = Scale(low - margin, high + margin, _LEFT, SQUARE - _RIGHT)
    y = Scale(low - margin, high + margin, SQUARE - _BOTTOM, _TOP)
    marks = [(mark, f"{100 * mark:.0f}") for mark in ticks(low, high, 5)]
    return {
        "train": "".join(f"M{x.at(t)} {y.at(p)}h0" for t, p in points["train"]),
        "test": "".join(f"M{x.at(t)} {y.at(p)}h0" for t, p in points["test"]),
        "error": "".join(
            f"M{x.at(t)} {y.at(max(a, y.low))}V{y.at(min(b, y.high))}" for t, a, b in intervals
        ),
        "diagonal": f"M{x.at(x.low)} {y.at(y.low)}L{x.at(x.high)} {y.at(y.high)}",
        "x_ticks": [(x.at(mark), text.replace("-", "−")) for mark, text in marks],
        "y_ticks": [(y.at(mark), text.replace("-", "−")) for mark, text in marks],
        "n_train": len(points["train"]),
        "n_test": len(points["test"]),
    }


def lines_chart(series: Sequence[tuple[str, Points]]) -> View:
    """Several lines over whole numbers (rounds): gaps where a value is None.

    Keys: ``series`` (name, path of lines, path of dots), ``x_ticks``, ``y_ticks``; ``error`` and
    ``chosen`` are empty.
    """
    values = [value for _, points in series for _, value in points if value is not None]
    if not values:
        return dict(_EMPTY)
    low, high = min(values), max(values)
    margin = 0.06 * (high - low) or 0.05
    places = [x for _, points in series for x, _ in points]
    first, last = min(places), max(places)
    if last == first:
        first, last = first - 1, last + 1
    x = Scale(first, last, _LEFT, WIDTH - _RIGHT)
    y = Scale(low - margin, high + margin, HEIGHT - _BOTTOM, _TOP)
    whole = [mark for mark in ticks(first, last, 6) if mark == round(mark)]
    return {
        **_EMPTY,
        "series": [(name, _line(points, x, y), _dots(points, x, y)) for name, points in series],
        "x_ticks": [(x.at(mark), str(round(mark))) for mark in whole],
        "y_ticks": _y_ticks(y),
    }


def cv_chart(points: Sequence[CvPoint]) -> View:
    """Mean squared error over λ on a logarithmic axis, a line an anchor, error bars of ± 1 SE.

    λ = 0 stands a decade left of the smallest other one. Keys as in ``lines_chart``;
    ``error`` and ``chosen`` are paths.
    """
    known = [(p, p.lam, p.mse) for p in points if p.mse is not None and p.lam is not None]
    if not known:
        return dict(_EMPTY)
    powers = {lam: math.log10(lam) for _, lam, _ in known if lam > 0.0}
    zero = math.floor(min(powers.values(), default=0.0)) - 1.0
    places = {lam: powers.get(lam, zero) for _, lam, _ in known}
    ends = [m + sign * (p.se or 0.0) for p, _, m in known for sign in (-1, 1)]
    margin = 0.05 * (max(ends) - min(ends)) or 0.05 * max(ends) or 0.05
    y = Scale(min(ends) - margin, max(ends) + margin, HEIGHT - _BOTTOM, _TOP)
    first, last = min(places.values()), max(places.values())
    x = Scale(first - 0.25, last + 0.25, _LEFT, WIDTH - _RIGHT)
    anchors = list(dict.fromkeys(point.anchor for point, _, _ in known))
    series: list[tuple[str, str, str]] = []
    for anchor in anchors:
        line = sorted((places[lam], m) for p, lam, m in known if p.anchor == anchor)
        series.append((anchor or "fit", _line(line, x, y), _dots(line, x, y)))
    whole = range(math.ceil(min(powers.values(), default=0.0)), math.floor(last) + 1)
    step = max(1, math.ceil(len(whole) / 6))
    x_ticks = [(x.at(k), "1" if k == 0 else f"1e{k}".replace("-", "−")) for k in whole[::step]]
    return {
        "series": series,
        "x_ticks": ([(x.at(zero), "0")] if 0.0 in places else []) + x_ticks,
        "y_ticks": _y_ticks(y),
        "error": "".join(
            f"M{x.at(places[lam])} {y.at(m - p.se)}V{y.at(m + p.se)}" for p, lam, m in known if p.se
        ),
        "chosen": "".join(
            f"M{x.at(places[lam])} {y.at(m)}h0" for p, lam, m in known if p.is_chosen
        ),
    }


def sparkline(values: Sequence[float | None]) -> str:
    """The path of entropies 0..1 in a box of 100 × 20; a gap where a value is None."""
    x = Scale(0.0, max(1.0, len(values) - 1.0), 1.0, 99.0)
    return _line(list(enumerate(values)), x, Scale(0.0, 1.0, 19.0, 1.0))


def forest_scale(rows: Iterable[Paired]) -> Scale:
    """The common scale of differences and their intervals, 0 within, on 0..1000."""
    ends = [0.0]
    for row in rows:
        ends += [end for end in (row.difference, row.low, row.high) if end is not None]
    margin = 0.04 * (max(ends) - min(ends)) or 1.0
    return Scale(min(ends) - margin, max(ends) + margin, 0.0, 1000.0)


def forest(scale: Scale, row: Paired) -> View:
    """A difference as a dot with its interval: ``zero``, ``dot`` and ``error`` (paths)."""
    if row.difference is None:
        return {"zero": scale.at(0.0), "dot": "", "error": ""}
    error = ""
    if row.low is not None and row.high is not None:
        low, high = scale.at(row.low), scale.at(row.high)
        error = f"M{low} 10H{high}M{low} 6V14M{high} 6V14"
    return {"zero": scale.at(0.0), "dot": f"M{scale.at(row.difference)} 10h0", "error": error}


def _line(points: Points, x: Scale, y: Scale) -> str:
    path, is_open = "", False
    for place, value in points:
        if value is not None:
            path += f"{'L' if is_open else 'M'}{x.at(place)} {y.at(value)}"
        is_open = value is not None
    return path


def _dots(points: Points, x: Scale, y: Scale) -> str:
    return "".join(f"M{x.at(place)} {y.at(v)}h0" for place, v in points if v is not None)


def _y_ticks(y: Scale) -> list[tuple[str, str]]:
    marks = ticks(y.low, y.high, 5)
    step = marks[1] - marks[0] if len(marks) > 1 else y.high - y.low
    digits = max(0, digits_for([step]) - 3)
    return [(y.at(mark), decimal(mark, digits)) for mark in marks]
