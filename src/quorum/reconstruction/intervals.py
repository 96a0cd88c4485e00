"""Conformal intervals: how far a share may lie from its prediction, from held-out questions.

Each training question is predicted by a fit that has not seen its block. A row's score is
|y − ŷ| / s(ŷ), s(ŷ) = √(p (1 − p)) with p = ŷ kept inside [FLOOR, 1 − FLOOR]: shares near 0 and 1
miss by less. The half-width on new questions is q · s(ŷ), with q the level's quantile where each of
the K questions weighs 1/(K + 1), shared among its options, and 1/(K + 1) lies at infinity.

Source: hierarchical conformal prediction, Lee, Barber and Willett 2023; scaled scores as in
Lei et al. 2018, section 5.2. Resampling the weights alone covers a third of the nominal level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from quorum.errors import InputError, SettingsError
from quorum.reconstruction.ensembles.base import FloatArray

FLOOR = 0.1


@dataclass(frozen=True, slots=True)
class Calibration:
    """What turns a prediction into an interval.

    Args:
        level: Nominal, such as 0.9.
        quantile: q; None where there are too few questions, then an interval is all of [0, 1].
        n_questions: K.
        coverage: Share of held-out training rows inside, a question's rows sharing its weight.
        reason: Why the quantile is None.
    """

    level: float
    quantile: float | None
    n_questions: int
    coverage: float | None
    reason: str | None = None


def calibrate(
    y: FloatArray,
    held_out: FloatArray,
    sizes: tuple[int, ...],
    covered: NDArray[np.bool_],
    level: float,
) -> Calibration:
    """The quantile of the held-out scores.

    Args:
        y: Shares of the training rows, shape (R,).
        held_out: Their predictions by fits that did not see them, shape (R,).
        sizes: Options of each question.
        covered: Questions that count, shape (Q,).
        level: Nominal coverage, above 0 and below 1.

    Raises:
        SettingsError: The level is out of range.
        InputError: Shapes do not fit.
    """
    if not 0 < level < 1:
        raise SettingsError("level", "out of range", got=level, allowed="above 0, below 1")
    if y.shape != held_out.shape or len(y) != sum(sizes):
        raise InputError("intervals", "shapes do not fit", got=held_out.shape, allowed=f"{y.shape}")
    n = int(covered.sum())
    scores = np.abs(y - held_out) / spread(held_out)
    weights = np.repeat(np.where(covered, 1.0, 0.0) / np.array(sizes), sizes)
    if level * (n + 1) > n + 1e-9:
        needed = int(np.ceil(level / (1.0 - level) - 1e-9))
        reason = f"{n} questions are too few for the level {level:g}: {needed} are needed"
        return Calibration(level, None, n, 1.0 if n else None, reason)
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order]) / (n + 1)
    first = int(np.searchsorted(reached, level - 1e-12))
    quantile = float(scores[order][min(first, len(scores) - 1)])
    inside = float(weights @ (scores <= quantile) / n)
    return Calibration(level, quantile, n, inside)


def intervals(calibration: Calibration, prediction: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lower and upper bounds of each row's share, inside [0, 1], shape (R,) each."""
    if calibration.quantile is None:
        return np.zeros_like(prediction), np.ones_like(prediction)
    half = calibration.quantile * spread(prediction)
    return np.clip(prediction - half, 0.0, 1.0), np.clip(prediction + half, 0.0, 1.0)


def spread(prediction: FloatArray) -> FloatArray:
    """s(ŷ) of each row; see the module."""
    p = np.clip(prediction, FLOOR, 1.0 - FLOOR)
    return np.asarray(np.sqrt(p * (1.0 - p)), np.float64)
