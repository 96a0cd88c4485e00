"""Settings without Hydra: read from conf/ as they stand there, and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from quorum.config.compose import Settings
from quorum.config.schema import GROUPS, check

PROJECT = Path(__file__).parents[3]


def section(group: str, option: str) -> dict[str, object]:
    """One option of a group as its file says it."""
    text = (PROJECT / "conf" / group / f"{option}.yaml").read_text(encoding="utf-8")
    plain = yaml.safe_load(text)
    return plain.get(group, plain)


def settings_of(**options: str) -> Settings:
    """All settings, with these options of their groups."""
    text = (PROJECT / "conf/config.yaml").read_text(encoding="utf-8")
    top = yaml.safe_load(text)
    chosen = {k: v for entry in top["defaults"] if entry != "_self_" for k, v in entry.items()}
    sections = {group: section(group, {**chosen, **options}[group]) for group in GROUPS}
    return check({**sections, "seed": top["seed"], "model": top["model"]})


@pytest.fixture(scope="session")
def make_settings() -> Callable[..., Settings]:
    """Makes checked settings from options of conf/."""
    return settings_of


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The project's folder."""
    return PROJECT
