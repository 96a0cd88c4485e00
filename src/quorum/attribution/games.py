"""Games whose Shapley and Banzhaf values are known in closed form: for tests, docs, benchmarks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from quorum.attribution.coalitions import BoolArray, FloatArray, all_coalitions


@dataclass(frozen=True, slots=True)
class Game:
    """A payoff function with its true values.

    Args:
        name: What it is called.
        n: Number of players.
        payoff: Maps coalitions (m, n) to payoffs (m,).
        shapley: True Shapley values (n,).
        banzhaf: True Banzhaf values (n,).
    """

    name: str
    n: int
    payoff: Callable[[BoolArray], FloatArray]
    shapley: FloatArray
    banzhaf: FloatArray

    def table(self) -> FloatArray:
        """All 2^n payoffs, indexed by the little-endian bitmask."""
        return self.payoff(all_coalitions(self.n))


def additive(weights: Sequence[float]) -> Game:
    """Payoff v(S) = Σ_{i∈S} w_i; each player is worth its weight."""
    w = np.asarray(weights, dtype=np.float64)
    return Game("additive", len(w), lambda x: np.asarray(x @ w, dtype=np.float64), w, w)


def constant(n: int, payoff: float) -> Game:
    """Payoff v(S) = c for every S, ∅ included; nobody is worth anything."""
    zeros = np.zeros(n)
    return Game("constant", n, lambda x: np.full(len(x), float(payoff)), zeros, zeros)


def unanimity(n: int, members: Sequence[int]) -> Game:
    """Payoff v(S) = 1 where all members are present: each of the k gets 1/k, Banzhaf 2^(1-k)."""
    return sum_of_unanimity(n, [(members, 1.0)], name="unanimity")


def sum_of_unanimity(
    n: int, terms: Sequence[tuple[Sequence[int], float]], name: str = "sum of unanimity"
) -> Game:
    """Payoff v(S) = Σ_t c_t·[T_t ⊆ S]; values add up over the terms (c_t/k and c_t·2^(1-k))."""
    shapley, banzhaf = np.zeros(n), np.zeros(n)
    kept = [(list(members), float(c)) for members, c in terms]
    for members, c in kept:
        shapley[members] += c / len(members)
        banzhaf[members] += c * 2.0 ** (1 - len(members))

    def payoff(x: BoolArray) -> FloatArray:
        out = np.zeros(len(x))
        for members, c in kept:
            out += c * x[:, members].all(axis=1)
        return out

    return Game(name, n, payoff, shapley, banzhaf)


def random_unanimity(n: int, n_terms: int, max_size: int, seed: int) -> Game:
    """A sum of unanimity games with sizes uniform in 1..max_size and coefficients in [-1, 1]."""
    rng = np.random.default_rng([seed, n, n_terms])
    terms: list[tuple[Sequence[int], float]] = []
    for _ in range(n_terms):
        size = int(rng.integers(1, max_size + 1))
        members = rng.choice(n, size, replace=False).tolist()
        terms.append((members, float(rng.uniform(-1, 1))))
    return sum_of_unanimity(n, terms, name="random unanimity")


def glove() -> Game:
    """Player 0 owns a left glove, 1 and 2 a right one each; a pair is worth 1."""
    return Game(
        "glove",
        3,
        lambda x: (x[:, 0] & (x[:, 1] | x[:, 2])).astype(np.float64),
        np.array([2 / 3, 1 / 6, 1 / 6]),
        np.array([3 / 4, 1 / 4, 1 / 4]),
    )


def majority(n: int) -> Game:
    """Payoff v(S) = 1 where over half are present, n odd: 1/n, Banzhaf C(n-1, ⌊n/2⌋)/2^(n-1)."""
    swing = math.comb(n - 1, n // 2) / 2 ** (n - 1)
    return Game(
        "majority",
        n,
        lambda x: (2 * x.sum(axis=1) > n).astype(np.float64),
        np.full(n, 1.0 / n),
        np.full(n, swing),
    )


def quadratic(n: int) -> Game:
    """Payoff v = L + 0.2·L²/n with L = Σ_{i∈S}(i+1): value w_i·(1 + 0.2·W/n), W = Σ w, for both."""
    w = np.arange(1.0, n + 1)
    values = w * (1 + 0.2 * w.sum() / n)

    def payoff(x: BoolArray) -> FloatArray:
        total = x @ w
        return np.asarray(total + 0.2 * total**2 / n, dtype=np.float64)

    return Game("quadratic", n, payoff, values, values)


def interaction(n: int, seed: int = 0) -> Game:
    """Weights and random pair interactions a_ij·[i,j ∈ S]: w_i + ½·Σ_j a_ij, for both."""
    rng = np.random.default_rng([seed, n])
    w = rng.normal(size=n)
    upper = np.triu(rng.normal(size=(n, n)), 1)
    values = w + (upper + upper.T).sum(axis=1) / 2

    def payoff(x: BoolArray) -> FloatArray:
        present = x.astype(np.float64)
        return np.asarray(present @ w + ((present @ upper) * present).sum(axis=1))

    return Game("interaction", n, payoff, values, values)
