"""Statistics over the replicates of a cell: mean, spread and how sure the mean is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy.special import stdtrit

NO_SPREAD = "one value has no spread"


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of one metric in one cell.

    Args:
        mean: Over the values that are not null; None where there are none.
        sd: Sample standard deviation (n − 1); None below two values.
        se: Standard error of the mean, sd / √n; None below two values.
        low: Lower end of Student's interval for the mean; None likewise.
        high: Its upper end.
        n: Values that are not null.
        n_null: Values that are.
        reason: Why something is None.
    """

    mean: float | None
    sd: float | None
    se: float | None
    low: float | None
    high: float | None
    n: int
    n_null: int
    reason: str | None


def statistics(
    values: Sequence[float | None], reasons: Sequence[str | None], level: float
) -> Statistics:
    """The statistics of one metric over replicates; their order changes no bit of them.

    Args:
        values: One a replicate.
        reasons: Why a value is null, one a replicate.
        level: Of the interval, such as 0.9.
    """
    known = sorted(value for value in values if value is not None)
    n, n_null = len(known), len(values) - len(known)
    if n == 0:
        told = sorted({reason for reason in reasons if reason}) or ["no value"]
        return Statistics(None, None, None, None, None, 0, n_null, "; ".join(told))
    mean = fmean(known)
    if n == 1:
        return Statistics(mean, None, None, None, None, 1, n_null, NO_SPREAD)
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (n - 1))
    se = sd / math.sqrt(n)
    half = float(stdtrit(n - 1, (1 + level) / 2)) * se
    return Statistics(mean, sd, se, mean - half, mean + half, n, n_null, None)
