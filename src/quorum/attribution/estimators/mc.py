"""Antithetic permutations through a cache of coalitions: unbiased at any budget.

A permutation and its reverse are walked together; the prefixes on the way are the coalitions.
Such pairs of walks are taken until the next one would overshoot the budget (where not even one
fits, a single walk). Stopping depends on the permutations only through how their prefixes overlap,
which renaming the players does not change; so the measure of the walks taken is invariant under
renaming, and the only such measure on permutations is the uniform one: the mean over the walks is
unbiased although their number is random.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from quorum.attribution.coalitions import (
    MAX_TABLE_PLAYERS,
    BoolArray,
    FloatArray,
    IntArray,
    all_coalitions,
)
from quorum.attribution.estimators.base import Estimate, OnePhase, check_estimand
from quorum.attribution.estimators.design import with_ends
from quorum.attribution.estimators.pairs import exact_estimate, read_pairs, student_factor
from quorum.errors import InputError, SettingsError


@dataclass(frozen=True, slots=True)
class Mc(OnePhase):
    """Mean marginal contribution over antithetic permutations; efficient by construction.

    Args:
        estimand: ``shapley``.

    Source: Castro et al. 2009; antithetic pairs as in Mitchell et al., JMLR 2022. Standard errors:
    spread of the means of antithetic pairs of walks, widened for few pairs.
    """

    plan_fields: ClassVar[tuple[str, ...]] = ()
    estimands: ClassVar[tuple[str, ...]] = ("shapley",)

    estimand: Literal["shapley"] = "shapley"

    def __post_init__(self) -> None:
        check_estimand("mc", self.estimand, self.estimands)

    def plan(self, n: int, budget: int, seed: int) -> BoolArray:
        """∅, N, then the prefixes of as many walks as fit; every coalition where all are paid.

        Raises:
            SettingsError: The budget does not pay for a single walk.
        """
        if n <= MAX_TABLE_PLAYERS and budget >= 1 << n:
            return with_ends(all_coalitions(n)[1:-1])
        seen: set[bytes] = set()
        rows: list[BoolArray] = []
        for order in _orders(n, budget, seed):
            prefixes = np.concatenate([_prefixes(order), _prefixes(order[::-1])])
            new = _unseen(prefixes, seen)
            if len(seen) + len(new) > budget - 2:
                if not rows and n - 1 <= budget - 2:
                    rows.append(_prefixes(order))
                break
            seen.update(_keys(prefixes))
            rows.append(prefixes[new])
        if not rows:
            raise SettingsError(
                "budget", "mc needs a walk over all players", got=budget, allowed=f"{n + 1} or more"
            )
        return with_ends(np.concatenate(rows))

    def attribute(
        self, coalitions: BoolArray, payoffs: FloatArray, budget: int, seed: int
    ) -> Estimate:
        """Replays the walks of the plan; exact on a full table.

        Raises:
            InputError: The coalitions were not planned by mc with this seed, or payoffs are bad.
        """
        pairs = read_pairs(coalitions, payoffs)
        n = pairs.n
        if pairs.table is not None:
            return exact_estimate(pairs.table, "shapley")
        known = dict(zip(_keys(coalitions), np.asarray(payoffs).tolist(), strict=True))
        walks: list[FloatArray] = []
        for order in _orders(n, budget, seed):
            there, back = (_walk(one, known) for one in (order, order[::-1]))
            if there is None or back is None:
                if not walks and there is not None:
                    walks.append(there)
                break
            walks += [there, back]
        if not walks:
            raise InputError("coalitions", "they were not planned by mc with this seed")
        return _mean_of_walks(np.array(walks))


def _walk(order: IntArray, known: dict[bytes, float]) -> FloatArray | None:
    """Marginal contributions (n,) along a permutation, or None where a payoff is missing."""
    n = len(order)
    keys = _keys(np.concatenate([np.zeros((1, n), bool), _prefixes(order), np.ones((1, n), bool)]))
    if not all(key in known for key in keys):
        return None
    marginals = np.empty(n)
    marginals[order] = np.diff([known[key] for key in keys])
    return marginals


def _mean_of_walks(walks: FloatArray) -> Estimate:
    values = walks.mean(axis=0)
    n_pairs = len(walks) // 2
    if n_pairs < 2:
        return Estimate(values, None, "fewer than two antithetic pairs of walks fit the budget")
    antithetic = walks.reshape(n_pairs, 2, -1).mean(axis=1)
    error = antithetic.std(axis=0, ddof=1) / np.sqrt(n_pairs)
    return Estimate(values, error * student_factor(n_pairs - 1))


def _orders(n: int, budget: int, seed: int) -> Iterator[IntArray]:
    """Permutations of the players.

    Ends after 20 times as many as would fit without overlap, where nearly all coalitions of a
    small game are known and new ones hardly come.
    """
    rng = np.random.default_rng([seed, n])
    for _ in range(20 * max(1, budget // max(1, n - 1)) + 50):
        yield rng.permutation(n)


def _prefixes(order: IntArray) -> BoolArray:
    """The n-1 inner prefixes of a permutation as coalitions (n-1, n)."""
    n = len(order)
    position = np.empty(n, dtype=np.int64)
    position[order] = np.arange(n)
    return np.asarray(position[None, :] < np.arange(1, n)[:, None])


def _keys(rows: BoolArray) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(rows, axis=1)]


def _unseen(rows: BoolArray, seen: set[bytes]) -> list[int]:
    """Indices of the rows that are new, the first of equal ones."""
    first: dict[bytes, int] = {}
    for k, key in enumerate(_keys(rows)):
        if key not in seen:
            first.setdefault(key, k)
    return list(first.values())
