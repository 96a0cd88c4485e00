"""One headless Chromium for all tests of this folder; without one they are deselected.

Playwright's asynchronous interface runs on a loop of its own that stands still between calls: its
synchronous one would leave a loop running in this thread, where other tests start theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from browser_choice import browser_path
from browser_pages import PAGES, Made
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]
CHECKS = Path(__file__).with_name("checks.js")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the tests of pages out where there is no browser; the head of the run says so."""
    if browser_path() is None:
        out = [item for item in items if item.get_closest_marker("browser")]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


@pytest.fixture(scope="session")
def run() -> Iterator[Run[Any]]:
    """Runs a coroutine of Playwright to its end."""
    with asyncio.Runner() as runner:
        yield runner.run


@pytest.fixture(scope="session")
def browser(run: Run[Any]) -> Iterator[BrowserContext]:
    """A context of the browser: offline, with the checks in every page."""
    started = run(async_playwright().start())
    program: Browser = run(
        started.chromium.launch(executable_path=browser_path(), headless=True, args=FLAGS)
    )
    context: BrowserContext = run(program.new_context(offline=True))
    run(context.add_init_script(path=CHECKS))
    yield context
    run(program.close())
    run(started.stop())


@dataclass
class Shown:
    """A page as the browser shows it, and what it did meanwhile."""

    page: Page
    run: Run[Any]
    address: str
    made: Made
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def check(self, name: str, argument: object = None) -> Any:
        """What a function of checks.js returns."""
        return self.run(self.page.evaluate(f"quorumChecks.{name}", argument))

    def set(self, width: int, scheme: str = "light") -> None:
        """Gives the page a width and a colour scheme."""
        self.run(self.page.set_viewport_size({"width": width, "height": 800}))
        self.run(self.page.emulate_media(color_scheme=scheme))  # type: ignore[arg-type]

    def click(self, head: str) -> None:
        """Clicks on the head of a column."""
        self.run(self.page.click(f"table.sortable th button:has-text('{head}')"))

    def press_tab(self, times: int) -> None:
        """Presses Tab."""

        async def press() -> None:
            for _ in range(times):
                await self.page.keyboard.press("Tab")

        self.run(press())


@pytest.fixture(scope="module")
def open_page(
    browser: BrowserContext, run: Run[Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Made], Shown]]:
    """Opens a page from a file, with everything unfolded."""
    opened: list[Page] = []

    def open_one(made: Made) -> Shown:
        path = tmp_path_factory.mktemp("page") / "page.html"
        path.write_text(made.html, encoding="utf-8")

        async def watched() -> Shown:  # listeners want a running loop as well
            found = Shown(await browser.new_page(), run, path.as_uri(), made)
            opened.append(found.page)
            found.page.on("console", lambda message: found.messages.append(message.text))
            found.page.on("pageerror", lambda error: found.messages.append(str(error)))
            found.page.on("request", lambda asked: found.requests.append(asked.url))
            await found.page.goto(found.address)
            return found

        found: Shown = run(watched())
        found.check("unfold")
        return found

    yield open_one
    for page in opened:
        run(page.close())


@pytest.fixture(scope="module", params=PAGES, ids=[name for name, _ in PAGES])
def shown(request: pytest.FixtureRequest, open_page: Callable[[Made], Shown]) -> Iterator[Shown]:
    """Every page in turn."""
    found = open_page(request.param[1]())
    yield found
    found.run(found.page.close())
