"""Made-up diagnostics and a reader of pages, for the pages' tests."""

from __future__ import annotations

from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from made_diagnostics import Document, make_diagnostics


class Reader(HTMLParser):
    """Reads a page as a browser does: tags, links, visible text; fails on unbalanced tags."""

    void = frozenset(["meta", "wbr", "input", "br", "hr", "img", "link"])

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []
        self.captions: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag == "caption":
            self.captions.append("")
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "caption" in self.open:
            self.captions[-1] += data
        if not self.open or self.open[-1] != "style":
            self.text += data


@pytest.fixture
def diagnostics() -> Callable[..., Document]:
    """Makes diagnostics: ``diagnostics(respondents=…, n_questions=…, targets=…, is_sealed=…)``."""
    return make_diagnostics


@pytest.fixture
def read_page() -> Callable[[str], Reader]:
    """Reads a page."""
    return Reader
