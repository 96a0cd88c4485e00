"""Geometry of the inline SVG charts and the one way in which pages write numbers.

All coordinates are texts rounded to a tenth of a unit: a page has the same bytes everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quorum.report.document import Curve

BAR_WIDTH = 1000.0
CURVE_WIDTH, CURVE_HEIGHT = 360.0, 220.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 54.0, 10.0, 12.0, 40.0


def digits_for(values: Iterable[float | None]) -> int:
    """Decimals that show the largest magnitude of a column with four figures, 0..8."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    if largest == 0.0:
        return 3
    return min(8, max(0, 3 - math.floor(math.log10(largest))))


def decimal(value: float, digits: int, *, signed: bool = False) -> str:
    """A number with fixed decimals, a true minus sign, and no signed zero.

    Magnitudes from 10⁹ on, and those that ``digits`` would round to nothing, use an exponent.
    """
    text = f"{abs(value):.{digits}f}"
    if abs(value) >= 1e9 or (value != 0.0 and float(text) == 0.0 and digits >= 8):
        text = f"{abs(value):.3e}"
    if float(text) == 0.0:
        return text
    return ("−" if value < 0 else "+" if signed else "") + text


def percent(share: float) -> str:
    """A share 0..1 as a percentage: whole, with a decimal where it would round to 0 or 100."""
    digits = 0 if share in (0.0, 1.0) or 0.005 <= share < 0.995 else 1
    return f"{100 * share:.{digits}f} %"


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear map from [low, high] to [start, end]."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> str:
        """The coordinate of a value, to a tenth of a unit."""
        share = (value - self.low) / (self.high - self.low)
        return _coordinate(self.start + share * (self.end - self.start))


def _coordinate(value: float) -> str:
    text = f"{value:.1f}"
    return "0" if float(text) == 0.0 else text.removesuffix(".0")


def bar_scale(
    values: Iterable[float | None], intervals: Iterable[tuple[float, float] | None]
) -> Scale:
    """The common scale of all bars of a snapshot: from the lowest end to the highest, with 0."""
    ends = [0.0, *(value for value in values if value is not None)]
    for interval in intervals:
        ends.extend(interval or ())
    low, high = min(ends), max(ends)
    margin = 0.02 * (high - low) or 1.0
    return Scale(low - margin, high + margin, 0.0, BAR_WIDTH)


def bar(scale: Scale, value: float, interval: tuple[float, float] | None) -> dict[str, str]:
    """One bar from 0 to its value and the path of its error bar (empty where there is none)."""
    left, right = sorted((0.0, value))
    x = scale.at(left)
    error = ""
    if interval is not None:
        low, high = scale.at(interval[0]), scale.at(interval[1])
        error = f"M{low} 10H{high}M{low} 5V15M{high} 5V15"
    width = _coordinate(float(scale.at(right)) - float(x))
    return {"zero": scale.at(0.0), "x": x, "width": width, "error": error}


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten apart) in [low, high]: about ``count``."""
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def curve_chart(curve: Curve) -> dict[str, object]:
    """Coordinates of a curve: runs of paid points as lines, the others as gaps marked on the axis.

    Keys: ``lines`` (paths), ``dots`` and ``gaps`` (x, y), ``x_ticks`` and ``y_ticks`` (position,
    text). Everything is empty where no point has a payoff.
    """
    payoffs = [payoff for _, payoff in curve.points if payoff is not None]
    if not payoffs:
        return {"lines": [], "dots": [], "gaps": "", "x_ticks": [], "y_ticks": []}
    low, high = min(payoffs), max(payoffs)
    margin = 0.06 * (high - low) or 0.5
    y = Scale(low - margin, high + margin, CURVE_HEIGHT - _BOTTOM, _TOP)
    n = max(1, *(k for k, _ in curve.points))
    x = Scale(0.0, float(n), _LEFT, CURVE_WIDTH - _RIGHT)
    runs = _runs(curve.points)
    show_dots = len(curve.points) <= 80
    marks = ticks(y.low, y.high)
    digits = digits_for([marks[-1] - marks[0]]) - 2 if len(marks) > 1 else 3
    base = CURVE_HEIGHT - _BOTTOM
    return {
        "lines": [
            "M" + "L".join(f"{x.at(k)} {y.at(v)}" for k, v in run) for run in runs if run[1:]
        ],
        "dots": [(x.at(k), y.at(v)) for run in runs for k, v in run if show_dots or len(run) == 1],
        "gaps": "".join(f"M{x.at(k)} {_coordinate(base)}v-5" for k, v in curve.points if v is None),
        "x_ticks": [(x.at(k), str(k)) for k in _whole_ticks(n)],
        "y_ticks": [(y.at(mark), decimal(mark, max(0, digits))) for mark in marks],
    }


def _whole_ticks(n: int) -> list[int]:
    if n <= 4:
        return list(range(n + 1))
    return sorted({round(mark) for mark in ticks(0.0, float(n), 5)})


def _runs(points: Sequence[tuple[int, float | None]]) -> list[list[tuple[int, float]]]:
    runs: list[list[tuple[int, float]]] = [[]]
    for k, payoff in points:
        if payoff is None:
            runs.append([])
        else:
            runs[-1].append((k, payoff))
    return [run for run in runs if run]
