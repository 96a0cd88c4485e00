"""A reconstruction from survey to pages: killed, resumed, sealed, asked of few or of people."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter

import pytest
import survey_project as small

from quorum.pipeline.entry import of_study, run_stage

N_CRASHES = 30
MAX_INFLIGHT = 4
KILLED = -signal.SIGKILL
RESULT = "data/generate/result"
SEED_ARTIFACTS = {  # the second seed document's list, by where it stands
    RESULT: {
        "active_generation.checkpoint/state.json",
        "endowments.csv",
        "attribute_bank.resolved.yaml",
        "aggregate_entropy_trajectory.csv",
        "persistent_mode_entropy.csv",
        "question_entropy_trajectories.csv",
        "mode_summary.csv",
    },
    "data/score/result": {"responses.csv", "weights.csv", "diagnostics.json"},
    "data/generate/log": {"usage.csv", "usage.json", "pipeline.log"},
    "data/aggregate/result": {"diagnostics.html", "report.html", "metrics.csv"},
    "data/aggregate/log": {"run.json", "config.resolved.yaml"},
    "data/report": {"metrics.json", "plots/entropy.csv", "plots/mode_entropy.csv"},
}
FORKS = """
import json, os, sys
from pathlib import Path
from quorum.backends import scripted
from quorum.pipeline.reconstruction import generate

root = Path.cwd()
changed = json.loads((root / "data/settings/runtime.json").read_text())
for k in map(int, sys.argv[1:]):
    folder = root / f"try-{k}"
    folder.mkdir()
    changed["backend"] |= {"call_log": str(folder / "calls")}
    codes = []
    for crash_after in (k, None):
        changed["backend"]["crash_after"] = crash_after
        (root / "data/settings/runtime.json").write_text(json.dumps(changed))
        os.environ["QUORUM_STORE"] = str(folder / "store.sqlite")
        child = os.fork()
        if child == 0:
            generate.run(root)
            os._exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.rename(root / "data/generate/result", folder / "result")
    print(k, *codes)
"""


def prepare(project, rows=None, **changes: object) -> None:
    small.write_survey(project.root, rows)
    runtime = {"max_inflight": MAX_INFLIGHT, **changes.pop("runtime", {})}
    project.write_params(**small.params(runtime=runtime, **changes))
    project.run("config", "partition")


def table(project, path: str) -> list[dict[str, str]]:
    with (project.root / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def diagnostics(project) -> dict[str, object]:
    return json.loads((project.root / "data/score/result/diagnostics.json").read_text())


def run_folder(project):
    (found,) = (project.store.parent / "runs").iterdir()
    return found


def without_settings(project, *folders: str) -> dict[str, bytes]:
    """Result files; state.json tells settings, so it differs where those do."""
    found = project.results(*folders)
    return {p: b for p, b in found.items() if not p.endswith("state.json")}


def test_a_run_writes_every_artifact_of_the_seed_document(project):
    prepare(project)
    project.run("generate", "score", "aggregate", "budget")
    for folder, names in SEED_ARTIFACTS.items():
        for name in names:
            assert (project.root / folder / name).stat().st_size > 0, f"{folder}/{name}"
    for name in ("budget.json", "budget.csv", "budget.html"):
        assert (project.root / "data/budget/result" / name).exists()
    assert not list(project.root.rglob("*.pkl"))
    found = diagnostics(project)
    assert [p["id"] for p in found["personas"]] == sorted(p["id"] for p in found["personas"])
    assert found["stop_reason"] == "size"
    assert [row["rule"] for row in found["rules"]] == ["probabilities"]
    assert "Luck" in (project.root / RESULT / "attribute_bank.resolved.yaml").read_text()
    run = json.loads((project.root / "data/aggregate/log/run.json").read_text())
    assert set(run["sources"]) == {"data/surveys/own.csv", "data/surveys/own_groups.csv"}


def test_killed_at_any_point_a_run_goes_on_and_repeats_only_what_was_in_flight(
    make_project, project
):
    straight = make_project("straight")
    for each in (straight, project):
        prepare(each, elicitation={"use": "logprob", "calibration": "contextual"})
    straight.run("generate")
    expected = {p.removeprefix(RESULT): b for p, b in straight.results(RESULT).items()}
    n_events = 2 * len(straight.calls())  # start and end of each call
    assert n_events > 500
    points = sorted(random.Random(11).sample(range(1, n_events), N_CRASHES))
    run = subprocess.run(
        [sys.executable, "-c", FORKS, *map(str, points)],
        cwd=project.root,
        env=project.environ(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines() == [f"{k} {KILLED} 0" for k in points]
    for k in points:
        lines = (project.root / f"try-{k}/calls").read_text().split("\n")[:-1]
        counts = Counter(line.split()[0] for line in lines)
        assert set(counts) == set(straight.calls())
        assert len(lines) - len(counts) <= MAX_INFLIGHT
        assert max(counts.values()) <= 2
        found = project.results(f"try-{k}/result")
        assert {p.removeprefix(f"try-{k}/result"): b for p, b in found.items()} == expected


def test_completed_rounds_are_not_paid_again_even_without_the_store(project):
    prepare(project, backend={"crash_after": 301})
    assert project.finish("generate")[0] == KILLED
    state = json.loads(
        (run_folder(project) / "active_generation.checkpoint/active_generation.json").read_text()
    )
    n_kept = sum(state["round_sizes"])
    assert n_kept >= 6
    for path in project.store.parent.glob(f"{project.store.name}*"):
        path.unlink()
    project.call_log.unlink()
    prepare(project)
    project.run("generate")
    first = {f"p{i:04d}" for i in range(1, n_kept + 1)}
    usage = table(project, "data/generate/log/usage.csv")
    assert len(usage) >= len(project.calls())  # the first run's rows are kept
    train = [
        r for r in table(project, "data/partition/result/questions.csv") if r["split"] == "train"
    ]
    n_train = len({row["question_id"] for row in train})
    n_asked = 18 - len(first)
    n_test = 8 - n_train
    n_all = 18 * n_test * 2 + n_asked * n_train * 2
    assert len(set(project.calls())) <= n_all + 6  # and the learner's few


def test_a_finished_run_asks_nothing_and_how_it_is_run_changes_nothing(make_project, project):
    prepare(project)
    project.run("generate", "score", "aggregate")
    n_calls, first = len(project.calls()), project.results()
    prepare(project, runtime={"max_inflight": 1})
    project.run("generate", "score", "aggregate")
    assert len(project.calls()) == n_calls
    assert project.results() == first
    other = make_project("another place")
    prepare(other, runtime={"max_inflight": 2})
    other.run("generate", "score", "aggregate")
    assert other.results() == first


def test_a_checkpoint_of_another_run_is_refused_with_what_differs(project, capsys, monkeypatch):
    prepare(project)
    project.run("generate")
    folder = run_folder(project)
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("QUORUM_STORE", str(project.store))
    prepare(project, pool={"exploration": 0.5}, runtime={"resume": str(folder)})
    capsys.readouterr()
    assert run_stage(of_study("generate")) == 3
    assert re.search(r"belongs to another run: pool.exploration differ", capsys.readouterr().err)
    rows = small.survey_rows()
    rows[0]["question_text"] = rows[1]["question_text"] = rows[2]["question_text"] = "Other words?"
    prepare(project, rows, runtime={"resume": str(folder)})
    assert run_stage(of_study("generate")) == 3
    assert "belongs to another run: survey differ" in capsys.readouterr().err
    prepare(project, runtime={"resume": str(folder)})
    assert run_stage(of_study("generate")) == 0


def test_a_lost_or_damaged_checkpoint_is_refused(project, capsys, monkeypatch):
    prepare(project)
    project.run("generate")
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("QUORUM_STORE", str(project.store))
    checkpoint = run_folder(project) / "active_generation.checkpoint"
    (checkpoint / "endowments.csv").write_text("persona_id\n")
    capsys.readouterr()
    assert run_stage(of_study("generate")) == 3
    assert "the checkpoint is damaged" in capsys.readouterr().err
    shutil.rmtree(checkpoint)
    assert run_stage(of_study("generate")) == 3
    assert "calls are booked, but their checkpoint is gone" in capsys.readouterr().err


def test_test_shares_reach_nothing_before_score_and_no_weight(make_project):
    one, other = make_project("one"), make_project("other")
    prepare(one)
    one.run("generate", "score")
    split = {
        r["question_id"]: r["split"] for r in table(one, "data/partition/result/questions.csv")
    }
    test = {q: [0.1] * (len(o) - 1) for q, (_, _, _, o) in small.QUESTIONS.items()}
    moved = {q: [*v, 1 - sum(v)] for q, v in test.items() if split[q] == "test"}
    assert moved
    prepare(other, small.survey_rows(test=moved))
    other.run("generate", "score")
    assert one.results(RESULT) == other.results(RESULT)
    weights = "data/score/result/weights.csv"
    assert (one.root / weights).read_bytes() == (other.root / weights).read_bytes()
    assert diagnostics(one) != diagnostics(other)


def test_active_only_asks_fewer_and_predicts_the_same(make_project):
    everybody, few = make_project("everybody"), make_project("few")
    fit = {"use": "simplex", "anchors": ["none", "uniform"]}
    prepare(everybody, ensemble=fit)
    prepare(few, ensemble=fit, elicitation={"use": "logprob", "elicit_test": "active_only"})
    for each in (everybody, few):
        each.run("generate", "score", "aggregate")
    assert len(few.calls()) < len(everybody.calls())

    def predictions(project):
        return [
            {k: v for k, v in row.items() if k != "pool_mean"}
            for row in table(project, "data/score/result/predictions.csv")
        ]

    assert predictions(few) == predictions(everybody)
    (target,) = diagnostics(few)["targets"]
    known = [r for r in target["records"] if r["split"] == "test" and r["source"] == "pool_mean"]
    assert known
    assert all(r["value"] is None and "personas with weight" in r["reason"] for r in known)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ensemble": "simple_average"}, "ensemble: needs everybody's test answers"),
        ({"ensemble": "simplex"}, "ensemble.anchors: needs everybody's test answers"),
        ({"elicitation": {"use": "choice"}}, "cleaning: needs everybody's test answers"),
    ],
)
def test_active_only_is_refused_where_it_would_change_results(project, capsys, changes, says):
    small.write_survey(project.root)
    whole = {"elicitation": {"use": "logprob"}, "ensemble": "lasso", **changes}
    whole["elicitation"]["elicit_test"] = "active_only"
    project.write_params(**small.params(**whole))
    code, errors = project.finish("config")
    assert code == 2
    assert says in errors


def test_a_sealed_test_is_not_read_and_opening_it_calls_nobody(project):
    prepare(project, split={"test": "sealed"})
    targets = project.root / "data/partition/result/targets_test.csv"
    kept = targets.read_bytes()
    targets.unlink()  # whoever reads it now fails
    project.run("generate", "score", "aggregate")
    scalars = json.loads((project.root / "data/report/metrics.json").read_text())["reconstruction"]
    assert scalars["test_mse"] is None
    assert scalars["cv_mse"] > 0
    assert "sealed" in (project.root / "data/aggregate/result/report.html").read_text()
    n_calls = len(project.calls())
    targets.write_bytes(kept)
    prepare(project)
    project.run("generate", "score", "aggregate")
    assert len(project.calls()) == n_calls
    scalars = json.loads((project.root / "data/report/metrics.json").read_text())["reconstruction"]
    assert scalars["test_mse"] > 0


def test_the_order_of_a_survey_file_changes_no_metric(make_project):
    given, turned = make_project("given"), make_project("turned")
    prepare(given)
    rows = small.survey_rows()
    by_question = [rows[k] for k in range(len(rows))]
    names = sorted({row["question_id"] for row in rows}, reverse=True)
    prepare(turned, [row for name in names for row in by_question if row["question_id"] == name])
    for each in (given, turned):
        each.run("generate", "score")
    ours, theirs = diagnostics(given)["targets"][0], diagnostics(turned)["targets"][0]
    for one, other in zip(ours["records"], theirs["records"], strict=True):
        value, same = one.pop("value"), other.pop("value")
        assert one == other
        assert value == pytest.approx(same, rel=1e-9, abs=1e-12)  # sums in another order
    assert given.results(f"{RESULT}/generations") == turned.results(f"{RESULT}/generations")


def test_the_forecast_counts_the_calls_that_a_run_then_makes(project):
    prepare(project, pool={"learn_every": 0})
    project.run("budget")
    before = json.loads((project.root / "data/budget/result/budget.json").read_text())
    project.run("generate")
    assert before["totals"]["n_calls"] == len(project.calls())
    project.run("budget")
    after = json.loads((project.root / "data/budget/result/budget.json").read_text())
    assert after["totals"]["n_calls"] == 0
    assert after["totals"]["n_in_store"] == before["totals"]["n_requests"]


def test_a_pool_stops_before_a_round_that_would_take_too_many_requests(project):
    prepare(project, pool={"learn_every": 0, "max_requests": 230})  # 16 a persona
    project.run("budget", "generate", "score")
    assert diagnostics(project)["stop_reason"] == "budget"
    assert len(project.calls()) == 14 * 16  # 6 in the burn-in and two rounds of 4
    before = json.loads((project.root / "data/budget/result/budget.json").read_text())
    assert before["totals"]["n_calls"] == 230
    prepare(project, pool={"learn_every": 0, "max_requests": 95})
    code, errors = project.finish("generate")
    assert code == 2
    assert "pool.max_requests: the first round takes 96, got 95" in errors


def test_elicitations_and_fits_of_every_name_go_through(project):
    for elicitation in ("logprob", "choice", "verbalised"):
        prepare(project, elicitation=elicitation, cleaning="impute_pool", pool={"size": 6})
        project.run("generate")
        if elicitation == "verbalised":  # the script writes no percentages: nothing can be read
            with pytest.raises(Exception, match="no persona is left"):
                project.run("score")
            continue
        for ensemble in ("lasso", "elastic_net", "ridge", "simple_average", "simplex"):
            prepare(
                project, elicitation=elicitation, ensemble=ensemble, pool={"size": 6},
                target={"groups": ["population", "sex"]},
            )  # fmt: skip
            project.run("score", "aggregate")
            names = [t["target"] for t in diagnostics(project)["targets"]]
            assert names == ["population", "sex=f", "sex=m"]


def test_people_of_whom_nothing_is_known_answer_too(project):
    rows = [
        {"id": i, **{q: str(1 + i % len(o)) for q, (_, _, _, o) in small.QUESTIONS.items()}}
        for i in range(20)
    ]
    small.write_survey(project.root)
    (project.root / "data/surveys/people.csv").write_text(small.csv_of(rows), encoding="utf-8")
    backend = {"use": "panel", "path": "data/surveys/people.csv", "attributes": []}
    project.write_params(study="reconstruction", backend={**backend, "call_log": None})
    project.run()
    assert diagnostics(project)["cells"] == []


def test_people_answer_without_a_model_and_none_of_them_can_be_told(project):
    rng = random.Random(3)
    rows = [
        {
            "who": f"person {i}",
            "town": "Rareville" if i < 4 else "Commonton" if i < 59 else "",  # who says nothing
            **{
                q: "R" if rng.random() < 0.05 else str(rng.randrange(len(o)) + 1)
                for q, (_, _, _, o) in small.QUESTIONS.items()
            },
        }
        for i in range(60)
    ]
    small.write_survey(project.root)
    (project.root / "data/surveys/people.csv").write_text(small.csv_of(rows), encoding="utf-8")
    project.write_params(
        study="reconstruction",
        input="own",
        backend={
            "use": "panel", "path": "data/surveys/people.csv", "id_column": "who",
            "attributes": ["town"], "call_log": None,
        },
    )  # fmt: skip
    project.run("config", "partition", "generate", "score", "aggregate", "budget")
    assert project.calls() == []
    everything = b"".join(project.results().values())
    assert b"person " not in everything
    shown = b"".join(project.results("data/aggregate/result", "data/report").values())
    assert b"Commonton" in shown
    assert b"Rareville" not in shown, "four people are too few to be told"
    assert not re.search(rb"\br00\d\d\b", shown)
    found = diagnostics(project)
    assert found["personas"] is None
    assert [cell["n"] for cell in found["cells"]] == [55]
    assert {row["text"] for row in table(project, "data/score/result/weights.csv")} == {""}
    reasons = {row["reason"] for row in found["cleaning"]["counts"]}
    assert reasons == {"refused"}
