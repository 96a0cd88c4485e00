from __future__ import annotations

import pytest

from quorum.errors import InputError
from quorum.pricing.history import (
    HISTORY_COLUMNS,
    RequestFacts,
    history_rows,
    read_history,
    read_usage,
    text_length,
)
from quorum.records import Usage
from quorum.runtime.ledger import Call, UsageLedger

OLD_HEADER = (
    "time,module,backend,model,key,sample,finish_reason,attempt,"
    "input_tokens,cached_input_tokens,output_tokens,reasoning_tokens,seconds,status\n"
)
OLD_ROW = "2026-11-01T00:00:00.000+00:00,ask,spy,m,k1,0,stop,1,10,4,6,2,0.500000,ok\n"


def keep(folder, *calls):
    ledger = UsageLedger(folder)
    for module, key, usage, status in calls:
        reason = "stop" if status == "ok" else "timeout"
        ledger.append(Call(module, "spy", "m", key, 0, reason, 1, usage, 0.5, status, "batch"))
    ledger.close()


def test_a_run_is_summed_by_kind_of_call_without_its_texts(tmp_path):
    keep(
        tmp_path / "r1",
        ("ask", "a", Usage(10, 4, 6, 2, 3), "ok"),
        ("ask", "b", Usage(), "failed"),
        ("ask", "b", Usage(30, 0, 2), "ok"),
        ("learn", "c", Usage(5, 0, 5), "ok"),
    )
    facts = {"a": RequestFacts(40, 16), "b": RequestFacts(120, 16)}
    ask, learn = read_history([tmp_path / "r1", tmp_path / "empty"], facts.get)
    assert (ask.run, ask.module, ask.backend, ask.model, ask.mode) == (
        "r1",
        "ask",
        "spy",
        "m",
        "batch",
    )
    assert (ask.n_requests, ask.n_calls, ask.n_failed) == (2, 2, 1)
    assert (ask.input_tokens, ask.cached_input_tokens, ask.cache_write_tokens) == (40, 4, 3)
    assert (ask.output_tokens, ask.reasoning_tokens, ask.seconds) == (8, 2, 1.5)
    assert ask.input_variation == pytest.approx(200**0.5 / 20, abs=1e-6)  # 10 and 30
    assert (ask.length, ask.max_tokens) == (80.0, 16.0)
    assert (learn.length, learn.input_variation) == (None, None)
    rows = list(history_rows([ask, learn]))
    assert tuple(rows[0]) == HISTORY_COLUMNS
    assert not any("key" in name or "text" in name for name in HISTORY_COLUMNS)


def test_a_request_that_was_paid_for_twice_counts_once_with_all_its_tokens(tmp_path):
    keep(tmp_path / "r", ("ask", "a", Usage(10, 0, 1), "ok"), ("ask", "a", Usage(10, 0, 3), "ok"))
    (run,) = read_history([tmp_path / "r"])
    assert (run.n_requests, run.n_calls, run.input_tokens, run.output_tokens) == (1, 2, 20, 4)


def test_a_copy_of_a_ledger_counts_once(tmp_path):
    keep(tmp_path / "r1", ("ask", "a", Usage(10, 0, 1), "ok"))
    (tmp_path / "r2").mkdir()
    copy = (tmp_path / "r1/usage.csv").read_text(encoding="utf-8")
    (tmp_path / "r2/usage.csv").write_text(copy, encoding="utf-8")
    (run,) = read_history([tmp_path / "r2", tmp_path / "r1"])
    assert (run.run, run.n_requests) == ("r1", 1)


def test_ledgers_of_older_versions_and_torn_last_lines_are_read(tmp_path):
    path = tmp_path / "usage.csv"
    path.write_text(OLD_HEADER + OLD_ROW + OLD_ROW[:40], encoding="utf-8")
    (row,) = read_usage(path)
    assert (row.usage, row.mode, row.status) == (Usage(10, 4, 6, 2, 0), "sync", "ok")


def test_a_run_without_a_reply_is_no_history(tmp_path):
    keep(tmp_path / "r", ("ask", "a", Usage(), "failed"))
    assert read_history([tmp_path / "r"]) == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", "lacks the column time"),
        (OLD_HEADER + OLD_ROW.replace(",10,", ",ten,"), "line 2: is not a row of a usage ledger"),
        (OLD_HEADER + OLD_ROW.replace("ok", "okay"), "line 2: .*got 'okay'"),
        (OLD_HEADER + OLD_ROW.replace("0.500000", "nan"), "line 2: is not a row"),
    ],
)
def test_a_damaged_ledger_is_one_line_with_its_place(tmp_path, text, message):
    (tmp_path / "usage.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_usage(tmp_path / "usage.csv")


def test_length_is_in_bytes_so_that_other_scripts_weigh_what_they_cost():
    assert (text_length("abcd"), text_length("é"), text_length("你好"), text_length("\ud800")) == (
        4,
        2,
        6,
        3,
    )
