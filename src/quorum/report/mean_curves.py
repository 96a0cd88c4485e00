"""Deletion and insertion curves of a run: the mean over its snapshots, at tenths of the players."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from quorum.report.charts import curve_chart, decimal, digits_for
from quorum.report.document import Attribution, Curve
from quorum.report.views import CURVES

View = dict[str, object]

STEPS = 10  # shares 0, 10, …, 100 %


def mean_curves_view(read: Sequence[Attribution]) -> View | None:
    """Both mean curves, over the snapshots whose curve has an area; None for a single snapshot.

    A curve has an area where enough of its points were paid for. Keys: ``curves`` (title, axis,
    chart, points, how many snapshots), ``lacking`` (what cannot be shown, a sentence each).
    """
    if len(read) < 2:
        return None
    views: list[View] = []
    lacking: list[str] = []
    for name, title, axis in CURVES:
        usable = [c for item in read if (c := item.curves.get(name)) and c.area is not None]
        if len(usable) < 2:
            count = f"{len(usable)} of {len(read)} snapshots have"
            lacking.append(f"{title}: {count} a curve with an area, a mean needs two.")
            continue
        each = [_tenths(curve) for curve in usable]
        means = [fmean(payoffs) for payoffs in zip(*each, strict=True)]
        digits = digits_for(means)
        points = [(100 * step // STEPS, mean) for step, mean in enumerate(means)]
        areas = [curve.area for curve in usable if curve.area is not None]
        views.append(
            {
                "title": title,
                "axis": f"{axis}, %",
                "n": f"{len(usable)} of {len(read)} snapshots",
                "area": decimal(fmean(areas), digits_for(areas)),
                "chart": curve_chart(Curve(tuple(points), None, None)),
                "points": [(k, decimal(mean, digits)) for k, mean in points],
            }
        )
    return {"curves": views, "lacking": lacking}


def _tenths(curve: Curve) -> list[float]:
    """Payoffs at shares 0, 0.1, …, 1 of the players, straight across what was not paid for."""
    n = len(curve.points) - 1
    known = [(k, payoff) for k, payoff in curve.points if payoff is not None]
    found = []
    for step in range(STEPS + 1):
        place = n * step / STEPS
        left = max((point for point in known if point[0] <= place), default=known[0])
        right = min((point for point in known if point[0] >= place), default=known[-1])
        width = right[0] - left[0]
        weight = (place - left[0]) / width if width else 0.0
        found.append(left[1] + weight * (right[1] - left[1]))
    return found
