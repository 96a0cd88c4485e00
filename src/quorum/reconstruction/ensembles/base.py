"""What an ensemble is: it turns answers and shares into weights on personas.

Rows are (question, option), columns personas. X[r, i] = persona i's answer to row r's question,
as a distribution over its options; y[r] = the population's share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from quorum.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
AnchorName = Literal["none", "uniform", "pool", "file"]
Unit = Literal["cell", "question"]

SUM_TOLERANCE = 1e-6  # a persona's answer to a question sums to one


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Answers and shares of one target on one set of questions.

    Args:
        x: Answers, shape (R, N), in [0, 1]; inside a question every column sums to 1.
        y: Shares, shape (R,), in [0, 1]; sum 1 inside a question.
        question_ids: One a question (Q); its rows stand together, in this order.
        sizes: Number of options of each question (Q); sum R.
        persona_ids: One a column (N).
        anchor_file: Shares of an outside source, shape (R,), for the anchor ``file``.
        groups: Block of each question (Q): blocks, not questions, go to cross-validation folds.
            None: each question is a block of its own.

    Raises:
        InputError: Shapes do not fit, an id stands twice, a value is missing or outside [0, 1],
            or a column does not sum to 1 inside a question.
    """

    x: FloatArray
    y: FloatArray
    question_ids: tuple[str, ...]
    sizes: tuple[int, ...]
    persona_ids: tuple[str, ...]
    anchor_file: FloatArray | None = None
    groups: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        shape = (sum(self.sizes), len(self.persona_ids))
        if self.x.shape != shape or self.y.shape != shape[:1] or 0 in shape:
            got = f"answers {self.x.shape}, shares {self.y.shape}"
            raise InputError("responses", "shapes do not fit", got=got, allowed=f"{shape}, not 0")
        if self.groups is not None and len(self.groups) != len(self.question_ids):
            raise InputError("survey", "not one block a question", got=len(self.groups))
        check_questions(self.question_ids, self.sizes)
        for what, ids in (("questions", self.question_ids), ("personas", self.persona_ids)):
            if len(set(ids)) < len(ids):
                twice = next(i for i in ids if ids.count(i) > 1)
                raise InputError(what, "an id stands twice", got=twice)
        check_shares("responses", self.x, self.question_ids, self.sizes, SUM_TOLERANCE)
        check_shares("survey", self.y[:, None], self.question_ids, self.sizes, 1e-3)
        if self.anchor_file is not None:
            if self.anchor_file.shape != self.y.shape:
                raise InputError("anchor file", "not one share a row", got=self.anchor_file.shape)
            anchor = self.anchor_file[:, None]
            check_shares("anchor file", anchor, self.question_ids, self.sizes, 1e-3)

    @property
    def blocks(self) -> tuple[str, ...]:
        """The block of each question (Q)."""
        return self.question_ids if self.groups is None else self.groups

    def of_questions(self, chosen: IntArray) -> Problem:
        """The same problem on the questions at these positions, in this order."""
        rows = rows_of_questions(self.sizes, chosen)
        return Problem(
            self.x[rows],
            self.y[rows],
            tuple(self.question_ids[q] for q in chosen),
            tuple(self.sizes[q] for q in chosen),
            self.persona_ids,
            None if self.anchor_file is None else self.anchor_file[rows],
            None if self.groups is None else tuple(self.groups[q] for q in chosen),
        )

    def of_personas(self, chosen: IntArray) -> Problem:
        """The same problem on the personas at these positions, in this order."""
        return Problem(
            self.x[:, chosen],
            self.y,
            self.question_ids,
            self.sizes,
            tuple(self.persona_ids[i] for i in chosen),
            self.anchor_file,
            self.groups,
        )


@dataclass(frozen=True, slots=True)
class SolverReport:
    """How the weights were found, for the record of a run.

    Args:
        solver: What solved it: ``scipy nnls``, ``dual newton``, ``highs``, ``none``.
        version: Of its package.
        iterations: None where the solver does not tell.
        objective: Value of the whole objective at the weights given, penalties included.
        gap: Violation of the optimality conditions, recomputed by us, as a share of the data term
            at zero weights (but at least 1e-6, plus 1e-6 of a mass penalty); where mass is bound
            it bounds the objective's distance to its minimum.
        raw_sum: Sum of the weights as the solver gave them.
        raw_min: Their minimum; below 0 only by rounding.
        clip: The largest amount that was clipped at zero.
        tolerance: The largest gap that was allowed.
        n_active: Weights above zero.
        effective_size: Kish, (Σw)²/Σw²; None without weight.
        is_unique: Whether other weights reach the same objective; None where unknown.
    """

    solver: str
    version: str
    iterations: int | None
    objective: float
    gap: float
    raw_sum: float
    raw_min: float
    clip: float
    tolerance: float
    n_active: int
    effective_size: float | None
    is_unique: bool | None


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Weights, and how they came about.

    Args:
        weights: Shape (N,), in the order of the problem's personas; ≥ 0, but for the one of a
            reference respondent, which takes what the others leave.
        intercept: Added to every row; None without one.
        lam: Penalty λ; 0 without one, None where it has no meaning.
        anchor: What predictions move towards where mass is short of 1.
        curve: Cross-validation, rows {lam, anchor, mse, se, chosen}; empty where nothing was
            chosen.
        solver: Report of the final solve.
        reference: Persona id of the reference respondent.
        notes: What a reader has to know, one sentence each.
    """

    weights: FloatArray
    intercept: float | None
    lam: float | None
    anchor: AnchorName
    curve: tuple[Mapping[str, object], ...]
    solver: SolverReport
    reference: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def mass(self) -> float:
        """Σw."""
        return float(self.weights.sum())

    def predict(
        self, x: FloatArray, sizes: tuple[int, ...], anchor_file: FloatArray | None = None
    ) -> FloatArray:
        """Raw prediction p⁰ + Σ_i w_i (x_i − p⁰) + intercept of each row, shape (R,).

        Args:
            x: Answers, shape (R, N), columns as in the fit.
            sizes: Number of options of each question.
            anchor_file: p⁰ of these rows, needed with the anchor ``file``.

        Raises:
            InputError: The anchor is ``file`` and no shares were given.
        """
        p0 = anchor_shares(self.anchor, x, sizes, anchor_file)
        base = (1.0 - self.mass) * p0 if self.anchor != "none" else 0.0
        return np.asarray(x @ self.weights + base + (self.intercept or 0.0), np.float64)


class Ensemble(Protocol):
    """A way to weight personas; a frozen dataclass whose fields are its options."""

    def fit(self, problem: Problem, seed: int) -> Fit:
        """The weights; the seed draws the folds of a cross-validation."""

    def chosen(self, fit: Fit) -> Ensemble:
        """The same ensemble with what that fit chose by cross-validation now given."""


def anchor_shares(
    anchor: AnchorName, x: FloatArray, sizes: tuple[int, ...], anchor_file: FloatArray | None
) -> FloatArray:
    """p⁰ of each row, shape (R,): zeros, 1/|O|, the mean answer, or the shares of a file.

    Raises:
        InputError: The anchor is ``file`` and no shares were given.
    """
    if anchor == "uniform":
        return uniform_shares(sizes)
    if anchor == "pool":
        return np.asarray(x.mean(axis=1), np.float64)
    if anchor == "file":
        if anchor_file is None:
            raise InputError("ensemble.anchors=file", "no file of shares was given")
        return anchor_file
    return np.zeros(x.shape[0])


def uniform_shares(sizes: tuple[int, ...]) -> FloatArray:
    """1/|O| of each row, shape (R,)."""
    return np.repeat([1.0 / size for size in sizes], sizes)


def row_weights(sizes: tuple[int, ...], unit: Unit) -> FloatArray:
    """ρ of each row, sum 1: equal (``cell``) or 1/|O| (``question``)."""
    rho = np.ones(sum(sizes)) if unit == "cell" else uniform_shares(sizes)
    return np.asarray(rho / rho.sum(), np.float64)


def starts_of(sizes: tuple[int, ...]) -> IntArray:
    """The first row of each question, shape (Q,)."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def rows_of_questions(sizes: tuple[int, ...], chosen: IntArray) -> IntArray:
    """The rows of the questions at these positions, in this order."""
    starts = starts_of(sizes)
    pieces = [np.arange(starts[q], starts[q] + sizes[q]) for q in chosen]
    return np.concatenate(pieces).astype(np.int64) if pieces else np.zeros(0, np.int64)


def check_questions(question_ids: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    """Refuses questions without a size or with one option only."""
    if len(question_ids) != len(sizes):
        raise InputError("survey", "not one number of options a question", got=len(sizes))
    for name, size in zip(question_ids, sizes, strict=True):
        if size < 2:
            raise InputError(f"question {name}", "too few options", got=size, allowed="2 or more")


def check_shares(
    where: str,
    shares: FloatArray,
    question_ids: tuple[str, ...],
    sizes: tuple[int, ...],
    tolerance: float,
) -> None:
    """Refuses values outside [0, 1] and questions whose shares do not sum to 1.

    Raises:
        InputError: Names the question and the value or sum.
    """
    is_bad = ~(np.isfinite(shares) & (shares >= -tolerance) & (shares <= 1 + tolerance))
    names = np.repeat(np.arange(len(sizes)), sizes)
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0]
        place = f"{where}: question {question_ids[names[row]]}"
        raise InputError(
            place, "no share", got=float(shares[row, column]), allowed="0 to 1, none missing"
        )
    sums = np.add.reduceat(shares, starts_of(sizes), axis=0)
    is_off = np.abs(sums - 1) > tolerance
    if is_off.any():
        question, column = np.argwhere(is_off)[0]
        raise InputError(
            f"{where}: question {question_ids[question]}",
            "shares do not sum to 1",
            got=float(sums[question, column]),
            mend="Clean the answers first (cleaning policy)",
        )
