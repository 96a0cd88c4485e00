from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from quorum.errors import InputError
from quorum.report.pages import attribution_pages

Document = dict[str, object]
Make = Callable[..., Document]
VOID = {"meta", "input", "br", "hr", "img", "link"}


class Reader(HTMLParser):
    """Reads a page as a browser does: tags, links, visible text; fails on unbalanced tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.data = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.data = data
        elif not self.open or self.open[-1] != "style":
            self.text += data


@pytest.fixture
def pages(attribution: Make) -> dict[str, str]:
    first = attribution("lions", "Do lions roar ?")
    second = attribution("Über/uns", "ما هي أفضل طريقة 👩‍👩‍👧 ؟")
    return attribution_pages([first, second], {"title": "Animals", "n_requests": 21})


def test_there_is_an_index_and_a_page_a_snapshot_and_links_lead_to_them(
    pages: dict[str, str],
) -> None:
    names = list(pages)
    assert names[:2] == ["report.html", "snapshots/lions.html"]
    assert re.fullmatch(r"snapshots/ber-uns-[0-9a-f]{12}\.html", names[2])
    links = Reader(pages["report.html"]).links
    assert [link for link in links if link in pages] == names[1:]
    first, last = Reader(pages[names[1]]), Reader(pages[names[2]])
    following = names[2].removeprefix("snapshots/")
    assert first.links == ["#ranking", *["../report.html", following] * 2]
    assert last.links == ["#ranking", *["../report.html", "lions.html"] * 2]


def test_pages_ask_for_nothing_from_outside(pages: dict[str, str]) -> None:
    for page in pages.values():
        reader = Reader(page)
        assert not any(":" in link or link.startswith("//") for link in reader.links)
        assert "url(" not in page
        assert "@import" not in page
        assert not {"img", "link", "iframe", "object", "base"} & set(reader.tags)
        assert "default-src 'none'" in page


def test_pages_depend_on_their_arguments_alone(attribution: Make, pages: dict[str, str]) -> None:
    sources = [attribution("lions", "Do lions roar ?")]
    sources += [attribution("Über/uns", "ما هي أفضل طريقة 👩‍👩‍👧 ؟")]
    turned = [dict(reversed(list(source.items()))) for source in sources]
    assert attribution_pages(turned, {"n_requests": 21, "title": "Animals"}) == pages


def test_values_intervals_and_payoffs_stand_as_text(pages: dict[str, str]) -> None:
    text = Reader(pages["snapshots/lions.html"]).text
    # 1.6449 · 0.1 = 0.1645 around 0.4 and around −0.2
    for shown in ("+0.4000", "[+0.2355, +0.5645]", "−0.2000", "[−0.3645, −0.0355]", "0.0000"):
        assert shown in text
    for shown in ("v(N) = 1.000", "v(∅) = 0.250", "−0.013 (v(N) − v(∅) − Σ values)", "50 %"):
        assert shown in text
    for shown in (
        "Yes, lions roar.",
        "How can I help?",
        "11 distinct",
        "2 requests were duplicates",
    ):
        assert shown in text
    for shown in ("tiny-chat", "embedded", "model-generated", "fraction", "not paid for"):
        assert shown in text


def test_the_index_says_what_the_run_rests_on(pages: dict[str, str]) -> None:
    text = Reader(pages["report.html"]).text
    for shown in ("Animals", "tiny-chat", "complementary", "tfidf_cosine", "CC-BY-4.0", "21"):
        assert shown in text
    for shown in (
        "The Animal Project",
        "Animal Project (2024)",
        "model-generated",
        "Do lions roar ?",
    ):
        assert shown in text
    for shown in ("ef" * 32, "cd" * 32, "+0.400", "−0.013", "2 requests were duplicates"):
        assert shown in text


def test_without_the_runs_own_count_requests_are_the_sum_over_snapshots(attribution: Make) -> None:
    pages = attribution_pages([attribution("a"), attribution("b")], {"seed_note": "kept"})
    text = Reader(pages["report.html"]).text
    assert "22 (sum over snapshots)" in text
    assert "Seed note" in text


def test_model_text_is_never_markup(attribution: Make) -> None:
    evil = "</script><script>alert(1)</script><b onclick=x>\"'{{ 7*7 }}</div>"
    source = attribution(evil, f"{evil} is evil")
    source |= {"base_generation": evil, "empty_generation": evil, "notes": [evil]}
    backend = {"name": evil, "model": evil, "identity": {evil: evil}}
    source["manifest"] = {"input": {"title": evil, "citation": evil}, "backend": backend}
    pages = attribution_pages([source], {"title": evil, "extra": evil, "notes": [evil]})
    plain = attribution_pages([attribution()], {"notes": ["x"], "extra": "x"})
    for page, harmless in zip(pages.values(), plain.values(), strict=True):
        reader = Reader(page)
        assert set(reader.tags) == set(Reader(harmless).tags)
        assert reader.tags.count("script") == 1
        assert evil in reader.text
        assert "49" not in reader.text


def test_a_snapshots_page_holds_its_object_as_data(attribution: Make) -> None:
    source = attribution("x", "a </script> b")
    page = attribution_pages([source], {})["snapshots/x.html"]
    assert json.loads(Reader(page).data) == source


def test_control_characters_and_lone_surrogates_are_shown_escaped(attribution: Make) -> None:
    source = attribution("x", "a\x00b \ud800 c")
    source["base_generation"] = "\x1b[31mred\x07\x00"
    for page in attribution_pages([source], {}).values():
        page.encode("utf-8")
        assert re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", page) is None
    text = Reader(attribution_pages([source], {})["snapshots/x.html"]).text
    assert r"\x1b[31mred\x07\x00" in text
    assert r"a\x00b" in text
    assert r"\ud800" in text


def test_the_whole_prompt_is_shown_protected_text_too(attribution: Make) -> None:
    prompt = "  Do  lions\n\troar ?\n"
    page = attribution_pages([attribution("x", prompt)], {})["snapshots/x.html"]
    shown = re.findall(r'<div class="text"[^>]*>(.*?)</div></article>', page, re.DOTALL)
    plain = [re.sub(r"<bdi.*?</bdi>|<[^>]*>", "", message) for message in shown]
    assert plain == ["You are brief.", prompt]


def test_what_is_missing_is_named_with_its_reason(attribution: Make) -> None:
    source = attribution("capped")
    source |= {"values": None, "raw_values": None, "values_reason": "budget.max_calls was reached"}
    source |= {"standard_errors": None, "standard_errors_reason": "no values", "base_value": None}
    source |= {"efficiency_residual": None, "protected_share": None}
    curve = {"points": [{"k": 0, "payoff": None}], "coverage": 0.0, "area": None}
    source["faithfulness"] = {"deletion": curve, "insertion": None}
    pages = attribution_pages([source], {})
    text = Reader(pages["snapshots/capped.html"]).text
    assert text.count("not available: budget.max_calls was reached") >= 4
    assert "Standard errors and intervals are not available: no values." in text
    assert "not available: 1 of 1 points were not paid for" in text
    assert "not available: budget.max_calls was reached" in Reader(pages["report.html"]).text
    assert "None" not in text
    assert "nan" not in pages["report.html"].lower().replace("dominan", "")


def test_only_the_normalised_values_may_be_missing(attribution: Make) -> None:
    source = attribution("flat")
    source |= {"values": None, "values_reason": "Σ|x| is 0", "normaliser": "abs_sum"}
    text = Reader(attribution_pages([source], {})["snapshots/flat.html"]).text
    assert "Normalised values are not available: Σ|x| is 0." in text
    assert "+0.4000" in text


def test_a_gap_in_a_curve_is_a_gap(attribution: Make) -> None:
    page = attribution_pages([attribution("x", "a b c d e")], {})["snapshots/x.html"]
    # points 0..5, point 1 missing: one line through 2..5 in each of two curves, a dot for each
    assert page.count('<path class="line"') == 2
    assert page.count('<circle class="dot"') == 10
    assert page.count('<path class="gap"') == 2


def test_sorting_and_languages_are_announced(pages: dict[str, str]) -> None:
    assert "aria-sort" in pages["report.html"]
    assert 'aria-label="' in pages["snapshots/lions.html"]
    for page in pages.values():
        assert page.startswith('<!DOCTYPE html>\n<html lang="en">')
        assert 'dir="auto"' in page
        assert page.count("<h1") == 1
        assert "prefers-color-scheme: dark" in page


def test_five_hundred_snapshots_stay_under_five_megabytes_a_page(attribution: Make) -> None:
    text = " ".join(f"word{index}" for index in range(60))
    sources = [attribution(f"snapshot {index}", text) for index in range(499)]
    sources.append(attribution("long", " ".join(f"token{index}" for index in range(500))))
    sizes = [len(page.encode()) for page in attribution_pages(sources, {}).values()]
    assert len(sizes) == 501
    assert max(sizes) <= 5_000_000


def test_no_snapshot_is_an_empty_index() -> None:
    assert list(attribution_pages([], {})) == ["report.html"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_players": 3}, "n_players is not the number of players"),
        ({"raw_values": [1.0]}, "raw_values must hold one number a player"),
        ({"base_value": float("nan")}, "base_value must be a finite number or null"),
        ({"messages": [{"role": "user", "content": "x"}] * 2}, "leaves its message"),
        ({"notes": "one"}, "notes must be a list of texts"),
    ],
)
def test_what_is_not_an_attribution_is_refused(
    attribution: Make, change: Document, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        attribution_pages([attribution() | change], {})


def test_two_snapshots_with_one_id_are_refused(attribution: Make) -> None:
    with pytest.raises(InputError, match="two snapshots have the same id, got 'a'"):
        attribution_pages([attribution("a"), attribution("a")], {})
