"""A Gaussian process on a game's odd part, whose Shapley and Banzhaf values are closed form.

Rows s, t ∈ {±1}^n, + where the player is present. Kernel

    k(s, t) = a·⟨s, t⟩/n + (1-a)·sinh(Σ_i b_i s_i t_i)/sinh(Σ_i b_i),    b_i = artanh r_i,

whose second part is the odd part of Π_i(1 + r_i s_i t_i) divided by its value at s = t: each
factor is √(1-r_i²)·exp(b_i s_i t_i). r_i ∈ (0, 1) is the relevance of player i. All rows but
(N, ∅) carry noise, because payoffs of texts jump where no smooth game does.

The Shapley value of Π_j(1 + r_j s_j t_j) as a game in s is

    2 r_i t_i ∫₀¹ Π_{j≠i}(1 + r_j t_j(2p-1)) dp,

a polynomial of degree n-1, hence exact by Gauss–Legendre with ⌈n/2⌉+1 nodes; its Banzhaf value
is 2 r_i t_i. The linear part gives 2 t_i/n in both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sla

from quorum.attribution.coalitions import FloatArray
from quorum.attribution.estimators.base import Estimand
from quorum.attribution.estimators.pairs import Pairs

MAX_HYPER_ROWS = 200  # rows that the hyperparameters are chosen on
JITTER = 1e-7  # relative to the prior variance
LOWEST_R, R_SPAN = 0.001, 0.989
MAX_LOG_NOISE = 3.0


class FitFailedError(ArithmeticError):
    """The process cannot be fitted; the caller takes another control variate and says so."""


@dataclass(frozen=True, slots=True)
class Hyper:
    """Hyperparameters: linear share a, noise variance relative to the prior's, relevances r."""

    share: float
    noise: float
    relevance: FloatArray


@dataclass(frozen=True, slots=True)
class GpFit:
    """The fitted process.

    Args:
        values: Value of the posterior mean for each player (n,).
        errors: Posterior standard deviation of each value (n,), uncalibrated.
        residuals: u - posterior mean on the sides (p,).
        leave_one_out: The same with each pair left out (p,).
    """

    values: FloatArray
    errors: FloatArray
    residuals: FloatArray
    leave_one_out: FloatArray


def fit_gp(pairs: Pairs, estimand: Estimand, seed: int) -> GpFit:
    """Fits hyperparameters on at most 200 rows, then the posterior on all.

    Raises:
        FitFailedError: A matrix is not positive definite or a number is not finite.
    """
    n = pairs.n
    signs = np.concatenate([np.ones((1, n)), 2.0 * pairs.sides - 1.0])
    odd = np.concatenate([[pairs.total / 2], pairs.odd])
    largest = float(np.abs(odd).max())
    if largest == 0.0:
        zeros = np.zeros(len(pairs.odd))
        return GpFit(np.zeros(n), np.zeros(n), zeros, zeros)
    scale = largest * float(np.sqrt(np.mean((odd / largest) ** 2)))
    rows = np.arange(len(odd))
    if len(odd) > MAX_HYPER_ROWS:
        rng = np.random.default_rng([seed, n, len(odd)])
        picked = rng.choice(len(odd) - 1, MAX_HYPER_ROWS - 1, replace=False)
        rows = np.concatenate([[0], 1 + np.sort(picked)])
    hyper = choose_hyper(signs[rows], odd[rows] / scale)
    return _posterior(signs, odd / scale, scale, hyper, estimand)


def choose_hyper(signs: FloatArray, u: FloatArray) -> Hyper:
    """Hyperparameters by penalised marginal likelihood: first one r for all, then one each.

    Args:
        signs: Rows (m, n) of ±1, (N, ∅) first.
        u: Odd part over its root mean square (m,).
    """
    from scipy.optimize import minimize  # slow to load, and a plan needs none

    m, n = signs.shape
    objective = _Objective(signs, u)
    best = None
    for start in (-2.5, -0.5):
        found = minimize(
            objective.isotropic,
            np.array([0.0, -4.0, start]),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 15},
        )
        if best is None or found.fun < best.fun:
            best = found
    assert best is not None
    theta = np.concatenate([best.x[:2], np.full(n, best.x[2])])
    if m > n // 2:
        found = minimize(objective, theta, jac=True, method="L-BFGS-B", options={"maxiter": 25})
        if found.fun < best.fun:
            theta = found.x
    return _hyper(theta)


def _hyper(theta: FloatArray) -> Hyper:
    return Hyper(
        share=float(_sigmoid(theta[0])),
        noise=math.exp(min(float(theta[1]), MAX_LOG_NOISE)),
        relevance=LOWEST_R + R_SPAN * _sigmoid(theta[2:]),
    )


def _sigmoid(z: FloatArray) -> FloatArray:
    return np.asarray(0.5 * (1 + np.tanh(np.asarray(z) / 2)), dtype=np.float64)


class _Objective:
    """Negative log marginal likelihood (prior scale profiled out) plus weak priors.

    θ = (logit a, log noise, q_1..q_n) with r_i = 0.001 + 0.989·σ(q_i). Priors: the q_i spread
    around their mean, the mean around -1, logit a around 0, log noise around -4.
    """

    def __init__(self, signs: FloatArray, u: FloatArray) -> None:
        self.signs, self.u = signs, u
        self.m, self.n = signs.shape
        self.linear = signs @ signs.T / self.n
        self.noisy = np.ones(self.m)
        self.noisy[0] = 0.0

    def isotropic(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The same with one q for all players: θ = (logit a, log noise, q)."""
        value, gradient = self(np.concatenate([theta[:2], np.full(self.n, theta[2])]))
        return value, np.append(gradient[:2], gradient[2:].sum())

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        hyper = _hyper(theta)
        a, r = hyper.share, hyper.relevance
        b = np.arctanh(r)
        product, mirrored, coth = _product_kernel(self.signs, self.signs, b)
        kernel = a * self.linear + (1 - a) * product
        kernel[np.diag_indices(self.m)] += self.noisy * hyper.noise + JITTER
        factor, info = sla.lapack.dpotrf(kernel, lower=1)
        if info != 0:
            return 1e10, np.zeros(len(theta))
        inverse, _ = sla.lapack.dpotri(factor, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        alpha = inverse @ self.u
        prior_scale = max(float(self.u @ alpha) / self.m, 1e-300)
        value = 0.5 * self.m * math.log(prior_scale) + float(np.log(np.diag(factor)).sum())
        outer = 0.5 * (inverse - np.outer(alpha, alpha) / prior_scale)
        gradient = np.empty(2 + self.n)
        gradient[0] = np.sum(outer * (self.linear - product)) * a * (1 - a)
        gradient[1] = hyper.noise * np.sum(np.diag(outer) * self.noisy)
        by_b = np.einsum("ai,ai->i", self.signs, (outer * mirrored) @ self.signs)
        by_b -= coth * np.sum(outer * product)
        sigma = _sigmoid(theta[2:])
        gradient[2:] = (1 - a) * by_b / (1 - r**2) * R_SPAN * sigma * (1 - sigma)
        return self._with_priors(theta, value, gradient)

    def _with_priors(
        self, theta: FloatArray, value: float, gradient: FloatArray
    ) -> tuple[float, FloatArray]:
        q = theta[2:]
        mean = float(q.mean())
        value += 0.5 * float(np.sum((q - mean) ** 2)) + 0.02 * self.n * (mean + 1) ** 2
        value += 0.02 * (float(theta[0]) ** 2 + (float(theta[1]) + 4) ** 2)
        gradient[2:] += (q - mean) + 0.04 * (mean + 1)
        gradient[0] += 0.04 * theta[0]
        gradient[1] += 0.04 * (theta[1] + 4)
        return value, gradient


def _product_kernel(
    s: FloatArray, t: FloatArray, b: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """sinh(G)/sinh(B), cosh(G)/sinh(B) with G = Σ b_i s_i t_i, and coth(B), B = Σ b_i.

    Written with exponents ≤ 0, so nothing overflows however many players there are.
    """
    total = float(b.sum())
    inner = (s * b) @ t.T
    plus = np.exp(inner - total)
    minus = np.exp(-inner - total)
    span = -math.expm1(-2 * total)
    return (plus - minus) / span, (plus + minus) / span, (2 - span) / span


def _posterior(
    signs: FloatArray, u: FloatArray, scale: float, hyper: Hyper, estimand: Estimand
) -> GpFit:
    m, n = signs.shape
    b = np.arctanh(hyper.relevance)
    kernel = hyper.share * (signs @ signs.T) / n
    kernel += (1 - hyper.share) * _product_kernel(signs, signs, b)[0]
    noise = np.full(m, hyper.noise + JITTER)
    noise[0] = JITTER
    kernel[np.diag_indices(m)] += noise
    try:
        factor = sla.cholesky(kernel, lower=True)
    except sla.LinAlgError as error:
        raise FitFailedError("the kernel matrix is not positive definite") from error
    alpha = sla.cho_solve((factor, True), u)
    functional, prior = value_functional(signs, hyper, estimand)
    half = sla.solve_triangular(factor, functional, lower=True)
    prior_scale = max(float(u @ alpha) / m, 0.0)
    variances = np.maximum(prior - np.sum(half**2, axis=0), 0.0) * prior_scale
    residuals = noise * alpha
    diagonal = _inverse_diagonal(factor)
    return GpFit(
        values=functional.T @ alpha * scale,
        errors=np.sqrt(variances) * scale,
        residuals=residuals[1:] * scale,
        leave_one_out=(alpha / diagonal)[1:] * scale,
    )


def _inverse_diagonal(factor: FloatArray) -> FloatArray:
    inverse, _ = sla.lapack.dtrtri(factor, lower=1)
    return np.asarray(np.sum(inverse**2, axis=0))


def value_functional(
    signs: FloatArray, hyper: Hyper, estimand: Estimand
) -> tuple[FloatArray, FloatArray]:
    """Values of k(·, t) for each row t (m, n), and prior variance of each value (n,)."""
    n = signs.shape[1]
    a, r = hyper.share, hyper.relevance
    # Everything is divided by z = √Π(1-r²)·sinh B, in logarithms.
    b = np.arctanh(r)
    total = float(b.sum())
    log_root = 0.5 * float(np.log1p(-(r**2)).sum())
    log_z = log_root + total + math.log(-math.expm1(-2 * total) / 2)
    if estimand == "banzhaf":
        rows = 2 * signs * r * math.exp(-log_z)
        prior = 4 * r * math.exp(-log_z)
    else:
        rows = _shapley_rows(signs, r, log_z)
        prior = _shapley_prior(r, log_z)
    return a * 2 * signs / n + (1 - a) * rows, a * 4 / n + (1 - a) * prior


def _shapley_rows(signs: FloatArray, r: FloatArray, log_z: float) -> FloatArray:
    """2 r_i t_i ∫ Π_{j≠i}(1 + r_j t_j x) dp with x = 2p-1, over z: shape (m, n).

    Π_j(1 + r_j t_j x) = exp(½ Σ log(1 - r_j²x²) + Σ t_j artanh(r_j x)), and dividing by the i-th
    factor is multiplying by (1 - r_i t_i x)/(1 - r_i²x²): three matrix products in all.
    """
    n = len(r)
    x, w = np.polynomial.legendre.leggauss((n + 1) // 2 + 1)
    rx: FloatArray = np.outer(x, r)
    damp = 1 - rx**2
    log_products = signs @ np.arctanh(rx).T + 0.5 * np.log(damp).sum(axis=1) - log_z
    products = np.exp(log_products) * (w / 2)
    values = signs * (products @ (2 * r / damp)) - products @ (2 * r * rx / damp)
    return np.asarray(values, dtype=np.float64)


def _shapley_prior(r: FloatArray, log_z: float) -> FloatArray:
    """4 r_i ∫∫ Π_{j≠i}(1 + r_j x y) dp dq over z: the functional applied to both arguments."""
    n = len(r)
    x, w = np.polynomial.legendre.leggauss(min((n + 1) // 2 + 1, 48))
    grid, weight = np.outer(x, x).ravel(), np.outer(w, w).ravel() / 4
    log_product = np.zeros(len(grid))
    for one in r:
        log_product += np.log1p(one * grid)
    mass = np.asarray(np.exp(log_product - log_z) * weight, dtype=np.float64)
    return np.array([4 * one * np.sum(mass / (1 + one * grid)) for one in r])
