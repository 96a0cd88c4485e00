"""Prediction policies: what is done where a fit's prediction is no distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from quorum.errors import RefusedError, SettingsError
from quorum.reconstruction.ensembles.base import FloatArray, starts_of, uniform_shares

PolicyName = Literal["raw", "clip", "renormalise", "project", "anchor", "strict", "drop"]
POLICY_NAMES: tuple[PolicyName, ...] = (
    "raw",
    "clip",
    "renormalise",
    "project",
    "anchor",
    "strict",
    "drop",
)
SUM_TOLERANCE = 1e-6
SIGN_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """A prediction under one policy.

    Args:
        values: Shape (R,); those of questions not covered are the raw ones.
        covered: Whether the question counts, shape (Q,).
        counts: Questions by what was done to them: {changed, no_mass, not_a_distribution}.
    """

    values: FloatArray
    covered: NDArray[np.bool_]
    counts: Mapping[str, int] = field(default_factory=dict)


def apply_policy(
    name: PolicyName,
    prediction: FloatArray,
    sizes: Sequence[int],
    p0: FloatArray | None = None,
) -> Prediction:
    """The prediction after the policy.

    - ``raw``: as it is.
    - ``clip``: into [0, 1], sums as they come.
    - ``renormalise``: negatives to 0, then divided by the question's sum; a question without mass
      is not covered.
    - ``project``: the nearest distribution (Euclidean).
    - ``anchor``: negatives to 0, then what is short of 1 comes from p⁰; above 1 it is divided.
    - ``strict``: an error where it is no distribution (sum within 1e-6 of 1, nothing below −1e-9).
    - ``drop``: such questions are not covered.

    Args:
        name: See above.
        prediction: Raw, shape (R,).
        sizes: Options of each question.
        p0: For ``anchor``; None is 1/|O|.

    Raises:
        RefusedError: ``strict`` and a question's prediction is no distribution.
        SettingsError: No such policy.
    """
    if name not in POLICY_NAMES:
        allowed = ", ".join(POLICY_NAMES)
        raise SettingsError("policies", "unknown name", got=name, allowed=allowed)
    everything = np.ones(len(sizes), bool)
    if name == "raw":
        return Prediction(prediction, everything)
    if name in ("strict", "drop"):
        is_good = is_distribution(prediction, sizes)
        n_bad = int((~is_good).sum())
        if name == "strict" and n_bad:
            position = int(np.argmin(is_good))
            raise RefusedError(
                "policy strict",
                f"the prediction of {n_bad} questions is no distribution, the first at position",
                got=position,
                mend="Choose another policy, or an ensemble whose mass is 1",
            )
        return Prediction(prediction, is_good, _counts(not_a_distribution=n_bad))
    if name == "clip":
        values, covered = np.clip(prediction, 0.0, 1.0), everything
    elif name == "project":
        pieces = np.split(prediction, starts_of(tuple(sizes))[1:])
        values, covered = np.concatenate([nearest_distribution(p) for p in pieces]), everything
    else:
        values, covered = _filled(name, prediction, sizes, p0)
    changed = np.add.reduceat(np.abs(values - prediction) > SIGN_TOLERANCE, starts_of(tuple(sizes)))
    n_lost = int((~covered).sum())
    return Prediction(values, covered, _counts(changed=int((changed > 0).sum()), no_mass=n_lost))


def is_distribution(prediction: FloatArray, sizes: Sequence[int]) -> NDArray[np.bool_]:
    """Whether a question's prediction is a distribution, shape (Q,)."""
    starts = starts_of(tuple(sizes))
    sums = np.add.reduceat(prediction, starts)
    lows = np.minimum.reduceat(prediction, starts)
    return (np.abs(sums - 1.0) <= SUM_TOLERANCE) & (lows >= -SIGN_TOLERANCE)


def nearest_distribution(v: FloatArray) -> FloatArray:
    """The point of the simplex nearest to v.

    Source: Held, Wolfe and Crowder 1974 (sort and threshold).
    """
    u = np.sort(v)[::-1]
    excess = np.cumsum(u) - 1.0
    counts = np.arange(1, len(u) + 1)
    last = np.nonzero(u * counts > excess)[0][-1]
    w = np.maximum(v - excess[last] / (last + 1.0), 0.0)
    return np.asarray(w / w.sum(), np.float64)


def _filled(
    name: PolicyName, prediction: FloatArray, sizes: Sequence[int], p0: FloatArray | None
) -> tuple[FloatArray, NDArray[np.bool_]]:
    positive = np.maximum(prediction, 0.0)
    sums = np.add.reduceat(positive, starts_of(tuple(sizes)))
    by_row = np.repeat(sums, sizes)
    if name == "anchor":
        anchor = uniform_shares(tuple(sizes)) if p0 is None else p0
        values = np.where(
            by_row <= 1.0,
            positive + (1.0 - by_row) * anchor,
            positive / np.maximum(by_row, 1.0),
        )
        return values, np.ones(len(sizes), bool)
    has_mass = sums > SIGN_TOLERANCE
    values = np.where(
        by_row > SIGN_TOLERANCE, positive / np.where(by_row > 0, by_row, 1.0), positive
    )
    return np.where(np.repeat(has_mass, sizes), values, prediction), has_mass


def _counts(**counts: int) -> dict[str, int]:
    return {name: n for name, n in counts.items() if n}
