from __future__ import annotations

import csv
import io
from collections.abc import Callable

import pytest

from quorum.report.plots import CURVE_COLUMNS, VALUE_COLUMNS, curve_rows, value_rows
from quorum.report.tables import (
    ATTRIBUTION_COLUMNS,
    Cell,
    attribution_rows,
    attributions_csv,
    csv_text,
    guard_cell,
)

Document = dict[str, object]
Make = Callable[..., Document]


def test_the_csv_has_fixed_columns_and_full_precision(attribution: Make) -> None:
    source = attribution("lions", "Do lions roar ?")
    source["raw_values"] = [0.1 + 0.2, -0.2, 0.1, 0.0]
    source["standard_errors"] = [0.1, None, 0.1, 0.1]
    assert attributions_csv([source]) == (
        "snapshot,player,text,role,value,raw_value,se,rank\n"
        "lions,0,Do,user,0.4,0.30000000000000004,0.1,1\n"
        "lions,1,lions,user,-0.2,-0.2,,4\n"
        "lions,2,roar,user,0.1,0.1,0.1,2\n"
        "lions,3,?,user,0.0,0.0,0.1,3\n"
    )


def test_ties_are_ranked_by_index(attribution: Make) -> None:
    source = attribution("x", "a b c") | {"raw_values": [0.5, 1.0, 0.5]}
    assert [row["rank"] for row in attribution_rows([source])] == [2, 1, 3]


def test_undefined_is_an_empty_cell(attribution: Make) -> None:
    source = attribution("x", "a b") | {"values": None, "raw_values": None, "standard_errors": None}
    assert attributions_csv([source]).splitlines()[1] == "x,0,a,user,,,,"


def test_every_text_comes_back_from_the_csv(attribution: Make) -> None:
    texts = ['say "hi"', "a,b", "two\nlines", "old\rmac", "crlf\r\n", "=2+3", "日本 👩‍👩‍👧"]
    rows = [dict.fromkeys(ATTRIBUTION_COLUMNS) | {"text": text} for text in texts]
    read = list(csv.DictReader(io.StringIO(csv_text(ATTRIBUTION_COLUMNS, rows), newline="")))
    assert [row["text"] for row in read] == texts


def test_what_no_file_can_hold_is_escaped_in_the_csv(attribution: Make) -> None:
    text = attributions_csv([attribution("x", "\ud800 \x00 \x1b[31m")])
    text.encode("utf-8")
    assert [line.split(",")[2] for line in text.splitlines()[1:]] == [
        r"\ud800",
        r"\x00",
        r"\x1b[31m",
    ]


@pytest.mark.parametrize("text", ["=2+3", "+1", "-1", "@home", "\t=1", " =1", "\rx"])
def test_text_that_a_spreadsheet_would_run_is_guarded(text: str) -> None:
    assert guard_cell(text) == f"'{text}"


@pytest.mark.parametrize("cell", [-1.5, 3, None, "a=b", "", "1-2"])
def test_numbers_and_plain_text_are_not_guarded(cell: Cell) -> None:
    assert guard_cell(cell) == cell


def test_the_spreadsheet_form_guards_headers_and_text_only() -> None:
    text = csv_text(["=a", "b"], [{"=a": "@x", "b": -0.5}], spreadsheet=True)
    assert text == "'=a,b\n'@x,-0.5\n"


def test_a_row_with_other_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="columns"):
        csv_text(["a"], [{"b": 1}])


def test_value_rows_hold_the_ends_of_the_interval(attribution: Make) -> None:
    source = attribution("x", "a b") | {"standard_errors": [0.1, None]}
    first, second = value_rows([source])
    assert tuple(first) == VALUE_COLUMNS
    assert first["label"] == "0: a"
    # z = 1.6448536 at 90 %
    assert first["low"] == pytest.approx(0.4 - 0.16448536, abs=1e-8)
    assert first["high"] == pytest.approx(0.4 + 0.16448536, abs=1e-8)
    assert (second["rank"], second["low"], second["high"]) == (2, None, None)


def test_curve_rows_keep_missing_points_as_null(attribution: Make) -> None:
    rows = curve_rows([attribution("x", "a b")])
    assert tuple(rows[0]) == CURVE_COLUMNS
    assert [(row["curve"], row["k"], row["share"], row["payoff"]) for row in rows[:3]] == [
        ("deletion", 0, 0.0, 1.0),
        ("deletion", 1, 0.5, None),
        ("deletion", 2, 1.0, 0.0),
    ]
    assert len(rows) == 6
