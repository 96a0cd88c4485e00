"""Every page in a real browser: it is read, reached and seen by everybody, and asks for nothing."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.browser

SCHEMES = ("light", "dark")
MAX_TABS = 160  # a page with more stops is followed as far as this


def test_a_page_asks_for_nothing_and_complains_of_nothing(shown: Any) -> None:
    shown.set(1400)
    assert shown.requests == [shown.address]
    assert shown.messages == []


def test_values_and_texts_can_be_read(shown: Any) -> None:
    shown.set(1400)
    text = shown.check("text")
    assert [part for part in shown.made.shown if part not in text] == []


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_sticks_out_to_the_side(shown: Any, width: int) -> None:
    shown.set(width)
    assert shown.check("overflow") == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_stands_out_from_its_ground(shown: Any, scheme: str) -> None:
    shown.set(1400, scheme)
    assert shown.check("contrast") == []


def test_the_keyboard_reaches_everything_and_shows_where_it_is(shown: Any) -> None:
    shown.set(1400)
    wanted = shown.check("follow") + 40  # boxes that scroll are stops of their own
    shown.press_tab(min(wanted, MAX_TABS))
    assert shown.check("unreached", wanted > MAX_TABS) == []


def test_charts_and_controls_have_names(shown: Any) -> None:
    assert shown.check("nameless") == []


def test_headings_go_down_by_one_level(shown: Any) -> None:
    assert shown.check("headings") == []


def test_tables_have_heads_over_their_cells_and_ids_are_single(shown: Any) -> None:
    shown.set(1400)
    assert shown.check("tables") == []
