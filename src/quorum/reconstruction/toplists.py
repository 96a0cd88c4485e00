"""Probabilities of options from a list of the likeliest tokens, as remote providers give it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopShares:
    """Probabilities of options from a list of the likeliest tokens.

    Args:
        shares: Normalised over the options; one that the list lacks counts as 0.
        mass: Probability of all the options together.
        is_censored: Whether an option is missing from the list, one flag an option.
        upper: Upper bound of an option's probability (not normalised): its own where it is
            listed, else that of the least likely token of the list.
    """

    shares: tuple[float, ...]
    mass: float
    is_censored: tuple[bool, ...]
    upper: tuple[float, ...]


def probabilities_from_top(
    top: Sequence[tuple[str, float]], labels: Sequence[str]
) -> TopShares | None:
    """P(label) ∝ Σ exp(logprob) over the tokens that are the label but for white space around it.

    Args:
        top: Tokens with their natural log-probabilities, as a provider lists them.
        labels: The options' labels as shown.

    Returns:
        None where the list holds none of the labels.
    """
    found = {label: [math.exp(v) for token, v in top if token.strip() == label] for label in labels}
    raw = [math.fsum(found[label]) for label in labels]
    mass = math.fsum(raw)
    if mass <= 0:
        return None
    least = math.exp(min(v for _, v in top))
    return TopShares(
        shares=tuple(p / mass for p in raw),
        mass=min(1.0, mass),
        is_censored=tuple(not found[label] for label in labels),
        upper=tuple(p if found[label] else least for p, label in zip(raw, labels, strict=True)),
    )
