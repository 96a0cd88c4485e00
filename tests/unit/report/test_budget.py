from __future__ import annotations

import re

from quorum.report.budget import budget_page

BUDGET = {
    "status": "at_risk",
    "rows": [
        {
            "module": "attribution <b>",
            "exact_coalitions": 4096,
            "to_call": 3680,
            "tokens_low": 300_000,
            "tokens_base": 412_345,
            "tokens_high": 600_001,
            "seconds": {"low": 60.0, "base": 90.5, "high": 200.0},
            "cost_usd": None,
        }
    ],
    "totals": {"exact_coalitions": 4096, "to_call": 3680, "calls_per_snapshot": 8},
    "notes": ["what fits: fraction 0.05"],
    "settings_digest": "ef" * 32,
}


def _text(page: str) -> str:
    return " ".join(re.sub(r"<style>.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL).split())


def test_a_row_a_module_with_base_low_and_high() -> None:
    text = _text(budget_page(BUDGET))
    for shown in (
        "attribution &lt;b&gt; 4,096 3,680 412,345 (300,000 to 600,001) 90.5 (60 to 200)",
        "not available",
        "Module Exact coalitions To call Tokens Seconds Cost (USD)",
        "Total 4,096 3,680",
        "Total calls per snapshot 8",
        "at risk The base forecast is within the cap, the high one is not.",
        "what fits: fraction 0.05",
        "Settings digest " + "ef" * 32,
    ):
        assert shown in text


def test_on_a_phone_each_cell_carries_its_columns_name() -> None:
    page = budget_page(BUDGET)
    assert 'data-label="Tokens"' in page
    assert page.count('role="row"') == 3


def test_the_page_is_self_contained_and_repeatable() -> None:
    page = budget_page(BUDGET)
    assert page == budget_page(dict(BUDGET))
    assert re.search(r"(?:src|href)\s*=|url\(|https?://", page) is None


def test_nothing_to_call_is_said() -> None:
    assert "No module calls a model." in budget_page({"rows": []})
