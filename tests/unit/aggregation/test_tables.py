from __future__ import annotations

import csv
import io

import pytest

from quorum.report.aggregation import Origin, aggregation_page
from quorum.report.aggregation_tables import (
    Table,
    TableCell,
    TableRow,
    latex_text,
    letters,
    markdown_text,
    number_text,
    table_csv,
    tables_latex,
    tables_markdown,
)

EVIL = '</script><b>|x|* "$a_b$" \\ {50 %} #1 & ~^ [z] =2+3'


def table(head: str = "a", value: float | None = 0.5, title: str = "T") -> Table:
    cells = (
        TableCell("B2", 3, None, "cell-1-1"),
        TableCell(
            "C2", value, None if value is not None else "one value has no spread", "cell-1-1"
        ),
    )
    return Table(
        title, ("key",), (("m", ("n", "mean")),), (TableRow((head,), cells),), ("A note.",)
    )


def page(made: Table, **more: bool) -> str:
    origin = Origin("cell-1-1", made.title, ("B2", "C2"), ("record",), ((made.rows[0].head[0],),))
    generated = more.get("is_model_generated", True)
    return aggregation_page(
        made.title, [made], [[origin]], [], ["rules"], is_model_generated=generated, digits=4
    )


def test_columns_have_the_letters_of_a_spreadsheet():
    assert [letters(i) for i in (0, 1, 25, 26, 51, 52, 701, 702)] == [
        *("A", "B", "Z", "AA", "AZ", "BA", "ZZ", "AAA"),
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (12345, "12345"),
        (0.5, "0.5000"),
        (1234.0, "1234"),
        (-0.0, "0.000"),
        (-0.12344, "−0.1234"),
        (1.5e-9, "1.500e−9"),
        (2e22, "2.000e22"),
    ],
)
def test_numbers_have_the_digits_that_were_asked_for(value, text):
    assert number_text(value, 4) == text


def test_a_text_is_no_latex():
    assert latex_text(EVIL) == (
        r"\textless{}/script\textgreater{}\textless{}b\textgreater{}\textbar{}x\textbar{}{*} "
        r"''\$a\_b\$'' \textbackslash{} \{50 \%\} \#1 \& \textasciitilde{}\textasciicircum{} "
        r"{[}z{]} =2+3"
    )


def test_two_hyphens_stay_two_hyphens_in_latex():
    assert latex_text("exp--x – y---z") == "exp-{}-x -- y-{}-{}-z"


def test_a_line_of_latex_cannot_be_ended_by_a_text():
    text = tables_latex([table("a\\\\ \n&b")], 4, "x y")
    (line,) = (line for line in text.splitlines() if line.startswith("a"))
    assert line == r"a\textbackslash{}\textbackslash{} \&b & $3$ & $0.5000$ \\"
    assert r"\label{tab:x-y}" in text


def test_a_text_is_no_markdown():
    assert markdown_text("a|b *c* _d_ mean_error `e` [f](g) <i> & \x1b[31m\n# x") == (
        r"a\|b \*c\* \_d\_ mean_error \`e\` \[f\](g) &lt;i&gt; &amp; \\x1b\[31m \# x"
    )


def test_a_row_of_markdown_has_as_many_cells_as_the_heading():
    lines = tables_markdown([table("a|b\nc")], 4).splitlines()
    assert lines[2:5] == [
        "| key | m n | m mean |",
        "| --- | --: | --: |",
        r"| a\|b c | 3 | 0.5000 |",
    ]


def test_a_text_is_no_html():
    text = page(table(EVIL, title=EVIL))
    assert "<b>" not in text
    assert "<script" not in text
    assert "&lt;/script&gt;&lt;b&gt;|x|" in text


def test_the_csv_is_safe_in_a_spreadsheet_and_numbers_stay_numbers():
    rows = list(csv.reader(io.StringIO(table_csv(table("=2+3", -0.1)))))
    assert rows == [["key", "m n", "m mean"], ["'=2+3", "3", "-0.1"]]
    assert list(csv.reader(io.StringIO(table_csv(table("@home")))))[1][0] == "'@home"


def test_what_is_undefined_is_empty_and_told_below():
    made = table(value=None)
    assert table_csv(made).splitlines()[1] == "a,3,"
    assert "| a | 3 | – |" in tables_markdown([made], 4)
    assert "- C2: one value has no spread." in tables_markdown([made], 4)
    assert r"a & $3$ & -- \\" in tables_latex([made], 4, "t")
    assert r"C2: one value has no spread.\par" in tables_latex([made], 4, "t")
    assert 'aria-label="C2: one value has no spread" title="one value has no spread">–</a>' in page(
        made
    )


def test_every_number_of_the_page_leads_to_its_origin():
    text = page(table())
    assert text.count('href="#cell-1-1"') == 2
    assert text.count('id="cell-1-1"') == 1
    assert '<a href="#cell-1-1" aria-label="C2: 0.5000">0.5000</a>' in text


def test_the_page_says_that_it_is_model_generated():
    assert '<span class="badge">model-generated</span>' in page(table())
    assert "model-generated" not in page(table(), is_model_generated=False)


def test_the_page_asks_for_nothing_from_outside():
    text = page(table())
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "")


def test_a_table_without_rows_is_left_out():
    empty = Table("none", ("key",), (("", ("n",)),), (), ())
    assert tables_markdown([table(), empty], 4) == tables_markdown([table()], 4)
    assert tables_latex([table(), empty], 4, "t") == tables_latex([table()], 4, "t")
