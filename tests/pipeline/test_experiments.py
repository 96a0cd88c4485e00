"""DVC experiments are the front door: one knob, a grid, a copy, and back into the workspace."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from quorum.errors import InputError
from quorum.pipeline.experiments import experiments
from quorum.pipeline.runs import open_run

PROJECT = Path(__file__).parents[2]
N_TENTH = 2 * 26 - 1  # ⌈0.1·2^8⌉ coalitions for each of two prompts; the empty one is shared
N_FIFTH = 2 * 52 - 1


def n_kept(repository) -> int:
    """Replies in the store of the main checkout: what was ever paid for."""
    with sqlite3.connect(repository.root / ".cache/quorum/store.sqlite") as store:
        (found,) = store.execute("SELECT count(*) FROM generation").fetchone()
    store.close()
    return found


@pytest.fixture(scope="module")
def baseline(repository):
    """The project's own params.yaml on other prompts, with the scripted backend by ``-S``."""
    text = (PROJECT / "params.yaml").read_text(encoding="utf-8")
    text = re.sub(r"input: \w+", "input: own", text)
    text = re.sub(r"value: \w+", "value: exact_match", text)
    (repository.root / "params.yaml").write_text(text, encoding="utf-8")
    repository.git("commit", "-qam", "Own prompts")
    out = repository.dvc("exp", "run", "-n", "first", "-S", "backend=scripted")
    assert "Running stage 'generate'" in out
    assert n_kept(repository) == N_TENTH
    repository.git("add", "-A")
    repository.git("commit", "-qm", "The scripted backend")
    return repository


def test_one_knob_in_the_workspace_in_a_copy_and_back(baseline):
    # in a copy: the workspace stays as it is, the store is the main checkout's
    out = baseline.dvc("exp", "run", "--temp", "-n", "wide", "-S", "budget.fraction=0.2")
    assert "Running stage 'generate'" in out
    assert n_kept(baseline) == N_FIFTH
    assert baseline.git("status", "--porcelain") == ""

    # in the workspace: the plan of regression shares requests with what is paid for
    out = baseline.dvc("exp", "run", "-n", "other", "-S", "estimator=regression")
    assert "Running stage 'partition'" in out
    assert N_FIFTH <= n_kept(baseline) <= N_FIFTH + N_TENTH
    assert "estimator: regression" in (baseline.root / "params.yaml").read_text()

    # and the first one back
    n_before = n_kept(baseline)
    baseline.git("checkout", "-q", ".")
    baseline.dvc("exp", "apply", "wide")
    assert "fraction: 0.2" in (baseline.root / "params.yaml").read_text()
    report = json.loads((baseline.root / "data/report/metrics.json").read_text())
    assert report["attribution"]["n_coalitions"] == 2 * 52
    table = (baseline.root / "data/aggregate/result/metrics.csv").read_text().splitlines()
    assert table[1].endswith(report["run"]["settings"]), "the table is this experiment's too"
    assert "up to date" in baseline.dvc("status")
    assert n_kept(baseline) == n_before
    baseline.git("checkout", "-q", ".")
    baseline.dvc("checkout", "-q")


def test_an_experiment_and_a_revision_are_read_and_nothing_is_touched(baseline):
    before = baseline.git("status", "--porcelain"), baseline.git("for-each-ref")
    counts = {}
    for name in ("wide", "other", "HEAD"):
        with open_run(name, baseline.root) as run:
            counts[name] = run.scalars["n_coalitions"]
            assert run.path("weights.csv") is None
            rows = run.read_rows("attributions.jsonl")
            assert [row["snapshot"] for row in rows] == ["p0", "p1"]
            copy = run.path("snapshots")
            assert (copy / "p0.html").is_file()
        assert not copy.exists(), "copies live as long as the run is open"
    assert counts == {"wide": 2 * 52, "other": 2 * 26, "HEAD": 2 * 26}
    assert (baseline.git("status", "--porcelain"), baseline.git("for-each-ref")) == before


def test_a_run_that_is_not_in_the_cache_or_not_one_is_named(baseline):
    with (
        pytest.raises(InputError, match=r"main~1: run.json: is missing"),
        open_run("main~1", baseline.root),
    ):
        pass
    cache = baseline.root / ".dvc/cache"
    cache.rename(cache.with_name("elsewhere"))
    try:
        with pytest.raises(InputError, match=r"is not in DVC's cache\. Run: dvc pull"):
            open_run("HEAD", baseline.root).__enter__()
    finally:
        shutil.rmtree(cache, ignore_errors=True)
        cache.with_name("elsewhere").rename(cache)
    (commit,) = experiments(baseline.root)["wide"]
    twin = "refs/exps/" + "0" * 2 + "/" + "0" * 38 + "/wide"
    baseline.git("update-ref", twin, commit)
    try:
        with pytest.raises(InputError, match="wide: several experiments bear this name"):
            open_run("wide", baseline.root).__enter__()
    finally:
        baseline.git("update-ref", "-d", twin)


def test_values_and_curves_are_plots(baseline, tmp_path):
    found = json.loads(baseline.dvc("plots", "show", "--json", "-o", str(tmp_path / "plots")))
    names = ("values", "curves", "convergence")
    assert set(found["data"]) == {f"data/report/plots/{name}.csv" for name in names}
    rows = found["data"]["data/report/plots/values.csv"][0]["content"]["data"]["values"]
    assert {row["snapshot"] for row in rows} == {"p0", "p1"}
    assert len(rows) == 16


def test_a_typo_is_one_line_with_the_nearest_name(baseline):
    with pytest.raises(AssertionError, match=re.escape("Did you mean fraction?")):
        baseline.dvc("exp", "run", "--temp", "-S", "++budget.fractoin=0.2")
    assert baseline.git("status", "--porcelain") == ""
