"""Quorum: attribution of a model's reply to its prompt, and surveys rebuilt from a pool."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from quorum.pipeline.loading import LoadedRun

__version__ = "0.1.0"


def load(run: str | Path, project: str | Path | None = None) -> LoadedRun:
    """A finished run's results: ``quorum.load("HEAD")["attributions"]`` is a data frame.

    See ``quorum.pipeline.loading.load``.
    """
    # by name, since every stage imports this package: none of them depends on what loads results
    found = import_module("quorum.pipeline.loading").load(run, project)
    return cast("LoadedRun", found)
