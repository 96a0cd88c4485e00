"""The browser that opens the pages: QUORUM_BROWSER, else the first one that is installed."""

from __future__ import annotations

import os
import shutil
from functools import cache

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@cache
def browser_path() -> str | None:
    """The path of a Chromium, or None where none is installed.

    Raises:
        pytest.UsageError: QUORUM_BROWSER names no program.
    """
    named = os.environ.get("QUORUM_BROWSER")
    if named:
        path = shutil.which(named)
        if path is None:
            raise pytest.UsageError(f"QUORUM_BROWSER: no such program, got {named!r}")
        return path
    return next((path for path in map(shutil.which, NAMES) if path), None)


def browser_line() -> str:
    """What a run of the tests says of its browser."""
    path = browser_path()
    if path is None:
        return (
            "browser: none found, tests of pages in a browser are left out. "
            "Install chromium or set QUORUM_BROWSER"
        )
    return f"browser: {path}"
