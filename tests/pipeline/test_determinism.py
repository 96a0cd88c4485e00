"""Equal settings and prompts give equal bytes, however the run was carried out."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from quorum.backends.base import Capabilities
from quorum.backends.scripted import Scripted

PROMPTS = [
    "What is the capital city of France?",
    "Tom has 3 apples and buys 2 more apples.",
    "one two two three  three\nthree",
]
# Replies that depend on the prompt, and an estimator whose second phase depends on payoffs.
RULES = [
    {"regex": "capital.*France", "reply": "Paris is the capital city."},
    {"regex": "apples.*2", "reply": "Tom has 5 apples: {prompt}"},
]
PARAMS = {
    "estimator": "neyman_cc",
    "budget": {"fraction": 0.3},
    "backend": {"rules": RULES},
    "report": {"level": 0.8},
}
ALL = ("config", "partition", "budget", "generate", "score", "aggregate")
IN_ONE_PROCESS = """
import sys
from pathlib import Path
from quorum.pipeline import config
from quorum.pipeline.entry import of_study
for stage in sys.argv[1:]:
    (config.run if stage == "config" else of_study(stage))(Path.cwd())
"""


def fresh_process(project, *stages: str, hash_seed: str) -> None:
    environ = project.environ(PYTHONHASHSEED=hash_seed)
    command = [sys.executable, "-c", IN_ONE_PROCESS, *stages]
    subprocess.run(command, cwd=project.root, env=environ, check=True)


def prepared(make_project, name: str, **params: object):
    project = make_project(name)
    project.write_prompts(PROMPTS)
    project.write_params(**{**PARAMS, **params})
    return project


def test_two_fresh_processes_write_the_same_bytes(make_project):
    found = []
    for name in ("first", "second"):
        project = prepared(make_project, name)
        fresh_process(project, *ALL, hash_seed="1" if name == "first" else "2")
        found.append(project.results())
    assert len(found[0]) > 15
    assert found[0] == found[1]


@pytest.mark.parametrize("value", ["tfidf_cosine", "logprob"])
def test_calls_in_flight_change_no_byte(make_project, value):
    found = []
    for name, max_inflight in (("one", 1), ("eight", 8), ("many", 64)):
        slow = {"rules": RULES, "latency_s": 0.0005}
        runtime = {"max_inflight": max_inflight}
        project = prepared(make_project, name, runtime=runtime, backend=slow, value=value)
        project.run()
        found.append(project.results())
    assert found[0] == found[1] == found[2]


def test_grouping_by_prefix_changes_no_byte(make_project, monkeypatch):
    can = Capabilities(continuation=True, seed=True, deterministic=True, prefix_reuse=True)
    monkeypatch.setattr(Scripted, "capabilities", property(lambda self: can))
    found = []
    for is_grouped in (True, False):
        project = prepared(make_project, str(is_grouped), runtime={"group_by_prefix": is_grouped})
        project.run()
        found.append(project.results())
    assert found[0] == found[1]


def test_the_order_of_the_prompts_changes_no_byte(make_project):
    found = []
    for name in ("as_they_are", "reversed"):
        project = prepared(make_project, name)
        path = project.root / "data/prompts/own.jsonl"
        lines = path.read_text().splitlines(keepends=True)
        if name == "reversed":
            lines.reverse()
        path.write_text("".join(lines))
        project.run()
        found.append(project.results())
    assert found[0] == found[1]


def test_a_prompts_values_do_not_depend_on_its_neighbours(make_project):
    together, alone = prepared(make_project, "together"), make_project("alone")
    alone.write_prompts(PROMPTS[:1])
    alone.write_params(**PARAMS)
    for project in (together, alone):
        project.run()
    both = (together.attributions()["p0"], alone.attributions()["p0"])
    for found in both:
        del found["run_id"]  # names the run, hence all its prompts
    assert both[0] == both[1]


def test_a_second_run_on_a_warm_store_calls_nothing_and_writes_the_same_bytes(make_project):
    project = prepared(make_project, "project")
    project.run()
    cold, n_calls = project.results(), len(project.calls())
    project.run()
    assert project.results() == cold
    assert len(project.calls()) == n_calls == len(set(project.calls()))


def test_draws_above_temperature_zero_come_back_in_their_order(make_project):
    rules = [{"reply": {"choices": ["red", "green", "blue"]}}]
    draws = {"temperature": 1.0, "samples": 5}
    project = prepared(make_project, "project", backend={"rules": rules}, generation=draws)
    project.run("config", "partition", "generate")
    cold, n_calls = project.results("data/generate/result"), len(project.calls())
    texts = [
        json.loads(line)["text"]
        for line in cold["data/generate/result/generations/p0.jsonl"].decode().splitlines()
    ]
    assert len(set(texts[:5])) > 1, "five draws, not one reply five times"
    project.run("generate")
    assert project.results("data/generate/result") == cold
    assert len(project.calls()) == n_calls


def test_another_seed_asks_for_other_coalitions(make_project):
    plans = []
    for seed in (0, 1):
        project = prepared(make_project, f"seed{seed}", seed=seed)
        project.run("config", "partition")
        plans.append(json.loads(project.results()["data/partition/result/plan.json"]))
    rows = [plan["snapshots"][0] for plan in plans]
    assert len(rows[0]["coalitions"]) == len(rows[1]["coalitions"])
    assert set(rows[0]["coalitions"]) != set(rows[1]["coalitions"])


@pytest.mark.embedded
def test_the_embedded_model_answers_alike_in_any_order(make_project):
    """Prefixes kept and grouped, or each prompt by itself: the same tokens, the same values."""
    found = []
    for name, is_grouped in (("grouped", True), ("single", False)):
        project = make_project(name)
        project.write_prompts(["Name the capital"])
        project.write_params(
            backend="embedded",
            budget={"fraction": 1.0},
            generation={"max_tokens": 3},
            runtime={"group_by_prefix": is_grouped},
        )
        fresh_process(
            project, "config", "partition", "generate", "score", "aggregate", hash_seed="0"
        )
        found.append(project.results())
        assert project.attributions()["p0"]["n_requests"] == 8
    assert found[0] == found[1]
