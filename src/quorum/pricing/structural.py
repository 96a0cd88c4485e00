"""The structural forecast: tokens of a request from its text length alone, with no run known.

No tokeniser is asked: its vocabulary would have to be downloaded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from quorum.pricing.history import RunUsage

BYTES_PER_TOKEN = 4.0
TEMPLATE_TOKENS = 12.0  # roles and turn marks of a conversation
TYPICAL_REPLY_TOKENS = 80.0  # median; a factor of e up or down is one standard deviation
REASONING_ALLOWANCE = 4.0  # a reasoning model's output over its visible reply, where unknown


@dataclass(frozen=True, slots=True)
class Features:
    """One kind of call of the run to come.

    Args:
        module: The kind of call.
        backend: Who answers.
        model: The model that answers.
        n_requests: How many are to be sent; exact.
        length: Mean length of a prompt (see ``history.text_length``).
        max_tokens: Limit of a reply, reasoning included; None where there is none.
        template_tokens: What the backend wraps around a prompt.
        is_reasoning: The model reasons before it replies.
        output_tokens: Of a request, where it is known: 0 for a log-likelihood, 1 for a choice.
    """

    module: str
    backend: str
    model: str
    n_requests: int
    length: float
    max_tokens: float | None = None
    template_tokens: float = TEMPLATE_TOKENS
    is_reasoning: bool = False
    output_tokens: float | None = None


def structural_tokens(features: Features) -> tuple[float, float]:
    """Input and output tokens of a request with no run to learn from.

    Input: length / 4 plus the template. Output: the mean of min(reply, max_tokens) for a log-normal
    reply with median 80 (times the allowance of a reasoning model) and log-standard-deviation 1.
    """
    inputs = features.length / BYTES_PER_TOKEN + features.template_tokens
    if features.output_tokens is not None:
        return inputs, features.output_tokens
    allowance = REASONING_ALLOWANCE if features.is_reasoning else 1.0
    return inputs, _cut_reply(TYPICAL_REPLY_TOKENS * allowance, features.max_tokens)


def name_of(run: RunUsage | Features) -> tuple[str, str]:
    """Which model: backend and name."""
    return run.backend, run.model


def _cut_reply(typical: float, max_tokens: float | None) -> float:
    """Mean of min(L, M) for log L ~ N(log typical, 1)."""
    mean = typical * math.exp(0.5)
    if max_tokens is None:
        return mean
    if max_tokens <= 0:
        return 0.0
    normal = NormalDist()
    z = math.log(max_tokens / typical)
    return mean * normal.cdf(z - 1.0) + max_tokens * (1.0 - normal.cdf(z))
