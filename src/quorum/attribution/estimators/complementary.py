"""Complementary contributions with a control variate: the default estimator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from quorum.attribution.coalitions import BoolArray, FloatArray
from quorum.attribution.estimators.base import Estimand, Estimate, check_estimand
from quorum.attribution.estimators.control_variates import ControlVariate, attribute_pairs
from quorum.attribution.estimators.design import PairedPlan
from quorum.attribution.estimators.pairs import read_pairs


@dataclass(frozen=True, slots=True)
class Complementary(PairedPlan):
    """φ_i = (1/n) Σ_{j=1..n} mean{v(S) - v(N∖S) : i ∈ S, |S| = j} on what a model leaves over.

    Args:
        estimand: ``shapley`` or ``banzhaf`` (cells weigh C(n-1, j-1)/2^(n-1) instead of 1/n).
        control_variate: The model: ``none`` (the published method, not shifted to efficiency),
            ``linear`` (kernel regression) or ``gp`` (Gaussian process on the odd part; falls back
            to linear above 1,700 pairs or on a numerical failure, and says so).

    Source: Zhang et al., SIGMOD 2023, Algorithm 1. We deviate: pairs without replacement, sizes 1
    and n-1 first, j = n kept, and the control variate.
    """

    plan_fields: ClassVar[tuple[str, ...]] = ()
    estimands: ClassVar[tuple[str, ...]] = ("shapley", "banzhaf")

    estimand: Estimand = "shapley"
    control_variate: ControlVariate = "gp"

    def __post_init__(self) -> None:
        check_estimand("complementary", self.estimand, self.estimands)

    def attribute(
        self,
        coalitions: BoolArray,
        payoffs: FloatArray,
        budget: int,  # noqa: ARG002 - the payoffs say what was paid for
        seed: int,
    ) -> Estimate:
        """Values and standard errors; exact on a full table.

        Raises:
            InputError: ∅ or N is missing, a row stands twice, or a payoff is not finite.
        """
        return attribute_pairs(
            read_pairs(coalitions, payoffs), self.control_variate, self.estimand, seed
        )
