"""With no earlier run, a forecast is near what real runs of the embedded model used."""

from __future__ import annotations

import json

import pytest
import yaml

# Tokens of input and output together, from the ledgers of real runs: the default attribution, and
# a reconstruction with pool=quick (docs/runs/first.json).
USED = {
    "attribution": ({}, 245, 8531 + 3621),
    "reconstruction": ({"study": "reconstruction", "pool": "quick"}, 385, 44087 + 479),
}


@pytest.mark.parametrize("study", USED)
def test_the_structural_forecast_is_within_a_third_of_real_runs(project, study):
    params, n_calls, used = USED[study]
    (project.root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    project.run("config", "partition", "budget")
    found = json.loads((project.root / "data/budget/result/budget.json").read_text())
    assert found["n_calls_learned_from"] == 0
    assert found["totals"]["n_calls"] == n_calls
    total = found["totals"]["input_tokens_base"] + found["totals"]["output_tokens_base"]
    assert 0.65 < total / used < 1.35
