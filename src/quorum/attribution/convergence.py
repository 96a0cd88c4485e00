"""Convergence: the values that smaller budgets would have given, from payoffs already paid for.

Plans are nested in the budget, so the first coalitions of a large plan are a small plan: an
estimate at a smaller budget costs no call. A budget whose coalitions were not all paid for (a
second phase that depends on payoffs, an estimator from outside whose plans are not nested) has no
values, and says why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from quorum.attribution.coalitions import BoolArray, FloatArray
from quorum.attribution.estimators.base import Estimate, Estimator
from quorum.errors import InputError, SettingsError

_NOT_PAID = "this budget asks for coalitions that were not paid for"


@dataclass(frozen=True, slots=True)
class Point:
    """The estimate at one budget.

    Args:
        budget: Coalitions that may be asked for, ∅ and N included.
        n_coalitions: Coalitions that the estimator uses of them; None where unknown.
        values: (n,) in the payoff's unit, or None.
        standard_errors: (n,), or None.
        reason: Why ``values``, else ``standard_errors``, is None; empty where neither is.
    """

    budget: int
    n_coalitions: int | None
    values: FloatArray | None
    standard_errors: FloatArray | None
    reason: str = ""

    def as_row(self) -> dict[str, object]:
        """The point as it stands in the outputs."""
        values, errors = self.values, self.standard_errors
        return {
            "budget": self.budget,
            "n_coalitions": self.n_coalitions,
            "values": None if values is None else values.tolist(),
            "standard_errors": None if errors is None else errors.tolist(),
            "reason": self.reason or None,
        }


def budgets(n: int, budget: int) -> list[int]:
    """2n+2, doubled while it is under the plan's budget, and that budget: ascending."""
    found = []
    smaller = 2 * n + 2
    while smaller < budget:
        found.append(smaller)
        smaller *= 2
    return [*found, budget]


def convergence(
    estimator: Estimator,
    coalitions: BoolArray,
    payoffs: FloatArray,
    budget: int,
    seed: int,
    final: Estimate,
) -> list[Point]:
    """The estimate at each of ``budgets``, the last one being ``final``.

    Budgets below the smallest that the estimator takes are left out.

    Args:
        estimator: The one that planned the coalitions.
        coalitions: Shape (m, n), all that were paid for.
        payoffs: Shape (m,).
        budget: The plan's.
        seed: The plan's.
        final: What the estimator made of all payoffs.
    """
    n = coalitions.shape[1]
    paid = {row.tobytes(): float(p) for row, p in zip(coalitions, payoffs, strict=True)}
    points: list[Point] = []
    for smaller in budgets(n, budget)[:-1]:
        try:
            rows = estimator.plan(n, smaller, seed)
        except SettingsError:
            continue  # too small for this estimator; a larger one may do
        points.append(_point(estimator, rows, paid, smaller, seed))
    return [*points, _known(budget, len(payoffs), final)]


def unknown(n: int, budget: int, reason: str) -> list[Point]:
    """The points of a game without payoffs."""
    return [Point(b, None, None, None, reason) for b in budgets(n, budget)]


def _point(
    estimator: Estimator, rows: BoolArray, paid: dict[bytes, float], budget: int, seed: int
) -> Point:
    """Replays plan and refinements at a budget, as far as payoffs are known."""
    n = rows.shape[1]
    payoffs = _payoffs(rows, paid)
    while payoffs is not None:
        more = estimator.refine(n, budget, seed, rows, payoffs)
        if not len(more):
            break
        rows = np.concatenate([rows, more])
        payoffs = _payoffs(rows, paid)
    if payoffs is None:
        return Point(budget, None, None, None, _NOT_PAID)
    try:
        return _known(budget, len(rows), estimator.attribute(rows, payoffs, budget, seed))
    except InputError as error:  # a replay may ask for what its plan did not name
        return Point(budget, len(rows), None, None, str(error.what))


def _payoffs(rows: Iterable[BoolArray], paid: dict[bytes, float]) -> FloatArray | None:
    found = [paid.get(row.tobytes()) for row in rows]
    return None if None in found else np.array(found, dtype=np.float64)


def _known(budget: int, n_coalitions: int, estimate: Estimate) -> Point:
    errors = estimate.standard_errors
    return Point(budget, n_coalitions, estimate.values, errors, estimate.se_reason)
