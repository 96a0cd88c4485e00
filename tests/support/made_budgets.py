"""A made-up forecast with everything that budget.html can show."""

from __future__ import annotations

ROW = {
    "scenario": "remaining",
    "module": "generate",
    "n_coalitions": 4096,
    "n_requests": 4001,
    "n_in_store": 321,
    "n_calls": 3680,
    "input_tokens_low": 300_000.0,
    "input_tokens_base": 412_345.0,
    "input_tokens_high": 600_001.0,
    "output_tokens_low": 30_000.0,
    "output_tokens_base": 41_234.5,
    "output_tokens_high": 60_000.1,
    "seconds_low": 60.0,
    "seconds_base": 90.5,
    "seconds_high": 200.0,
    "usd_low": "0.91",
    "usd_base": "1.23",
    "usd_high": "1.87",
    "source": "321 calls of this model",
}
BUDGET: dict[str, object] = {
    "title": "Forecast",
    "backend": "openai",
    "model": "a-model-with-a-very-long-name-that-a-provider-has-given-it-2026-11-30",
    "status": "at_risk",
    "cap_usd": "1.50",
    "spent_usd": "0.27",
    "what_fits": {"n_calls": 3210},
    "level": 0.9,
    "rows": [ROW],
    "totals": {key: value for key, value in ROW.items() if key not in ("scenario", "source")},
    "scenarios": [ROW, {**ROW, "scenario": "batch", "usd_low": None}],
    "prices": [{"provider": "openai", "input": "2.50", "output": "10.00", "source": "a page"}],
    "cards": [
        {
            "module": "generate",
            "method": "regression",
            "input": {"tokens_per_request": 34.821, "coefficients": {"log_ratio": 0.012}},
            "features": {"is_reasoning": False, "length": 20.938776, "max_tokens": 16.0},
            "extrapolates": True,
            "fallback": None,
        }
    ],
    "history": [{"run": "ab" * 32, "module": "generate", "n_calls": 321, "seconds": 12.5}],
    "notes": ["generate: re-estimated from 245 pilot calls"],
}
