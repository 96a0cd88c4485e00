from __future__ import annotations

import json

import pytest

from quorum.report.escape import (
    file_slug,
    script_json,
    strip_terminal,
    visible_label,
    visible_text,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x00b", r"a\x00b"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\ud800", r"\ud800"),
        ("\u202eabc", r"\u202eabc"),
        ("\x85", r"\x85"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("one\r\ntwo", "one\ntwo"),
        ("a\rb", r"a\x0db"),
        ("👩‍👩‍👧 ❤️‍🔥", "👩‍👩‍👧 ❤️‍🔥"),
    ],
)
def test_what_cannot_be_seen_is_written_as_an_escape(text: str, shown: str) -> None:
    assert visible_text(text) == shown


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (" ", "␣"),
        ("\n\t", "⏎⇥"),
        ("a\n  b", "a b"),
        ("abcdef", "abcdef"),
        ("abcdefg", "abcde…"),
        ("12345👩‍👩‍👧x", "12345…"),
        ("1234👩‍👩‍👧xy", "1234👩‍👩‍👧…"),
    ],
)
def test_a_label_is_one_line_of_whole_graphemes(text: str, label: str) -> None:
    assert visible_label(text, limit=6) == label


def test_embedded_json_can_neither_end_nor_open_a_script() -> None:
    value = {"answer": "</script><b>x<!-- <script> \u2028 \ud800"}
    text = script_json(value)
    assert text.startswith('{"answer":"<\\/script>\\u003cb>x\\u003c!-- \\u003cscript> \\u2028')
    assert text.isascii()
    assert json.loads(text) == value


def test_embedded_json_refuses_what_is_not_a_number() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        script_json({"value": float("nan")})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;no end\nnext", "0;no end\nnext"),
        ("\x9b2Jclear", "clear"),
        ("\x1bcreset", "reset"),
        ("\x1b(0lines", "lines"),
        ("bell\x07back\x08null\x00", "bellbacknull"),
        ("over\u202eride", "override"),
        ("over\rwrite", "overwrite"),
        ("lone\ud800", r"lone\ud800"),
        ("\x1b\x1b[1mnested", "nested"),
        ("ends in \x1b", "ends in "),
    ],
)
def test_terminal_text_holds_no_escape(text: str, shown: str) -> None:
    assert strip_terminal(text) == shown


@pytest.mark.parametrize("name", ["lions", "q-01", "a_b", "0"])
def test_an_id_that_is_a_file_name_stays(name: str) -> None:
    assert file_slug(name) == name


def test_slugs_of_different_ids_differ_and_are_safe_on_every_file_system() -> None:
    names = ["A", "a", "ä", "a/b", "a\\b", "a b", "..", "../x", "", " ", "con", "index", "x" * 300]
    names += ["问题", "問題", "a.", "-a", "\ud800", "CON", "a\x00", "com1", "com1.txt"]
    names += [file_slug("A"), file_slug("问题"), "0123456789ab", "x" * 301, "x" * 64, "x" * 65]
    slugs = [file_slug(name) for name in names]
    assert len({slug.casefold() for slug in slugs}) == len(set(names)) == len(names)
    for slug in slugs:
        assert slug.isascii()
        assert 0 < len(slug) <= 64
        assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
        assert slug not in {"con", "com1", "index"}
