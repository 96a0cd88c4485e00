"""How far predicted shares are from the population's: metrics, paired differences, noise floor.

A record has the fields of `COLUMNS`; a value is None with a reason where it is undefined. Units:
``cell`` averages over rows (question, option); ``question`` averages over a question's options
first; ``persona`` is about the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quorum.digests import digest
from quorum.reconstruction.ensembles.base import (
    Fit,
    FloatArray,
    Unit,
    row_weights,
    rows_of_questions,
    starts_of,
    uniform_shares,
)
from quorum.reconstruction.policies import Prediction, is_distribution

Record = Mapping[str, object]
TIE = 1e-12  # shares closer than this are tied for the largest
NOT_A_DISTRIBUTION = "no prediction is a distribution"

COLUMNS = (
    "metric",
    "value",
    "reason",
    "split",
    "unit",
    "policy",
    "n_questions",
    "coverage",
    "group",
    "seed",
    "source",
)


@dataclass(frozen=True, slots=True)
class Label:
    """What every record of a prediction repeats.

    Args:
        split: ``train``, ``cv`` (training questions by fits that did not see them) or ``test``.
        policy: Prediction policy.
        group: The target, such as ``population`` or ``party=Republican``.
        seed: Of the run.
        source: ``fit``, ``uniform``, ``pool_mean`` or ``equal_weights``.
    """

    split: str
    policy: str
    group: str
    seed: int
    source: str = "fit"

    def record(
        self,
        metric: str,
        value: float | None,
        unit: str,
        *,
        n_questions: int,
        coverage: float | None,
        reason: str | None = None,
    ) -> Record:
        """One record."""
        return {
            "metric": metric,
            "value": value,
            "reason": reason,
            "split": self.split,
            "unit": unit,
            "policy": self.policy,
            "n_questions": n_questions,
            "coverage": coverage,
            "group": self.group,
            "seed": self.seed,
            "source": self.source,
        }


@dataclass(frozen=True, slots=True, eq=False)
class QuestionMetrics:
    """One number a question, each of shape (Q,); see `question_metrics`."""

    is_distribution: NDArray[np.bool_]
    mse: FloatArray
    mae: FloatArray
    total_variation: FloatArray
    modal: FloatArray
    jensen_shannon: FloatArray
    earth_movers: FloatArray
    entropy_gap: FloatArray


def question_metrics(
    y: FloatArray, prediction: FloatArray, sizes: Sequence[int]
) -> QuestionMetrics:
    """Each question's errors.

    - mse, mae: over its options.
    - total_variation: ½ Σ|y − ŷ|, 0 to 1 between distributions.
    - modal: 1 where the largest predicted share is the population's largest; of k tied
      predictions, the share that is right (so a uniform prediction has 1/|O|).
    - jensen_shannon: divergence in bits, 0 to 1; finite with zeros.
    - earth_movers: Σ_o |Y_o − Ŷ_o| / (|O| − 1) of cumulated shares, 0 to 1; for ordered options.
    - entropy_gap: (H(ŷ) − H(y)) / log|O|, −1 to 1; negative where the prediction is too sharp.

    The last three stand only where the prediction is a distribution; elsewhere they are 0 and not
    to be read.

    Args:
        y: Shares, shape (R,).
        prediction: Shape (R,).
        sizes: Options of each question.
    """
    is_good = is_distribution(prediction, sizes)
    rows = []
    starts = starts_of(tuple(sizes))
    for start, size, good in zip(starts, sizes, is_good, strict=True):
        own, found = y[start : start + size], prediction[start : start + size]
        error = own - found
        of_distributions = _distances(own, np.maximum(found, 0.0)) if good else (0.0, 0.0, 0.0)
        rows.append(
            (
                float(error @ error) / size,
                float(np.abs(error).mean()),
                float(np.abs(error).sum()) / 2.0,
                _modal(own, found),
                *of_distributions,
            )
        )
    columns = np.array(rows, np.float64).reshape(len(sizes), 7).T
    return QuestionMetrics(is_good, *columns)


def metric_records(
    y: FloatArray,
    prediction: Prediction,
    sizes: tuple[int, ...],
    is_ordinal: NDArray[np.bool_],
    label: Label,
) -> list[Record]:
    """All records of one prediction.

    Args:
        y: Shares, shape (R,).
        prediction: Under the policy that the label names.
        sizes: Options of each question.
        is_ordinal: Whether a question's options are a scale, shape (Q,).
        label: What every record repeats.
    """
    found = question_metrics(y, prediction.values, sizes)
    base = question_metrics(y, uniform_shares(sizes), sizes)
    covered = prediction.covered
    good = covered & found.is_distribution
    units: tuple[Unit, ...] = ("cell", "question")
    records = [
        record
        for unit in units
        for record in _error_records(found, base, sizes, covered, unit, label)
    ]
    for name, values, used, nothing in (
        ("total_variation", found.total_variation, covered, "no question is covered"),
        ("jensen_shannon", found.jensen_shannon, good, NOT_A_DISTRIBUTION),
        ("earth_movers", found.earth_movers, good & is_ordinal, "no ordinal question"),
        ("modal_accuracy", found.modal, covered, "no question is covered"),
        ("entropy_gap", found.entropy_gap, good, NOT_A_DISTRIBUTION),
    ):
        n = int(used.sum())
        of = int(is_ordinal.sum()) if name == "earth_movers" else len(sizes)
        records.append(
            label.record(
                name,
                float(values[used].mean()) if n else None,
                "question",
                n_questions=n,
                coverage=n / of if of else None,
                reason=None if n else (NOT_A_DISTRIBUTION if of and covered.any() else nothing),
            )
        )
    return records


def sealed_records(sizes: tuple[int, ...], label: Label) -> list[Record]:
    """The same records without a value, where the targets of the split are sealed."""
    everything = Prediction(uniform_shares(sizes), np.ones(len(sizes), bool))
    shown = metric_records(
        uniform_shares(sizes), everything, sizes, np.ones(len(sizes), bool), label
    )
    return [
        {**record, "value": None, "reason": "sealed", "n_questions": 0, "coverage": None}
        for record in shown
    ]


def weight_records(fit: Fit, n_questions: int, label: Label) -> list[Record]:
    """Mass, number of personas with weight, and effective size of the fit."""
    size = fit.solver.effective_size
    values: tuple[tuple[str, float | None], ...] = (
        ("mass", fit.mass),
        ("n_active", float(np.count_nonzero(fit.weights))),
        ("effective_size", size),
    )
    return [
        label.record(
            name,
            value,
            "persona",
            n_questions=n_questions,
            coverage=1.0,
            reason="no persona has weight" if value is None else None,
        )
        for name, value in values
    ]


def paired_difference(
    y: FloatArray,
    prediction: Prediction,
    baseline: FloatArray,
    sizes: tuple[int, ...],
    blocks: Sequence[str],
    *,
    against: str,
    split: str,
    level: float,
    seed: int,
    n_resamples: int = 2000,
) -> Record:
    """Mean squared error of the fit minus the baseline's, with an interval over question blocks.

    Below 0 the fit is better. The interval is the percentile bootstrap of the ratio Σ differences /
    Σ rows over blocks drawn with replacement; blocks are taken in the order of their names and the
    draws come from seed, split and baseline, so the order of a file changes nothing.

    Args:
        y: Shares, shape (R,).
        prediction: The fit's, under one policy.
        baseline: Shape (R,).
        sizes: Options of each question.
        blocks: Block of each question.
        against: Name of the baseline.
        split: Name of the split.
        level: Of the interval.
        seed: Of the run.
        n_resamples: Bootstrap draws.
    """
    used = np.nonzero(prediction.covered)[0]
    names = [blocks[int(q)] for q in used]
    record: dict[str, object] = {"against": against, "split": split, "metric": "mse"}
    if not names:
        empty = {"difference": None, "low": None, "high": None, "n_blocks": 0}
        return {**record, **empty, "reason": "no question is covered"}
    rows = rows_of_questions(sizes, used)
    gains = (y[rows] - prediction.values[rows]) ** 2 - (y[rows] - baseline[rows]) ** 2
    order, index = np.unique(names, return_inverse=True)
    by_row = np.repeat(index, [sizes[q] for q in used])
    sums, counts = np.bincount(by_row, gains), np.bincount(by_row)
    record |= {"difference": float(sums.sum() / counts.sum()), "n_blocks": len(order)}
    if len(order) < 2:
        return {**record, "low": None, "high": None, "reason": "one block has no spread"}
    rng = np.random.default_rng(int(digest(["paired", seed, split, against])[:8], 16))
    drawn = rng.integers(len(order), size=(n_resamples, len(order)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return {**record, "low": float(low), "high": float(high), "reason": None}


def noise_floor(
    y: FloatArray, sizes: tuple[int, ...], n: Sequence[float | None]
) -> tuple[float | None, str | None]:
    """Mean squared error (unit cell) that sampling alone leaves: mean of y (1 − y) / n.

    Args:
        y: Shares, shape (R,).
        sizes: Options of each question.
        n: (Effective) number of answers of each question; None where unknown.

    Returns:
        The floor over questions whose n is known, and a reason where some or all lack it.
    """
    known = [q for q, count in enumerate(n) if count]
    if not known:
        return None, "no question has a number of answers"
    rows = rows_of_questions(sizes, np.array(known, np.int64))
    counts = np.repeat([float(n[q] or 0) for q in known], [sizes[q] for q in known])
    floor = float(np.mean(y[rows] * (1.0 - y[rows]) / counts))
    n_lacking = len(sizes) - len(known)
    return floor, f"{n_lacking} questions have no number of answers" if n_lacking else None


def _error_records(
    found: QuestionMetrics,
    base: QuestionMetrics,
    sizes: tuple[int, ...],
    covered: NDArray[np.bool_],
    unit: Unit,
    label: Label,
) -> list[Record]:
    n = int(covered.sum())
    by_question = np.add.reduceat(row_weights(sizes, unit), starts_of(sizes))[covered]

    def mean(values: FloatArray) -> float:
        return float(by_question @ values[covered] / by_question.sum())

    def record(metric: str, value: Callable[[], float | None], reason: str | None = None) -> Record:
        shown = value() if n else None
        why = "no question is covered" if not n else reason if shown is None else None
        return label.record(metric, shown, unit, n_questions=n, coverage=n / len(sizes), reason=why)

    def skill() -> float | None:
        uniform = mean(base.mse)
        return 1.0 - mean(found.mse) / uniform if uniform > 0 else None

    return [
        record("mse", lambda: mean(found.mse)),
        record("rmse", lambda: float(np.sqrt(mean(found.mse)))),
        record("mae", lambda: mean(found.mae)),
        record("skill", skill, "equal shares predict without error"),
    ]


def _distances(y: FloatArray, p: FloatArray) -> tuple[float, float, float]:
    """Jensen–Shannon divergence (bits), earth mover's distance, entropy gap."""
    middle = (y + p) / 2.0
    divergence = _entropy(middle) - (_entropy(y) + _entropy(p)) / 2.0
    moved = np.abs(np.cumsum(y - p))[:-1].sum() / (len(y) - 1)
    gap = (_entropy(p) - _entropy(y)) / np.log(len(y))
    return max(float(divergence / np.log(2.0)), 0.0), float(moved), float(gap)


def _entropy(p: FloatArray) -> float:
    positive = p[p > 0]
    return float(-(positive @ np.log(positive)))


def _modal(y: FloatArray, p: FloatArray) -> float:
    predicted = p >= p.max() - TIE
    return float((y[predicted] >= y.max() - TIE).mean())
