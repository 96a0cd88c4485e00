"""Projects in which the pages' commands run, one a module."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from docs_project import Project, scripted_project, survey_project


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project, reproduced once with the backend ``scripted``."""
    return scripted_project(tmp_path_factory.mktemp("docs") / "template")


@pytest.fixture(scope="module")
def rebuilt(template: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same after a reconstruction."""
    return survey_project(template, tmp_path_factory.mktemp("docs") / "rebuilt")
