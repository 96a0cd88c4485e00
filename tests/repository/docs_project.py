"""A copy of the project that answers by rules, for the commands of the documentation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from docs_pages import ROOT, Block, Command

COLUMNS = "100"
_GIT = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "docs"), ("EMAIL", "docs@localhost"))
}


@dataclass(frozen=True)
class Outcome:
    """What a command printed: standard output, and the one line of an error."""

    exit_code: int
    lines: tuple[str, ...]
    errors: str


@dataclass(frozen=True)
class Project:
    """A folder with a copy of the project."""

    root: Path

    def run(self, line: str) -> Outcome:
        """Runs a command line as a user with the activated environment would."""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.root,
            env=self._environment(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            check=False,
        )
        told = [e for e in done.stderr.splitlines() if e.startswith("error: ")]
        shown = done.stdout.replace(f"{self.root}/", "")
        lines = [text.rstrip() for text in [*shown.splitlines(), *told]]
        return Outcome(done.returncode, tuple(lines), done.stderr)

    def wait_for_queue(self) -> None:
        """Until all experiments of DVC's queue have ended well; a look takes a second or two."""
        for _ in range(300):
            lines = self.run("dvc queue status").lines
            states = re.findall(r"\b(Queued|Running|Success|Failed)\b", "\n".join(lines))
            if states and not {"Queued", "Running"} & set(states):
                break
        assert set(states) == {"Success"}, lines

    def apply(self, block: Block) -> None:
        """Writes the file that a block shows, adds its lines to one, or installs a folder."""
        path = self.root / block.check[1]
        if block.check[0] == "install":
            self.install(block.check[1])
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if block.check[0] == "write":
            path.write_text("\n".join(block.lines) + "\n", encoding="utf-8")
            return
        old = "\n".join(line[1:] for line in block.lines if not line.startswith("+"))
        new = "\n".join(line[1:] for line in block.lines)
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path.name} does not hold once: {old}"
        path.write_text(text.replace(old, new), encoding="utf-8")

    def install(self, folder: str) -> None:
        """What ``pip install`` of a folder with one module does, without pip and its network."""
        source, to = self.root / folder, self.root / "installed"
        facts = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))
        project = facts["project"]
        marks = to / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        marks.mkdir(parents=True)
        for module in facts["tool"]["setuptools"]["py-modules"]:
            shutil.copy2(source / f"{module}.py", to)
        metadata = (
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        (marks / "METADATA").write_text(metadata, encoding="utf-8")
        points = "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in found.items())
            for group, found in project["entry-points"].items()
        )
        (marks / "entry_points.txt").write_text(points, encoding="utf-8")

    def copy(self, to: Path) -> Project:
        """Another folder with the same content."""
        shutil.copytree(self.root, to, symlinks=True)
        return Project(to)

    def _environment(self) -> dict[str, str]:
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("DVC_", "QUORUM_", "GIT_", "PYTEST_", "COV_"))
            and not key.endswith("_API_KEY")  # no page calls a provider
        }
        path = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
        source = os.pathsep.join([str(self.root / "src"), str(self.root / "installed")])
        more = {"PATH": path, "PYTHONPATH": source, "COLUMNS": COLUMNS, "NO_COLOR": "1"}
        return {**kept, **_GIT, **more, "LC_ALL": "C.UTF-8", "SHELL": "/bin/bash"}


def scripted_project(to: Path) -> Project:
    """A reproduced, committed copy of the project whose backend is ``scripted``."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\0")
    for name in filter(None, names):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    params = to / "params.yaml"
    text = params.read_text(encoding="utf-8")
    params.write_text(re.sub(r"(?m)^backend: \w+", "backend: scripted", text), encoding="utf-8")
    project = Project(to)
    for line in ("git init -q -b main", "dvc repro -q", "git add -A", "git commit -qm start"):
        outcome = project.run(line)
        assert outcome.exit_code == 0, outcome.errors
    return project


def survey_project(template: Project, to: Path) -> Project:
    """A copy in which a survey was rebuilt by personas of the backend ``scripted``."""
    project = template.copy(to)
    params = project.root / "params.yaml"
    text = params.read_text(encoding="utf-8")
    changes = {
        "study": "study: reconstruction",
        "pool": "pool: quick",
        "backend": "backend: {use: scripted, rules: [{contains: You are 18 to 24, reply: A}, "
        "{contains: vote, reply: B}, {reply: C}]}",
    }
    for name, line in changes.items():
        text = re.sub(rf"(?m)^{name}: \w+", line, text)
    params.write_text(text, encoding="utf-8")
    outcome = project.run("dvc repro -q")
    assert outcome.exit_code == 0, outcome.errors
    return project


def expects_error(command: Command) -> bool:
    """Whether a page shows an error below a command."""
    return any(line.startswith("error: ") for line in command.output)


def is_shown(expected: tuple[str, ...], lines: tuple[str, ...]) -> bool:
    """Whether output is what a page shows; a line ``...`` stands for any lines."""
    if "..." not in expected:
        return expected == lines
    head, rest = expected[: expected.index("...")], expected[expected.index("...") + 1 :]
    if lines[: len(head)] != head:
        return False
    after = lines[len(head) :]
    return not rest or any(is_shown(rest, after[start:]) for start in range(len(after) + 1))
