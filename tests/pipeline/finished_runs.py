"""Finished runs on the scripted backend, and what can be wrong with a copy of one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from survey_project import params, write_survey

PROMPTS = ["red green blue", "one two three four"]


def attribution(project) -> Path:
    """An attribution of two prompts."""
    project.write_prompts(PROMPTS)
    project.write_params(value="chrf")
    project.run("config", "partition", "generate", "score", "aggregate", "budget")
    return project.root


def reconstruction(project) -> Path:
    """A small survey rebuilt for three targets."""
    write_survey(project.root)
    chosen = params(target={"groups": ["population", "sex"]}, elicitation="choice")
    project.write_params(**chosen)
    project.run("config", "partition", "generate", "score", "aggregate", "budget")
    return project.root


def copy_data(root: Path, to: Path) -> Path:
    """A project's data folder, copied elsewhere."""
    inputs = shutil.ignore_patterns("surveys", "prompts", "prices")
    return Path(shutil.copytree(root / "data", to, ignore=inputs))


def edited(name: str, change: Callable[[dict], object]) -> Callable[[Path], None]:
    """A JSON file of a run, changed and written as Python writes it (NaN and all)."""

    def run(data: Path) -> None:
        path = data / name
        found = json.loads(path.read_text())
        path.write_text(json.dumps(change(found) or found))

    return run


def replaced(name: str, text: str | bytes) -> Callable[[Path], None]:
    """A file of a run with other content."""

    def run(data: Path) -> None:
        (data / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return run


def cut(name: str, share: float = 0.5) -> Callable[[Path], None]:
    """A file of a run, cut off."""

    def run(data: Path) -> None:
        content = (data / name).read_bytes()
        (data / name).write_bytes(content[: int(len(content) * share)])

    return run


def removed(name: str) -> Callable[[Path], None]:
    """A run without one of its files."""
    return lambda data: (data / name).unlink()
