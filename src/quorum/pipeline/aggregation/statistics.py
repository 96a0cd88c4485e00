"""What a cell says of its values: mean, spread, t interval; null with a reason, never NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median, stdev

NO_VALUE = "no record has a value"
NO_SPREAD = "one value has no spread"
TOO_LARGE = "too large for a number"


@dataclass(frozen=True, slots=True)
class Number:
    """A statistic: its value, or None with a reason."""

    value: float | int | None
    reason: str | None = None


Statistics = Mapping[str, Number]


def statistics(values: Sequence[float], n_runs: int, level: float) -> Statistics:
    """All statistics of a cell by name.

    ``sd`` has the divisor n − 1, ``se`` = sd / √n; ``ci_low`` and ``ci_high`` are
    mean ∓ t·se with the quantile t of Student's distribution at (1 + level) / 2 and n − 1
    degrees of freedom. They hold where the values are independent.

    Args:
        values: Finite numbers, in a fixed order.
        n_runs: Runs they come from.
        level: Of the interval.
    """
    n = len(values)
    counts = {"n": Number(n), "n_runs": Number(n_runs)}
    if n == 0:
        return {**counts, **dict.fromkeys(NAMES[2:], Number(None, NO_VALUE))}
    if not all(map(math.isfinite, values)):  # differences of huge numbers
        return {**counts, **dict.fromkeys(NAMES[2:], Number(None, TOO_LARGE))}
    found = {
        "mean": _finite(lambda: mean(values)),
        "median": _finite(lambda: median(values)),
        "min": Number(min(values)),
        "max": Number(max(values)),
    }
    if n == 1:
        spread = dict.fromkeys(("sd", "se", "ci_low", "ci_high"), Number(None, NO_SPREAD))
        return _ordered({**counts, **found, **spread})
    half = _quantile(level, n - 1) / math.sqrt(n)
    spread = {  # mean and stdev are exact sums, rounded once: no order of records changes them
        "sd": _finite(lambda: stdev(values)),
        "se": _finite(lambda: stdev(values) / math.sqrt(n)),
        "ci_low": _finite(lambda: mean(values) - half * stdev(values)),
        "ci_high": _finite(lambda: mean(values) + half * stdev(values)),
    }
    return _ordered({**counts, **found, **spread})


NAMES = ("n", "n_runs", "mean", "sd", "se", "median", "min", "max", "ci_low", "ci_high")


def columns(names: Sequence[str]) -> list[str]:
    """The columns of the chosen statistics: an interval has two."""
    return [column for name in names for column in _COLUMNS.get(name, (name,))]


_COLUMNS = {"ci": ("ci_low", "ci_high")}


def _ordered(found: Statistics) -> Statistics:
    return {name: found[name] for name in NAMES}


def _finite(compute: Callable[[], float]) -> Number:
    """The number, or a reason where it leaves the range of floating point."""
    try:
        value = compute()
    except OverflowError:
        return Number(None, TOO_LARGE)
    return Number(value) if math.isfinite(value) else Number(None, TOO_LARGE)


def _quantile(level: float, degrees: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1.0 + level) / 2.0))
