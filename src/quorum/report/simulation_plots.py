"""Rows for DVC's plots of a sweep: the same lines with their intervals as on the page."""

from __future__ import annotations

from collections.abc import Mapping

from quorum.report.simulation_series import figure, log10_or_none
from quorum.report.tables import Cell

SERIES_COLUMNS = ("panel", "series", "axis", "x", "mean", "low", "high", "log10_mean", "n")


def series_rows(
    summary: Mapping[str, object], shown: Mapping[str, object]
) -> list[dict[str, Cell]]:
    """A row a point, columns SERIES_COLUMNS; ``log10_mean`` is null where the mean is 0 or less.

    Raises:
        InputError: The object is not the summary of a sweep.
    """
    found = figure(summary, shown)
    return [
        {
            "panel": panel.name,
            "series": series.name,
            "axis": found.axis,
            "x": found.labels[point.place],
            "mean": point.mean,
            "low": point.low,
            "high": point.high,
            "log10_mean": log10_or_none(point.mean),
            "n": point.n,
        }
        for panel in found.panels
        for series in panel.series
        for point in series.points
    ]
