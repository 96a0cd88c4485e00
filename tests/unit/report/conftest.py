"""Made-up attributions for the report's tests: every number can be checked by hand."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

Document = dict[str, object]


def make_attribution(snapshot: str = "lions", text: str = "Do lions roar ?") -> Document:
    """An attribution whose players are the words of one user message: values 0.4, −0.2, 0.1, …"""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    n = len(spans)
    cycle = (0.4, -0.2, 0.1, 0.0)
    values = [cycle[index % 4] for index in range(n)]
    points = [{"k": k, "payoff": None if k == 1 else 1.0 - k / n} for k in range(n + 1)]
    curve = {"points": points, "coverage": n / (n + 1), "area": 0.25}
    return {
        "snapshot": snapshot,
        "snapshot_digest": "ab" * 32,
        "run_id": "cd" * 32,
        "estimator": "complementary",
        "estimand": "shapley",
        "control_variate": "gp",
        "value_function": "tfidf_cosine",
        "reference": "base",
        "normaliser": "identity",
        "partitioner": "tokens",
        "absence": "delete",
        "n_players": n,
        "n_coalitions": 12,
        "n_requests": 11,
        "budget_binding": "fraction",
        "values": values,
        "values_reason": None,
        "raw_values": values,
        "standard_errors": [0.1] * n,
        "standard_errors_reason": None,
        "base_value": 0.25,
        "grand_value": 1.0,
        "efficiency_residual": -0.0125,
        "base_generation": "Yes, lions roar.",
        "empty_generation": "How can I help?",
        "base_finish_reason": "stop",
        "players": [
            {"index": i, "message": 1, "start": s, "end": e, "role": "user", "text": text[s:e]}
            for i, (s, e) in enumerate(spans)
        ],
        "messages": [
            {"role": "system", "content": "You are brief."},
            {"role": "user", "content": text},
        ],
        "protected_share": 0.5,
        "faithfulness": {"deletion": curve, "insertion": curve},
        "noise": {"n_repeats": 3, "payoff_sd": 0.015},
        "notes": ["2 requests were duplicates"],
        "level": 0.9,
        "manifest": {
            "input": {
                "name": "prompts.jsonl",
                "title": "Animal questions",
                "licence": "CC-BY-4.0",
                "attribution": "The Animal Project",
                "citation": "Animal Project (2024), see https://example.org/animals",
            },
            "backend": {"name": "embedded", "model": "tiny-chat", "identity": {"weights": "0f0f"}},
            "settings_digest": "ef" * 32,
            "seed": 7,
            "quorum": "0.1.0",
        },
    }


@pytest.fixture
def attribution() -> Callable[..., Document]:
    """Makes an attribution: ``attribution(snapshot, text)``."""
    return make_attribution
