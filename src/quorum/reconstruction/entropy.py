"""How evenly a pool answers: entropies of questions, of the pool, and of its modes.

An answer is a distribution over the options of its question (sums to 1). All entropies are in
units of log|O|, hence in [0, 1]: 0 where all agree, 1 where the mean answer is uniform. What rests
on no answer is None. Sums are exact (``math.fsum``), so the order of the answers changes no bit.

Source: Prompts to Proxies (arXiv 2509.11311), active generation; the shrinkage of the modes'
entropies towards their common mean is ours, because a mode of two personas says little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Distribution = Sequence[float]


def mean_answer(answers: Sequence[Distribution]) -> tuple[float, ...] | None:
    """p̂_o = mean over the answers of their share of option o; None without any answer."""
    if not answers:
        return None
    n_options = len(answers[0])
    return tuple(
        math.fsum(answer[o] for answer in answers) / len(answers) for o in range(n_options)
    )


def normalised_entropy(distribution: Distribution) -> float:
    """−Σ p log p / log|O|, in [0, 1]; options without a share add 0."""
    raw = -math.fsum(p * math.log(p) for p in distribution if p > 0)
    return min(1.0, max(0.0, raw / math.log(len(distribution))))


def question_entropy(answers: Sequence[Distribution]) -> float | None:
    """H_q: the normalised entropy of the mean answer; None without any answer."""
    mean = mean_answer(answers)
    return None if mean is None else normalised_entropy(mean)


def mean_entropy(entropies: Sequence[float | None]) -> float | None:
    """H (over the pool) or V_m (over a mode): the mean over the questions that have an entropy."""
    known = [entropy for entropy in entropies if entropy is not None]
    return math.fsum(known) / len(known) if known else None


def shrunken_entropies(
    entropies: Mapping[str, float | None], counts: Mapping[str, int], shrinkage: float
) -> dict[str, float | None]:
    """(n_m V_m + k V̄) / (n_m + k), with V̄ the mean of the modes weighted by their personas.

    Args:
        entropies: V_m by mode; None where the mode has no answer yet.
        counts: n_m, the personas behind V_m.
        shrinkage: k ≥ 0, in personas; 0 leaves V_m as it is.

    Returns:
        One number a mode; V̄ for a mode without an answer; all None where none has one.
    """
    known = {m: v for m, v in entropies.items() if v is not None and counts[m] > 0}
    if not known:
        return dict.fromkeys(entropies)
    total = sum(counts[m] for m in known)
    grand = math.fsum(counts[m] * v for m, v in known.items()) / total
    return {
        m: (counts[m] * known[m] + shrinkage * grand) / (counts[m] + shrinkage)
        if m in known
        else grand
        for m in entropies
    }


def mode_probabilities(
    entropies: Mapping[str, float | None], temperature: float, exploration: float
) -> dict[str, float]:
    """p_m = ε/M + (1−ε)·softmax(V_m/τ): modes whose personas disagree more are drawn more often.

    Uniform where no mode has an entropy; a mode without one counts as the mean of the others.
    """
    n = len(entropies)
    mean = mean_entropy(list(entropies.values()))
    if mean is None:
        return dict.fromkeys(entropies, 1 / n)
    scaled = {m: (mean if v is None else v) / temperature for m, v in entropies.items()}
    top = max(scaled.values())
    powers = {m: math.exp(v - top) for m, v in scaled.items()}
    total = math.fsum(powers.values())
    return {m: exploration / n + (1 - exploration) * p / total for m, p in powers.items()}


def aim_probabilities(entropies: Mapping[str, float | None]) -> dict[str, float]:
    """Of questions to aim at, ∝ 1 − H_q: the flatter the more often.

    A question without an answer counts as one of entropy 0; uniform where every H_q is 1.
    """
    gaps = {q: 1.0 if h is None else 1.0 - h for q, h in entropies.items()}
    total = math.fsum(gaps.values())
    if total <= 0:
        return dict.fromkeys(gaps, 1 / len(gaps))
    return {q: gap / total for q, gap in gaps.items()}
