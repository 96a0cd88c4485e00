"""The checks themselves: a page on which everything is wrong, and each of them says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import Made

pytestmark = pytest.mark.browser

PAGE = """<!DOCTYPE html><html lang="en"><head><title>wrong</title><style>
body { margin: 0; background: #fff; color: #000; }
.pale { color: #999; }
.faint { opacity: 0.4; } .hidden { position: absolute; clip-path: inset(50%); }
.blind:focus { outline: none; } .wide { width: 3000px; }
svg text { fill: #eee; } .moved td:last-child { position: relative; left: 9px; }
@media (prefers-color-scheme: dark) { body { background: #111; color: #222; } }
</style></head><body>
<h1>Wrong</h1><h3>Skipped</h3>
<p class="pale">pale</p><p class="faint">faint</p><p class="pale hidden">clipped</p><p>plain</p>
<svg width="50" height="20"><text x="0" y="15">drawn</text></svg>
<a href="#x" class="blind">blind</a><button tabindex="-1">skipped</button>
<button onfocus="this.nextElementSibling.focus()">first</button><a href="#y">second</a>
<input type="text"><div role="region">region</div>
<table id="x"><tbody><tr><td>headless</td></tr></tbody></table>
<table class="moved"><thead><tr><th scope="col">a</th><th>b</th></tr></thead>
<tbody><tr><th scope="row">1</th><td>2</td></tr></tbody></table>
<div class="wide">wide</div><p id="x">twice</p><img src="there-is-none.png">
<script>console.warn("a complaint");</script></body></html>"""


@pytest.fixture(scope="module")
def wrong(open_page: Callable[..., Any]) -> Any:
    return open_page(Made(PAGE, ()))


def test_contrast_is_that_of_the_colours_as_they_are_seen(wrong: Any) -> None:
    wrong.set(1400)
    # #999 on white: 2.85, and so is black at 40 %; #eee in a drawing: 1.16; clipped: not seen
    assert wrong.check("contrast") == ["2.85 p pale", "2.85 p faint", "1.16 text drawn"]
    wrong.set(1400, "dark")
    assert [line for line in wrong.check("contrast") if line.endswith("p plain")]


def test_requests_complaints_and_width_are_seen(wrong: Any) -> None:
    wrong.set(1400)
    assert [address.rpartition("/")[2] for address in wrong.requests] == [
        "page.html",
        "there-is-none.png",
    ]
    assert "a complaint" in wrong.messages
    assert wrong.check("overflow")[0] == "3000 > 1400"


def test_names_headings_and_tables_are_seen(wrong: Any) -> None:
    wrong.set(1400)
    assert wrong.check("nameless") == ["svg drawn", "img", "input", "div region"]
    assert wrong.check("headings") == ["h3 Skipped"]
    found = wrong.check("tables")
    assert found[0] == "table#x headless"  # no head
    assert "th b" in found  # no scope
    assert "tr headless" in found
    assert "table ab 12" in found  # cells beside their heads
    assert found[-1] == "id twice: x"


def test_a_focus_that_is_not_seen_and_a_stop_that_is_jumped_are_seen(wrong: Any) -> None:
    wrong.set(1400)
    wrong.check("follow")
    wrong.press_tab(12)
    assert "no visible focus: a blind" in wrong.check("unreached", False)
    wrong.run(wrong.page.evaluate("document.querySelector('input').tabIndex = 0"))
    wrong.run(wrong.page.evaluate("document.querySelectorAll('button')[0].tabIndex = 0"))
    assert "not reached: button skipped" in wrong.check("unreached", False)
