"""What a forecast rests on: its model card, and the notes a reader should know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from quorum.pricing.history import RunUsage
from quorum.pricing.sides import MIN_LOG_LINEAR, Side
from quorum.pricing.structural import (
    REASONING_ALLOWANCE,
    Features,
    name_of,
    structural_tokens,
)

_OUTSIDE = math.log(1.25)  # beyond the runs' range by a quarter is extrapolation


def _stage(n_runs: int) -> str:
    if n_runs == 0:
        return "prior"
    return "shrunken_ratio" if n_runs < MIN_LOG_LINEAR else "log_linear"


def _extrapolates(features: Features, runs: Sequence[RunUsage]) -> list[str]:
    if not runs:
        return []
    reasons = []
    if all(name_of(run) != name_of(features) for run in runs):
        reasons.append("no earlier run of this model")
    for name, value in (("length", features.length), ("max_tokens", features.max_tokens)):
        known = [math.log(v) for run in runs if (v := getattr(run, name))]
        if (
            known
            and value
            and not (min(known) - _OUTSIDE <= math.log(value) <= max(known) + _OUTSIDE)
        ):
            reasons.append(f"{name} is outside of what earlier runs had")
    return reasons


def _fallback(features: Features, runs: Sequence[RunUsage]) -> str | None:
    if not runs:
        return "no earlier run of this kind of call: text length and typical replies"
    if all(name_of(run) != name_of(features) for run in runs):
        return "no earlier run of this model: the ratio of other models"
    return None


def notes(features: Features, runs: Sequence[RunUsage], pilot: RunUsage | None) -> tuple[str, ...]:
    """What a reader should know: where the numbers come from, and what was assumed."""
    found = []
    if not runs and pilot is None:
        found.append(
            f"{features.module}: tokens are estimated as characters / 4, give or take a "
            "factor of 1.3 (bytes / 4 in other scripts); no tokeniser is downloaded"
        )
    known = any(name_of(run) == name_of(features) for run in runs)
    if features.is_reasoning and not known and pilot is None:
        found.append(
            f"{features.module}: {features.model} reasons before it replies; an allowance of "
            f"{REASONING_ALLOWANCE:g} times the visible reply is counted until calls are known"
        )
    if pilot is not None:
        found.append(f"{features.module}: re-estimated from {pilot.n_requests} pilot calls")
    return tuple(found)


def card(
    features: Features,
    runs: Sequence[RunUsage],
    inputs: Side,
    outputs: Side,
    pilot: RunUsage | None,
    level: float,
) -> dict[str, object]:
    """The model card of one kind of call, as plain values for budget.json."""
    reasons = _extrapolates(features, runs)
    known = any(name_of(run) == name_of(features) for run in runs)
    allowed = features.is_reasoning and not known and pilot is None
    return {
        "module": features.module,
        "backend": features.backend,
        "model": features.model,
        "method": _stage(len(runs)),
        "n_runs": len(runs),
        "n_runs_of_model": sum(name_of(run) == name_of(features) for run in runs),
        "level": level,
        "features": {
            "n_requests": features.n_requests,
            "length": round(features.length, 6),
            "max_tokens": features.max_tokens,
            "template_tokens": features.template_tokens,
            "is_reasoning": features.is_reasoning,
        },
        "input": _side_card(inputs, level),
        "output": _side_card(outputs, level),
        "extrapolates": bool(reasons),
        "extrapolation": reasons,
        "fallback": _fallback(features, runs),
        "reasoning_allowance": REASONING_ALLOWANCE if allowed else None,
        "calibration": None if pilot is None else {"n_calls": pilot.n_requests, "run": pilot.run},
    }


def _side_card(target: Side, level: float) -> dict[str, object]:
    found = target.predicted
    bound = NormalDist().inv_cdf((1 + level) / 2)
    n = len(found.residuals)
    index = target.name == "output"
    return {
        "structural_tokens_per_request": round(structural_tokens(target.features)[index], 3),
        "tokens_per_request": round(target.base, 3),
        "coefficients": {
            "log_ratio" if name == "one" else name: round(float(value), 6)
            for name, value in zip(target.columns, found.coefficients, strict=True)
        },
        "loro_median_error": (
            round(float(np.median(np.abs(np.expm1(-found.residuals)))), 6) if n else None
        ),
        "loro_coverage": round(float(np.mean(np.abs(found.z) <= bound)), 6) if n else None,
    }
