"""Cross-validation over questions: whole blocks leave together, and go to folds by their ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from quorum.digests import digest
from quorum.errors import InputError
from quorum.reconstruction.ensembles.base import (
    AnchorName,
    Ensemble,
    FloatArray,
    IntArray,
    Problem,
    Unit,
    row_weights,
    rows_of_questions,
)

Candidate = tuple[AnchorName, float]  # anchor, λ
Predictions = Callable[[Problem, Problem, Sequence[Candidate]], list[FloatArray]]


@dataclass(frozen=True, slots=True, eq=False)
class Folds:
    """Which questions are held out together.

    Args:
        held: Positions of the questions of each fold; every question is in one.
        note: What a reader has to know; empty as a rule.
    """

    held: tuple[IntArray, ...]
    note: str = ""


def question_folds(problem: Problem, n_folds: int, seed: int) -> Folds:
    """Blocks to folds: large blocks first, each to the fold with the fewest questions so far.

    Equal blocks go in the order of a digest of seed and id, so that the order of the questions in
    a file changes nothing. Fewer blocks than two: each question is a block of its own.

    Raises:
        InputError: There is one question only.
    """
    names, note = problem.blocks, ""
    if len(set(names)) < 2:
        if len(names) < 2:
            raise InputError(
                "ensemble.lam=cv",
                "cross-validation needs two training questions",
                got=len(names),
                mend="Give ensemble.lam and one anchor",
            )
        names, note = problem.question_ids, "One block only: single questions went to the folds."
    counts = {name: names.count(name) for name in set(names)}
    order = sorted(counts, key=lambda name: (-counts[name], digest([seed, name])))
    loads = [0] * min(n_folds, len(order))
    fold_of: dict[str, int] = {}
    for name in order:
        fold = loads.index(min(loads))
        fold_of[name] = fold
        loads[fold] += counts[name]
    folds = np.array([fold_of[name] for name in names])
    return Folds(tuple(np.nonzero(folds == fold)[0] for fold in range(len(loads))), note)


def cross_validate(
    problem: Problem,
    candidates: Sequence[Candidate],
    predictions: Predictions,
    *,
    folds: Folds,
    unit: Unit,
    one_se: bool,
) -> tuple[tuple[Mapping[str, object], ...], Candidate]:
    """The curve {lam, anchor, mse, se, chosen}, and the candidate chosen.

    The smallest mean squared error of held-out rows; ``one_se``: the largest λ with the same
    anchor within one standard error of it. Ties go to the first anchor and the larger λ.

    Args:
        problem: All training questions.
        candidates: What to choose from.
        predictions: (kept, held, candidates) → a prediction of the held rows for each candidate.
        folds: From `question_folds`.
        unit: How rows are weighted in the mean.
        one_se: See above.
    """
    errors = np.zeros((len(candidates), len(problem.y)))
    for held in folds.held:
        kept = np.setdiff1d(np.arange(len(problem.sizes)), held)
        rows = rows_of_questions(problem.sizes, held)
        inside, outside = problem.of_questions(kept), problem.of_questions(held)
        for c, predicted in enumerate(predictions(inside, outside, candidates)):
            errors[c, rows] = (predicted - problem.y[rows]) ** 2
    rho = row_weights(problem.sizes, unit)
    mse = errors @ rho
    se = np.array([_standard_error(problem, rho, errors[c], mse[c]) for c in range(len(mse))])
    best = _choose(candidates, mse, se, one_se=one_se)
    curve = tuple(
        {
            "lam": lam,
            "anchor": anchor,
            "mse": float(mse[c]),
            "se": None if np.isnan(se[c]) else float(se[c]),
            "chosen": c == best,
        }
        for c, (anchor, lam) in enumerate(candidates)
    )
    return curve, candidates[best]


def out_of_fold(
    problem: Problem, ensemble: Ensemble, n_folds: int, seed: int
) -> tuple[FloatArray, Folds]:
    """Raw predictions of every training row by a fit that has not seen its block, shape (R,)."""
    folds = question_folds(problem, n_folds, seed)
    found = np.zeros(len(problem.y))
    for held in folds.held:
        kept = np.setdiff1d(np.arange(len(problem.sizes)), held)
        outside = problem.of_questions(held)
        fit = ensemble.fit(problem.of_questions(kept), seed)
        rows = rows_of_questions(problem.sizes, held)
        found[rows] = fit.predict(outside.x, outside.sizes, outside.anchor_file)
    return found, folds


def _standard_error(problem: Problem, rho: FloatArray, errors: FloatArray, mse: float) -> float:
    """Of a weighted mean whose blocks are drawn: √(B/(B−1) Σ_b (Σ_{r∈b} ρ_r (e_r − mse))²)."""
    names = np.repeat(np.unique(problem.blocks, return_inverse=True)[1], problem.sizes)
    sums = np.bincount(names, rho * (errors - mse))
    n = len(sums)
    return float(np.sqrt(n / (n - 1) * (sums @ sums))) if n > 1 else float("nan")


def _choose(
    candidates: Sequence[Candidate], mse: FloatArray, se: FloatArray, *, one_se: bool
) -> int:
    anchors = list(dict.fromkeys(anchor for anchor, _ in candidates))

    def rank(c: int) -> tuple[float, int, float]:
        return float(mse[c]), anchors.index(candidates[c][0]), -candidates[c][1]

    best = min(range(len(candidates)), key=rank)
    if not one_se or np.isnan(se[best]):
        return best
    near = [
        c
        for c in range(len(candidates))
        if candidates[c][0] == candidates[best][0] and mse[c] <= mse[best] + se[best]
    ]
    return max(near, key=lambda c: candidates[c][1])
