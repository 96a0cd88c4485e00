"""A run folder that is broken, foreign or mixed: one line, exit 2 or 3, and nothing is written."""

from __future__ import annotations

import gzip
import math
import shutil
from pathlib import Path

import finished_runs as runs
import pytest

import quorum
from quorum.cli import main
from quorum.errors import QuorumError

RECORD, METRICS = "aggregate/log/run.json", "report/metrics.json"
ROWS, FOUND = "aggregate/result/attributions.jsonl", "aggregate/result/diagnostics.json"

SHARD = "generate/log/store.jsonl.gz"


def put(path: str, value: object):
    """Sets a value at a dotted path of a JSON object."""

    def change(found: dict) -> None:
        *parents, last = path.split(".")
        for key in parents:
            found = found[int(key)] if isinstance(found, list) else found[key]
        found[last] = value

    return change


def drop(*keys: str):
    def change(found: dict) -> None:
        for key in keys:
            del found[key]

    return change


# name: (study, what is done to the copy, exit code, words of the line)
BROKEN = {
    "no record": ("a", runs.removed(RECORD), 2, "holds no finished run: no run.json"),
    "no metrics": ("a", runs.removed(METRICS), 2, "metrics.json: is missing"),
    "empty record": ("a", runs.replaced(RECORD, ""), 2, "run.json: is not JSON"),
    "empty metrics": ("a", runs.replaced(METRICS, ""), 2, "metrics.json: is not JSON"),
    "record cut off": ("a", runs.cut(RECORD), 2, "run.json: is not JSON"),
    "metrics cut off": ("a", runs.cut(METRICS), 2, "metrics.json: is not JSON"),
    "record is a list": ("a", runs.replaced(RECORD, "[]"), 2, "must be an object, got 'list'"),
    "metrics are a text": ("a", runs.replaced(METRICS, '"x"'), 2, "must be an object, got 'str'"),
    "record is binary": ("a", runs.replaced(RECORD, b"\x80\x04\x95pickle"), 2, "not UTF-8"),
    "record of UTF-16": ("a", runs.replaced(RECORD, "{}".encode("utf-16")), 2, "not UTF-8"),
    "deep record": ("a", runs.replaced(RECORD, "[" * 100_000), 2, "run.json: is not JSON"),
    "foreign record": ("a", runs.replaced(RECORD, '{"name": "x"}'), 2, "lacks run_id"),
    "no run id": ("a", runs.edited(RECORD, drop("run_id")), 2, "lacks run_id"),
    "no seed, no input": ("a", runs.edited(RECORD, drop("seed", "input")), 2, "lacks seed, input"),
    "run id no digest": ("a", runs.edited(RECORD, put("run_id", "x")), 2, "run_id: is no digest"),
    "run id a number": ("a", runs.edited(RECORD, put("run_id", 7)), 2, "got 7"),
    "unknown study": ("a", runs.edited(RECORD, put("study", "p2p")), 2, "unknown study, got 'p2p'"),
    "other study": ("a", runs.edited(RECORD, put("study", "simulation")), 2, "simulation must be"),
    "input is a text": ("a", runs.edited(RECORD, put("input", "x")), 2, "input: must be an object"),
    "NaN in the record": ("a", runs.edited(RECORD, put("seed", math.nan)), 2, "holds NaN"),
    "NaN scalar": ("a", runs.edited(METRICS, put("attribution.n_requests", math.nan)), 2, "NaN"),
    "infinite value": ("a", runs.edited(METRICS, put("records.0.value", math.inf)), 2, "Infinity"),
    "value over range": ("a", runs.replaced(METRICS, '{"a": 1e999}'), 2, "holds 1e999"),
    "value is a text": ("a", runs.edited(METRICS, put("records.0.value", "0.5")), 2, "got '0.5'"),
    "huge number": ("a", runs.edited(METRICS, put("records.0.value", 10**400)), 2, "a number or"),
    "value is true": ("a", runs.edited(METRICS, put("records.0.value", True)), 2, "got true"),
    "no value": ("a", runs.edited(METRICS, lambda m: m["records"][0].pop("value") and None), 2, ""),
    "metric is null": ("a", runs.edited(METRICS, put("records.1.metric", None)), 2, "records[1]"),
    "unit is missing": ("a", runs.edited(METRICS, put("records.2.unit", None)), 2, "unit must be"),
    "record is null": ("a", runs.edited(METRICS, put("records", [None])), 2, "records[0]: must be"),
    "records a mapping": ("a", runs.edited(METRICS, put("records", {})), 2, "must be a list"),
    "no scalars": ("a", runs.edited(METRICS, drop("attribution")), 2, "attribution must be"),
    "two runs mixed": ("a", runs.edited(METRICS, put("run.settings", "0" * 12)), 3, "of two runs"),
    "attributions cut off": ("a", runs.cut(ROWS, 0.9), 2, "attributions.jsonl:2: is not JSON"),
    "NaN among values": ("a", runs.replaced(ROWS, '{"values": [NaN]}\n'), 2, "holds NaN"),
    "foreign attributions": ("a", runs.replaced(ROWS, '{"x": 1}\n'), 2, "attributions.jsonl: "),
    "settings no YAML": (
        "a",
        runs.replaced("aggregate/log/config.resolved.yaml", "a: [1"),
        2,
        "config.resolved.yaml: is not YAML",
    ),
    "requests cut off": ("a", runs.cut(SHARD), 2, "store.jsonl.gz: is no whole gzip file"),
    "requests of others": ("a", runs.replaced(SHARD, gzip.compress(b"{}\n")), 2, "is no row of a"),
    "diagnostics cut off": ("r", runs.cut(FOUND), 2, "diagnostics.json: is not JSON"),
    "NaN share": ("r", runs.edited(FOUND, put("level", math.nan)), 2, "holds NaN"),
    "other schema": ("r", runs.edited(FOUND, put("schema", 9)), 2, "schema: is not known here"),
    "no targets": ("r", runs.edited(FOUND, put("targets", [])), 2, "targets: is empty"),
    "targets a text": ("r", runs.edited(FOUND, put("targets", "x")), 2, "diagnostics.json: "),
    "weights cut off": ("r", runs.cut("score/result/weights.csv", 0.97), 2, "weights.csv: "),
    "weight no number": (
        "r",
        runs.replaced("score/result/weights.csv", "target,weight\npopulation,x\n"),
        2,
        "weights.csv: a weight is no number, got 'x'",
    ),
    "foreign questions": (
        "r",
        runs.replaced("partition/result/questions.csv", "a,b\n1,2\n"),
        2,
        "questions.csv: lacks question_id",
    ),
}


@pytest.fixture(scope="module")
def whole(make_projects) -> dict[str, Path]:
    """One good run of each study."""
    return {
        "a": runs.attribution(make_projects("attribution")),
        "r": runs.reconstruction(make_projects("reconstruction")),
    }


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working directory that is in no project."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_run_is_one_line_and_nothing_is_written(name, whole, here, tmp_path, capsys):
    study, damage, code, words = BROKEN[name]
    data = runs.copy_data(whole[study], tmp_path / "copy")
    damage(data)

    assert main(["export", str(data), "out"]) == code

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert told.err.count("\n") == 1
    assert words in told.err
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["no metrics", "NaN scalar", "two runs mixed", "foreign attributions"]
)
def test_inspect_and_load_refuse_what_export_refuses(name, whole, here, tmp_path, capsys):
    study, damage, code, words = BROKEN[name]
    data = runs.copy_data(whole[study], tmp_path / "copy")
    damage(data)

    assert main(["inspect", str(data), "--html"]) == code
    assert words in capsys.readouterr().err
    with pytest.raises(QuorumError, match=words):
        quorum.load(data)
    assert list(here.iterdir()) == []


def test_an_export_that_was_changed_is_refused(whole, here, capsys):
    assert main(["export", str(whole["a"]), "out"]) == 0
    metrics = here / "out" / "metrics.csv"
    metrics.write_text(metrics.read_text().replace("payoff", "payout"))
    assert main(["inspect", "out"]) == 3
    assert "out: metrics.csv: was changed since the export" in capsys.readouterr().err

    metrics.unlink()
    assert main(["inspect", "out"]) == 3
    assert "out: metrics.csv: is missing, and SHA256SUMS names it" in capsys.readouterr().err


def test_a_list_of_digests_names_no_file_outside(whole, here, capsys):
    assert main(["export", str(whole["a"]), "out"]) == 0
    sums = here / "out" / "SHA256SUMS"
    sums.write_text(sums.read_text() + f"{'0' * 64}  ../secret\n")
    assert main(["inspect", "out"]) == 2
    assert "is no list of digests" in capsys.readouterr().err


def test_what_is_no_run_is_named(here, capsys):
    (here / "empty").mkdir()
    for name, words in (
        ("empty", "holds no finished run: no run.json"),
        ("nowhere", "no such run; allowed a folder"),
        ("--", "the following arguments are required"),
    ):
        if name == "--":
            with pytest.raises(SystemExit) as exited:
                main(["inspect", name])
            assert exited.value.code == 2
        else:
            assert main(["inspect", name]) == 2
        assert words in capsys.readouterr().err


def test_a_folder_with_something_in_it_is_not_overwritten(whole, here, capsys):
    shutil.copytree(whole["a"] / "data/report", here / "out")
    assert main(["export", str(whole["a"]), "out"]) == 3
    assert "is there and not empty" in capsys.readouterr().err
    assert sorted(p.name for p in (here / "out").iterdir()) == ["metrics.json", "plots"]
