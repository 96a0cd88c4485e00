"""Tables that a reader can sort and search, clicked and typed into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from browser_pages import GROUPS, index, reconstruction

pytestmark = pytest.mark.browser


def test_a_click_sorts_the_index_by_a_column_and_another_turns_it(
    open_page: Callable[..., Any],
) -> None:
    shown = open_page(index())
    assert shown.check("rows") == ["lions", "Über/uns", "mixed", "odd", "capped"]
    shown.click("Players")
    players = shown.check("column", "Players")
    assert players == sorted(players, key=int, reverse=True)
    assert shown.check("sorted") == ["Players descending"]
    shown.click("Players")
    assert shown.check("column", "Players") == sorted(players, key=int)
    shown.click("v(∅)")
    assert shown.check("rows")[-1] == "capped"  # it has none: last in both directions
    shown.click("v(∅)")
    assert shown.check("rows")[-1] == "capped"


def test_the_search_keeps_rows_with_all_its_words(open_page: Callable[..., Any]) -> None:
    shown = open_page(index())
    shown.run(shown.page.fill("#search", "CAP roar"))
    assert shown.check("rows") == ["capped"]
    assert "1 of 5 snapshots" in shown.check("text")


def test_targets_are_sorted_by_a_metric(open_page: Callable[..., Any]) -> None:
    shown = open_page(reconstruction("report.html", targets=GROUPS))
    shown.click("test_mse")
    errors = [float(text) for text in shown.check("column", "test_mse")]
    assert errors == sorted(errors, reverse=True)
    assert len(set(errors)) > 1
    shown.click("Target")
    assert shown.check("sorted") == ["Target ascending"]
    assert shown.messages == []
