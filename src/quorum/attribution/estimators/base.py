"""What an estimator is: it plans coalitions, may refine the plan once, and attributes payoffs.

| estimator | shapley | banzhaf |
|---|---|---|
| exact | yes | yes |
| mc | yes | no (a permutation's positions are uniform, Banzhaf's are binomial) |
| complementary | yes | yes |
| neyman_cc | yes | yes (the allocation is the Shapley value's) |
| regression | yes | yes |
| shapiq | yes | yes, by classes that take an ``index`` |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np

from quorum.attribution.coalitions import BoolArray, FloatArray
from quorum.errors import SettingsError

Estimand = Literal["shapley", "banzhaf"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Values (n,) in the payoff's unit, and how sure they are.

    Args:
        values: One value a player.
        standard_errors: One a player, or None where they are undefined.
        se_reason: Why ``standard_errors`` is None.
        notes: What a reader of the result must know, e.g. a fallback that was taken.
    """

    values: FloatArray
    standard_errors: FloatArray | None
    se_reason: str = ""
    notes: tuple[str, ...] = ()


class Estimator(Protocol):
    """A frozen dataclass whose fields are the options; it keeps no state between calls.

    ``plan_fields`` names the options that change ``plan`` or ``refine``; all others change
    ``attribute`` alone, so that a changed one calls no model.
    """

    plan_fields: ClassVar[tuple[str, ...]]
    two_phase: ClassVar[bool]  # refine may return rows
    estimands: ClassVar[tuple[str, ...]]  # what it can compute

    @property
    def estimand(self) -> Estimand:
        """What it is told to compute."""

    def plan(self, n: int, budget: int, seed: int) -> BoolArray:
        """Distinct coalitions, at most ``budget``, ∅ and N first; nested in ``budget``."""

    def refine(
        self, n: int, budget: int, seed: int, coalitions: BoolArray, payoffs: FloatArray
    ) -> BoolArray:
        """New coalitions, given the payoffs so far; (0, n) where there is nothing to ask.

        Called again with what it has returned until it returns none.
        """

    def attribute(
        self, coalitions: BoolArray, payoffs: FloatArray, budget: int, seed: int
    ) -> Estimate:
        """The values; rows may come in any order, which does not change the result."""


class OnePhase:
    """What estimators share that plan everything at once."""

    __slots__ = ()
    two_phase: ClassVar[bool] = False

    def refine(
        self,
        n: int,
        budget: int,  # noqa: ARG002 - nothing is left to ask, whatever the payoffs
        seed: int,  # noqa: ARG002
        coalitions: BoolArray,  # noqa: ARG002
        payoffs: FloatArray,  # noqa: ARG002
    ) -> BoolArray:
        """Nothing: (0, n)."""
        return np.zeros((0, n), dtype=bool)


def check_estimand(name: str, estimand: str, estimands: tuple[str, ...]) -> None:
    """Refuses an estimand that an estimator cannot compute.

    Raises:
        SettingsError: It is not among ``estimands``.
    """
    if estimand not in estimands:
        raise SettingsError(
            "estimator.estimand",
            f"{name} does not compute it",
            got=estimand,
            allowed=", ".join(estimands),
            mend="Choose another estimator",
        )
