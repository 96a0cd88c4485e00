"""Made-up attributions for tests of the pages: every number can be checked by hand."""

from __future__ import annotations

import re

Document = dict[str, object]


def make_attribution(snapshot: str = "lions", text: str = "Do lions roar ?") -> Document:
    """An attribution whose players are the words of one user message: values 0.4, −0.2, 0.1, …"""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    n = len(spans)
    cycle = (0.4, -0.2, 0.1, 0.0)
    values = [cycle[index % 4] for index in range(n)]
    points = [{"k": k, "payoff": None if k == 1 else 1.0 - k / n} for k in range(n + 1)]
    curve = {"points": points, "coverage": n / (n + 1), "area": 0.25}
    budgets = [2 * n + 2, 4 * n + 4, 8 * n + 8]
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
        "convergence": [
            {
                "budget": budget,
                "n_coalitions": budget,
                "values": [value + 0.1 / 2**step for value in values] if step != 1 else None,
                "standard_errors": [0.1] * n if step != 1 else None,
                "reason": None if step != 1 else "it was not paid for",
            }
            for step, budget in enumerate(budgets)
        ],
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


def make_replies(source: Document) -> Document:
    """Masked generations of an attribution: each player absent in turn, then the first alone."""
    n = source["n_players"]
    assert isinstance(n, int)
    grand = (1 << n) - 1
    shown = [
        {
            "coalition": f"{grand ^ 1 << index:x}",
            "rule": "without_one",
            "payoff": index / n,
            "generation": "Yes, some lions roar." if index else "",
            "finish_reason": "stop" if index else "length",
        }
        for index in range(min(n, 16))
    ]
    alone = {"coalition": "1", "rule": "lowest", "payoff": 0.125, "finish_reason": "stop"}
    shown.append({**alone, "generation": "I am a helpful assistant, how are you today?"})
    return {"shown": shown, "n_masked": 97, "n_samples": 1}
