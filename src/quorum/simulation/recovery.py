"""How well fitted weights find those who have true weight, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

ROUNDING = 1e-6  # a weight below it is none: solvers leave such crumbs
NO_TRUTH = "a population has no true weights"
RECOVERY = ("support_precision", "support_recall", "support_f1", "weight_l1", "weight_correlation")


@dataclass(frozen=True, slots=True)
class Metric:
    """A number with its name, or null with a reason."""

    name: str
    value: float | None
    reason: str | None = None


def recovery(fitted: FloatArray, true: FloatArray | None) -> list[Metric]:
    """Recovery of the support (weights above 1e-6) and of the weights, both of shape (N,).

    With TP = those who have weight in both: precision TP / n_fitted, recall TP / n_true,
    F1 = 2 TP / (n_fitted + n_true), counting those who have weight. weight_l1 = Σ|fitted − true|,
    0 to 2 between shares of a whole. weight_correlation is Pearson's over all personas. A ratio
    with an empty denominator is null and says why; so is all where there are no true weights.
    """
    if true is None:
        return [Metric(name, None, NO_TRUTH) for name in RECOVERY]
    is_active, is_true = fitted > ROUNDING, true > ROUNDING
    both = int((is_active & is_true).sum())
    n_active, n_true = int(is_active.sum()), int(is_true.sum())
    return [
        _ratio("support_precision", both, n_active, "no persona has weight"),
        _ratio("support_recall", both, n_true, "no persona has true weight"),
        _ratio("support_f1", 2 * both, n_active + n_true, "no persona has weight in either"),
        Metric("weight_l1", float(np.abs(fitted - true).sum())),
        _correlation(fitted, true),
    ]


def _ratio(name: str, part: int, whole: int, reason: str) -> Metric:
    return Metric(name, part / whole) if whole else Metric(name, None, reason)


def _correlation(fitted: FloatArray, true: FloatArray) -> Metric:
    a, b = fitted - fitted.mean(), true - true.mean()
    # Equal weights differ from their mean by rounding alone.
    if any(np.abs(d).max() <= 1e-12 * np.abs(w).max() for d, w in ((a, fitted), (b, true))):
        return Metric("weight_correlation", None, "weights are all equal")
    value = float(a @ b / np.sqrt((a @ a) * (b @ b)))
    return Metric("weight_correlation", min(max(value, -1.0), 1.0))


def by_name(metrics: Sequence[Metric]) -> dict[str, Metric]:
    """Metrics by their names."""
    return {metric.name: metric for metric in metrics}
