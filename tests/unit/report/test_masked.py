from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from quorum.errors import InputError
from quorum.report.document import read_attribution
from quorum.report.masked import compare, masked_view
from quorum.report.pages import attribution_pages

Document = dict[str, object]
Make = Callable[..., Document]


def cards(source: Document, coalition: str, **more: object) -> list[dict[str, object]]:
    reply = {"coalition": coalition, "rule": "lowest", "payoff": 0.25, "finish_reason": "stop"}
    shown = [{**reply, "generation": "Yes, lions roar.", **more}]
    view = masked_view(read_attribution(source), {"shown": shown, "n_masked": 9, "n_samples": 1})
    assert view is not None
    ((_, found),) = view["groups"]
    return found


def test_what_is_absent_is_struck_out_where_it_stood(attribution: Make) -> None:
    # players: Do, lions, roar, ?; d = 1101 lacks player 1
    (card,) = cards(attribution(), "d")
    assert card["messages"] == [
        {"role": "user", "pieces": [("", "Do "), ("del", "lions"), ("", " roar ?")]}
    ]
    assert (card["name"], card["players"]) == ("Without", ["lions"])
    assert (card["payoff"], card["change"]) == ("0.250", "−0.750")


def test_blanks_between_absent_players_are_struck_out_with_them(attribution: Make) -> None:
    (card,) = cards(attribution(), "1")
    assert card["messages"][0]["pieces"] == [("", "Do "), ("del", "lions roar ?")]
    assert (card["name"], card["players"]) == ("Only", ["Do"])


def test_a_heading_of_many_players_counts_them(attribution: Make) -> None:
    (card,) = cards(attribution("x", "a b c d e f"), "f")  # 4 of 6
    assert (card["name"], card["players"]) == ("4 of 6 players", [])


def test_a_long_stretch_is_shown_by_its_ends(attribution: Make) -> None:
    (card,) = cards(attribution("x", "a" * 1000 + " b"), "1")
    # 1001 present characters with the blank: 200 at each end, 601 left out
    (kept, absent) = card["messages"][0]["pieces"]
    assert kept == ("", "a" * 200 + " […601 characters…] " + "a" * 199 + " ")
    assert absent == ("del", "b")


@pytest.mark.parametrize(
    ("base", "reply", "pieces"),
    [
        ("one two three", "one two three", [("", "one two three")]),
        (
            "one two three",
            "one 2 three",
            [("", "one "), ("del", "two "), ("ins", "2 "), ("", "three")],
        ),
        ("one two", "one two three", [("", "one two "), ("ins", "three")]),
        ("one two three", "one two", [("", "one two"), ("del", " three")]),
        ("a\x1bb c", "a\x1bb d", [("", "a\\x1bb "), ("del", "c"), ("ins", " d")]),
        ("", "", []),
    ],
)
def test_replies_are_compared_word_by_word(
    base: str, reply: str, pieces: list[tuple[str, str]]
) -> None:
    assert compare(base, reply) == pieces


@pytest.mark.parametrize(
    ("base", "reply"), [("a b c d e", "v w x y e"), ("a " * 1001, "a " * 1001), ("a", "")]
)
def test_replies_with_little_in_common_or_of_great_length_have_no_marks(
    base: str, reply: str
) -> None:
    assert compare(base, reply) is None


def test_remarks_say_how_a_reply_ended_and_why_it_has_no_marks(attribution: Make) -> None:
    source = attribution()
    assert cards(source, "d")[0]["remarks"] == ["the same as the base generation"]
    (card,) = cards(source, "d", generation="No.", finish_reason="length")
    few = "few words in common with the base generation, no marks"
    assert card["remarks"] == ["cut at the token limit", few]
    assert card["reply"] == [("", "No.")]
    assert cards(source, "d", generation="")[0]["remarks"] == ["empty"]


def test_the_page_says_how_many_of_how_many_are_shown_and_where_all_stand(
    attribution: Make, replies: Make
) -> None:
    source = attribution()
    pages = attribution_pages([source], {}, {"lions": replies(source)})
    page = pages["snapshots/lions.html"]
    text = re.sub(r"<[^>]+>", "", page)
    assert "Masked generations: 5 of 97" in text
    assert "generations/lions.jsonl" in text
    assert "payoffs.csv" in text
    assert "<del>lions</del>" in page
    assert "Yes, <ins>some </ins>lions roar." in page
    assert page.count('<article class="card">') == 5


def test_without_replies_there_is_no_section(attribution: Make) -> None:
    assert (
        "Masked generations" not in attribution_pages([attribution()], {})["snapshots/lions.html"]
    )
    none = {"shown": [], "n_masked": 0, "n_samples": 1}
    pages = attribution_pages([attribution()], {}, {"lions": none})
    assert "Masked generations" not in pages["snapshots/lions.html"]


@pytest.mark.parametrize("coalition", ["10", "x", "-1", ""])
def test_a_coalition_of_players_that_there_are_not_is_refused(
    attribution: Make, coalition: str
) -> None:
    with pytest.raises(InputError, match="coalition"):
        cards(attribution(), coalition)
