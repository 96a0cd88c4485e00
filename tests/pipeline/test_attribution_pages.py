"""What a run puts on its pages: masked prompts beside replies, values over the budget."""

from __future__ import annotations

import json
import re

import pytest


@pytest.fixture
def echoed(project):
    """Six words that are echoed: a reply is what was present. 38 of 64 coalitions are asked."""
    project.write_prompts(["one two three four five six"])
    project.write_params(partition="words", budget={"fraction": 0.6})
    project.run()
    return project


def replies_of(project) -> dict[str, object]:
    return json.loads((project.root / "data/score/result/replies.jsonl").read_text())


def test_each_masked_reply_that_is_shown_is_the_one_to_its_coalition(echoed):
    words = ["one", "two", "three", "four", "five", "six"]
    row = replies_of(echoed)
    assert row["n_masked_generations"] == len(set(echoed.calls())) - 2  # all but the whole and ∅
    shown = row["masked_generations"]
    assert [one["rule"] for one in shown].count("without_one") == 6
    assert len(shown) == 24
    for one in shown:
        present = [word for k, word in enumerate(words) if int(one["coalition"], 16) >> k & 1]
        assert one["generation"].split() == present


def test_the_page_strikes_out_what_was_absent_and_names_it(echoed):
    page = (echoed.root / "data/aggregate/result/snapshots/p0.html").read_text()
    text = re.sub(r"<[^>]+>", "", page)
    n_masked = replies_of(echoed)["n_masked_generations"]
    assert f"Masked generations: 24 of {n_masked}" in text
    assert "one two <del>three</del> four five six" in page  # its prompt
    assert "one two <del>three </del>four five six" in page  # its reply beside the base generation
    assert "Values over the budget" in text


def test_smaller_budgets_cost_no_call_and_end_in_the_values(echoed):
    n_calls = len(echoed.calls())
    (found,) = echoed.attributions().values()
    points = found["convergence"]
    assert [point["budget"] for point in points] == [14, 28, 39]
    assert points[-1]["values"] == found["raw_values"]
    assert points[-1]["standard_errors"] == found["standard_errors"]
    assert all(len(point["values"]) == 6 for point in points)
    echoed.write_params(partition="words", budget={"fraction": 0.6}, normaliser="abs_sum")
    echoed.run("config", "score", "aggregate")
    assert len(echoed.calls()) == n_calls


def test_a_value_function_without_replies_shows_none(project):
    project.write_prompts(["one two three four"])
    project.write_params(partition="words", value="logprob")
    project.run()
    row = replies_of(project)
    assert (row["masked_generations"], row["n_masked_generations"]) == ([], 0)
    page = (project.root / "data/aggregate/result/snapshots/p0.html").read_text()
    assert "Masked generations" not in page


def test_a_snapshot_without_payoffs_says_why_at_each_budget(project):
    project.write_prompts(["one two three", "four five six seven"])
    caps = {"fraction": 1, "max_calls": 12, "on_cap": "partial"}
    project.write_params(partition="words", budget=caps)
    project.run()
    found = project.attributions()
    (lacking,) = [one for one in found.values() if one["raw_values"] is None]
    assert {point["values"] for point in lacking["convergence"]} == {None}
    assert {point["reason"] for point in lacking["convergence"]} == {lacking["values_reason"]}
