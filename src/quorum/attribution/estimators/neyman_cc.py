"""Complementary contributions in two phases: a pilot, then pairs where the spread is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from quorum.attribution.coalitions import BoolArray, FloatArray, IntArray
from quorum.attribution.estimators.base import Estimand, Estimate, check_estimand
from quorum.attribution.estimators.control_variates import (
    ControlVariate,
    attribute_pairs,
    leave_one_out,
    with_notes,
)
from quorum.attribution.estimators.design import (
    class_capacity,
    class_sequence,
    class_sizes,
    draw_class,
    interleave,
    n_pairs_for,
    paired_plan,
)
from quorum.attribution.estimators.pairs import Pairs, read_pairs, strata
from quorum.threads import one_thread

PRIOR_PAIRS = 5.0  # a size's variance counts as if so many pairs had shown the average one


@dataclass(frozen=True, slots=True)
class NeymanCc:
    """Phase 1 is the first half of complementary's plan, phase 2 spends the rest by Neyman.

    Class {j, n-j} gets pairs in proportion to √(Σ_i σ²_ij/j + Σ_i σ²_i,n-j/(n-j)), and to
    √(Σ_i σ²_ij/n) where j = n/2, σ² being variances of what the control variate leaves over,
    shrunk towards their mean. A class never gets more pairs than it has. Below min(20n, 5 % of
    2^n) coalitions the variances would rest on two or three pairs: phase 2 then goes on with
    complementary's plan, and a note says so.

    Args:
        estimand: ``shapley`` or ``banzhaf`` (from the same plan).
        control_variate: ``none``, ``linear`` or ``gp``, as for complementary.

    Source: Zhang et al., SIGMOD 2023, Algorithm 2. We deviate: pairs without replacement, the
    pilot's classes filled whole where they are small, residual variances, shrinkage.
    """

    plan_fields: ClassVar[tuple[str, ...]] = ("control_variate",)
    two_phase: ClassVar[bool] = True
    estimands: ClassVar[tuple[str, ...]] = ("shapley", "banzhaf")

    estimand: Estimand = "shapley"
    control_variate: ControlVariate = "gp"

    def __post_init__(self) -> None:
        check_estimand("neyman_cc", self.estimand, self.estimands)

    def plan(self, n: int, budget: int, seed: int) -> BoolArray:
        """Phase 1: ∅, N, then half of the pairs, though never fewer than n of them."""
        return paired_plan(n, _n_pilot(n, budget), seed)

    def refine(
        self, n: int, budget: int, seed: int, coalitions: BoolArray, payoffs: FloatArray
    ) -> BoolArray:
        """Phase 2: the rest of the budget, in pairs that phase 1 did not have; nothing after it."""
        n_pairs, n_pilot = n_pairs_for(n, budget), _n_pilot(n, budget)
        if n_pairs == n_pilot or len(coalitions) > 2 + 2 * n_pilot:
            return np.zeros((0, n), dtype=bool)
        if _is_small(n, budget) or n_pairs == (1 << (n - 1)) - 1:
            return paired_plan(n, n_pairs, seed)[2 + 2 * n_pilot :]
        counts = np.bincount(class_sequence(n, n_pilot, seed), minlength=n // 2 + 1)[1:]
        with one_thread():
            masses = class_masses(read_pairs(coalitions, payoffs), self.control_variate, seed)
        extra = allocate(masses, counts, [class_capacity(n, s) for s in class_sizes(n)], n_pairs)
        sides = [
            draw_class(n, size, int(start), int(start + more), seed)
            for size, start, more in zip(class_sizes(n), counts, extra, strict=True)
        ]
        return interleave(np.concatenate(sides))

    def attribute(
        self, coalitions: BoolArray, payoffs: FloatArray, budget: int, seed: int
    ) -> Estimate:
        """Values and standard errors; exact on a full table.

        Raises:
            InputError: ∅ or N is missing, a row stands twice, or a payoff is not finite.
        """
        pairs = read_pairs(coalitions, payoffs)
        found = attribute_pairs(pairs, self.control_variate, self.estimand, seed)
        if pairs.table is None and _is_small(pairs.n, budget):
            return with_notes(
                found, "phase 2 was uniform: the budget is under min(20n, 5 % of 2^n) coalitions"
            )
        return found


def _n_pilot(n: int, budget: int) -> int:
    n_pairs = n_pairs_for(n, budget)
    return min(n_pairs, max((n_pairs + 1) // 2, n))


def _is_small(n: int, budget: int) -> bool:
    return budget < 20 * n and 20 * budget < 1 << n


def class_masses(pairs: Pairs, control_variate: ControlVariate, seed: int) -> FloatArray:
    """√(Σ_i σ²_ij/j + Σ_i σ²_i,n-j/(n-j)) for each class j = 1..⌊n/2⌋."""
    n = pairs.n
    squares, free = np.zeros(n + 1), np.zeros(n + 1)
    for j, rows, y in strata(pairs.sides, leave_one_out(pairs, control_variate, seed)):
        present = rows.astype(np.float64)
        counts = present.sum(axis=0)
        means = (y @ present) / np.maximum(counts, 1)
        inside = np.maximum((y**2) @ present - counts * means**2, 0.0)
        squares[j] = float(inside.sum())
        free[j] = float(np.maximum(counts - 1, 0).sum())
    # A pair of size j stands in j cells: its degrees of freedom are counted once, not j times.
    weight = np.divide(free, np.arange(n + 1), out=np.zeros(n + 1), where=np.arange(n + 1) > 0)
    variance = np.divide(squares, free, out=np.zeros(n + 1), where=free > 0)
    average = float((weight * variance).sum() / weight.sum()) if weight.sum() else 1.0
    shrunk = (weight * variance + PRIOR_PAIRS * average) / (weight + PRIOR_PAIRS)
    out = np.empty(n // 2)
    for k, size in enumerate(class_sizes(n)):
        if 2 * size == n:
            out[k] = math.sqrt(shrunk[size])
        else:
            out[k] = math.sqrt(n * (shrunk[size] / size + shrunk[n - size] / (n - size)))
    return out


def allocate(masses: FloatArray, counts: IntArray, capacities: list[int], n_pairs: int) -> IntArray:
    """Further pairs for each class, so that totals are as near to proportional as can be.

    Total of class k = clip(λ·mass_k, count_k, capacity_k) with λ such that they sum to
    ``n_pairs``; fractions are rounded by largest remainder. Equal masses stand in for zero ones.
    """
    limits = np.array([float(min(capacity, n_pairs)) for capacity in capacities])
    weights = masses if masses.max() > 0 else np.ones(len(masses))
    weights = np.maximum(weights, weights.max() * 1e-6)
    low, high = 0.0, 2.0 * n_pairs / float(weights.min())
    for _ in range(200):
        middle = (low + high) / 2
        if np.clip(middle * weights, counts, limits).sum() < n_pairs:
            low = middle
        else:
            high = middle
    wanted = np.clip(low * weights, counts, limits)
    totals = np.maximum(np.floor(wanted), counts).astype(np.int64)
    open_ = totals < limits
    for k in np.argsort(-(wanted - totals) * open_, kind="stable"):
        if totals.sum() < n_pairs and totals[k] < limits[k]:
            totals[k] += 1
    while totals.sum() < n_pairs:
        totals[int(np.argmax(np.where(totals < limits, limits - totals, 0)))] += 1
    return np.asarray(totals - counts, dtype=np.int64)
