"""Geometry of a sweep's small multiples: lines with intervals, a shape of its own for each line.

Coordinates are texts to a tenth of a unit, as in ``charts``. All panels of a figure have one scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from quorum.report.charts import Scale, decimal, digits_for, ticks
from quorum.report.simulation_series import Figure, Panel, Point, log10_or_none

View = dict[str, object]

WIDTH, HEIGHT = 360.0, 240.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 12.0, 12.0, 44.0
_DODGE = 5.0  # units between the lines at one place, so that their intervals stand apart
# Circle, square, triangle, diamond, upright cross, oblique cross; 9 units across.
SHAPES = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "m-3.5 -3.5h7v7h-7z",
    "m0 -4.5l4.5 8h-9z",
    "m0 -5l5 5l-5 5l-5 -5z",
    "m-4.5 0h9m-4.5 -4.5v9",
    "m-3.5 -3.5l7 7m0 -7l-7 7",
)
FOOT = -12.0  # log₁₀ of what is an error of rounding; it stands at the foot of the axis, as 0 does


def small_multiples(figure: Figure) -> list[View]:
    """A view a panel: ``name``, ``series``, ``x_ticks``, ``y_ticks``.

    A series has ``index`` (1 to 6; 0 for a baseline), ``dash`` (which baseline), and the paths
    ``line``, ``error`` and ``marks``. On a logarithmic axis 0 and errors of
    rounding stand at the foot.
    """
    y = _y_scale(figure)
    last = max(len(figure.labels) - 1, 1)
    x = Scale(-0.35, last + 0.35 if len(figure.labels) > 1 else 1.35, _LEFT, WIDTH - _RIGHT)
    shift = 0.5 if len(figure.labels) == 1 else 0.0
    x_ticks = [(x.at(k + shift), _short(label)) for k, label in enumerate(figure.labels)]
    return [
        {
            "name": panel.name,
            "series": list(_series_views(panel, figure, x, y, shift)),
            "x_ticks": x_ticks,
            "y_ticks": _y_ticks(figure, y),
        }
        for panel in figure.panels
    ]


def key_shape(index: int) -> str:
    """The mark of a line in the key, in a box of 24 × 12."""
    return f"M12 6{SHAPES[index - 1]}"


def _series_views(panel: Panel, figure: Figure, x: Scale, y: Scale, shift: float) -> Iterable[View]:
    n_lines = sum(not series.is_baseline for series in panel.series)
    index = dash = 0
    for series in panel.series:
        index += not series.is_baseline
        dash += series.is_baseline
        aside = 0.0 if series.is_baseline else _DODGE * (index - (n_lines + 1) / 2)
        points = [(_place(x, p.place + shift, aside), p) for p in series.points]
        yield {
            "index": 0 if series.is_baseline else index,
            "dash": dash if series.is_baseline else 0,
            "line": _line(points, y, figure),
            "error": _errors(points, y, figure),
            "marks": "" if series.is_baseline else _marks(points, y, figure, index),
        }


def _place(x: Scale, place: float, aside: float) -> str:
    text = f"{float(x.at(place)) + aside:.1f}"
    return text.removesuffix(".0")


def _height(value: float | None, y: Scale, figure: Figure) -> str | None:
    if value is None:
        return None
    if not figure.is_log:
        return y.at(min(max(value, y.low), y.high))
    power = log10_or_none(value)
    return y.at(max(y.low if power is None else power, y.low))


def _line(points: Sequence[tuple[str, Point]], y: Scale, figure: Figure) -> str:
    path, is_open = "", False
    for place, point in points:
        height = _height(point.mean, y, figure)
        if height is not None:
            path += f"{'L' if is_open else 'M'}{place} {height}"
        is_open = height is not None
    return path


def _errors(points: Sequence[tuple[str, Point]], y: Scale, figure: Figure) -> str:
    path = ""
    for place, point in points:
        low, high = _height(point.low, y, figure), _height(point.high, y, figure)
        if low is not None and high is not None:
            path += f"M{place} {low}V{high}"
    return path


def _marks(points: Sequence[tuple[str, Point]], y: Scale, figure: Figure, index: int) -> str:
    found = ((place, _height(point.mean, y, figure)) for place, point in points)
    return "".join(f"M{place} {at}{SHAPES[index - 1]}" for place, at in found if at is not None)


def _y_scale(figure: Figure) -> Scale:
    """From the least to the most of all means and intervals; decades on a logarithmic axis."""
    means = _means(figure)
    ends = [end for p in _points(figure) for end in (p.low, p.high) if end is not None]
    if figure.is_log:
        return _log_scale(means, ends)
    values = [*means, *ends] or [0.0, 1.0]
    low, high = min(0.0, *values), max(values)
    margin = 0.05 * (high - low) or 1.0
    return Scale(low if low == 0.0 else low - margin, high + margin, HEIGHT - _BOTTOM, _TOP)


def _points(figure: Figure) -> list[Point]:
    return [p for panel in figure.panels for series in panel.series for p in series.points]


def _means(figure: Figure) -> list[float]:
    return [p.mean for p in _points(figure) if p.mean is not None]


def _log_scale(means: Sequence[float], ends: Sequence[float]) -> Scale:
    """Whole decades; one more below them where something stands at the foot."""
    powers = [power for value in means if (power := log10_or_none(value)) is not None]
    shown = [power for power in powers if power >= FOOT]
    tops = [power for value in ends if (power := log10_or_none(value)) is not None]
    bottom = float(math.floor(min(shown, default=-1.0)))
    top = max(float(math.ceil(max([*shown, *tops], default=0.0))), bottom + 1)
    if _has_foot(means):
        bottom -= 1.0
    return Scale(bottom, top, HEIGHT - _BOTTOM, _TOP)


def _has_foot(means: Sequence[float]) -> bool:
    """Whether there is a 0, or an error of rounding: these stand at the foot of the axis."""
    powers = [log10_or_none(value) for value in means]
    return any(power is None or power < FOOT for power in powers)


def _y_ticks(figure: Figure, y: Scale) -> list[tuple[str, str]]:
    if figure.is_log:
        has_foot = _has_foot(_means(figure))
        whole = range(round(y.low) + has_foot, round(y.high) + 1)
        step = max(1, math.ceil(len(whole) / 6))
        found = [(y.at(k), "1" if k == 0 else f"1e{k}".replace("-", "−")) for k in whole[::step]]
        return [(y.at(y.low), "0"), *found] if has_foot else found
    marks = ticks(y.low, y.high, 5)
    step_size = marks[1] - marks[0] if len(marks) > 1 else y.high - y.low
    digits = max(0, digits_for([step_size]) - 3)
    return [(y.at(mark), decimal(mark, digits)) for mark in marks]


def _short(label: str, limit: int = 14) -> str:
    return label if len(label) <= limit else label[: limit - 1] + "…"
