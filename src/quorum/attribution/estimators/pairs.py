"""Payoffs as complementary pairs, and the stratified mean over (player, size) cells.

The Shapley and Banzhaf values see only the odd part of a game, u(S) = (v(S) - v(N∖S))/2, so a
pair (S, N∖S) is the unit of observation. Rows are put in canonical order first: no result
depends on the order in which payoffs arrive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from quorum.attribution.coalitions import (
    MAX_TABLE_PLAYERS,
    BoolArray,
    FloatArray,
    IntArray,
    banzhaf_from_table,
    canonical_order,
    log_banzhaf_weights,
    shapley_from_table,
)
from quorum.attribution.estimators.base import Estimand, Estimate
from quorum.errors import InputError

MAX_PAYOFF = 1e150  # squares of payoffs must be finite
MAX_EMPTY_SHARE = 0.25  # with more empty cells, interpolation decides and no spread shows it


@dataclass(frozen=True, slots=True)
class Pairs:
    """What has been observed of a game.

    Args:
        n: Number of players.
        empty: v(∅).
        grand: v(N).
        sides: One side (p, n) of each pair but (∅, N), in canonical order.
        odd: u = (v(S) - v(N∖S))/2 of each side (p,).
        n_unpaired: Coalitions whose complement has no payoff; they are not used.
        table: The full table (2^n,) where every coalition has a payoff.
    """

    n: int
    empty: float
    grand: float
    sides: BoolArray
    odd: FloatArray
    n_unpaired: int
    table: FloatArray | None

    @property
    def total(self) -> float:
        """v(N) - v(∅), what the Shapley values share out."""
        return self.grand - self.empty

    @property
    def sizes(self) -> IntArray:
        """Number of players on each side (p,)."""
        return np.asarray(self.sides.sum(axis=1), dtype=np.int64)


def read_pairs(coalitions: BoolArray, payoffs: FloatArray) -> Pairs:
    """The pairs among coalitions (m, n) with payoffs (m,), in canonical order.

    Raises:
        InputError: Shapes differ, a payoff is not finite (or above 1e150), a coalition stands
            twice, or the empty or grand coalition is missing.
    """
    rows = np.asarray(coalitions, dtype=bool)
    values = np.asarray(payoffs, dtype=np.float64)
    if rows.ndim != 2 or values.shape != (len(rows),) or rows.shape[1] < 1:
        raise InputError("payoffs", "shapes differ", got=(rows.shape, values.shape))
    if not (np.abs(values) <= MAX_PAYOFF).all():
        raise InputError("payoffs", "not all are finite numbers", allowed=f"up to ±{MAX_PAYOFF:g}")
    order = canonical_order(rows)
    rows, values = rows[order], values[order]
    if (rows[1:] == rows[:-1]).all(axis=1).any():
        raise InputError("coalitions", "one stands twice")
    n, m = rows.shape[1], len(rows)
    if m < 2 or rows[0].any() or not rows[-1].all():
        raise InputError("coalitions", "the empty or the grand coalition is missing")
    low = _paired_low_sides(rows)
    high = m - 1 - low if (rows == ~rows[::-1]).all() else _complements(rows, low)
    low, high = low[1:], high[1:]
    return Pairs(
        n=n,
        empty=float(values[0]),
        grand=float(values[-1]),
        sides=rows[low],
        odd=(values[low] - values[high]) / 2,
        n_unpaired=m - 2 - 2 * len(low),
        table=values if n <= MAX_TABLE_PLAYERS and m == 1 << n else None,
    )


def _paired_low_sides(rows: BoolArray) -> IntArray:
    """Indices of rows without player n-1 whose complement is among the rows, ∅ first."""
    low = np.flatnonzero(~rows[:, -1])
    if (rows == ~rows[::-1]).all():
        return low
    packed = {row.tobytes() for row in np.packbits(rows, axis=1)}
    mirrored = np.packbits(~rows[low], axis=1)
    kept = np.array([row.tobytes() in packed for row in mirrored], dtype=bool)
    return np.asarray(low[kept])


def _complements(rows: BoolArray, low: IntArray) -> IntArray:
    index = {row.tobytes(): k for k, row in enumerate(np.packbits(rows, axis=1))}
    mirrored = np.packbits(~rows[low], axis=1)
    return np.array([index[row.tobytes()] for row in mirrored], dtype=np.int64)


def exact_estimate(table: FloatArray, estimand: Estimand) -> Estimate:
    """Exact values of a full table, with standard errors 0."""
    values = shapley_from_table(table) if estimand == "shapley" else banzhaf_from_table(table)
    return Estimate(values, np.zeros(len(values)))


def student_factor(n_free: int) -> float:
    """Quotient of Student's and the normal 95th percentile: 3.84 for one degree of freedom.

    A standard error from so few observations times this keeps normal 90 % intervals honest.
    """
    return float(stdtrit(n_free, 0.95) / ndtri(0.95))


def size_weights(n: int, estimand: Estimand) -> FloatArray:
    """Weight of the coalitions of size j = 1..n that hold a player (n,): 1/n, or binomial."""
    if estimand == "shapley":
        return np.full(n, 1.0 / n)
    return np.exp(log_banzhaf_weights(n))


def strata(sides: BoolArray, odd: FloatArray) -> Iterator[tuple[int, BoolArray, FloatArray]]:
    """Per size j: the coalitions of that size and their 2u, both sides of every pair."""
    n = sides.shape[1]
    sizes = sides.sum(axis=1)
    for j in range(1, n):
        same, other = sizes == j, sizes == n - j
        if same.any() or other.any():
            rows = np.concatenate([sides[same], ~sides[other]])
            yield j, rows, np.concatenate([2 * odd[same], -2 * odd[other]])


@dataclass(frozen=True, slots=True)
class Stratified:
    """The stratified mean: values (n,), their variances (n,) or None, and empty cells."""

    values: FloatArray
    variances: FloatArray | None
    n_empty: int
    n_cells: int


def stratified_mean(
    sides: BoolArray, odd: FloatArray, total: float, estimand: Estimand, *, residual: bool
) -> Stratified:
    """φ_i = Σ_{j=1..n} w_j · mean{2u(S) : i ∈ S, |S| = j}; the cell j = n is ``total``.

    Variance: Σ_j w_j²·s²_ij/m_ij·(1 - m_ij/C(n-1, j-1)); s² of a cell is shrunk towards its
    size's, and that towards all sizes', each by two pseudo-observations. An empty cell counts as
    one observation. None where every cell of the sizes that are not enumerated whole holds too
    little to tell, and, without a model, where over a quarter of the cells are empty.

    Args:
        sides: One side (p, n) of each pair but (∅, N).
        odd: u on it (p,).
        total: 2u(N).
        estimand: Which w_j: 1/n or C(n-1, j-1)/2^(n-1).
        residual: Odd parts are what a model leaves over: an empty cell counts as 0, and s² is
            taken around 0. Otherwise an empty cell is interpolated between the player's nearest
            sizes, and s² is taken around the cell's mean.

    Source: Zhang et al., SIGMOD 2023, Algorithm 1, with j = n kept and pairs without replacement.
    """
    n = sides.shape[1]
    weights = size_weights(n, estimand)
    cells = np.full((n, n), 0.0 if residual else np.nan)
    cells[-1] = total
    spread = _Spread(n, residual=residual)
    n_empty = (n - 1) * n
    for j, rows, y in strata(sides, odd):
        present = rows.astype(np.float64)
        counts = present.sum(axis=0)
        hit = counts > 0
        cells[j - 1, hit] = (y @ present)[hit] / counts[hit]
        n_empty -= int(hit.sum())
        spread.add(j, present, counts, y)
    if n_empty and not residual:
        _interpolate(cells)
    return Stratified(weights @ cells, spread.variances(weights), n_empty, n * n)


def _interpolate(cells: FloatArray) -> None:
    """Fills each player's empty sizes (rows) linearly between its nearest filled ones."""
    sizes = np.arange(len(cells))
    for column in cells.T:
        filled = ~np.isnan(column)
        column[:] = np.interp(sizes, sizes[filled], column[filled])


class _Spread:
    """Sums of squares within cells, gathered size by size."""

    def __init__(self, n: int, *, residual: bool) -> None:
        self.n, self.residual = n, residual
        self.sizes: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}

    def add(self, j: int, present: FloatArray, counts: FloatArray, y: FloatArray) -> None:
        """Takes the cells of one size: their counts, degrees of freedom and squares."""
        if self.residual:
            free, squares = counts, (y**2) @ present
        else:
            free = np.maximum(counts - 1, 0)
            around = (y @ present) ** 2 / np.maximum(counts, 1)
            squares = np.maximum((y**2) @ present - around, 0.0)
        self.sizes[j] = (counts, free, squares)

    def variances(self, weights: FloatArray) -> FloatArray | None:
        """Variance of each player's weighted sum, or None where nothing tells.

        Sizes that are enumerated whole add nothing and tell nothing of the others.
        """
        if not self.residual and self._empty_share() > MAX_EMPTY_SHARE:
            return None
        sampled = {
            j: cells
            for j, cells in self.sizes.items()
            if (cells[0] < _cell_capacity(self.n, j)).any()
        }
        unseen = set(range(1, self.n)) - set(self.sizes)
        out = np.zeros(self.n)
        if not sampled and not unseen:
            return out
        n_free = sum(float(free.sum()) for _, free, _ in sampled.values())
        if not n_free:
            return None
        pooled = sum(float(squares.sum()) for _, _, squares in sampled.values()) / n_free
        for j, (counts, free, squares) in sampled.items():
            of_size = (float(squares.sum()) + 2 * pooled) / (float(free.sum()) + 2)
            cell = (squares + 2 * of_size) / (free + 2)
            open_share = 1 - counts / _cell_capacity(self.n, j)
            out += weights[j - 1] ** 2 * cell * open_share / np.maximum(counts, 1)
        for j in unseen:
            out += weights[j - 1] ** 2 * pooled
        return out

    def _empty_share(self) -> float:
        """Share of the (player, size) cells below size n that hold no pair."""
        filled = sum(int((counts > 0).sum()) for counts, _, _ in self.sizes.values())
        return 1 - filled / max(1, self.n * (self.n - 1))


def _cell_capacity(n: int, j: int) -> float:
    """C(n-1, j-1): how many coalitions of size j hold a player; at most 2^1000."""
    return float(min(math.comb(n - 1, j - 1), 1 << 1000))
