"""``quorum trace``: from a cell back to runs and records."""

from __future__ import annotations

import json

import pytest

from quorum.cli import main
from quorum.pipeline.aggregation.trace import trace


@pytest.fixture
def tables(make_run, aggregate):
    """Two estimators with two snapshots each, and their contrast."""
    make_run("a", {"p": 1.0, "q": 2.5}, settings={"estimator": {"name": "mc"}})
    make_run("b", {"p": 3.0, "q": None}, settings={"estimator": {"name": "exact"}})
    contrast = {
        "metric": "error",
        "between": {"estimator": ["mc", "exact"]},
        "paired_by": ["snapshot"],
    }
    code, folder, _ = aggregate(
        group_by=["estimator"],
        across=["snapshot"],
        statistics=["mean", "sd", "ci"],
        contrasts=[contrast],
    )
    assert code == 0
    return folder


def refused(capsys, *argv: object) -> tuple[int, str]:
    code = main(["trace", *map(str, argv)])
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return code, error


def test_a_cell_leads_to_its_value_statistic_runs_and_records(tables, capsys):
    assert main(["trace", str(tables), "C3"]) == 0
    printed = capsys.readouterr().out
    for words in ("C3 of table.csv", "estimator=mc", "error mean", "1.75", "runs/a", "run1.1"):
        assert words in printed
    assert "runs/b" not in printed
    assert "Recomputed from 2 records: it agrees" in printed


def test_rows_and_columns_may_be_named(tables):
    by_name = trace(tables, ["estimator=mc", "error mean"])
    assert by_name.address == trace(tables, ["c3"]).address == "C3"
    assert by_name.value == 1.75


@pytest.mark.parametrize("name", ["table.csv", "table.md", "table.tex", "table.html"])
def test_any_file_of_the_table_will_do(tables, name):
    assert trace(tables / name, ["C3"]).value == 1.75


def test_a_contrast_is_traced_to_its_pairs(tables):
    found = trace(tables / "contrasts.csv", ["E2"])
    assert (found.value, found.cell["statistic"]) == (-2.0, "mean")
    assert [record["record"] for record in found.records] == ["run1.0", "run2.0"]
    assert [run["run"] for run in found.runs] == ["run1", "run2"]
    assert trace(tables / "contrasts.csv", ["L2"]).value == 1  # pairs that lack a value


def test_every_cell_of_both_tables_is_recomputed(tables):
    written = json.loads((tables / "trace.json").read_text(encoding="utf-8"))
    n = 0
    for part, name in (("table", "table.csv"), ("contrasts", "contrasts.csv")):
        for address, cell in written[part].items():
            assert trace(tables / name, [address]).value == cell["value"]
            n += 1
    assert n == 2 * 5 + 9  # n, mean, sd and two ends; six statistics and three counts


def test_a_null_cell_is_traced_to_its_reason(tables, capsys):
    assert main(["trace", str(tables), "D2"]) == 0
    assert "none: one value has no spread" in capsys.readouterr().out


def test_a_record_that_was_changed_is_noticed(tables, capsys):
    path = tables / "records.csv"
    path.write_text(path.read_text().replace("2.5", "2.75"))
    code, error = refused(capsys, tables, "C3")
    assert code == 3
    assert "C3: does not agree with the records, got 1.75; allowed 1.875" in error


def test_a_number_that_was_changed_in_the_table_is_noticed(tables, capsys):
    path = tables / "table.csv"
    path.write_text(path.read_text().replace("1.75", "1.5"))
    code, error = refused(capsys, tables, "C3")
    assert code == 3
    assert "does not agree with table.csv, got 1.75; allowed 1.5" in error


def test_a_page_that_was_changed_is_noticed(tables, capsys):
    path = tables / "table.md"
    path.write_text(path.read_text().replace("1.750", "1.5"))
    assert trace(tables / "table.csv", ["C3"]).value == 1.75
    code, error = refused(capsys, path, "C3")
    assert code == 3
    assert "table.md: was changed since it was made" in error


def test_a_record_that_is_gone_is_noticed(tables, capsys):
    path = tables / "records.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    code, error = refused(capsys, tables, "C3")
    assert code == 3
    assert "records.csv lacks a record of this cell, got 'run1.1'" in error


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (["A2"], "no number of the table stands there, got 'A2'; allowed B2 to F3"),
        (["C1"], "no number of the table stands there"),
        (["mc"], "or the names of a row and a column"),
        (["estimator=m", "error mean"], "no row has this name, got 'estimator=m'"),
        (["estimator=mc", "eror mean"], "Did you mean error mean?"),
        (["a", "b", "c"], "is too many words"),
    ],
)
def test_a_cell_that_is_not_there_is_told(tables, cell, words, capsys):
    code, error = refused(capsys, tables, *cell)
    assert code == 2
    assert words in error


def test_what_is_no_table_is_told(tables, capsys, here):
    for place, words in (
        (here / "none", "no such table"),
        (here / "runs", "holds no aggregation"),
        (tables / "records.csv", "is no table"),
    ):
        code, error = refused(capsys, place, "C3")
        assert code == 2
        assert words in error


@pytest.mark.parametrize(
    ("content", "words"),
    [("", "is not JSON"), ("[]", "must be an object"), ("{}", "is no trace")],
)
def test_a_trace_of_another_kind_is_told(tables, content, words, capsys):
    (tables / "trace.json").write_text(content)
    code, error = refused(capsys, tables, "C3")
    assert code == 2
    assert words in error


@pytest.mark.parametrize("name", ["\ud800\x1b[31m|&%", "a\r\nb", '"</td>,\x00', "=1+1", " "])
def test_odd_names_go_through_every_file_and_back(name, make_run, aggregate):
    make_run("one", {name: 7.0, "other": 2.0})
    code, folder, error = aggregate(group_by=["snapshot"])
    assert (code, error) == (0, "")
    written = json.loads((folder / "trace.json").read_text("utf-8", "surrogatepass"))["table"]
    row = next(cell["row"] for cell in written.values() if cell["value"] == 7.0)
    assert row == f"snapshot={name}"
    for file in ("table.csv", "table.md", "table.tex", "table.html"):
        assert trace(folder / file, [row, "error mean"]).value == 7.0
        content = (folder / file).read_text(encoding="utf-8")
        assert not set(content) & {"\x00", "\x1b", "\ud800"}
