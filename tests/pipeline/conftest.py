"""A project in a git repository of its own, for tests that let DVC run it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).parents[2]
PROMPTS = ["a b c d e f g h", "one two three four five six seven eight"]


@dataclass(frozen=True, slots=True)
class Repository:
    """A git and DVC repository with a copy of the project, sources included."""

    root: Path
    call_log: Path

    def dvc(self, *arguments: str) -> str:
        """Output of a ``dvc`` command that must succeed."""
        run = subprocess.run(
            [sys.executable, "-m", "dvc", *arguments],
            cwd=self.root,
            env=environ(self.root),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def repro(self) -> set[str]:
        """Which stages ``dvc repro`` runs; the others are up to date or come from DVC's cache."""
        out = self.dvc("repro")
        return set(re.findall(r"Running stage '(\w+)'", out))

    def git(self, *arguments: str) -> str:
        """Output of a ``git`` command."""
        command = ["git", "-c", "user.name=Test", "-c", "user.email=test@localhost", *arguments]
        run = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        return run.stdout

    def params(self, **changes: object) -> None:
        """Writes params.yaml: the scripted backend, the prompts of these tests, and changes."""
        backend = {"use": "scripted", "call_log": str(self.call_log)}
        given = changes.pop("backend", {})
        params = {
            "input": "own",
            "estimator": "complementary",
            "value": "exact_match",
            "normaliser": "identity",
            "budget": {"fraction": 0.1},
            "backend": {**backend, **given} if isinstance(given, Mapping) else given,
            "runtime": {"progress": "off"},
            **changes,
        }
        (self.root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")

    def calls(self) -> list[str]:
        """Keys of all calls so far, in their order."""
        if not self.call_log.exists():
            return []
        return [line.split()[0] for line in self.call_log.read_text().splitlines()]


def environ(root: Path) -> dict[str, str]:
    """This Python first, the repository's own sources, its own store."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUORUM_", "DVC_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    identity = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Test"), ("EMAIL", "test@localhost"))
    }
    return {**kept, **identity, "PATH": path, "PYTHONPATH": str(root / "src")}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """One repository a module, committed and never reproduced yet."""
    root = tmp_path_factory.mktemp("repository")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("conf", "stages", "src", "data/prompts", "data/surveys", "data/prices"):
        shutil.copytree(PROJECT / name, root / name, ignore=ignore)
    for name in ("dvc.yaml", ".gitignore", ".dvcignore", ".gitattributes", ".dvc/config"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(PROJECT / name, root / name)
    shutil.copy(PROJECT / ".dvc/.gitignore", root / ".dvc/.gitignore")
    found = Repository(root, root / ".cache/calls.log")
    found.call_log.parent.mkdir()
    lines = [
        f'{{"id": "p{i}", "messages": [{{"role": "user", "content": "{text}"}}]}}\n'
        for i, text in enumerate(PROMPTS)
    ]
    (root / "data/prompts/own.jsonl").write_text("".join(lines))
    text = (root / "conf/input/default.yaml").read_text()
    (root / "conf/input/own.yaml").write_text(text.replace("default", "own"))
    found.params()
    found.git("init", "-q", "-b", "main")
    found.git("add", "-A")
    found.git("commit", "-qm", "A project")
    return found
