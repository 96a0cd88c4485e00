"""Newton's method on the dual: the solver for fits with a ridge, in as many unknowns as rows.

With κ > 0 the weights follow from the residual r alone, w(r) = max(0, A'r − c/2)/κ. The dual is
concave with gradient b − r − A w(r), and on a fixed set S of active personas it is quadratic with
curvature I + A_S A_S'/κ. So each step is one linear system of the smaller of |S| and the number of
rows; some fifteen steps reach the optimum exactly. No n × n matrix is ever made.

Source: semismooth Newton methods for sparse least squares, Li, Sun and Toh 2018, section 3. Ours:
a bound mass is a free one with one more row, see `bound`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy
import scipy.linalg

from quorum.reconstruction.ensembles.base import FloatArray
from quorum.reconstruction.ensembles.system import Raw, System

MAX_STEPS = 200
MAX_WORSE = 8  # steps without a smaller gap: rounding is all that is left
EXACT = 1e-15  # duality gap wanted, relative to the system's scale
PRECISE = 1e-13  # relative gap from which on the weights need no polish
MAX_POLISHED = 2_000  # active personas; above it a polish costs more than the fit
ROUGH = 1e-4  # the same on the way to the wanted κ
BOUND_HOLDS = 1e-10  # relative gap at which Σw = 1 is taken for the solution of Σw ≤ 1
FLAT = 0.1  # slope left at the end of a line search, relative


def solve_newton(system: System, start: FloatArray | None) -> Raw:
    """The weights; the caller checks them, so a stop at MAX_STEPS is seen there.

    Σw ≤ 1 is tried without the bound first; where the sum is above 1, the bound holds with
    equality.
    """
    n_bound = 0
    if system.total == "at_most_one" and start is not None and len(start) > len(system.b):
        w, r, n_bound = _descend(bound(system), start)  # the bound held at the last κ
        w = w / (w.sum() or 1.0)
        if system.gap(w) <= BOUND_HOLDS:
            return Raw(w, "dual newton", scipy.__version__, n_bound, r)
    if system.total != "one":
        free = replace(system, total="free")
        w, r, n_steps = _descend(free, start)
        n_bound += n_steps
        if system.total == "free" or w.sum() <= 1.0:
            return Raw(w, "dual newton", scipy.__version__, n_bound, r)
    w, r, n_steps = _descend(bound(system), start)
    return Raw(w / (w.sum() or 1.0), "dual newton", scipy.__version__, n_bound + n_steps, r)


def bound(system: System) -> System:
    """A problem with free mass whose solution is a multiple of the one with Σw = 1.

    On {Σu = t} the columns a_i − b turn |b − A w|² + κ|w|² into a form q of degree two, so that
    min q(u) + K²(Σu − 1)² = min over t of t² q + K²(t − 1)² = K² q/(K² + q), least where q is. K is
    1, or more where κ is so large that t would vanish.
    """
    n = system.a.shape[1]
    k = float(np.sqrt(max(1.0, system.kappa / n)))
    a = np.vstack([system.a - system.b[:, None], np.full(n, k)])
    return System(a, np.append(np.zeros(len(system.b)), k), system.kappa, scale=k * k)


def _descend(system: System, start: FloatArray | None) -> tuple[FloatArray, FloatArray, int]:
    """Weights, residual, steps. From cold, κ comes down by factors of ten."""
    if start is not None and start.shape == system.b.shape:
        r, kappas = start, [system.kappa]
    else:
        r = system.b - system.a.mean(axis=1)
        largest = float(np.einsum("mi,mi->", system.a, system.a)) / 100.0
        n_kappas = int(np.ceil(np.log10(max(largest / system.kappa, 1.0))))
        kappas = [system.kappa * 10.0**k for k in range(n_kappas, -1, -1)]
    n_steps, w = 0, np.zeros(system.a.shape[1])
    for kappa in kappas:
        level = replace(system, kappa=kappa)
        exact = EXACT if kappa == system.kappa else ROUGH
        r, w, more = _climb(level, r, exact * system.scale)
        n_steps += more
    if system.gap(w) > PRECISE and np.count_nonzero(w) <= MAX_POLISHED:
        w = _polished(system, w)
    return w, r, n_steps


def _polished(system: System, w: FloatArray) -> FloatArray:
    """Least squares on the active personas: with a tiny κ, w = A'r/κ magnifies r's rounding."""
    active = w > 0
    k = int(active.sum())
    if k == 0:
        return w
    rows = np.vstack([system.a[:, active], np.sqrt(system.kappa) * np.eye(k)])
    q, r = scipy.linalg.qr(rows, mode="economic")
    right = q[: len(system.b)].T @ system.b
    if system.linear:
        half = np.full(k, system.linear / 2.0)
        right = right - scipy.linalg.solve_triangular(r, half, trans="T")
    better = np.zeros_like(w)
    better[active] = np.maximum(scipy.linalg.solve_triangular(r, right), 0.0)
    return better if system.gap(better) < system.gap(w) else w


def _climb(system: System, r: FloatArray, enough: float) -> tuple[FloatArray, FloatArray, int]:
    """Newton steps until the duality gap is small or stops falling; r, weights, their number."""
    best_r, best, least = r, np.zeros(0), np.inf
    n_worse = n_steps = 0
    pull = system.a.T @ r - system.linear / 2.0
    while True:
        w = np.maximum(pull, 0.0) / system.kappa
        rest = system.b - system.a @ w
        primal = (rest @ rest + system.kappa * (w @ w) + system.linear * w.sum()) / 2.0
        dual = system.b @ r - r @ r / 2.0 - system.kappa * (w @ w) / 2.0
        gap = float(primal - dual)
        if gap < least or best.size == 0:
            best_r, best, least, n_worse = r, w, gap, 0
        else:
            n_worse += 1
        if gap <= enough or n_worse > MAX_WORSE or n_steps >= MAX_STEPS:
            return best_r, best, n_steps
        gradient = rest - r
        step = _direction(system, w, gradient)
        if step is None:
            return best_r, best, n_steps
        turn = np.asarray(system.a.T @ step, np.float64)
        length = _line_search(system, pull, turn, float(gradient @ step), float(step @ step))
        r, pull = r + length * step, pull + length * turn
        n_steps += 1


def _line_search(
    system: System, pull: FloatArray, turn: FloatArray, first: float, square: float
) -> float:
    """A length at which the dual's slope has fallen to a tenth.

    The dual is concave along the step, so its slope falls; a trial costs one pass over n numbers.
    """
    now = np.maximum(pull, 0.0)

    def slope(length: float) -> float:
        moved = np.maximum(pull + length * turn, 0.0) - now
        return first - length * square - float(turn @ moved) / system.kappa

    if first <= 0 or slope(1.0) >= -FLAT * first:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2.0
        value = slope(middle)
        if abs(value) <= FLAT * first:
            return middle
        low, high = (middle, high) if value > 0 else (low, middle)
    return low or high


def _direction(system: System, w: FloatArray, gradient: FloatArray) -> FloatArray | None:
    """(I + B B')⁻¹ gradient, B the active columns over √κ; None where rounding prevents it."""
    b = system.a[:, w > 0] / np.sqrt(system.kappa)
    m, k = b.shape
    if k == 0:
        return gradient
    small = b.T @ b if k < m else b @ b.T
    small.flat[:: len(small) + 1] += 1.0
    try:
        factor = scipy.linalg.cho_factor(small, lower=True, overwrite_a=True)
    except scipy.linalg.LinAlgError:
        return None
    if k < m:  # Woodbury
        return np.asarray(gradient - b @ scipy.linalg.cho_solve(factor, b.T @ gradient), np.float64)
    return np.asarray(scipy.linalg.cho_solve(factor, gradient), np.float64)
