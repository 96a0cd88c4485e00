from __future__ import annotations

import io

import pytest

from quorum.runtime.progress import (
    BarProgress,
    NoProgress,
    PlainProgress,
    progress_for,
)


class Terminal(io.TextIOWrapper):
    """A stream of a given encoding that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8", *, is_terminal: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def text(self) -> str:
        return self.buffer.getvalue().decode(self.encoding)


@pytest.fixture(autouse=True)
def _terminal_type(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_auto_is_a_bar_on_a_terminal_and_plain_lines_elsewhere(monkeypatch):
    assert isinstance(progress_for("auto", "x", 1, Terminal()), BarProgress)
    assert isinstance(progress_for("auto", "x", 1, Terminal(is_terminal=False)), PlainProgress)
    assert isinstance(progress_for("plain", "x", 1, Terminal()), PlainProgress)
    assert isinstance(progress_for("off", "x", 1, Terminal()), NoProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(progress_for("auto", "x", 1, Terminal()), PlainProgress)


def test_plain_progress_is_one_ascii_line_every_tenth():
    out = Terminal("ascii", is_terminal=False)
    with progress_for("auto", "génération", 250, out) as progress:
        for i in range(250):
            progress.advance(from_store=i < 50)
        progress.note("waits – long")
    lines = out.text().splitlines()
    assert len(lines) == 11
    assert lines[0].startswith("g\\xe9n\\xe9ration: 10 % (25 of 250), 25 from store")
    assert lines[9].startswith("g\\xe9n\\xe9ration: 100 % (250 of 250), 50 from store")
    assert lines[10] == "g\\xe9n\\xe9ration: waits \\u2013 long"


def test_rate_and_time_left_count_calls_only():
    moments = iter([0.0, 10.0, 20.0])
    out = Terminal(is_terminal=False)
    progress = PlainProgress("x", 20, out, clock=lambda: next(moments))
    for i in range(4):
        progress.advance(from_store=i < 2)
    # at 2 done: no call yet. At 4 done: 2 calls in 20 s; 16 left take 160 s
    last = out.text().splitlines()[-1]
    assert last == "x: 20 % (4 of 20), 2 from store, 0.1/s, 3 min left"


def test_more_results_than_foreseen_do_no_harm():
    out = Terminal(is_terminal=False)
    progress = progress_for("plain", "x", 0, out)
    for _ in range(3):
        progress.advance(from_store=True)
    assert "3 of 0" in out.text()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_a_bar_shows_done_total_and_store_in_any_encoding(encoding):
    out = Terminal(encoding)
    with progress_for("auto", "generate [x]", 20, out) as progress:
        for i in range(20):
            progress.advance(from_store=i < 5)
        progress.note("spy asks to wait 171 s")
    text = out.text()
    assert "generate [x]" in text
    assert "20/20" in text
    assert "5 from store" in text
    assert "spy asks to wait 171 s" in text


def test_off_says_nothing(capfd):
    with progress_for("off", "x", 3) as progress:
        progress.advance(from_store=False)
        progress.note("hello")
    assert capfd.readouterr() == ("", "")


def test_plain_progress_says_so_where_less_than_the_total_was_enough():
    out = io.StringIO()
    with PlainProgress("x", 10, out) as progress:
        progress.advance(from_store=True)
        progress.advance(from_store=True)
    assert out.getvalue().splitlines()[-1] == "x: done, 2 were enough, 2 from store"
    out = io.StringIO()
    with PlainProgress("x", 10, out) as progress:
        progress.advance(from_store=True)
        progress.__exit__(ValueError, ValueError("stop"), None)
        assert "enough" not in out.getvalue(), "a failure is told elsewhere"
