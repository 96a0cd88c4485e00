"""CSV bytes to rows: encodings, delimiters, line numbers, and cells as they are."""

from __future__ import annotations

import codecs
import csv
import io
import random

import pytest

from quorum.errors import InputError, SettingsError
from quorum.reconstruction.tables import read_table
from quorum.reconstruction.texts import normalised


def table(text, **more):
    content = text if isinstance(text, bytes) else text.encode()
    return read_table(content, "t.csv", **({"required": ("a", "b"), "known": ("count",)} | more))


def cells(text, **more):
    return [dict(row.cells) for row in table(text, **more).rows]


def test_a_table_has_its_columns_cells_and_lines():
    found = table("a,b\n1,x\n\n2,y\n")
    assert found.columns == ("a", "b")
    assert [(row.line, dict(row.cells)) for row in found.rows] == [
        (2, {"a": "1", "b": "x"}),
        (4, {"a": "2", "b": "y"}),
    ]
    assert found.at(found.rows[1]) == "t.csv:4"
    assert found.at(found.rows[1], "b") == "t.csv:4, column b"


@pytest.mark.parametrize(
    "text", ["NA", "None", "null", "N/A", "nan", "007", "1.0", "1e3", "TRUE", "-"]
)
def test_a_cell_is_a_text_whatever_it_looks_like(text):  # cases 40, 41, 43
    assert cells(f"a,b\n{text},\n") == [{"a": text, "b": ""}]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_is_read(end):
    found = table(end.join(["a,b", "1,x", '2,"y z"', ""]))
    assert [(r.line, r.cells["b"]) for r in found.rows] == [(2, "x"), (3, "y z")]


def test_a_byte_order_mark_is_no_part_of_the_first_column():
    assert cells(codecs.BOM_UTF8 + b"a,b\n1,2\n") == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    ("mark", "kind"),
    [
        (codecs.BOM_UTF16_LE, "UTF-16 LE"),
        (codecs.BOM_UTF16_BE, "UTF-16 BE"),
        (codecs.BOM_UTF32_LE, "UTF-32 LE"),
        (codecs.BOM_UTF32_BE, "UTF-32 BE"),
    ],
)
def test_another_kind_of_unicode_is_named_and_read_when_told_so(mark, kind):
    name = f"{kind[:6].lower()}-{kind[-2:].lower()}"
    content = mark + "a,b\n1,é\n".encode(name)
    with pytest.raises(
        InputError, match=f"not UTF-8 but {kind} .byte order mark at offset 0."
    ) as e:
        table(content)
    assert f"input.encoding: {kind[:6].lower()}" in str(e.value)
    assert cells(content, encoding=kind[:6].lower()) == [{"a": "1", "b": "é"}]


@pytest.mark.parametrize(
    ("byte", "hint"),
    [(b"\x92", "in Windows-1252 that byte is ’"), (b"\xe9", "in Windows-1252 that byte is é")],
)
def test_a_byte_that_is_not_utf_8_is_named_with_its_offset_and_a_hint(byte, hint):  # case 50
    with pytest.raises(InputError) as caught:
        table(b"a,b\n1,x\n2,don" + byte + b"t\n")
    line = str(caught.value)
    assert line.startswith(f"t.csv:3: not UTF-8: byte 0x{byte.hex()} at byte offset 13.")
    assert f"Read it with input.encoding: cp1252 ({hint}), or save it as UTF-8" in line


def test_a_byte_that_windows_has_no_sign_for_gets_no_wrong_hint():
    with pytest.raises(InputError, match=r"input\.encoding: cp1252, or save it as UTF-8"):
        table(b"a,b\n1,\x81\n")


def test_a_wrong_encoding_is_named():
    with pytest.raises(InputError, match="not ascii: byte 0xc3 at byte offset 6"):
        table("a,b\n1,é\n", encoding="ascii")
    with pytest.raises(SettingsError, match="encoding: there is no such encoding, got 'cp9999'"):
        table("a,b\n1,2\n", encoding="cp9999")


@pytest.mark.parametrize(
    ("delimiter", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "vertical bars")]
)
def test_another_delimiter_is_named(delimiter, name):
    with pytest.raises(InputError, match=f"t.csv:1: the cells are separated by {name}") as caught:
        table(f"a{delimiter}b\n1{delimiter}2\n")
    assert "allowed commas" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "t.csv:1: the file is empty. Begin with a,b"),
        ("\n\n", "t.csv:1: the file is empty. Begin with a,b"),
        ("a,b\n", "t.csv: has a header but no row. Add the data below the header"),
        ("a,c\n1,2\n", "t.csv:1: no column b, got ['a', 'c']. Name the columns as in a,b"),
        ("a,b,a\n1,2,3\n", "t.csv:1: a column stands twice, got 'a'"),
        ("a,b,\n1,2,3\n", "t.csv:1: column 3 has no name. Name it, or delete it"),
        ("a,b,counts\n1,2,3\n", ("t.csv:1: unknown column, got 'counts'; allowed a, b, count. "
         "Did you mean count?")),
        ("a,b\n1,2,3\n", ("t.csv:2: 3 cells where the header has 2 columns. "
         "Put a text that holds a comma between double quotes")),
        ("a,b\n1\n", ("t.csv:2: 1 cells where the header has 2 columns. "
         "Give every column a cell, even an empty one")),
        ('a,b\n"x\ny",2\n3\n', ("t.csv:4: 1 cells where the header has 2 columns. "
         "Give every column a cell, even an empty one")),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused_in_one_line(text, line):
    with pytest.raises(InputError) as caught:
        table(text)
    assert str(caught.value) == line


@pytest.mark.parametrize("text", ['a,b\n"1,2\n', 'a,b\n"1"x,2\n'])
def test_quotes_that_do_not_fit_are_refused_with_their_line(text):
    with pytest.raises(InputError, match=r"t\.csv:2: not CSV: .*write a quote inside it as"):
        table(text)


def test_columns_that_are_not_near_a_known_one_are_let_pass():
    assert cells("a,b,remark\n1,2,3\n") == [{"a": "1", "b": "2", "remark": "3"}]
    assert table("a,b,counts\n1,2,3\n", known=None).columns == ("a", "b", "counts")


@pytest.mark.parametrize("seed", range(10))
def test_what_a_csv_writer_writes_is_read_back(seed):
    rng = random.Random(seed)
    signs = ["a", "ü", "’", ",", '"', "\n", " ", ";", "=", "はい", "\t", "NA", "{{", "0"]
    rows = [
        {"a": "".join(rng.choices(signs, k=rng.randint(0, 6))).strip(), "b": str(i)}
        for i in range(30)
    ]
    out = io.StringIO()
    writer = csv.DictWriter(out, ("a", "b"), lineterminator=rng.choice(["\n", "\r\n"]))
    writer.writeheader()
    writer.writerows(rows)
    assert cells(out.getvalue()) == rows


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Yes", "yes "), ("Don't know", "Don’t know"), ("Don't know", "don‘t  know"),
        ("a\nb", "a b"), ("18-24", "18–24"), ("é", "e\u0301"), ("STRASSE", "straße"),
        ("“x”", '"x"'), ("½", "1⁄2"), ("a\u00a0b", "a b"), ("a\u200bb", "ab"), ("Ａ", "a"),
    ],
)  # fmt: skip
def test_texts_that_look_the_same_are_the_same(a, b):
    assert normalised(a) == normalised(b)


@pytest.mark.parametrize(
    ("a", "b"), [("NA", "N/A"), ("None", "null"), ("e", "é"), ("No", "No."), ("1", "01"), ("", "-")]
)
def test_texts_that_differ_are_not(a, b):
    assert normalised(a) != normalised(b)
