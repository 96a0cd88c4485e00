"""Models of a game's odd part, and complementary contributions of what they leave over.

φ = φ(model) + stratified complementary contributions of u - model, then shifted to efficiency
(Shapley). The estimate is consistent whatever the model, since a bad one only leaves more over.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy.linalg as sla

from quorum.attribution.coalitions import FloatArray
from quorum.attribution.estimators.base import Estimand, Estimate
from quorum.attribution.estimators.design import class_capacity, class_rates
from quorum.attribution.estimators.gp import FitFailedError, GpFit, fit_gp
from quorum.attribution.estimators.pairs import (
    Pairs,
    exact_estimate,
    stratified_mean,
    student_factor,
)
from quorum.threads import one_thread

ControlVariate = Literal["none", "linear", "gp"]

MAX_SVD = 150  # rank up to which the linear fit uses singular values
MAX_GP_PAIRS = 1700  # the posterior costs pairs³/3 multiplications
MAX_GP_PLAYERS = 400  # 200 rows cannot choose a relevance for each of more
# Posterior standard deviations times this make 90 % intervals cover about 90 %: 91 % over games
# 0..11 of each kind in benchmarks/games_yardstick.py, where it was found (86 % without it), and
# 92 % over games 100..111 (benchmarks/accuracy.py).
GP_CALIBRATION = 1.2


@dataclass(frozen=True, slots=True)
class LinearFit:
    """A linear model of u: u(S) ≈ ½ Σ_i ±β_i (+ where i ∈ S).

    Args:
        values: β (n,), both the Shapley and the Banzhaf values of the model.
        residuals: u - model on the sides (p,).
        leave_one_out: The same with each pair left out of the fit (p,).
        variances: Variance of β (n,), or None where the sampled classes do not tell.
        is_determined: The pairs determine β; otherwise it is the smallest departure from equal
            shares.
    """

    values: FloatArray
    residuals: FloatArray
    leave_one_out: FloatArray
    variances: FloatArray | None
    is_determined: bool


def fit_linear(pairs: Pairs, estimand: Estimand) -> LinearFit:
    """Weighted least squares of 2u on ±1 rows.

    Shapley: class s weighs (n-1)/(s(n-s)) per size, shared out over its sampled pairs, under
    Σβ = v(N) - v(∅). Banzhaf: every coalition weighs the same, (∅, N) included, no constraint.

    Source: Covert and Lee 2021 (paired KernelSHAP); Musco and Witter, ICLR 2025, for pairs
    without replacement. Exact for games of degree ≤ 2 once all pairs of sizes 1 and n-1 are in,
    because their odd part is linear.
    """
    n = pairs.n
    signs = 2.0 * pairs.sides - 1.0
    target = 2 * pairs.odd
    root = np.sqrt(_pair_weights(pairs, estimand))
    if estimand == "shapley":
        centre = signs.mean(axis=1)
        design, goal = signs - centre[:, None], target - centre * pairs.total
        offset = pairs.total / n
    else:
        design = np.concatenate([signs, np.ones((1, n))])
        goal = np.append(target, pairs.total)
        offset = 0.0
    beta, inverse, rank = _solve(design * root[:, None], goal * root)
    wanted = n - 1 if estimand == "shapley" else n
    errors = goal - design @ beta
    leverage = np.einsum("ij,ij->i", design @ inverse, design) * root**2
    rest = errors / np.maximum(1 - leverage, 0.05)
    n_pairs = len(pairs.odd)
    influence = (design @ inverse)[:n_pairs] * (root[:n_pairs] ** 2 * rest[:n_pairs])[:, None]
    return LinearFit(
        values=beta + offset,
        residuals=errors[:n_pairs] / 2,
        leave_one_out=rest[:n_pairs] / 2,
        variances=_sandwich(pairs, influence),
        is_determined=rank >= wanted,
    )


def _pair_weights(pairs: Pairs, estimand: Estimand) -> FloatArray:
    """Weight of each pair; for Banzhaf one more, of (∅, N)."""
    n = pairs.n
    small = np.minimum(pairs.sizes, n - pairs.sizes)
    counts = np.bincount(small, minlength=n // 2 + 1)
    if estimand == "shapley":
        rates = np.concatenate([[1.0], class_rates(n)])
        return np.asarray((n - 1) * rates[small] / (small * (n - small) * counts[small]))
    log_mass = np.array([_log_int(class_capacity(n, s)) if s else 0.0 for s in range(n // 2 + 1)])
    log_weights = np.append(log_mass[small] - np.log(np.maximum(counts[small], 1)), 0.0)
    # A weight 1e-24 of the largest still pins a player whom no heavier pair tells apart.
    return np.asarray(np.exp(np.maximum(log_weights - log_weights.max(), -55.0)))


def _log_int(value: int) -> float:
    shift = max(value.bit_length() - 60, 0)
    return float(np.log(float(value >> shift)) + shift * np.log(2.0))


def _solve(design: FloatArray, goal: FloatArray) -> tuple[FloatArray, FloatArray, int]:
    """Least-squares solution of least norm, pseudo-inverse of the Gram matrix, and the rank.

    Many players: by eigenvectors of the smaller Gram matrix, which are good to about 1e-8 of the
    largest; few: by singular values.
    """
    n_rows, n = design.shape
    if not n_rows:
        return np.zeros(n), np.zeros((n, n)), 0
    if min(n_rows, n) > MAX_SVD:
        wide = n_rows < n
        squares, vectors = sla.eigh(design @ design.T if wide else design.T @ design)
        keep = squares > squares[-1] * 1e-12
        right = vectors[:, keep].T
        if wide:
            right = (right @ design) / np.sqrt(squares[keep])[:, None]
        singular_squared = squares[keep]
    else:
        _, singular, right = sla.svd(design, full_matrices=False)
        keep = singular > singular[0] * 1e-10
        right, singular_squared = right[keep], singular[keep] ** 2
    inverse = (right.T / singular_squared) @ right
    beta = inverse @ (design.T @ goal)
    beta += inverse @ (design.T @ (goal - design @ beta))  # one step of refinement
    return beta, inverse, int(keep.sum())


def _sandwich(pairs: Pairs, influence: FloatArray) -> FloatArray | None:
    """Σ over classes of the spread of influences, with the finite-population factor.

    Widened for as many degrees of freedom as there are pairs in those classes but one. None where
    fewer than two pairs come from classes that are not enumerated whole, or fewer than n in all.
    """
    n = pairs.n
    small = np.minimum(pairs.sizes, n - pairs.sizes)
    out, n_open = np.zeros(n), 0
    for size in np.unique(small):
        rows = influence[small == size]
        capacity = class_capacity(n, int(size))
        if len(rows) >= capacity:
            continue
        n_open += len(rows)
        open_share = 1 - len(rows) / float(min(capacity, 1 << 1000))
        if len(rows) > 1:
            centred = rows - rows.mean(axis=0)
            out += open_share * len(rows) / (len(rows) - 1) * (centred**2).sum(axis=0)
        else:
            out += open_share * (rows**2).sum(axis=0)
    if n_open < 2 or len(pairs.odd) < n:
        return None
    return out * student_factor(n_open - 1) ** 2


NO_SPREAD = "too few pairs of sizes that are not enumerated whole, so no spread was observed"


def attribute_pairs(
    pairs: Pairs, control_variate: ControlVariate, estimand: Estimand, seed: int
) -> Estimate:
    """Complementary contributions with a control variate; exact on a full table."""
    if pairs.table is not None:
        return exact_estimate(pairs.table, estimand)
    notes = unpaired_note(pairs)
    with one_thread():
        if control_variate == "none":
            return _plain(pairs, estimand, notes)
        if control_variate == "gp":
            try:
                return _with_gp(pairs, estimand, seed, notes)
            except FitFailedError as failure:
                notes = (*notes, f"control variate linear instead of gp: {failure}")
        return _with_linear(pairs, estimand, notes)


def leave_one_out(pairs: Pairs, control_variate: ControlVariate, seed: int) -> FloatArray:
    """Odd part u minus what the control variate, fitted without that pair, says of it (p,)."""
    if control_variate == "none":
        return pairs.odd
    if control_variate == "gp":
        try:
            return _fit_gp(pairs, "shapley", seed).leave_one_out
        except FitFailedError:  # attribute() meets the same failure and notes it
            return fit_linear(pairs, "shapley").leave_one_out
    return fit_linear(pairs, "shapley").leave_one_out


def unpaired_note(pairs: Pairs) -> tuple[str, ...]:
    """Says how many coalitions were left out because their complement has no payoff."""
    if not pairs.n_unpaired:
        return ()
    return (f"{pairs.n_unpaired} coalitions without their complement are not used",)


def _plain(pairs: Pairs, estimand: Estimand, notes: tuple[str, ...]) -> Estimate:
    mean = stratified_mean(pairs.sides, pairs.odd, pairs.total, estimand, residual=False)
    if mean.n_empty:
        cells = f"{mean.n_empty} of {mean.n_cells} (player, size) cells hold no pair"
        notes = (*notes, f"{cells}: they are interpolated between the player's nearest sizes")
    if mean.variances is None:
        return Estimate(mean.values, None, NO_SPREAD, notes)
    return Estimate(mean.values, np.sqrt(mean.variances), notes=notes)


def _with_linear(pairs: Pairs, estimand: Estimand, notes: tuple[str, ...]) -> Estimate:
    fit = fit_linear(pairs, estimand)
    if not fit.is_determined:
        notes = (*notes, underdetermined_note(pairs))
    # Variances rest on leave-one-out residuals: those of the fit are too small.
    rest = stratified_mean(pairs.sides, fit.residuals, 0.0, estimand, residual=True)
    spread = stratified_mean(pairs.sides, fit.leave_one_out, 0.0, estimand, residual=True)
    values = shifted(fit.values + rest.values, pairs.total, estimand)
    if spread.variances is None or not fit.is_determined:
        return Estimate(values, None, NO_SPREAD, notes)
    return Estimate(values, np.sqrt(spread.variances), notes=notes)


def underdetermined_note(pairs: Pairs) -> str:
    """Says that the fit is not determined by the pairs."""
    return (
        f"{len(pairs.odd)} pairs do not determine {pairs.n} values: "
        "what they leave open is shared out equally"
    )


def _with_gp(pairs: Pairs, estimand: Estimand, seed: int, notes: tuple[str, ...]) -> Estimate:
    fit = _fit_gp(pairs, estimand, seed)
    rest = stratified_mean(pairs.sides, fit.residuals, 0.0, estimand, residual=True)
    values = shifted(fit.values + rest.values, pairs.total, estimand)
    if not np.isfinite(values).all():
        raise FitFailedError("its values are not finite")
    return Estimate(values, GP_CALIBRATION * fit.errors, notes=notes)


def _fit_gp(pairs: Pairs, estimand: Estimand, seed: int) -> GpFit:
    if len(pairs.odd) > MAX_GP_PAIRS:
        raise FitFailedError(f"{len(pairs.odd):,} pairs are more than {MAX_GP_PAIRS:,}")
    if pairs.n > MAX_GP_PLAYERS:
        raise FitFailedError(f"{pairs.n:,} players are more than {MAX_GP_PLAYERS:,}")
    return fit_gp(pairs, estimand, seed)


def shifted(values: FloatArray, total: float, estimand: Estimand) -> FloatArray:
    """Shapley values moved by one constant so that they sum to v(N) - v(∅)."""
    if estimand != "shapley":
        return values
    return np.asarray(values + (total - values.sum()) / len(values))


def with_notes(estimate: Estimate, *notes: str) -> Estimate:
    """The estimate with further notes."""
    return replace(estimate, notes=(*estimate.notes, *notes))
