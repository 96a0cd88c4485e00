"""The exact value of every player from all 2^n coalitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from quorum.attribution.coalitions import BoolArray, FloatArray, all_coalitions
from quorum.attribution.estimators.base import Estimand, Estimate, OnePhase, check_estimand
from quorum.attribution.estimators.pairs import exact_estimate, read_pairs
from quorum.errors import InputError, SettingsError


@dataclass(frozen=True, slots=True)
class Exact(OnePhase):
    """All coalitions in ascending order of the bitmask; Shapley and Banzhaf, no error.

    Args:
        estimand: ``shapley`` or ``banzhaf``.
    """

    plan_fields: ClassVar[tuple[str, ...]] = ()
    estimands: ClassVar[tuple[str, ...]] = ("shapley", "banzhaf")

    estimand: Estimand = "shapley"

    def __post_init__(self) -> None:
        check_estimand("exact", self.estimand, self.estimands)

    def plan(self, n: int, budget: int, seed: int) -> BoolArray:  # noqa: ARG002 - nothing is drawn
        """All 2^n coalitions, ascending.

        Raises:
            SettingsError: The budget does not pay for them.
        """
        if budget < 1 << n:
            raise SettingsError(
                "estimator",
                f"exact needs all 2^{n} coalitions",
                got=budget,
                mend="Set budget.fraction to 1 and raise budget.max_coalitions, or choose "
                "complementary",
            )
        return all_coalitions(n)

    def attribute(
        self,
        coalitions: BoolArray,
        payoffs: FloatArray,
        budget: int,  # noqa: ARG002 - nothing is drawn
        seed: int,  # noqa: ARG002
    ) -> Estimate:
        """Exact values; standard errors 0.

        Raises:
            InputError: A coalition has no payoff.
        """
        pairs = read_pairs(coalitions, payoffs)
        if pairs.table is None:
            raise InputError(
                "payoffs",
                "exact needs every coalition",
                got=len(coalitions),
                allowed=f"2^{pairs.n}",
            )
        return exact_estimate(pairs.table, self.estimand)
