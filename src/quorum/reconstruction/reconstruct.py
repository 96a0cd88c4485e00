"""Reconstruction in two steps: predict without test targets, then evaluate against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quorum.errors import InputError, SettingsError
from quorum.reconstruction.ensembles.base import (
    Ensemble,
    Fit,
    FloatArray,
    Problem,
    anchor_shares,
    check_questions,
    check_shares,
    starts_of,
    uniform_shares,
)
from quorum.reconstruction.ensembles.validation import out_of_fold
from quorum.reconstruction.intervals import Calibration, calibrate, intervals
from quorum.reconstruction.metrics import (
    Label,
    Record,
    metric_records,
    noise_floor,
    paired_difference,
    sealed_records,
    weight_records,
)
from quorum.reconstruction.policies import PolicyName, Prediction, apply_policy

N_FOLDS = 10  # of the held-out predictions that intervals come from
BASELINES = ("uniform", "pool_mean", "equal_weights")
MISFIT = 0.05  # shares: a training question that misses by more is named
OUT_OF_REACH = 0.01  # shares: an option whose target lies further above all answers is named


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Predictions for the questions of one split.

    Args:
        question_ids: One a question.
        sizes: Their numbers of options.
        policies: Prediction under each policy, in the order asked for.
        baselines: uniform, pool_mean, equal_weights; shape (R,) each.
        low: Lower bounds around the first policy's prediction, shape (R,).
        high: Upper bounds.
        largest: The largest answer of any persona, shape (R,); for options out of reach.
    """

    question_ids: tuple[str, ...]
    sizes: tuple[int, ...]
    policies: Mapping[PolicyName, Prediction]
    baselines: Mapping[str, FloatArray]
    low: FloatArray
    high: FloatArray
    largest: FloatArray

    @property
    def primary(self) -> Prediction:
        """Under the first policy."""
        return next(iter(self.policies.values()))


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """What is known before any test target is read.

    Args:
        fit: Weights and how they came about.
        train: Training questions, as the fit sees them.
        cv: Training questions, each by a fit that has not seen its block.
        test: Test questions.
        y_train: Shares of the training rows.
        train_blocks: Block of each training question.
        calibration: Of the intervals.
        level: Nominal coverage.
        seed: Of the run.
    """

    fit: Fit
    train: Rows
    cv: Rows
    test: Rows
    y_train: FloatArray
    train_blocks: tuple[str, ...]
    calibration: Calibration
    level: float
    seed: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything that compares predictions with shares; lists of JSON-able records.

    Args:
        records: Metrics, see `quorum.reconstruction.metrics`; sealed ones have value None.
        paired: Differences to the pool mean and to uniform, splits ``cv`` and ``test``.
        interval_coverage: {train_cv, test, reason}; shares of rows inside, None with a reason.
        noise_floor: Mean squared error of sampling alone on the test questions (on the training
            questions where the test is sealed).
        noise_floor_reason: Why it is None, or what it leaves out.
        misfit: Training questions that the fit misses, {question, max_error}, the worst first.
        uncovered: Options above every persona's answer, {question, option (position from 0),
            target (share), lost (share out of reach), split}.
    """

    records: tuple[Record, ...]
    paired: tuple[Record, ...]
    interval_coverage: Mapping[str, object]
    noise_floor: float | None
    noise_floor_reason: str | None
    misfit: tuple[Record, ...]
    uncovered: tuple[Record, ...]


def reconstruct(
    problem_train: Problem,
    x_test: FloatArray,
    sizes_test: tuple[int, ...],
    question_ids_test: tuple[str, ...],
    ensemble: Ensemble,
    policies: Sequence[PolicyName],
    level: float,
    seed: int,
    *,
    anchor_file_test: FloatArray | None = None,
) -> Reconstruction:
    """Weights from training questions, and predictions with intervals for all questions.

    Args:
        problem_train: Answers and shares of the training questions.
        x_test: Answers to the test questions, shape (R_test, N), the same personas.
        sizes_test: Options of each test question.
        question_ids_test: One a test question.
        ensemble: How weights are found.
        policies: Prediction policies, the primary one first; intervals are around it.
        level: Nominal coverage of the intervals, such as 0.9.
        seed: Draws the folds.
        anchor_file_test: Shares of the outside source on the test rows, for the anchor ``file``.

    Raises:
        InputError: Shapes do not fit, or a question stands in both splits.
        SettingsError: No policy, one twice, or a level out of range.
        RefusedError: A solver's answer fails our check, or the policy ``strict`` does.
    """
    _check_test(problem_train, x_test, sizes_test, question_ids_test)
    if not policies or len(set(policies)) < len(policies):
        raise SettingsError(
            "policies", "no list of policies", got=list(policies), mend="Name each once"
        )
    fit = ensemble.fit(problem_train, seed)
    held_out, _ = out_of_fold(problem_train, ensemble.chosen(fit), N_FOLDS, seed)
    train, sizes = problem_train, problem_train.sizes
    p0 = _policy_anchor(fit, train.x, sizes, train.anchor_file)
    cv = {name: apply_policy(name, held_out, sizes, p0) for name in policies}
    first = cv[policies[0]]
    calibration = calibrate(train.y, first.values, sizes, first.covered, level)

    def rows(
        ids: tuple[str, ...], x: FloatArray, sizes: tuple[int, ...], anchor: FloatArray | None
    ) -> Rows:
        raw = fit.predict(x, sizes, anchor)
        p0 = _policy_anchor(fit, x, sizes, anchor)
        found = {name: apply_policy(name, raw, sizes, p0) for name in policies}
        return _rows(ids, x, sizes, found, calibration)

    return Reconstruction(
        fit=fit,
        train=rows(train.question_ids, train.x, sizes, train.anchor_file),
        cv=_rows(train.question_ids, train.x, sizes, cv, calibration),
        test=rows(question_ids_test, x_test, sizes_test, anchor_file_test),
        y_train=train.y,
        train_blocks=train.blocks,
        calibration=calibration,
        level=level,
        seed=seed,
    )


def evaluate(
    reconstruction: Reconstruction,
    y_test: FloatArray | None,
    *,
    target: str = "population",
    ordinal: Mapping[str, bool] | None = None,
    n: Mapping[str, float | None] | None = None,
    test_blocks: tuple[str, ...] | None = None,
    n_resamples: int = 2000,
) -> Evaluation:
    """Metrics, paired differences, coverage, noise floor and misfit.

    Args:
        reconstruction: From `reconstruct`.
        y_test: Shares of the test rows; None while they are sealed.
        target: Whose shares they are; stands in the records as ``group``.
        ordinal: Question id → whether its options are a scale; absent is no.
        n: Question id → (effective) number of answers.
        test_blocks: Block of each test question; None: each is its own.
        n_resamples: Bootstrap draws of a paired difference.

    Raises:
        InputError: The shares do not fit the test questions.
    """
    r, known = reconstruction, n or {}
    if y_test is not None:
        if y_test.shape != (sum(r.test.sizes),):
            raise InputError("test targets", "not one share a row", got=y_test.shape)
        check_shares("survey", y_test[:, None], r.test.question_ids, r.test.sizes, 1e-3)
    splits = (
        ("train", r.train, r.y_train, r.train_blocks),
        ("cv", r.cv, r.y_train, r.train_blocks),
        ("test", r.test, y_test, test_blocks or r.test.question_ids),
    )
    records: list[Record] = []
    paired: list[Record] = []
    for split, rows, y, blocks in splits:
        records += _records(split, rows, y, target, r.seed, ordinal or {})
        if split != "train":
            paired += _paired(split, rows, y, blocks, r, n_resamples)
    records += weight_records(
        r.fit, len(r.train.sizes), Label("train", next(iter(r.train.policies)), target, r.seed)
    )
    shown, y_shown = (r.test, y_test) if y_test is not None else (r.train, r.y_train)
    floor, reason = noise_floor(y_shown, shown.sizes, [known.get(q) for q in shown.question_ids])
    return Evaluation(
        tuple(records),
        tuple(paired),
        _coverage(r, y_test),
        floor,
        reason,
        _misfit(r.train, r.y_train),
        (*_out_of_reach("train", r.train, r.y_train), *_out_of_reach("test", r.test, y_test)),
    )


def _rows(
    ids: tuple[str, ...],
    x: FloatArray,
    sizes: tuple[int, ...],
    found: Mapping[PolicyName, Prediction],
    calibration: Calibration,
) -> Rows:
    low, high = intervals(calibration, next(iter(found.values())).values)
    mean = np.asarray(x.mean(axis=1), np.float64)
    baselines = {"uniform": uniform_shares(sizes), "pool_mean": mean, "equal_weights": mean}
    return Rows(ids, sizes, found, baselines, low, high, x.max(axis=1))


def _policy_anchor(
    fit: Fit, x: FloatArray, sizes: tuple[int, ...], anchor_file: FloatArray | None
) -> FloatArray:
    name = fit.anchor if fit.anchor != "none" else "uniform"
    return anchor_shares(name, x, sizes, anchor_file)


def _check_test(
    train: Problem, x_test: FloatArray, sizes: tuple[int, ...], ids: tuple[str, ...]
) -> None:
    shape = (sum(sizes), len(train.persona_ids))
    if x_test.shape != shape or not ids:
        raise InputError("responses", "shapes do not fit", got=x_test.shape, allowed=f"{shape}")
    check_questions(ids, sizes)
    if both := sorted(set(ids) & set(train.question_ids)):
        raise InputError("split", "a question stands in train and test", got=both[0])
    check_shares("responses", x_test, ids, sizes, 1e-6)


def _records(
    split: str,
    rows: Rows,
    y: FloatArray | None,
    target: str,
    seed: int,
    ordinal: Mapping[str, bool],
) -> list[Record]:
    everything = np.ones(len(rows.sizes), bool)
    shown = [(Label(split, name, target, seed), p) for name, p in rows.policies.items()]
    if split != "cv":  # a baseline is the same on train and cv
        shown += [
            (Label(split, "raw", target, seed, source), Prediction(values, everything))
            for source, values in rows.baselines.items()
        ]
    if y is None:
        return [record for label, _ in shown for record in sealed_records(rows.sizes, label)]
    is_ordinal = np.array([bool(ordinal.get(q, False)) for q in rows.question_ids])
    return [
        record
        for label, prediction in shown
        for record in metric_records(y, prediction, rows.sizes, is_ordinal, label)
    ]


def _paired(
    split: str,
    rows: Rows,
    y: FloatArray | None,
    blocks: tuple[str, ...],
    r: Reconstruction,
    n_resamples: int,
) -> list[Record]:
    found: list[Record] = []
    for against in ("pool_mean", "uniform"):
        if y is None:
            empty = dict.fromkeys(("difference", "low", "high"))
            base = {"against": against, "split": split, "metric": "mse", "n_blocks": 0}
            found.append({**base, **empty, "reason": "sealed"})
            continue
        found.append(
            paired_difference(
                y,
                rows.primary,
                rows.baselines[against],
                rows.sizes,
                blocks,
                against=against,
                split=split,
                level=r.level,
                seed=r.seed,
                n_resamples=n_resamples,
            )
        )
    return found


def _coverage(r: Reconstruction, y_test: FloatArray | None) -> Mapping[str, object]:
    found: dict[str, object] = {"train_cv": r.calibration.coverage, "test": None}
    if y_test is None:
        return {**found, "reason": "sealed"}
    covered = np.repeat(r.test.primary.covered, r.test.sizes)
    if not covered.any():
        return {**found, "reason": "no question is covered"}
    inside = (y_test >= r.test.low) & (y_test <= r.test.high)
    return {**found, "test": float(inside[covered].mean()), "reason": r.calibration.reason}


def _misfit(rows: Rows, y: FloatArray) -> tuple[Record, ...]:
    worst = np.maximum.reduceat(np.abs(y - rows.primary.values), starts_of(rows.sizes))
    found = [(-float(error), q) for q, error in zip(rows.question_ids, worst, strict=True)]
    return tuple({"question": q, "max_error": -e} for e, q in sorted(found) if -e > MISFIT)


def _out_of_reach(split: str, rows: Rows, y: FloatArray | None) -> tuple[Record, ...]:
    if y is None:
        return ()
    lost: NDArray[np.float64] = y - rows.largest
    found = []
    for q, start, size in zip(rows.question_ids, starts_of(rows.sizes), rows.sizes, strict=True):
        for option in range(size):
            row = start + option
            if lost[row] >= OUT_OF_REACH:
                found.append(
                    {
                        "question": q,
                        "option": option,
                        "target": float(y[row]),
                        "lost": float(lost[row]),
                        "split": split,
                    }
                )
    return tuple(found)
