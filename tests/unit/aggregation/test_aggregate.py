"""``quorum aggregate`` from a specification to its files."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorum.cli import main
from quorum.config.aggregation import read_aggregation

PROJECT = Path(__file__).parents[3]
GOLDEN = Path(__file__).parent / "golden"
FILES = {
    *("specification.resolved.yaml", "inputs.csv", "validation.csv", "runs.csv", "records.csv"),
    *("summary.csv", "contrasts.csv", "table.csv", "table.md", "table.tex", "table.html"),
    "trace.json",
}
SEEDS = {"across": ["seed", "snapshot"]}


def snapshot_of(folder: Path) -> dict[str, tuple[str, int]]:
    """Digest and time of change of every file and folder."""
    return {
        path.relative_to(folder).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def small(make_run):
    """Two seeds of mc and of exact at one budget, and a run at another."""
    make_run("mc-0", {"a": 1.0, "b|=x": 3.0}, settings={"seed": 0}, scalars={"n_requests": 8})
    make_run("mc-1", {"a": 2.0, "b|=x": None}, settings={"seed": 1}, scalars={"n_requests": 10})
    exact = {"estimator": {"name": "exact", "estimand": "shapley"}}
    make_run("ex-0", {"a": 0.5, "b|=x": 0.25}, settings={**exact, "seed": 0})
    make_run("ex-1", {"a": 0.5, "b|=x": 0.75}, settings={**exact, "seed": 1})
    make_run("far", {"a": 9.0}, settings={"budget": {"fraction": 0.9}})


SMALL = {
    "title": "Errors & <budgets>",
    "filters": {"budget.fraction": 0.1},
    "metrics": [
        {"name": "error", "label": "error_1"},
        {"name": "attribution.n_requests", "label": "requests"},
    ],
    "group_by": ["estimator"],
    "statistics": ["n", "mean", "sd", "ci"],
    "contrasts": [
        {
            "metric": "error",
            "between": {"estimator": ["mc", "exact"]},
            "paired_by": ["seed", "snapshot"],
        }
    ],
    **SEEDS,
}


@pytest.mark.parametrize("name", ["table.csv", "table.md", "table.tex", "table.html"])
def test_a_small_aggregation_reads_as_it_always_has(name, small, aggregate):
    code, folder, error = aggregate(**SMALL)
    assert (code, error) == (0, "")
    text = (folder / name).read_text(encoding="utf-8")
    made = text[text.index("<body>") :] if name.endswith("html") else text
    assert made == (GOLDEN / name).read_text(encoding="utf-8")


def test_all_files_are_written_and_equal_runs_give_equal_bytes(small, aggregate):
    _, folder, _ = aggregate(**SMALL)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(first) == FILES
    _, folder, _ = aggregate(**SMALL)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == first
    assert [path.name for path in folder.parent.iterdir()] == ["spec"]


def test_only_the_formats_that_are_asked_for_are_written(small, aggregate):
    _, folder, _ = aggregate(**{**SMALL, "formats": ["md"]})
    assert {p.name for p in folder.iterdir()} == FILES - {"table.csv", "table.tex", "table.html"}


def test_the_command_prints_the_table_and_what_was_written(small, write_spec, capsys):
    write_spec(**SMALL)
    assert main(["aggregate", "--config", "spec.yaml", "--to", "out"]) == 0
    printed = capsys.readouterr().out
    assert "error_1" in printed
    assert "4 runs, 12 records; 1 left out by filters\nWrote out: contrasts.csv " in printed


def test_the_ledger_of_inputs_names_every_run_with_digests(small, aggregate, read, here):
    _, folder, _ = aggregate(**SMALL)
    rows = read(folder / "inputs.csv")
    assert [(row["run"], row["name"], row["outcome"]) for row in rows] == [
        ("run1", "runs/ex-0", "read"),
        ("run2", "runs/ex-1", "read"),
        ("run3", "runs/far", "left out"),
        ("run4", "runs/mc-0", "read"),
        ("run5", "runs/mc-1", "read"),
    ]
    assert rows[2]["reason"] == "budget.fraction is 0.9"
    for name in ("run.json", "metrics.json", "config.resolved.yaml"):
        content = (here / "runs/mc-0" / name).read_bytes()
        assert rows[3][name] == hashlib.sha256(content).hexdigest()


def test_runs_have_a_row_each_with_what_varies_and_their_scalars(small, aggregate, read):
    _, folder, _ = aggregate(**SMALL)
    rows = read(folder / "runs.csv")
    assert [*rows[0]] == [
        *("run", "name", "revision", "run_id", "study", "answered_by"),
        *("estimator.name", "seed", "budget.fraction", "attribution.n_requests"),
    ]
    assert [row["attribution.n_requests"] for row in rows] == ["10", "10", "8", "10"]


def test_every_record_of_a_cell_stands_in_records_with_its_place(small, aggregate, read, here):
    _, folder, _ = aggregate(**SMALL)
    records = {row["record"]: row for row in read(folder / "records.csv")}
    cells = json.loads((folder / "trace.json").read_text(encoding="utf-8"))["table"]
    for cell in cells.values():
        assert {*cell["records"], *cell["without_value"]} <= set(records)
    assert cells["B3"]["records"] == ["run4.0", "run4.1", "run5.0"]
    assert cells["B3"]["without_value"] == ["run5.1"]
    assert cells["B3"]["runs"] == ["run4", "run5"]
    metrics = json.loads((here / "runs/mc-0/metrics.json").read_text(encoding="utf-8"))
    assert records["run4.1"]["place"] == "metrics.json records[1]"
    assert float(records["run4.1"]["value"]) == metrics["records"][1]["value"]


def test_a_null_is_left_out_counted_and_kept(small, aggregate, read):
    _, folder, _ = aggregate(**SMALL)
    row = read(folder / "summary.csv")[2]
    assert (row["row"], row["n"], row["n_null"], row["mean"]) == ("estimator=mc", "3", "1", "2.0")
    (kept,) = (r for r in read(folder / "records.csv") if r["record"] == "run5.1")
    assert (kept["value"], kept["reason"]) == ("", "nothing was paid for")
    (line,) = (r for r in read(folder / "validation.csv") if r["check"] == "records have a value")
    assert "1 of 4 records: nothing was paid for" in line["detail"]


def test_nothing_but_nulls_is_null_with_a_reason(make_run, aggregate, read):
    make_run("one", {"a": None, "b": None})
    code, folder, _ = aggregate(across=["snapshot"], statistics=["mean", "max"])
    assert code == 0
    (row,) = read(folder / "summary.csv")
    assert (row["n"], row["n_null"], row["mean"], row["reason"]) == (
        *("0", "2", ""),
        "no record has a value",
    )
    assert (folder / "table.csv").read_text() == "rows,error n,error mean,error max\nall,0,,\n"


def test_rows_are_sorted_as_numbers(make_run, aggregate, read):
    for fraction in (1.0, 0.2, 10, 0.1):
        make_run(f"f{fraction}", {"a": 1.0}, settings={"budget": {"fraction": fraction}})
    _, folder, _ = aggregate(group_by=["budget.fraction"])
    assert [r["budget.fraction"] for r in read(folder / "table.csv")] == ["0.1", "0.2", "1", "10"]


def test_a_record_may_be_grouped_by_and_filtered_on_its_own_keys(make_run, aggregate, read):
    make_run("one", {"a": 1.0, "b": 2.0, "c": 3.0})
    _, folder, _ = aggregate(group_by=["snapshot"], filters={"snapshot": ["a", "c"]})
    rows = read(folder / "table.csv")
    assert [(r["snapshot"], r["error mean"]) for r in rows] == [("a", "1.0"), ("c", "3.0")]
    assert read(folder / "inputs.csv")[0]["n_filtered"] == "2"  # b, and the scalar n_requests


def test_text_that_a_spreadsheet_would_run_is_guarded_in_tables_only(make_run, aggregate):
    make_run("one", {"=2+3": -1.0})
    _, folder, _ = aggregate(group_by=["snapshot"], statistics=["mean"])
    assert (folder / "table.csv").read_text().splitlines()[1] == "'=2+3,1,-1.0"
    assert ",=2+3," in (folder / "records.csv").read_text()


def test_source_runs_are_only_read(small, aggregate, here):
    for path in [*(here / "runs").rglob("*"), here / "runs"]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = snapshot_of(here / "runs")
    assert aggregate(**SMALL)[0] == 0
    assert snapshot_of(here / "runs") == before


def test_a_resolved_specification_gives_the_same_tables(small, aggregate, here):
    _, folder, _ = aggregate(**SMALL)
    resolved = folder / "specification.resolved.yaml"
    spec = read_aggregation(resolved)
    assert [one.text for one in spec.inputs][:2] == ["runs/ex-0", "runs/ex-1"]
    assert main(["aggregate", "--config", str(resolved), "--to", "again"]) == 0
    for name in ("table.csv", "table.md", "table.html", "contrasts.csv", "runs.csv"):
        assert (here / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_a_pinned_run_must_be_the_one_that_was_pinned(make_run, aggregate):
    make_run("one", {"a": 1.0})
    code, folder, error = aggregate(inputs=[{"run": "runs/one", "run_id": "0" * 64}])
    assert code == 3
    assert "runs/one: is another run than the one that was pinned" in error
    assert not folder.exists()


def test_the_same_run_under_two_names_is_refused(make_run, aggregate, here):
    make_run("one", {"a": 1.0})
    (here / "link").symlink_to(here / "runs/one")
    code, folder, error = aggregate(inputs=["runs/one", "link"])
    assert code == 3
    assert "runs/one and link are the same run and would count twice" in error
    assert not folder.exists()


def test_a_run_that_is_named_and_matched_counts_once(make_run, aggregate, read):
    make_run("one", {"a": 1.0})
    code, folder, _ = aggregate(inputs=["runs/one", {"glob": "runs/*"}])
    assert code == 0
    assert [row["name"] for row in read(folder / "inputs.csv")] == ["runs/one"]


@pytest.mark.parametrize(
    ("keys", "code", "line"),
    [
        ({"inputs": ["runs/none"]}, 2, "runs/none: no such run"),
        ({"inputs": ["exp-*"]}, 2, r"spec.yaml: inputs[0]: no experiment matches, got 'exp-*'"),
        ({"inputs": [{"glob": "none/*"}]}, 2, "spec.yaml: inputs[0]: no folder matches"),
        ({"metrics": ["eror"]}, 2, "no run has this metric, got 'eror'; allowed attribution"),
        ({"metrics": ["eror"]}, 2, "Did you mean error?"),
        (
            {"metrics": [{"name": "error", "unit": "nats"}]},
            2,
            "no record of error has these keys, got {'unit': 'nats'}; allowed unit: payoff",
        ),
        ({"group_by": ["estimatr"]}, 2, "Did you mean estimator?"),
        ({"across": ["snapshots"]}, 2, "Did you mean snapshot?"),
        ({"filters": {"sed": 1}}, 2, "spec.yaml: filters: no run and no record has this key"),
        ({"filters": {"seed": 7}}, 2, "no record of 1 runs is left, got {'seed': [7]}"),
        ({"filters": {"snapshot": "z"}}, 2, "no record of 1 runs is left"),
        ({"filters": {"seed": True}}, 2, "no record of 1 runs is left"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_nothing_written(keys, code, line, make_run, aggregate):
    make_run("one", {"a": 1.0}, settings={"seed": 1})
    found, folder, error = aggregate(**keys)
    assert found == code
    assert line in error
    assert error.count("\n") == 1
    assert not folder.parent.exists()


def edit(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    """Changes the object in a JSON file of a run."""

    def apply(path: Path) -> None:
        whole = json.loads((path / name).read_text(encoding="utf-8"))
        change(whole)
        (path / name).write_text(json.dumps(whole), encoding="utf-8")

    return apply


def row(**changes: object) -> Callable[[Path], object]:
    """Changes the first metric record of a run."""
    return edit("metrics.json", lambda whole: whole["records"][0].update(changes))


def put(name: str, content: bytes) -> Callable[[Path], object]:
    """Replaces a file of a run."""
    return lambda path: (path / name).write_bytes(content)


def swap(old: bytes, new: bytes) -> Callable[[Path], object]:
    """Replaces text in the metrics of a run."""

    def apply(path: Path) -> None:
        content = (path / "metrics.json").read_bytes()
        (path / "metrics.json").write_bytes(content.replace(old, new))

    return apply


BREAKS: dict[str, Callable[[Path], object]] = {
    "value is text": row(value="0.5"),
    "value is true": row(value=True),
    "value is a list": row(value=[1]),
    "snapshot is a number": row(snapshot=3),
    "coverage above 1": row(coverage=1.5),
    "coverage is text": row(coverage="all"),
    "metric is null": row(metric=None),
    "a record twice": edit("metrics.json", lambda m: m["records"].append(m["records"][0])),
    "another schema": edit("metrics.json", lambda m: m.update(records=[{"name": "error"}])),
    "records are an object": edit("metrics.json", lambda m: m.update(records={"error": 1.0})),
    "metrics of another run": edit("metrics.json", lambda m: m["run"].update(settings="f" * 12)),
    "NaN": swap(b"1.5", b"NaN"),
    "infinity": swap(b"1.5", b"1e999"),
    "truncated": swap(b"}]}", b""),
    "empty": put("metrics.json", b""),
    "binary": put("metrics.json", b"\x80\x04\x95\xff"),
    "no metrics": lambda path: (path / "metrics.json").unlink(),
    "no settings": lambda path: (path / "config.resolved.yaml").unlink(),
    "settings are a list": put("config.resolved.yaml", b"- a\n"),
    "settings are no YAML": put("config.resolved.yaml", b"a: ["),
    "no versions": edit("run.json", lambda record: record.pop("versions")),
    "foreign": put("run.json", b'{"study": "chess"}'),
    "no run": lambda path: (path / "run.json").unlink(),
}


@pytest.mark.parametrize("change", BREAKS)
def test_a_broken_run_is_one_line_and_nothing_is_written(change, make_run, aggregate, here):
    make_run("good", {"a": 1.0})
    path = make_run("bad", {"a": 1.5}, settings={"seed": 1})
    before = snapshot_of(path)
    BREAKS[change](path)
    assert snapshot_of(path) != before
    code, folder, error = aggregate(across=["seed"])
    assert code in {2, 3}
    assert error.startswith("error: runs/bad")
    assert error.count("\n") == 1
    assert not folder.parent.exists()


def test_no_record_at_all_is_told(make_run, aggregate):
    make_run("one", {}, rows=[{"metric": "other", "value": 1.0, "unit": "payoff"}])
    code, _, error = aggregate()
    assert code == 2
    assert "no run has this metric, got 'error'; allowed attribution.n_requests, other" in error


def test_a_folder_that_holds_something_else_is_left_alone(small, aggregate, here):
    target = here / "tables" / "spec"
    target.mkdir(parents=True)
    (target / "thesis.txt").write_text("mine")
    code, folder, error = aggregate(**SMALL)
    assert code == 3
    assert "holds something else than an earlier aggregation, got 'thesis.txt'" in error
    assert [path.name for path in folder.iterdir()] == ["thesis.txt"]


def test_a_folder_that_holds_more_than_an_earlier_aggregation_is_left_alone(small, aggregate, here):
    _, folder, _ = aggregate(**SMALL)
    (folder / "note.txt").write_text("mine")
    before = snapshot_of(folder)
    code, _, error = aggregate(**SMALL)
    assert code == 3
    assert "got 'note.txt'" in error
    assert snapshot_of(folder) == before


def test_an_earlier_aggregation_stays_where_the_next_one_fails(small, aggregate):
    _, folder, _ = aggregate(**SMALL)
    before = snapshot_of(folder)
    assert aggregate(**{**SMALL, "across": ["seed"]})[0] == 3
    assert snapshot_of(folder) == before


@pytest.mark.parametrize("target", ["runs/mc-0", "runs/mc-0/tables"])
def test_nothing_is_written_into_a_run_that_is_read(target, small, write_spec, capsys, here):
    write_spec(**SMALL)
    before = snapshot_of(here / "runs")
    assert main(["aggregate", "--config", "spec.yaml", "--to", target]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert snapshot_of(here / "runs") == before


def test_a_place_that_cannot_be_written_is_one_line(small, write_spec, capsys, here):
    write_spec(**SMALL)
    (here / "file").write_text("")
    assert main(["aggregate", "--config", "spec.yaml", "--to", "file/tables"]) == 2
    assert "file/tables: cannot be written (Not a directory)" in capsys.readouterr().err


def test_experiments_are_read_by_pattern_from_git(make_run, write_spec, here, monkeypatch, read):
    """Two experiments of a project, whose refs are as DVC makes them."""
    project = here / "project"
    (project / "conf").mkdir(parents=True)
    (project / "conf/config.yaml").write_text("{}")
    (project / ".dvc").mkdir()
    (project / ".dvc/config").write_text("[core]\n    analytics = false\n")
    (project / ".dvc/.gitignore").write_text("/config.local\n/tmp\n/cache\n")
    author = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }

    def git(*command: str) -> str:
        return subprocess.run(
            ["git", "-C", str(project), *command],
            env={**os.environ, **author},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()

    git("init", "-q", "-b", "main")
    for name, value in (("exp-a", 1.0), ("exp-b", 3.0)):
        run = make_run(name, {"a": value}, settings={"seed": int(value)})
        for file, to in (
            ("run.json", "data/aggregate/log/run.json"),
            ("config.resolved.yaml", "data/aggregate/log/config.resolved.yaml"),
            ("metrics.json", "data/report/metrics.json"),
        ):
            (project / to).parent.mkdir(parents=True, exist_ok=True)
            (project / to).write_bytes((run / file).read_bytes())
        git("add", "-A")
        git("commit", "-qm", name)
        git("update-ref", f"refs/exps/ab/{'c' * 38}/{name}", "HEAD")
    monkeypatch.chdir(project)
    spec = write_spec(inputs=["exp-*"], across=["seed"])
    before = git("status", "--porcelain")
    assert main(["aggregate", "--config", str(spec)]) == 0
    rows = read(project / "tables/spec/inputs.csv")
    assert [row["name"] for row in rows] == ["exp-a", "exp-b"]
    assert rows[1]["revision"] == git("rev-parse", "HEAD")
    assert read(project / "tables/spec/table.csv")[0]["error mean"] == "2.0"
    resolved = yaml.safe_load((project / "tables/spec/specification.resolved.yaml").read_text())
    assert resolved["inputs"][1]["revision"] == git("rev-parse", "HEAD")
    assert git("status", "--porcelain").replace("?? tables/", "").strip() == before


def test_the_page_about_aggregation_lists_every_column_in_order(small, aggregate):
    _, folder, _ = aggregate(**SMALL)
    page = (PROJECT / "docs/aggregation.md").read_text(encoding="utf-8")
    found = re.findall(r"<!-- check: columns \S+/(\S+) -->\n\|.*\n\| ---.*\n((?:\|.*\n)+)", page)
    assert len(found) == 6
    for name, table in found:
        told = [c for line in table.splitlines() for c in re.findall("`(.+?)`", line.split("|")[1])]
        written = (folder / name).read_text(encoding="utf-8").partition("\n")[0].split(",")
        fixed = [column for column in written if not column.startswith("group ")]
        assert told == (fixed[: len(told)] if name == "runs.csv" else fixed), name


def test_cells_of_a_simulation_are_told_apart_and_nobody_answered(make_run, aggregate, read):
    rows = [
        {"metric": "error", "cell": cell, "value": value, "unit": "share", "reason": None}
        for cell, value in (("c1", 1.0), ("c2", 3.0))
    ]
    told = {"model": None, "label": "synthetic worlds: nobody was asked"}
    make_run("s", {}, rows=rows, study="simulation", record=told)
    code, folder, error = aggregate(group_by=["cell"])
    assert (code, error) == (0, "")
    assert [row["error mean"] for row in read(folder / "table.csv")] == ["1.0", "3.0"]
    assert "Answers: synthetic worlds: nobody was asked" in (folder / "table.md").read_text()
    assert "model-generated" not in (folder / "table.html").read_text(encoding="utf-8")


def test_people_of_a_table_are_not_model_generated(make_run, aggregate):
    people = {"backend": "panel", "model": "panel", "identity": {}}
    record = {"model": people, "label": "Real people's answers."}
    make_run("one", {"a": 1.0}, study="reconstruction", record=record)
    _, folder, _ = aggregate()
    text = (folder / "table.html").read_text(encoding="utf-8")
    assert "panel: Real people&#39;s answers." in text
    assert "model-generated" not in text


@pytest.mark.parametrize(("name", "words"), [("aggregate", "--config SPEC"), ("trace", "TABLE")])
def test_the_commands_help(name, words, capsys):
    with pytest.raises(SystemExit) as exited:
        main([name, "--help"])
    assert exited.value.code == 0
    text = capsys.readouterr().out
    assert words in text
    assert "example: quorum" in text
