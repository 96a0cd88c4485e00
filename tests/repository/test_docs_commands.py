"""Every command of the documentation runs and prints what is shown; half of the pages a class."""

from __future__ import annotations

import pytest
from docs_commands import check_page
from docs_pages import page_names, read_page

PAGES = [name for name in page_names() if "```console" in read_page(name)]
PAGES.sort(key=lambda name: -read_page(name).count("\n$ "))  # the longest ones first


class TestOneHalfOfThePages:
    """A class can go to another process than the next one."""

    @pytest.mark.parametrize("name", PAGES[::2])
    def test_every_command_runs_and_prints_what_is_shown(self, name, template, tmp_path):
        check_page(name, template.copy(tmp_path / "project"))


class TestTheOtherHalf:
    """The same for the rest."""

    @pytest.mark.parametrize("name", PAGES[1::2])
    def test_every_command_runs_and_prints_what_is_shown(self, name, template, tmp_path):
        check_page(name, template.copy(tmp_path / "project"))
