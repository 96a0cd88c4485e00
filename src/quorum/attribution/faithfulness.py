"""Faithfulness: how the payoff falls, or rises, when players go, or come, by their value.

A curve uses only payoffs that are already paid for; a point without one is null.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

MIN_COVERAGE = 0.8  # share of the n + 1 points below which there is no area


def curves(coalitions: BoolArray, payoffs: FloatArray, values: FloatArray) -> dict[str, object]:
    """The deletion and the insertion curve.

    Deletion removes players from the whole prompt, insertion adds them to the empty one, both
    the highest-valued first, equal values in the order of players. The area is the trapezoid
    rule over k/n, k = 0..n, across the known points, in units of the payoff: a faithful
    attribution has a small deletion area and a large insertion area.

    Args:
        coalitions: Shape (m, n); a row is a coalition, True is present.
        payoffs: Shape (m,).
        values: Shape (n,), the players' values.

    Returns:
        ``{"deletion": curve, "insertion": curve}``; a curve is ``{"points": [{"k", "payoff" or
        None}], "coverage": share of points known, "area": number or None, "reason": why None}``.
        ``k`` is the number of players removed or inserted. The area is None below 80 % coverage
        and where an end of the curve is unknown.
    """
    n = len(values)
    paid = {row.tobytes(): float(p) for row, p in zip(coalitions, payoffs, strict=True)}
    order = np.argsort(-values, kind="stable")
    n_first = np.empty(n, dtype=np.int64)
    n_first[order] = np.arange(n)  # rank of each player, 0 the highest-valued
    inserted = n_first < np.arange(n + 1)[:, None]  # row k: the k highest-valued players
    return {"deletion": _curve(~inserted, paid), "insertion": _curve(inserted, paid)}


def _curve(rows: BoolArray, paid: dict[bytes, float]) -> dict[str, object]:
    payoffs = [paid.get(row.tobytes()) for row in rows]
    n = len(rows) - 1
    known = [(k / n, p) for k, p in enumerate(payoffs) if p is not None]
    coverage = len(known) / (n + 1)
    area: float | None = None
    reason: str | None = None
    if coverage < MIN_COVERAGE:
        reason = f"{len(known)} of {n + 1} points are paid for, under {MIN_COVERAGE:.0%}"
    elif payoffs[0] is None or payoffs[-1] is None:
        reason = "the payoff at an end of the curve is unknown"
    else:
        x, y = np.array(known).T
        area = float(np.trapezoid(y, x))
    return {
        "points": [{"k": k, "payoff": p} for k, p in enumerate(payoffs)],
        "coverage": coverage,
        "area": area,
        "reason": reason,
    }
