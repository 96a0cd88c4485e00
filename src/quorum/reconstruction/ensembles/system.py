"""One quadratic problem for all ensembles, its solvers by name, and the check of every solution.

    min_w |b − A w|² + κ|w|² + c Σw,   w ≥ 0,   Σw free, = 1, or ≤ 1

Rows are scaled by √ρ beforehand; a mass penalty μ is one more row √μ·(1, …, 1) with target √μ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy
import scipy.linalg

from quorum.errors import RefusedError
from quorum.reconstruction.ensembles.base import FloatArray, SolverReport
from quorum.threads import one_thread

Total = Literal["free", "one", "at_most_one"]
SolverName = Literal["nnls", "highs"]

MAX_CLIP = 1e-6  # a weight below −1e-6 is no rounding error
MAX_RIDGE_ROWS = 5_000  # above it a ridge makes scipy's matrix too large: Newton or nothing
UNIQUE_TOLERANCE = 1e-9  # gradients below it, relative, may belong to other solutions


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """The problem above: A (m, n), b (m,), κ ≥ 0, c ≥ 0.

    Args:
        a: A.
        b: b.
        kappa: κ.
        linear: c.
        total: What Σw may be.
        scale: What a gap is measured by: the data term at w = 0.
        ones: s (m,) with s'A = (1, …, 1), where there is one: then Σw = s'Aw, and a linear term
            only shifts b.
    """

    a: FloatArray
    b: FloatArray
    kappa: float = 0.0
    linear: float = 0.0
    total: Total = "free"
    scale: float = 1.0
    ones: FloatArray | None = None

    def objective(self, w: FloatArray) -> float:
        """The value minimised."""
        rest = self.b - self.a @ w
        return float(rest @ rest + self.kappa * (w @ w) + self.linear * w.sum())

    def gradient(self, w: FloatArray) -> FloatArray:
        """Its gradient in w."""
        pull = 2.0 * (self.a.T @ (self.a @ w - self.b)) + 2.0 * self.kappa * w
        return np.asarray(pull + self.linear, np.float64)

    def gap(self, w: FloatArray) -> float:
        """How far w ≥ 0 is from the optimality conditions, relative to `scale`.

        g·w − min g where Σw = 1, g·w − min(0, min g) where Σw ≤ 1: both bound objective minus
        minimum. |g·w| + max(0, −min g) where the sum is free.
        """
        g = self.gradient(w)
        low, along = float(g.min()), float(g @ w)
        if self.total == "one":
            broken = along - low
        elif self.total == "at_most_one":
            broken = along - min(0.0, low)
        else:
            broken = abs(along) + max(0.0, -low)
        return max(broken, 0.0) / self.scale

    def reduced(self) -> System:
        """The same problem with at most n rows; the objective differs by a constant."""
        m, n = self.a.shape
        if m <= n:
            return self
        q, r = scipy.linalg.qr(self.a, mode="economic")
        ones = None if self.ones is None else q.T @ self.ones
        return replace(self, a=np.asarray(r, np.float64), b=q.T @ self.b, ones=ones)


@dataclass(frozen=True, slots=True, eq=False)
class Raw:
    """What a solver gives back; ``start`` warms up the next solve of the same shape."""

    weights: FloatArray
    solver: str
    version: str
    iterations: int | None
    start: FloatArray | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Checked weights with their report."""

    weights: FloatArray
    report: SolverReport
    start: FloatArray | None


def solve(
    system: System,
    solver: SolverName,
    tolerance: float,
    start: FloatArray | None = None,
    *,
    is_final: bool = True,
) -> Solution:
    """Solves, clips rounding errors, and checks the optimality conditions itself.

    Args:
        system: The problem.
        solver: ``nnls`` (scipy's, or Newton's method on the dual where there is a ridge), or
            ``highs`` (package highspy).
        tolerance: The largest relative gap allowed; see `System.gap`.
        start: From a former solution of a problem with the same A.
        is_final: Whether the report must say if the solution is unique (costs a rank).

    Raises:
        RefusedError: A weight below −1e-6, or a gap above the tolerance.
        MissingExtraError: ``highs`` without its package.
    """
    with one_thread():
        small = system.reduced()
        raw = _by_name(small, solver, tolerance, start)
        low = float(raw.weights.min())
        if not np.isfinite(raw.weights).all() or low < -MAX_CLIP:
            raise RefusedError(
                f"ensemble.solver={solver}",
                f"{raw.solver} gave weights that are no weights",
                got=low,
                allowed="0 or more, rounding errors of 1e-6 apart",
                mend=_other(solver),
            )
        w = np.maximum(raw.weights, 0.0)
        total = float(w.sum())
        if system.total == "one" or (system.total == "at_most_one" and total > 1.0):
            w = w / total
        gap = small.gap(w)
        if not gap <= tolerance:
            raise RefusedError(
                f"ensemble.solver={solver}",
                f"{raw.solver} stopped away from the optimum, relative gap",
                got=gap,
                allowed=f"up to ensemble.tolerance={tolerance:g}",
                mend=_other(solver),
            )
        is_unique = _is_unique(small, w) if is_final else None
        return Solution(w, _report(system, raw, w, gap, tolerance, is_unique), raw.start)


def _other(solver: SolverName) -> str:
    other = "nnls" if solver == "highs" else "highs"
    return f"Try ensemble.solver={other}, or a larger penalty"


def _by_name(system: System, solver: SolverName, tolerance: float, start: FloatArray | None) -> Raw:
    if solver == "highs":
        from quorum.reconstruction.ensembles.highs import solve_highs

        return solve_highs(system)
    if system.kappa > 0:
        from quorum.reconstruction.ensembles.newton import solve_newton

        raw = solve_newton(system, start)
        weights = np.maximum(raw.weights, 0.0)
        n = system.a.shape[1]
        if system.gap(weights) <= min(tolerance, 1e-9) or n > MAX_RIDGE_ROWS:
            return raw
    return _scipy_nnls(system)


def _scipy_nnls(system: System) -> Raw:
    """Lawson and Hanson's method, on a matrix that makes each kind of problem a plain one.

    Ridge: rows √κ·I. Σw = 1: on {Σu = t} the columns a_i − b turn |A w − b| into |C u| / t, so
    min |C u|² + (Σu − 1)² is reached at a multiple of the wanted w, exactly; Σw ≤ 1: one more
    column −b takes the rest. Linear term: b − s c/2 for b where Σw = s'Aw; else it is the dual of
    min |x|², A'(x + b) ≤ c/2, a least-distance programme, which is one plain problem (Lawson and
    Hanson 1974, chapter 23).
    """
    m, n = system.a.shape
    matrix, target = system.a, system.b.copy()
    if system.total != "free":
        matrix = system.a - system.b[:, None]
        if system.total == "at_most_one":
            matrix = np.column_stack([matrix, -system.b])
        target = np.zeros(m)
    if system.kappa > 0:
        matrix = np.vstack([matrix, np.sqrt(system.kappa) * np.eye(n, matrix.shape[1])])
        target = np.concatenate([target, np.zeros(n)])
    if system.total != "free":
        return _nnls(np.vstack([matrix, np.ones(matrix.shape[1])]), target, n)
    if system.linear == 0:
        return _nnls(matrix, target, n)
    if system.ones is not None:
        target[: len(system.b)] -= system.linear / 2.0 * system.ones
        return _nnls(matrix, target, n)
    slope = matrix.T @ target - system.linear / 2.0
    if slope.max() <= 0:  # no weight pays for its penalty
        return Raw(np.zeros(n), "none", scipy.__version__, 0)
    return _nnls(np.vstack([matrix, -slope]), np.zeros(len(target)), n, slope)


def _nnls(matrix: FloatArray, target: FloatArray, n: int, slope: FloatArray | None = None) -> Raw:
    """Runs scipy's nnls; a target one short of the rows gets 1 or −1 as its last."""
    from scipy.optimize import nnls

    is_scaled = len(target) < matrix.shape[0]
    last = 1.0 if slope is None else -1.0
    full = np.append(target, last) if is_scaled else target
    u, _ = nnls(matrix, full, maxiter=30 * matrix.shape[1])
    if is_scaled:
        u = u / (u.sum() if slope is None else 1.0 - slope @ u)
    return Raw(np.asarray(u[:n], np.float64), "scipy nnls", scipy.__version__, None)


def _report(
    system: System,
    raw: Raw,
    w: FloatArray,
    gap: float,
    tolerance: float,
    is_unique: bool | None,  # noqa: FBT001 - one of the report's fields
) -> SolverReport:
    square = float(w @ w)
    return SolverReport(
        solver=raw.solver,
        version=raw.version,
        iterations=raw.iterations,
        objective=system.objective(w),
        gap=gap,
        raw_sum=float(raw.weights.sum()),
        raw_min=float(raw.weights.min()),
        clip=max(0.0, -float(raw.weights.min())),
        tolerance=tolerance,
        n_active=int((w > 0).sum()),
        effective_size=float(w.sum()) ** 2 / square if square > 0 else None,
        is_unique=is_unique,
    )


def _is_unique(system: System, w: FloatArray) -> bool | None:
    """Whether no other weights reach the same objective.

    Yes with a ridge, or where the columns that could carry weight are independent; no where those
    that do are dependent; None in between.
    """
    if system.kappa > 0:
        return True
    g = system.gradient(w)
    level = 0.0 if system.total == "free" else min(float(g.min()), 0.0)
    if system.total == "one":
        level = float(g.min())
    limit = UNIQUE_TOLERANCE * system.scale
    can_carry = (w > 0) | (g - level <= limit)
    rows = system.a
    if system.total == "one" or (system.total == "at_most_one" and level < -limit):
        rows = np.vstack([system.a, np.full(system.a.shape[1], np.sqrt(system.scale))])
    if _is_independent(rows[:, can_carry]):
        return True
    return None if _is_independent(rows[:, w > 0]) else False


def _is_independent(columns: FloatArray) -> bool:
    m, k = columns.shape
    if k == 0 or k > m:
        return bool(k == 0)
    r, _ = scipy.linalg.qr(columns, mode="r", pivoting=True)
    diagonal = np.abs(np.diag(r))
    return bool(diagonal[-1] > diagonal[0] * m * np.finfo(float).eps)
