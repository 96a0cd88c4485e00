"""Paired, weighted least squares: exact for games of degree ≤ 2 from 2n+2 coalitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quorum.attribution.coalitions import BoolArray, FloatArray
from quorum.attribution.estimators.base import Estimand, Estimate, check_estimand
from quorum.attribution.estimators.control_variates import (
    NO_SPREAD,
    fit_linear,
    shifted,
    underdetermined_note,
    unpaired_note,
)
from quorum.attribution.estimators.design import PairedPlan
from quorum.attribution.estimators.pairs import exact_estimate, read_pairs
from quorum.threads import one_thread


@dataclass(frozen=True, slots=True)
class Regression(PairedPlan):
    """The linear game nearest to the observed pairs, under Σφ = v(N) - v(∅) for Shapley.

    Args:
        estimand: ``shapley`` (Shapley kernel weights) or ``banzhaf`` (equal weights).

    Source: Covert and Lee 2021; Musco and Witter, ICLR 2025 (sizes uniform, pairs without
    replacement). Standard errors: sandwich over size classes with leave-one-out residuals and
    the finite-population factor.
    """

    plan_fields: ClassVar[tuple[str, ...]] = ()
    estimands: ClassVar[tuple[str, ...]] = ("shapley", "banzhaf")

    estimand: Estimand = "shapley"

    def __post_init__(self) -> None:
        check_estimand("regression", self.estimand, self.estimands)

    def attribute(
        self,
        coalitions: BoolArray,
        payoffs: FloatArray,
        budget: int,  # noqa: ARG002 - the payoffs say what was paid for
        seed: int,  # noqa: ARG002 - nothing is drawn
    ) -> Estimate:
        """Values and standard errors; exact on a full table.

        Raises:
            InputError: ∅ or N is missing, a row stands twice, or a payoff is not finite.
        """
        pairs = read_pairs(coalitions, payoffs)
        if pairs.table is not None:
            return exact_estimate(pairs.table, self.estimand)
        with one_thread():
            fit = fit_linear(pairs, self.estimand)
        notes = unpaired_note(pairs)
        if not fit.is_determined:
            notes = (*notes, underdetermined_note(pairs))
        values = shifted(fit.values, pairs.total, self.estimand)
        if fit.variances is None:
            return Estimate(values, None, NO_SPREAD, notes)
        return Estimate(values, np.sqrt(fit.variances), notes=notes)
