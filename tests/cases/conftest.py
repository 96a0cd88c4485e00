"""A small project in a folder of its own, and its real entry points, in process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorum.cli import main
from quorum.pipeline import config
from quorum.pipeline.entry import of_study, run_stage

PROJECT = Path(__file__).parents[2]
STAGES: dict[str, Callable[[Path], None]] = {
    "config": config.run,
    **{name: of_study(name) for name in ("partition", "generate", "score", "aggregate")},
}


@dataclass(frozen=True, slots=True)
class Entry:
    """What a user runs, and what the user then sees: exit code and standard error."""

    root: Path
    capsys: pytest.CaptureFixture[str]

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        """Writes files of the project; None takes one away."""
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                path.unlink()
            elif isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(content, encoding="utf-8")

    def command(self, *argv: str) -> tuple[int, str]:
        """``quorum ARGV``."""
        code = main(argv)
        return code, self.capsys.readouterr().err

    def stages(self, *names: str) -> tuple[int, str]:
        """``python stages/NAME.py`` one after the other, up to the first that fails."""
        code = 0
        for name in names:
            code = run_stage(STAGES[name])
            if code:
                break
        return code, self.capsys.readouterr().err


@pytest.fixture
def entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Entry]:
    """A copy of the project's settings and prompts; the working directory is in it."""
    for name in ("conf", "data/prompts", "data/surveys", "data/prices"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    (tmp_path / "params.yaml").write_text("backend: scripted\nruntime: {progress: 'off'}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUORUM_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setenv("A_SECRET", "hunter2")
    return Entry(tmp_path, capsys)
