"""What holds for all tests: property-based ones draw the same examples in every run.

``make_project`` copies the project into a folder of the test's own, where real stages run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from browser_choice import browser_line
from hypothesis import settings
from provider_stub import provider  # noqa: F401 - a fixture for all tests

from quorum.pipeline import config
from quorum.pipeline.entry import of_study

# No deadline: a busy machine is no failure.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.load_profile("fixed")

PROJECT = Path(__file__).parents[1]
CHAIN = ("config", "partition", "generate", "score", "aggregate")


def pytest_report_header() -> str:
    """Which browser opens the pages, or that none was found and their tests are left out."""
    return browser_line()


@dataclass(frozen=True, slots=True)
class Project:
    """A copy of the project: its folder, the store its runs use, the log of the calls made."""

    root: Path
    store: Path
    call_log: Path

    def write_prompts(self, rows: Sequence[str | Mapping[str, object]], name: str = "own") -> None:
        """A data set, with its file in conf/input."""
        lines = [
            {"id": f"p{i}", "messages": [{"role": "user", "content": row}]}
            if isinstance(row, str)
            else row
            for i, row in enumerate(rows)
        ]
        text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
        (self.root / "data/prompts" / f"{name}.jsonl").write_text(text, encoding="utf-8")
        section = {
            "name": name,
            "path": f"data/prompts/{name}.jsonl",
            "kind": "prompts",
            "title": name,
            "licence": "CC0-1.0",
            "attribution": "",
            "citation": "",
        }
        text = yaml.safe_dump(section, sort_keys=False)
        (self.root / "conf/input" / f"{name}.yaml").write_text(text, encoding="utf-8")

    def write_params(self, **params: object) -> None:
        """params.yaml: these settings, on the scripted backend with its calls logged."""
        backend = {"use": "scripted", "call_log": str(self.call_log)}
        given = params.pop("backend", {})
        runtime = {"progress": "off", **params.pop("runtime", {})}
        chosen = {**backend, **given} if isinstance(given, Mapping) else given
        whole = {"input": "own", **params, "backend": chosen, "runtime": runtime}
        (self.root / "params.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")

    def run(self, *stages: str) -> None:
        """Runs stages in this process; all of an attribution where none is named."""
        before = os.environ.get("QUORUM_STORE")
        os.environ["QUORUM_STORE"] = str(self.store)
        try:
            for stage in stages or CHAIN:
                run = config.run if stage == "config" else of_study(stage)
                run(self.root)
        finally:
            del os.environ["QUORUM_STORE"]
            if before is not None:
                os.environ["QUORUM_STORE"] = before

    def environ(self, **more: str) -> dict[str, str]:
        """The environment of a process of this project: its store, and this Python first."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return {**os.environ, "PATH": path, "QUORUM_STORE": str(self.store), **more}

    def start(self, stage: str) -> subprocess.Popen[str]:
        """``python stages/STAGE.py``, on its way."""
        return subprocess.Popen(
            [sys.executable, f"stages/{stage}.py"],
            cwd=self.root,
            env=self.environ(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, stage: str) -> tuple[int, str]:
        """Exit code and standard error of ``python stages/STAGE.py``."""
        with self.start(stage) as process:
            errors = process.communicate(timeout=120)[1]
        return process.returncode, errors

    def calls(self) -> list[str]:
        """Keys of the calls that were started, in their order, over all runs."""
        if not self.call_log.exists():
            return []
        return [line.split()[0] for line in self.call_log.read_text().splitlines()]

    def attributions(self) -> dict[str, dict[str, object]]:
        """Attribution objects by snapshot."""
        text = (self.root / "data/aggregate/result/attributions.jsonl").read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.split("\n") if line]  # U+2028 is no line's end
        return {row["snapshot"]: row for row in rows}

    def results(self, *folders: str) -> dict[str, bytes]:
        """Bytes of all result files, those of data/report included, by path."""
        found = [self.root / folder for folder in folders] or [
            *self.root.glob("data/*/result"),
            self.root / "data/report",
        ]
        files = [path for folder in found for path in folder.rglob("*") if path.is_file()]
        return {path.relative_to(self.root).as_posix(): path.read_bytes() for path in files}


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[..., Project]:
    """Makes copies of the project; they share a store only where it is named."""

    def make(name: str = "project", store: Path | None = None) -> Project:
        root = tmp_path / name
        root.mkdir()
        copy_project(root)
        return Project(root, store or root / "store.sqlite", root / "calls.log")

    return make


@pytest.fixture(scope="module")
def make_projects(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Project]:
    """Makes copies of the project that all tests of a module read."""

    def make(name: str) -> Project:
        root = tmp_path_factory.mktemp(name)
        copy_project(root)
        return Project(root, root / "store.sqlite", root / "calls.log")

    return make


@pytest.fixture
def project(make_project: Callable[..., Project]) -> Project:
    """One copy of the project."""
    return make_project()


def copy_project(root: Path) -> None:
    """What a run needs: settings, stages, prompts; the package is installed."""
    for name in ("conf", "stages", "data/prompts", "data/surveys", "data/prices"):
        shutil.copytree(PROJECT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(PROJECT / name, root / name)
