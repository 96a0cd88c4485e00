"""DVC's side of a run: which experiments and revisions there are, and what files they hold.

The only module that knows DVC. Nothing here touches the workspace: files of a revision are read
through DVC's own file system, from its cache (or its remote) and from git.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from quorum.errors import InputError

if TYPE_CHECKING:
    from dvc.api import DVCFileSystem

_EXPERIMENTS = "refs/exps"
_PARTS = 5  # refs/exps/<2 digits>/<38 digits>/<name>; shorter refs are DVC's own


def nearest_project() -> Path | None:
    """The nearest folder upwards that holds conf/config.yaml; None where there is none."""
    here = Path.cwd()
    holds = (f for f in (here, *here.parents) if (f / "conf" / "config.yaml").is_file())
    return next(holds, None)


def experiments(project: Path) -> dict[str, list[str]]:
    """Commits of all experiments by name; two baselines may each have one of the same name."""
    listed = _git(project, "for-each-ref", "--format=%(refname) %(objectname)", _EXPERIMENTS)
    found: dict[str, list[str]] = {}
    for line in (listed or "").splitlines():
        ref, commit = line.split(" ")
        parts = ref.split("/")
        if len(parts) == _PARTS and len(parts[2]) == 2:
            found.setdefault(parts[4], []).append(commit)
    return dict(sorted(found.items()))


def commit_of(project: Path, name: str) -> str | None:
    """The commit of an experiment or a git revision; None where there is none.

    Raises:
        InputError: Several experiments bear that name.
    """
    commits = experiments(project).get(name, [])
    if len(commits) > 1:
        raise InputError(
            name,
            "several experiments bear this name",
            got=" ".join(commit[:10] for commit in commits),
            allowed="one",
            mend="Give the commit instead of the name",
        )
    if commits:
        return commits[0]
    if name.startswith("-"):
        return None
    return _git(project, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")


@dataclass(frozen=True, slots=True)
class Locked:
    """Outputs of a stage as a commit's dvc.lock names them.

    Args:
        commit: The first commit found with them, its full SHA.
        outs: Digest by path; None where that dvc.lock cannot be read.
    """

    commit: str
    outs: Mapping[str, str] | None


def locked_outs(project: Path, stage: str) -> list[Locked] | None:
    """The distinct outputs of a stage over all branches, tags, experiments and stashes.

    Returns:
        One commit for each; None where the project is in no git repository.
    """
    commits = _git(project, "rev-list", "--all")
    prefix = _git(project, "rev-parse", "--show-prefix")
    if commits is None or prefix is None:
        return None
    names = [f"{commit}:{prefix}dvc.lock" for commit in commits.split()]
    asked = "".join(f"{name}\n" for name in names)
    objects = _git(project, "cat-file", "--batch-check=%(objectname) %(objecttype)", given=asked)
    first: dict[str, str] = {}  # a version of dvc.lock → the first commit that has it
    for name, line in zip(names, (objects or "").splitlines(), strict=True):
        blob, _, kind = line.rpartition(" ")
        if kind == "blob":
            first.setdefault(blob, name.partition(":")[0])
    found: dict[object, Locked] = {}
    for blob, commit in first.items():
        outs = _outs(_git(project, "cat-file", "blob", blob), stage)
        if outs is None:
            found[commit] = Locked(commit, None)
        elif outs:
            found.setdefault(tuple(sorted(outs.items())), Locked(commit, outs))
    return list(found.values())


def _outs(lock: str | None, stage: str) -> dict[str, str] | None:
    import yaml

    try:
        outs = yaml.safe_load(lock or "")["stages"].get(stage, {}).get("outs", [])
        return {out["path"]: str(out[out.get("hash", "md5")]) for out in outs}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        return None


def _git(project: Path, *command: str, given: str | None = None) -> str | None:
    done = subprocess.run(  # noqa: S603 - our own words; a name is one argument
        ["git", "-C", str(project), *command],  # noqa: S607 - git is what the user has
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else None


@dataclass(frozen=True)
class Revision:
    """The files of one commit, as DVC and git keep them.

    Args:
        project: The project's folder.
        commit: Its full SHA.
        to: An empty folder that files are copied into.
    """

    project: Path
    commit: str
    to: Path
    _copied: dict[str, Path | None] = field(default_factory=dict)

    @cached_property
    def _files(self) -> DVCFileSystem:
        from dvc.api import DVCFileSystem

        return DVCFileSystem(str(self.project), rev=self.commit)

    def path(self, name: str) -> Path | None:
        """A copy of a file or folder of that commit; None where the commit has none.

        Raises:
            InputError: DVC knows it, but neither its cache nor a remote holds it.
        """
        if name not in self._copied:
            self._copied[name] = self._fetched(name)
        return self._copied[name]

    def _fetched(self, name: str) -> Path | None:
        from dvc.exceptions import DvcException
        from dvc_data.index.index import DataIndexError

        target = self.to / name
        try:
            if not self._files.exists(name):
                self._list_parents(name)
                return None
            target.parent.mkdir(parents=True, exist_ok=True)
            self._files.get(name, str(target), recursive=self._files.isdir(name))
        except (DataIndexError, DvcException, OSError) as error:
            raise InputError(
                f"{self.commit[:10]}:{name}",
                "is not in DVC's cache",
                mend="Run: dvc pull; or run it again: dvc repro",
            ) from error
        return target

    def _list_parents(self, name: str) -> None:
        """Fails where a folder above is DVC's and not in its cache: then nobody can tell."""
        for parent in Path(name).parents:
            if self._files.exists(parent.as_posix()):
                self._files.ls(parent.as_posix(), detail=False)
                return
