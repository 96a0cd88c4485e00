"""dvc.yaml is the table of contents: it names all that a stage rests on, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).parents[2]
STAGES = yaml.safe_load((PROJECT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]

# What must run again where an output or a settings file of a stage changes.
FLOW = {
    "config": {"conf", "params.yaml", "data/prompts", "data/surveys"},
    "partition": {"data/settings/partition.json"},
    "generate": {"data/settings/generate.json", "data/partition/result"},
    "score": {"data/settings/score.json", "data/partition/result", "data/generate/result"},
    "aggregate": {
        "data/settings/aggregate.json",
        "data/partition/result",
        "data/score/result",
    },
    "budget": {"data/settings/budget.json", "data/partition/result", "data/prices"},
}


def outputs(stage: dict[str, list[object]]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for kind in ("outs", "metrics", "plots"):
        for entry in stage.get(kind, []):
            named = entry if isinstance(entry, dict) else {entry: {}}
            found |= {path: {"kind": kind, **options} for path, options in named.items()}
    return found


def test_the_stages_are_known():
    assert list(STAGES) == list(FLOW)
    assert {p.stem for p in (PROJECT / "stages").glob("*.py")} == set(STAGES)


@pytest.mark.parametrize("stage", FLOW)
def test_data_flows_from_stage_to_stage_as_designed(stage):
    found = {d for d in STAGES[stage]["deps"] if not d.startswith(("src", "stages/"))}
    assert found == FLOW[stage]


@pytest.mark.parametrize("stage", FLOW)
def test_a_stage_depends_on_its_script_and_config_on_all_code(stage):
    code = [d for d in STAGES[stage]["deps"] if d.startswith(("src", "stages/"))]
    assert code == [f"stages/{stage}.py", *(["src"] if stage == "config" else [])]


@pytest.mark.parametrize("stage", FLOW)
def test_a_stage_runs_its_script_and_says_what_it_does(stage):
    entry = STAGES[stage]
    assert entry["cmd"] == f"python stages/{stage}.py"
    assert 20 <= len(entry["desc"]) <= 100
    assert "params" not in entry
    assert "persist" not in str(entry)


@pytest.mark.parametrize("stage", FLOW)
def test_paths_are_relative_and_inside(stage):
    for path in [*STAGES[stage]["deps"], *outputs(STAGES[stage])]:
        assert not Path(path).is_absolute()
        assert ".." not in Path(path).parts


def test_nobody_depends_on_how_a_run_is_carried_out_or_on_a_log():
    deps = {d for stage in STAGES.values() for d in stage["deps"]}
    assert "data/settings/runtime.json" not in deps
    assert [d for d in deps if d.startswith("data/") and "/log" in d] == []


def test_small_text_stands_in_git_and_results_in_the_cache_of_dvc():
    kept = {stage: outputs(STAGES[stage]) for stage in STAGES}
    for stage, outs in kept.items():
        for path, options in outs.items():
            is_text = path.startswith(("data/settings/", "data/report/"))
            assert options.get("cache", True) is not is_text, f"{stage}: {path}"
            # an uncached plain out would turn DVC's run-cache off for its stage
            assert options["kind"] != "outs" or stage == "config" or not is_text


def test_gitignore_rules_stand_by_hand_so_that_dvc_writes_none():
    paths = [
        path
        for stage in STAGES.values()
        for path, options in outputs(stage).items()
        if options.get("cache", True)
    ]
    for path in paths:
        assert subprocess.run(["git", "check-ignore", "-q", path], cwd=PROJECT).returncode == 0
    assert not list((PROJECT / "data").rglob(".gitignore"))


def test_dvc_neither_calls_home_nor_stages_by_itself():
    config = (PROJECT / ".dvc/config").read_text(encoding="utf-8")
    for line in (
        "analytics = false",
        "check_update = false",
        "autostage = false",
        "offline = true",
    ):
        assert line in config
    assert "hydra" not in config
    ignored = (PROJECT / ".dvcignore").read_text(encoding="utf-8").split()
    assert {"__pycache__", ".cache", ".venv"} <= set(ignored)
