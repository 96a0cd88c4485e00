"""Least squares with nonnegative weights and a penalty: lasso, elastic net, ridge.

    min_w Σ ρ_r (y_r − p⁰_r − Σ_i w_i (x_{i,r} − p⁰_r))² + λ [α Σw + (1−α)/2 |w|²] + μ (Σw − 1)²

over w ≥ 0, with Σρ = 1 ("ridge 1e-2" means λ(1−α)/2 = 1e-2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np

from quorum.errors import InputError, SettingsError
from quorum.reconstruction.ensembles.base import (
    AnchorName,
    Fit,
    FloatArray,
    Problem,
    Unit,
    anchor_shares,
    row_weights,
)
from quorum.reconstruction.ensembles.system import Solution, SolverName, System, Total, solve
from quorum.reconstruction.ensembles.validation import Candidate, cross_validate, question_folds

LASSO_GRID = 10.0 ** np.linspace(0, -4, 17)  # times the λ from which all weights are 0
RIDGE_GRID = 10.0 ** np.linspace(0, -7, 15)  # times Σ_i Σ_r ρ_r (x_{i,r} − p⁰_r)²
NO_DATA_TERM = 1e-6  # shares off by a thousandth: a data term below it is none to measure by
ROUNDING = 1e-6  # of the mass penalty: a gap is not known better than that
ANCHORS = ("none", "uniform", "pool", "file")
UNITS = ("cell", "question")
SOLVERS = ("nnls", "highs")


@dataclass(frozen=True, slots=True)
class Penalised(ABC):
    """What the penalised fits share: the choice of λ and anchor, and the final solve.

    Args:
        lam: λ, or ``cv``: by cross-validation over questions.
        anchors: What predictions move towards where mass is short of 1: ``none``, ``uniform``
            (1/|O|), ``pool`` (mean answer), ``file``. More than one: by cross-validation.
        unit: What weighs equally: a ``cell`` or a ``question``.
        one_se: Take the largest λ within one standard error of the best.
        folds: Of the cross-validation.
        solver: ``nnls`` or ``highs`` (extra ``highs``).
        tolerance: Largest relative gap to the optimality conditions.
    """

    total: ClassVar[Total] = "free"

    lam: float | Literal["cv"] = "cv"
    anchors: tuple[AnchorName, ...] = ("none",)
    unit: Unit = "cell"
    one_se: bool = False
    folds: int = 10
    solver: SolverName = "nnls"
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        object.__setattr__(self, "anchors", tuple(self.anchors))  # a list from a settings file
        if self.lam != "cv" and not (isinstance(self.lam, int | float) and 0 <= self.lam < np.inf):
            raise SettingsError("ensemble.lam", "no penalty", got=self.lam, allowed="cv, ≥ 0")
        is_known = all(anchor in ANCHORS for anchor in self.anchors)
        if not self.anchors or not is_known or len(set(self.anchors)) < len(self.anchors):
            allowed = f"one or more of {', '.join(ANCHORS)}, each once"
            raise SettingsError(
                "ensemble.anchors", "no list of anchors", got=self.anchors, allowed=allowed
            )
        choices = {"unit": (self.unit, UNITS), "solver": (self.solver, SOLVERS)}
        for name, (value, names) in choices.items():
            if value not in names:
                where = f"ensemble.{name}"
                raise SettingsError(where, "unknown name", got=value, allowed=", ".join(names))
        if self.folds < 2:
            raise SettingsError("ensemble.folds", "too few", got=self.folds, allowed="2 or more")
        if not 0 < self.tolerance <= 1e-3:
            raise SettingsError(
                "ensemble.tolerance", "out of range", got=self.tolerance, allowed="above 0, to 1e-3"
            )

    def check_ready(self) -> None:
        """Refuses a solver whose package is missing, before anything is paid for.

        Raises:
            MissingExtraError: ``highs`` without highspy.
        """
        if self.solver == "highs":
            from quorum.reconstruction.ensembles.highs import check_highs

            check_highs()

    def fit(self, problem: Problem, seed: int) -> Fit:
        """See `Ensemble.fit`.

        Raises:
            InputError: Cross-validation with one question, no persona bears the reference's id, or
                the anchor ``file`` without shares.
            RefusedError: The solver's answer fails our check.
        """
        ordered, back = _by_ids(problem)
        candidates = [c for anchor in self.anchors for c in self._candidates(ordered, anchor)]
        curve: tuple[Mapping[str, object], ...] = ()
        notes: tuple[str, ...] = ()
        chosen = candidates[0]
        if len(candidates) > 1:
            folds = question_folds(ordered, self.folds, seed)
            curve, chosen = cross_validate(
                ordered,
                candidates,
                self._predictions,
                folds=folds,
                unit=self.unit,
                one_se=self.one_se,
            )
            notes = (folds.note,) if folds.note else ()
        anchor, lam = chosen
        fit, _ = self._solve(ordered, anchor, lam, None, is_final=True)
        if len(candidates) > 1 and self.lam == "cv":
            notes += self._at_the_edge(ordered, anchor, lam)
        return replace(fit, weights=fit.weights[back], curve=curve, notes=notes)

    def chosen(self, fit: Fit) -> Self:
        """See `Ensemble.chosen`."""
        assert fit.lam is not None
        return replace(self, lam=fit.lam, anchors=(fit.anchor,))

    @property
    @abstractmethod
    def _alpha(self) -> float:
        """Share of the absolute penalty, α."""

    @property
    def _mu(self) -> float:
        return 0.0

    @property
    def _reference(self) -> str | None:
        return None

    @property
    def _has_intercept(self) -> bool:
        return False

    def _grid(self, problem: Problem, anchor: AnchorName) -> FloatArray:
        """Values of λ to choose from, the largest first."""
        alpha, mu = self._alpha, self._mu
        system, _ = self._system(problem, anchor, 0.0)
        data = system.a[: len(problem.y)]
        if alpha == 0:
            return RIDGE_GRID * 2.0 * float(np.einsum("mi,mi->", data, data))
        slope = 2.0 * float((data.T @ system.b[: len(problem.y)]).max()) + 2.0 * mu
        return LASSO_GRID * max(slope / alpha, NO_DATA_TERM)

    def _candidates(self, problem: Problem, anchor: AnchorName) -> list[Candidate]:
        grid = self._grid(problem, anchor).tolist() if self.lam == "cv" else [float(self.lam)]
        return [(anchor, lam) for lam in grid]

    def _at_the_edge(self, problem: Problem, anchor: AnchorName, lam: float) -> tuple[str, ...]:
        grid = self._grid(problem, anchor)
        if lam == grid[-1]:
            return ("λ stands at the small end of its grid.",)
        return ("λ stands at the large end of its grid.",) if lam == grid[0] else ()

    def _predictions(
        self, kept: Problem, held: Problem, candidates: Sequence[Candidate]
    ) -> list[FloatArray]:
        """Held-out predictions; candidates of one anchor follow each other, λ falling."""
        found: list[FloatArray] = []
        start, before = None, None
        for anchor, lam in candidates:
            start = start if anchor == before else None
            fit, solution = self._solve(kept, anchor, lam, start, is_final=False)
            start, before = solution.start, anchor
            found.append(fit.predict(held.x, held.sizes, held.anchor_file))
        return found

    def _system(
        self, problem: Problem, anchor: AnchorName, lam: float
    ) -> tuple[System, FloatArray]:
        """The quadratic problem, and the means that an intercept takes out (columns, target)."""
        rho = row_weights(problem.sizes, self.unit)
        p0 = anchor_shares(anchor, problem.x, problem.sizes, problem.anchor_file)
        a = problem.x
        if self._reference is not None:
            k = _position(problem, self._reference)
            p0, a = a[:, k], np.delete(a, k, axis=1)
        has_base = anchor != "none" or self._reference is not None
        a, b = (a - p0[:, None], problem.y - p0) if has_base else (a, problem.y)
        means = np.zeros(a.shape[1] + 1)
        if self._has_intercept:
            means = np.append(rho @ a, rho @ b)
            a, b = a - means[:-1], b - means[-1]
        root = np.sqrt(rho)
        a, b = a * root[:, None], b * root
        scale = max(float(b @ b), NO_DATA_TERM) + ROUNDING * self._mu
        ones = None if has_base or self._has_intercept else 1.0 / (len(problem.sizes) * root)
        if self._mu > 0:
            a = np.vstack([a, np.full(a.shape[1], math.sqrt(self._mu))])
            b = np.append(b, math.sqrt(self._mu))
            ones = np.append(np.zeros(len(root)), 1.0 / math.sqrt(self._mu))
        alpha = self._alpha
        kappa, linear = lam * (1.0 - alpha) / 2.0, lam * alpha
        total: Total = self.total
        if total == "at_most_one" and anchor == "none":
            total = "one"  # nothing takes what is short of 1
        return System(a, b, kappa, linear, total, scale, ones), means

    def _solve(
        self,
        problem: Problem,
        anchor: AnchorName,
        lam: float,
        start: FloatArray | None,
        *,
        is_final: bool,
    ) -> tuple[Fit, Solution]:
        system, means = self._system(problem, anchor, lam)
        solution = solve(system, self.solver, self.tolerance, start, is_final=is_final)
        weights = solution.weights
        intercept = None
        if self._has_intercept:
            intercept = float(means[-1] - means[:-1] @ weights)
        if self._reference is not None:
            k = _position(problem, self._reference)
            weights = np.insert(weights, k, 1.0 - weights.sum())
        fit = Fit(weights, intercept, lam, anchor, (), solution.report, reference=self._reference)
        return fit, solution


@dataclass(frozen=True, slots=True)
class _WithMass(Penalised):
    """The fits whose mass is free add options about it.

    Args:
        mass_penalty: μ, pulls Σw towards 1.
        reference: Persona id; its column is subtracted, so that mass is exactly 1 and its own
            weight, which takes the rest, may be negative. Not with an intercept, anchor or μ.
        intercept: Adds a constant to every row, without penalty.
    """

    mass_penalty: float = 0.0
    reference: str | None = None
    intercept: bool = False

    def __post_init__(self) -> None:
        Penalised.__post_init__(self)
        if not 0 <= self.mass_penalty < np.inf:
            raise SettingsError(
                "ensemble.mass_penalty", "out of range", got=self.mass_penalty, allowed="≥ 0"
            )
        if self.reference is None:
            return
        clashes = {
            "ensemble.intercept": self.intercept,
            "ensemble.mass_penalty": self.mass_penalty > 0,
            "ensemble.anchors": self.anchors != ("none",),
        }
        for name, is_set in clashes.items():
            if is_set:
                raise SettingsError(
                    "ensemble.reference",
                    f"a reference respondent fixes the mass at 1, so {name} has no meaning",
                    mend=f"Take one of the two, ensemble.reference or {name}",
                )

    @property
    def _mu(self) -> float:
        return self.mass_penalty

    @property
    def _reference(self) -> str | None:
        return self.reference

    @property
    def _has_intercept(self) -> bool:
        return self.intercept


@dataclass(frozen=True, slots=True)
class Lasso(_WithMass):
    """α = 1: few personas carry weight. Mass is what the data say; see `Penalised` for options.

    Source: Tibshirani 1996; nonnegative and anchored as in the module's formula.
    """

    @property
    def _alpha(self) -> float:
        return 1.0


@dataclass(frozen=True, slots=True)
class Ridge(_WithMass):
    """α = 0: weight is spread. Source: Hoerl and Kennard 1970; nonnegative and anchored."""

    @property
    def _alpha(self) -> float:
        return 0.0


@dataclass(frozen=True, slots=True)
class ElasticNet(_WithMass):
    """Both penalties; α = ``l1_ratio``. Source: Zou and Hastie 2005; nonnegative and anchored.

    Args:
        l1_ratio: α, above 0 to 1; 0 is `Ridge`.
    """

    l1_ratio: float = 0.5

    def __post_init__(self) -> None:
        _WithMass.__post_init__(self)
        if not 0 < self.l1_ratio <= 1:
            raise SettingsError(
                "ensemble.l1_ratio",
                "out of range",
                got=self.l1_ratio,
                allowed="above 0, to 1",
                mend="0 is ensemble=ridge",
            )

    @property
    def _alpha(self) -> float:
        return self.l1_ratio


def _by_ids(problem: Problem) -> tuple[Problem, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The problem with questions and personas in the order of their ids, and the way back.

    So the order in which a file lists them changes no bit of a result.
    """
    personas = np.argsort(np.array(problem.persona_ids), kind="stable")
    questions = np.argsort(np.array(problem.question_ids), kind="stable")
    ordered = problem
    if (np.diff(questions) < 0).any():
        ordered = ordered.of_questions(questions)
    if (np.diff(personas) < 0).any():
        ordered = ordered.of_personas(personas)
    return ordered, np.argsort(personas, kind="stable")


def _position(problem: Problem, reference: str) -> int:
    if reference not in problem.persona_ids:
        raise InputError(
            "ensemble.reference",
            "no persona has this id",
            got=reference,
            allowed=f"one of {len(problem.persona_ids)} ids, such as {problem.persona_ids[0]}",
        )
    return problem.persona_ids.index(reference)
