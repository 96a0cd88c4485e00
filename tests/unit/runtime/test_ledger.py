from __future__ import annotations

import csv
import json
import logging
import os

import pytest

from quorum.errors import RefusedError
from quorum.records import Usage
from quorum.runtime.ledger import COLUMNS, Call, UsageLedger

HEADER = ",".join(COLUMNS) + "\n"
OLD_HEADER = (
    "time,module,backend,model,key,sample,finish_reason,attempt,"
    "input_tokens,cached_input_tokens,output_tokens,reasoning_tokens,seconds,status\n"
)
OLD_ROW = '2026-11-01T00:00:00.000+00:00,ask,spy,"a,b",k{},0,stop,1,10,4,6,2,0.500000,ok\n'


def call(key: str, **changed: object) -> Call:
    values = {
        "module": "generate",
        "backend": "scripted",
        "model": "m",
        "key": key,
        "sample": 0,
        "finish_reason": "stop",
        "attempt": 1,
        "usage": Usage(10, 4, 6, 2, 1),
        "seconds": 0.5,
        "status": "ok",
    }
    return Call(**{**values, **changed})


def rows(folder):
    text = (folder / "usage.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_a_row_is_there_as_soon_as_its_call_ended(tmp_path):
    ledger = UsageLedger(tmp_path)
    ledger.append(call("b"))
    (row,) = rows(tmp_path)
    assert tuple(row) == COLUMNS
    assert (row["key"], row["input_tokens"], row["cached_input_tokens"]) == ("b", "10", "4")
    assert (row["output_tokens"], row["reasoning_tokens"], row["seconds"]) == ("6", "2", "0.500000")
    ledger.close()


def test_each_row_is_one_write(tmp_path, monkeypatch):
    ledger = UsageLedger(tmp_path)
    written = []
    monkeypatch.setattr(os, "write", lambda file, data: written.append(data) or len(data))
    ledger.append(call("a", model='a,"b'))
    ledger.append(call("b"))
    ledger.close()
    assert len(written) == 2
    assert all(data.endswith(b"ok\n") and data.count(b"\n") == 1 for data in written)


def test_the_final_form_is_sorted_and_has_totals(tmp_path):
    ledger = UsageLedger(tmp_path)
    ledger.append(call("b", attempt=10))
    ledger.append(call("b", attempt=2, status="failed", usage=Usage()))
    ledger.append(call("a", module="personas", model="n"))
    ledger.finish()
    found = [(row["module"], row["key"], row["attempt"]) for row in rows(tmp_path)]
    assert found == [("generate", "b", "2"), ("generate", "b", "10"), ("personas", "a", "1")]
    totals = json.loads((tmp_path / "usage.json").read_text(encoding="utf-8"))
    assert totals["usage_schema"] == 2
    assert totals["total"] == {
        "n_calls": 2,
        "n_failed": 1,
        "input_tokens": 20,
        "cached_input_tokens": 8,
        "cache_write_tokens": 2,
        "output_tokens": 12,
        "reasoning_tokens": 4,
        "seconds": 1.5,
    }
    assert totals["by_module"]["personas"]["n_calls"] == 1
    assert totals["by_model"]["m"]["output_tokens"] == 6


def test_names_with_commas_quotes_line_ends_and_surrogates_stay_one_row(tmp_path):
    ledger = UsageLedger(tmp_path)
    ledger.append(call("a", model='x, "y"\nz \ud800'))
    ledger.finish()
    (row,) = rows(tmp_path)
    assert row["model"] == 'x, "y" z \\ud800'
    again = UsageLedger(tmp_path)
    again.append(call("b"))
    again.finish()
    assert (
        json.loads((tmp_path / "usage.json").read_text(encoding="utf-8"))["total"]["n_calls"] == 2
    )


def test_a_resumed_run_keeps_its_rows_and_its_totals_are_the_sum(tmp_path):
    first = UsageLedger(tmp_path)
    first.append(call("a"))
    first.close()  # killed: no finish
    second = UsageLedger(tmp_path)
    second.append(call("b"))
    second.finish()
    third = UsageLedger(tmp_path)
    third.append(call("c"))
    third.finish()
    assert [row["key"] for row in rows(tmp_path)] == ["a", "b", "c"]
    total = json.loads((tmp_path / "usage.json").read_text(encoding="utf-8"))["total"]
    assert total["input_tokens"] == sum(int(row["input_tokens"]) for row in rows(tmp_path)) == 30


def test_two_processes_may_keep_one_ledger_and_one_finish_before_the_other(tmp_path):
    one, two = UsageLedger(tmp_path), UsageLedger(tmp_path)
    one.append(call("a"))
    two.append(call("c"))
    one.finish()
    two.append(call("b"))
    two.finish()
    assert [row["key"] for row in rows(tmp_path)] == ["a", "b", "c"]
    total = json.loads((tmp_path / "usage.json").read_text(encoding="utf-8"))["total"]
    assert total["n_calls"] == 3


@pytest.mark.parametrize("tail", ["", "\n", "\n\n\n"])
@pytest.mark.parametrize("length", [1, 40, -4])
def test_a_torn_last_line_is_cut_off_and_kept_aside(tmp_path, caplog, tail, length):
    ledger = UsageLedger(tmp_path)
    ledger.append(call("a"))
    ledger.append(call("b"))
    ledger.close()
    path = tmp_path / "usage.csv"
    first, second = path.read_text(encoding="utf-8").splitlines()[1:]
    torn = second[:length]
    path.write_text(HEADER + first + "\n" + torn + tail, encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        resumed = UsageLedger(tmp_path)
    assert "torn" in caplog.text
    assert path.read_text(encoding="utf-8") == HEADER + first + "\n"
    assert (tmp_path / "usage.csv.torn").read_text(encoding="utf-8") == torn + "\n"
    resumed.append(call("c"))
    resumed.finish()
    assert [row["key"] for row in rows(tmp_path)] == ["a", "c"]


def test_a_whole_last_line_without_its_line_end_is_kept(tmp_path, caplog):
    ledger = UsageLedger(tmp_path)
    ledger.append(call("a"))
    ledger.close()
    path = tmp_path / "usage.csv"
    path.write_text(path.read_text(encoding="utf-8").rstrip("\n"), encoding="utf-8")
    resumed = UsageLedger(tmp_path)
    resumed.append(call("b"))
    resumed.finish()
    assert [row["key"] for row in rows(tmp_path)] == ["a", "b"]
    assert caplog.text == ""


@pytest.mark.parametrize(
    "content", ["", "time,mod", HEADER.strip(), HEADER + "\n\n", OLD_HEADER[:-3], OLD_HEADER]
)
def test_a_torn_header_is_written_anew(tmp_path, content):
    (tmp_path / "usage.csv").write_text(content, encoding="utf-8")
    ledger = UsageLedger(tmp_path)
    ledger.append(call("a"))
    ledger.finish()
    assert [row["key"] for row in rows(tmp_path)] == ["a"]
    assert (tmp_path / "usage.csv").read_text(encoding="utf-8").startswith(HEADER)


@pytest.mark.parametrize("torn", ["", OLD_ROW[:30]])
def test_a_ledger_of_an_older_version_goes_on_with_todays_columns(tmp_path, torn):
    path = tmp_path / "usage.csv"
    path.write_text(OLD_HEADER + OLD_ROW.format(1) + OLD_ROW.format(2) + torn, encoding="utf-8")
    ledger = UsageLedger(tmp_path)
    ledger.append(call("new", mode="batch"))
    ledger.finish()
    found = {row["key"]: row for row in rows(tmp_path)}
    assert tuple(found["k1"]) == COLUMNS
    assert [found[k]["cache_write_tokens"] for k in ("k1", "k2", "new")] == ["0", "0", "1"]
    assert [found[k]["mode"] for k in ("k1", "k2", "new")] == ["sync", "sync", "batch"]
    assert (found["k1"]["model"], found["k1"]["output_tokens"]) == ("a,b", "6")
    assert (tmp_path / "usage.csv.torn").exists() == bool(torn)


def test_an_older_ledger_with_a_damaged_row_is_refused_with_its_line(tmp_path):
    content = OLD_HEADER + OLD_ROW.format(1) + "a,b\n" + OLD_ROW.format(2)
    (tmp_path / "usage.csv").write_text(content, encoding="utf-8")
    with pytest.raises(RefusedError, match="line 3: is not a row of a ledger, got 'a,b'"):
        UsageLedger(tmp_path)
    assert (tmp_path / "usage.csv").read_text(encoding="utf-8") == content


def test_other_columns_are_refused(tmp_path):
    (tmp_path / "usage.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(RefusedError, match="has other columns, got 'a,b'"):
        UsageLedger(tmp_path)


def test_a_run_without_calls_has_totals_of_zero(tmp_path):
    UsageLedger(tmp_path / "new" / "folder").finish()
    totals = json.loads((tmp_path / "new" / "folder" / "usage.json").read_text(encoding="utf-8"))
    assert totals["total"]["n_calls"] == 0
    assert totals["by_module"] == {}


def full(file, data):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("write", "why"), [(full, "No space left"), (lambda file, data: 3, "a row was cut short")]
)
def test_a_full_disk_is_one_line_that_says_what_to_do(tmp_path, monkeypatch, write, why):
    ledger = UsageLedger(tmp_path)
    monkeypatch.setattr(os, "write", write)
    with pytest.raises(RefusedError, match=f"cannot be written: .*{why}.*Free disk space"):
        ledger.append(call("a"))
    ledger.close()
