"""From the summary of a sweep to what its charts show: panels, lines, points with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from quorum.errors import InputError
from quorum.report.document import integer, number, records, table, texts

MAX_SERIES = 6  # as many shapes and colours as can be told apart
MAX_PANELS = 24


@dataclass(frozen=True, slots=True)
class Point:
    """A mean over replicates.

    Args:
        place: Position along the axis, from 0.
        mean: None where no replicate has a value.
        low: Lower end of its interval; None where there is none.
        high: Upper end.
        n: Replicates with a value.
    """

    place: int
    mean: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a panel; a baseline is one that no part of the sweep made."""

    name: str
    points: tuple[Point, ...]
    is_baseline: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of the small multiples."""

    name: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """All charts of a sweep.

    Args:
        metric: What is shown.
        is_log: Whether its axis is logarithmic.
        axis: The parameter along the axis; empty where none varies.
        labels: Its values.
        series: Names of the lines, baselines last.
        panels: The charts.
        n_hidden: Lines and panels that only the table shows.
    """

    metric: str
    is_log: bool
    axis: str
    labels: tuple[str, ...]
    series: tuple[str, ...]
    panels: tuple[Panel, ...]
    n_hidden: int


@dataclass(frozen=True, slots=True)
class CellRow:
    """A cell of the sweep: what it varies, and the statistics of each metric."""

    cell: str
    varied: Mapping[str, str]
    metrics: Mapping[str, Mapping[str, object]]


def read_cells(summary: Mapping[str, object]) -> list[CellRow]:
    """The cells of ``simulation_summary.json``.

    Raises:
        InputError: The object is not the summary of a sweep.
    """
    found = []
    for item in records(summary, "cells"):
        varied = {key: str(value) for key, value in table(item, "varied").items()}
        metrics = {name: table(table(item, "metrics"), name) for name in table(item, "metrics")}
        found.append(CellRow(str(item.get("cell")), varied, metrics))
    if not found:
        raise InputError("simulation_summary", "has no cell")
    return found


def figure(summary: Mapping[str, object], shown: Mapping[str, object]) -> Figure:
    """What the charts show.

    Args:
        summary: The object of ``simulation_summary.json``.
        shown: ``headline`` (metric), ``is_log``, ``baselines`` (metrics), ``across`` (parameters
            that go along the axis, the first that varies), ``marks`` (the parameter of the lines).

    Raises:
        InputError: The object is not the summary of a sweep, or lacks the metric.
    """
    cells = read_cells(summary)
    metric = str(shown["headline"])
    if metric not in cells[0].metrics:
        raise InputError("simulation_summary", "lacks the metric of its charts", got=metric)
    varied = [*cells[0].varied]
    lines = [name for name in varied if name.partition(".")[0] == shown["marks"]]
    rest = [name for name in varied if name not in lines]
    axis = _axis(rest, texts(shown, "across"))
    facets = [name for name in rest if name != axis]
    labels = _distinct(cell.varied[axis] if axis else "" for cell in cells)
    names = _distinct(_line(cell, lines, str(shown["marks"])) for cell in cells)
    panels = _distinct(_told(cell, facets) for cell in cells)
    kept = names[:MAX_SERIES]
    baselines = texts(shown, "baselines")
    found = []
    for name in panels[:MAX_PANELS]:
        group = [cell for cell in cells if _told(cell, facets) == name]
        series = [
            _series(
                line,
                [cell for cell in group if _line(cell, lines, str(shown["marks"])) == line],
                metric,
                axis,
                labels,
            )
            for line in kept
        ]
        series += [_baseline(baseline, metric, group, axis, labels) for baseline in baselines]
        found.append(Panel(name, tuple(series)))
    return Figure(
        metric=metric,
        is_log=bool(shown["is_log"]),
        axis=axis,
        labels=labels,
        series=(*kept, *(baseline_name(name, metric) for name in baselines)),
        panels=tuple(found),
        n_hidden=max(0, len(names) - MAX_SERIES) + max(0, len(panels) - MAX_PANELS),
    )


def _axis(varied: Sequence[str], across: Sequence[str]) -> str:
    """The parameter along the axis; the first that varies where none of the usual ones does."""
    usual = [name for name in across if name in varied]
    return [*usual, *varied, ""][0]


def baseline_name(name: str, metric: str) -> str:
    """``test_mse_pool_mean`` beside ``test_mse`` is ``pool mean``."""
    return name.removeprefix(f"{metric}_").replace("_", " ")


def point(statistics: Mapping[str, object], place: int) -> Point:
    """The point of a cell's statistics."""
    return Point(
        place,
        number(statistics, "mean"),
        number(statistics, "low"),
        number(statistics, "high"),
        integer(statistics, "n"),
    )


def _series(
    name: str, cells: Sequence[CellRow], metric: str, axis: str, labels: Sequence[str]
) -> Series:
    points = [
        point(cell.metrics[metric], labels.index(cell.varied[axis] if axis else ""))
        for cell in cells
    ]
    return Series(name, tuple(sorted(points, key=lambda p: p.place)), is_baseline=False)


def _baseline(
    name: str, metric: str, cells: Sequence[CellRow], axis: str, labels: Sequence[str]
) -> Series:
    """Of the first cell at each place: cells that differ in the line alone share their worlds."""
    firsts: dict[int, Point] = {}
    for cell in cells:
        place = labels.index(cell.varied[axis] if axis else "")
        firsts.setdefault(place, point(cell.metrics[name], place))
    points = tuple(firsts[place] for place in sorted(firsts))
    return Series(baseline_name(name, metric), points, is_baseline=True)


def _line(cell: CellRow, names: Sequence[str], marks: str) -> str:
    parts = [
        cell.varied[name] if name == marks else f"{name.partition('.')[2]} {cell.varied[name]}"
        for name in sorted(names, key=lambda name: name != marks)
    ]
    return ", ".join(parts) or marks


def _told(cell: CellRow, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {cell.varied[name]}" for name in names)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def log10_or_none(value: float | None) -> float | None:
    """log₁₀ of a number above 0; None of any other."""
    return math.log10(value) if value is not None and value > 0 else None
