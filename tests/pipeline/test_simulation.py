"""A sweep gives the same bytes anywhere, in any order, and after any interruption."""

from __future__ import annotations

import csv
import json
import re
import signal
from pathlib import Path

import pytest
from sweep_project import kept_files, stopped, write_survey_sweep, write_sweep

from quorum.errors import SettingsError

PROJECT = Path(__file__).parents[2]
STAGES = ("config", "partition", "generate", "score", "aggregate", "budget")
SIZES = list(range(1, 51))
MANY = {  # 50 × 2 × 2 cells
    "replicates": 1,
    "grid": {
        "game.n_terms": SIZES,
        "budget": ["3n", "all"],
        "estimator": ["regression", "mc"],
    },
}
FEW = {"grid": {"budget": ["3n", "all"], "estimator": ["regression", "mc"]}}


def rows(project, name: str, stage: str = "aggregate") -> list[dict[str, str]]:
    path = project.root / f"data/{stage}/result/{name}"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def simulations(project) -> dict[str, bytes]:
    return {
        path.rpartition("result/")[2]: content
        for path, content in project.results("data/score/result").items()
    }


def test_the_stages_write_what_the_design_names(project):
    write_sweep(project, **FEW)
    project.run(*STAGES)
    found = {path for path in project.results() if "/simulations/" not in path}
    assert found == {
        "data/partition/result/grid.csv",
        "data/partition/result/grid.json",
        "data/generate/result/worlds.jsonl",
        "data/aggregate/result/simulation_summary.json",
        "data/aggregate/result/simulation_summary.csv",
        "data/aggregate/result/simulation_aggregate.csv",
        "data/aggregate/result/metrics.csv",
        "data/aggregate/result/report.html",
        "data/budget/result/budget.json",
        "data/budget/result/budget.csv",
        "data/budget/result/budget_history.csv",
        "data/budget/result/budget.html",
        "data/report/metrics.json",
        "data/report/plots/simulation.csv",
    }
    logs = {path.name for path in project.root.glob("data/*/log/*")}
    assert logs == {
        "usage.csv",
        "usage.json",
        "generation.json",
        "pipeline.log",
        "run.json",
        "config.resolved.yaml",
    }
    ids = [row["simulation"] for row in rows(project, "grid.csv", "partition")]
    assert len(ids) == len(set(ids)) == 8
    assert set(simulations(project)) == {
        f"simulations/{name}/simulation.{end}" for name in ids for end in ("json", "csv")
    }


def test_a_sweep_calls_nobody_and_says_so(project):
    write_sweep(project, **FEW)
    project.run(*STAGES)
    budget = json.loads((project.root / "data/budget/result/budget.json").read_text())
    (row,) = budget["rows"]
    assert (row["n_calls"], row["usd_high"], row["n_simulations"]) == (0, "0.00", 8)
    assert budget["prices"][0]["source"] == "local"
    usage = (project.root / "data/generate/log/usage.csv").read_text().splitlines()
    assert len(usage) == 1
    total = json.loads((project.root / "data/generate/log/usage.json").read_text())["total"]
    assert set(total.values()) == {0}
    run = json.loads((project.root / "data/aggregate/log/run.json").read_text())
    assert run["input"]["title"] == "Synthetic worlds"
    assert run["input"]["licence"] == "CC0-1.0"
    assert not project.store.exists()


def test_scalars_are_few_and_records_name_every_cell_and_metric(project):
    write_sweep(project, **FEW)
    project.run(*STAGES[:5])
    metrics = json.loads((project.root / "data/report/metrics.json").read_text())
    assert len(metrics["simulation"]) <= 8
    assert metrics["simulation"]["n_simulations"] == 8
    assert metrics["simulation"]["n_worlds"] == 2
    assert len(metrics["records"]) == 4 * 7  # cells × metrics
    assert {row["settings"] for row in metrics["records"]} == {metrics["run"]["settings"]}


def test_statistics_are_those_of_the_rows_and_an_empty_cell_is_null(project):
    write_sweep(
        project, replicates=3, grid={"game": ["interaction", "constant"]}, fixed={"noise": 0.0}
    )
    project.run(*STAGES[:5])
    one = [row for row in rows(project, "simulation_aggregate.csv") if row["metric"] == "nmse"]
    by_game = {row["game"]: row for row in one}
    constant = by_game["constant"]  # nobody is worth anything: there is no scale
    assert (constant["mean"], constant["sd"], constant["n"], constant["n_null"]) == (
        "",
        "",
        "0",
        "3",
    )
    assert constant["reason"] == "every true value is 0"
    summary = rows(project, "simulation_summary.csv")
    values = [float(row["max_error"]) for row in summary if row["game"] == "interaction"]
    mean = sum(values) / 3
    told = next(
        row
        for row in rows(project, "simulation_aggregate.csv")
        if (row["game"], row["metric"]) == ("interaction", "max_error")
    )
    assert float(told["mean"]) == pytest.approx(mean, rel=1e-12, abs=1e-30)
    variance = sum((value - mean) ** 2 for value in values) / 2
    assert float(told["sd"]) == pytest.approx(variance**0.5, rel=1e-9, abs=1e-30)
    assert float(told["se"]) == pytest.approx((variance / 3) ** 0.5, rel=1e-9, abs=1e-30)


def test_one_replicate_has_a_mean_and_no_spread(project):
    write_sweep(project, replicates=1, fixed={"budget": "all"})
    project.run(*STAGES[:5])
    for row in rows(project, "simulation_aggregate.csv"):
        assert row["mean"] != ""
        assert (row["sd"], row["se"], row["low"], row["high"], row["n"]) == ("", "", "", "", "1")
        assert row["reason"] == "one value has no spread"
    text = "".join(
        c.decode() for p, c in project.results().items() if p.endswith((".csv", ".json"))
    )
    assert not re.search(r"\b(nan|inf|infinity)\b", text, flags=re.IGNORECASE)


def test_a_killed_sweep_goes_on_where_it_was_and_ends_with_the_same_bytes(make_project, project):
    straight = make_project("straight")
    for each in (straight, project):
        write_sweep(each, **MANY)
        each.run("config", "partition", "generate")
    straight.run("score", "aggregate")
    assert len(kept_files(straight)) == 200
    assert stopped(project, 70, "SIGKILL")[0] == -signal.SIGKILL
    assert len(kept_files(project)) == 70
    assert not (project.root / "data/score/result").exists()
    first = kept_files(project)
    write_sweep(project, runtime={"executor": "processes", "workers": 2}, **MANY)
    project.run("config")
    assert stopped(project, 60, "SIGKILL")[0] == -signal.SIGKILL
    assert len(kept_files(project)) == 130
    assert kept_files(project) > first
    write_sweep(project, runtime={"progress": "plain"}, **MANY)
    project.run("config")
    code, errors = project.finish("score")
    assert code == 0
    assert "score: 60 % (120 of 200), 120 from store\n" in errors
    assert "130 from store" in errors
    project.run("aggregate")
    assert kept_files(project) == kept_files(straight)
    assert project.results() == straight.results()


@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_ctrl_c_ends_with_130_in_one_line_and_what_is_finished_is_kept(project, executor):
    write_sweep(project, replicates=50)
    project.run("config", "partition", "generate")
    write_sweep(project, runtime={"executor": executor, "workers": 2}, replicates=50)
    project.run("config")
    code, errors = stopped(project, 5, "SIGINT")
    assert code == 130
    assert errors == "interrupted: what is done is kept; run the same command again\n"
    assert 5 <= len(kept_files(project)) < 50


def test_a_cell_that_fails_ends_the_stage_in_one_line_and_what_is_finished_is_kept(project):
    # A lasso's sums are no distribution, which strict refuses; a simplex's are.
    grid = {"ensemble": [{"use": "simplex", "anchors": ["uniform"], "lam": 0.01}, "lasso"]}
    write_survey_sweep(project, grid=grid, fixed={"policy": "strict"})
    project.run("config", "partition", "generate")
    code, errors = project.finish("score")
    assert code == 3
    assert errors.count("\n") == 1
    assert errors.startswith("error: ")
    assert "Traceback" not in errors
    assert len(kept_files(project)) == 2
    assert not (project.root / "data/score/result").exists()


def test_a_damaged_file_is_reported_and_done_again(project, caplog):
    write_sweep(project, **FEW)
    project.run(*STAGES[:4])
    expected = simulations(project)
    files = sorted((project.store.parent / "simulations").glob("*/*.json"))
    before = files[1].read_bytes()
    files[0].write_text("{ torn", encoding="utf-8")
    files[1].write_bytes(before.replace(b'"value": ', b'"value": 1', 1))
    assert files[1].read_bytes() != before
    project.run("score")
    assert simulations(project) == expected
    assert files[1].read_bytes() == before
    assert sum("is damaged: it is done again" in text for text in caplog.messages) == 2


def test_processes_and_two_dask_workers_give_the_same_bytes(make_project):
    found = []
    for executor in ("serial", "processes", "dask"):
        each = make_project(executor)
        runtime = {"executor": executor, "workers": 2}
        grid = {"ensemble": ["lasso", {"use": "simplex", "folds": 3}]}
        write_survey_sweep(each, runtime=runtime, grid=grid)
        each.run("config", "partition")
        each.run("generate", "score", "aggregate")
        found.append(each.results())
    assert found[0] == found[1] == found[2]
    assert any("simulation.json" in path for path in found[0])


def test_a_larger_grid_and_more_replicates_leave_every_simulation_as_it_was(project):
    write_sweep(project, **FEW)
    project.run(*STAGES[:4])
    before, kept = simulations(project), kept_files(project)
    grid = {"budget": ["all", "20%", "3n"], "estimator": ["neyman_cc", "mc", "regression"]}
    write_sweep(project, replicates=3, grid=grid)
    project.run(*STAGES[:4])
    after = simulations(project)
    assert len(after) == 2 * 27  # two files each
    assert {path: after[path] for path in before} == before
    assert kept < kept_files(project)  # and none of them was done again
    assert len(kept_files(project)) == 27


def test_another_seed_is_another_sweep(make_project):
    found = []
    for seed in (0, 1):
        each = make_project(str(seed))
        write_sweep(each, seed=seed, **FEW)
        each.run(*STAGES[:3])
        found.append([row["world_seed"] for row in rows(each, "grid.csv", "partition")])
    assert not set(found[0]) & set(found[1])


def test_estimators_of_one_replicate_play_the_same_game(project):
    write_sweep(project, **FEW)
    project.run(*STAGES[:4])
    grid = rows(project, "grid.csv", "partition")
    for replicate in ("1", "2"):
        mine = [row for row in grid if row["replicate"] == replicate]
        assert len({row["world_seed"] for row in mine}) == 1
        assert len({row["seed"] for row in mine}) == 4
    truths = [
        json.loads(text)["details"]["true_values"]
        for p, text in simulations(project).items()
        if p.endswith("r001/simulation.json")
    ]
    assert all(truth == truths[0] for truth in truths)


def test_a_world_drawn_by_something_else_is_refused(project):
    write_sweep(project, **FEW)
    project.run(*STAGES[:3])
    path = project.root / "data/generate/result/worlds.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, "digest": "0" * 64}) + "\n" for row in lines))
    code, errors = project.finish("score")
    assert code == 3
    assert errors.count("\n") == 1
    assert "is not the one that generate drew" in errors


def test_support_and_weights_are_recovered_from_a_mixture_and_null_in_a_population(project):
    truths = ["population", {"use": "mixture", "n_true": 3}]
    ensemble = {"use": "simplex", "lam": 0.0, "anchors": ["none"]}
    write_survey_sweep(
        project,
        grid={"truth": truths},
        fixed={"n_personas": 20, "n_train": 20, "n_test": 5, "ensemble": ensemble},
    )
    project.run(*STAGES[:5])
    told = {(row["truth"], row["metric"]): row for row in rows(project, "simulation_aggregate.csv")}
    mixture = "mixture (n_true 3)"
    for metric in ("support_precision", "support_recall", "support_f1", "weight_correlation"):
        assert told["population", metric]["mean"] == ""
        assert told["population", metric]["reason"] == "a population has no true weights"
        assert float(told[mixture, metric]["mean"]) == pytest.approx(1.0, abs=1e-6)
    assert float(told[mixture, "weight_l1"]["mean"]) < 1e-6
    assert float(told[mixture, "test_mse"]["mean"]) < 1e-10
    assert 0.03 < float(told["population", "test_mse_uniform"]["mean"]) < 0.12


def test_changes_of_a_sweep_must_say_which_one(project):
    text = "study: simulation\nsweep: {replicates: 4}\n"
    (project.root / "params.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match="changes need the name of what they change"):
        project.run("config")


def test_the_guide_names_every_file_column_and_metric(make_project):
    guide = (PROJECT / "docs/simulation.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./<>]+)`", guide))
    for name, write in (("games", write_sweep), ("people", write_survey_sweep)):
        each = make_project(name)
        write(each, replicates=1)
        each.run(*STAGES[:5])
        (one,) = each.root.glob("data/score/result/simulations/*/simulation.csv")
        assert {row.split(",")[0] for row in one.read_text().splitlines()[1:]} <= named
        (head,) = (
            (each.root / "data/aggregate/result/simulation_aggregate.csv")
            .read_text()
            .splitlines()[:1]
        )
        assert set(head.split(",")) <= named
        for stage in ("partition", "generate", "aggregate"):
            files = {path.name for path in (each.root / f"data/{stage}/result").iterdir()}
            assert files <= named, stage
        resolved = (each.root / "data/partition/result/grid.json").read_text()
        (cell,) = json.loads(resolved)["cells"]
        assert set(cell["parameters"]) <= named
