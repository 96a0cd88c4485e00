from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from quorum.report.terminal import print_attribution, render_attribution

Document = dict[str, object]
Make = Callable[..., Document]


def _printed(source: Document, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    print_attribution(source, stream, width=100)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_the_table_shows_values_intervals_and_bars(attribution: Make) -> None:
    lines = _printed(attribution("lions", "Do lions roar ?")).splitlines()
    row = next(line for line in lines if " Do " in line and "+0.4000" in line)
    assert row.split()[:5] == ["1", "Do", "+0.4000", "[+0.2355,", "+0.5645]"]
    # 12 cells for 0.5645: value 0.4 at 8.503 → 9 cells, interval from 5.006 → 5 to 12
    assert row.rstrip().endswith("│████▒▒▒▒▒───")
    text = "\n".join(lines)
    for shown in ("Yes, lions roar.", "How can I help?", "v(∅) = 0.250", "v(N) = 1.000", "−0.013"):
        assert shown in text
    for shown in ("2 requests were duplicates", "tiny-chat (model-generated", "bound by fraction"):
        assert shown in text


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_an_encoding_without_blocks_gets_ascii(attribution: Make, encoding: str) -> None:
    source = attribution("löwen 🦁", "brüllen Löwen 🦁 ?")
    source["values_reason"] = source["standard_errors_reason"] = "a … very long reason " * 9
    source |= {"raw_values": None, "standard_errors": None, "base_value": None}
    text = _printed(source, encoding)
    assert "v(empty) = not available: a" in text
    assert "\\U0001f981" in text
    assert ("löwen" in text) == (encoding != "ascii")
    assert "+--" in text


def test_escapes_in_model_text_never_reach_the_terminal(attribution: Make) -> None:
    source = attribution("a\x1b[2J", "evil \x1b]0;title\x07x \x9b31m [bold]kept[/bold]")
    source |= {"base_generation": "\x1b[31mred\x1b[0m\x00 \ud800 [red]plain[/red]"}
    source |= {"notes": ["note \x1b[1A up"], "base_finish_reason": "length"}
    text = _printed(source)
    assert "\x1b" not in text
    assert "\x9b" not in text
    assert "\x00" not in text
    assert "red \\ud800 [red]plain[/red]" in text
    assert "[bold]kept[/bold]" in text
    assert "Finish reason: length" in text


def test_missing_values_are_named_with_their_reason(attribution: Make) -> None:
    source = attribution("x") | {"raw_values": None, "values": None, "standard_errors": None}
    source |= {"values_reason": "cap reached", "standard_errors_reason": "no values"}
    text = _printed(source)
    assert "values          not available: cap reached" in text
    assert "intervals       not available: no values" in text


def test_colour_is_used_on_terminals_only_and_not_against_the_users_wish(
    attribution: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    source = attribution("x")

    def shown(*, is_terminal: bool) -> str:
        stream = io.StringIO()
        console = Console(file=stream, force_terminal=is_terminal, color_system="truecolor")
        console.print(render_attribution(source))
        return stream.getvalue()

    assert "48;2;" in shown(is_terminal=True)
    assert "\x1b" not in _printed(source)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "48;2;" not in shown(is_terminal=True)
