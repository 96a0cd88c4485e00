"""A finished run, opened for reading: a folder, an experiment or a revision.

A folder is a project (its workspace), a copy of one or of its ``data``, or what ``quorum export``
wrote. Nothing in it is changed, no model is asked, and nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from quorum.errors import InputError, RefusedError
from quorum.pipeline.experiments import Revision, commit_of
from quorum.pipeline.run_files import (
    ARTIFACTS,
    MEND,
    SUMS,
    parse_object,
    read_object,
    read_table,
    read_text,
)

STUDIES = ("attribution", "reconstruction", "simulation")
_LAYOUTS = {  # how a folder may be laid out → where a file stands in it
    "flat": {name: name for name in ARTIFACTS},
    "project": ARTIFACTS,
    "data": {name: path.removeprefix("data/") for name, path in ARTIFACTS.items()},
}
_RECORD = ("run_id", "study", "settings_digest", "seed", "input", "versions", "finished")


class Source(Protocol):
    """Where the files of a run come from."""

    def path(self, name: str) -> Path | None:
        """A file or folder by its artifact's name; None where there is none."""

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where the user's own files of the run lie: nothing may be written there."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Files that lie in a folder, in one of three layouts."""

    root: Path
    layout: str

    def path(self, name: str) -> Path | None:
        """The file itself."""
        found = self.root / _LAYOUTS[self.layout][name]
        return found if found.exists() else None

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folder, or the project's data."""
        return ((self.root / "data" if self.layout == "project" else self.root).resolve(),)


@dataclass(frozen=True, slots=True)
class Commit:
    """Files of a commit, copied out of DVC and git as they are asked for."""

    revision: Revision

    def path(self, name: str) -> Path | None:
        """A copy of the file."""
        return self.revision.path(ARTIFACTS[name])

    @property
    def folders(self) -> tuple[Path, ...]:
        """None: the copies are our own."""
        return ()


@dataclass(frozen=True, slots=True)
class Run:
    """A run whose record and metrics have been read and checked.

    Args:
        name: As the user named it.
        source: Where its files come from.
        revision: Its commit; None for a folder.
        record: run.json.
        metrics: metrics.json.
    """

    name: str
    source: Source
    revision: str | None
    record: Mapping[str, object]
    metrics: Mapping[str, object]

    @property
    def study(self) -> str:
        """Which question it asked."""
        return str(self.record["study"])

    @property
    def run_id(self) -> str:
        """Digest of the settings that change results, the inputs and the model."""
        return str(self.record["run_id"])

    @property
    def records(self) -> list[dict[str, object]]:
        """All metric records."""
        return cast("list[dict[str, object]]", self.metrics["records"])

    @property
    def scalars(self) -> Mapping[str, object]:
        """The numbers that ``dvc exp show`` shows."""
        return cast("Mapping[str, object]", self.metrics[self.study])

    def path(self, name: str) -> Path | None:
        """A file or folder by its name in ``ARTIFACTS``; None where the run has none."""
        return self.source.path(name)

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where nothing may be written."""
        return self.source.folders

    def where(self, name: str) -> str:
        """An artifact's address for an error or a ledger."""
        return f"{self.name}: {name}"

    def read_object(self, name: str) -> dict[str, object] | None:
        """A JSON object; None where the run has no such file.

        Raises:
            InputError: It cannot be read, is no object, or holds NaN or infinity.
        """
        path = self.path(name)
        return None if path is None else read_object(path, self.where(name))

    def read_rows(self, name: str) -> list[dict[str, object]] | None:
        """The objects of a JSON Lines file; None where the run has no such file.

        Raises:
            InputError: A line cannot be read, is no object, or holds NaN or infinity.
        """
        path = self.path(name)
        if path is None:
            return None
        lines = read_text(path, self.where(name)).split("\n")
        return [
            parse_object(line, f"{self.where(name)}:{number}")
            for number, line in enumerate(lines, start=1)
            if line
        ]

    def read_table(self, name: str, needed: Sequence[str] = ()) -> list[dict[str, str]] | None:
        """The rows of a CSV file, every cell a text; None where the run has no such file.

        Raises:
            InputError: It is cut off or no table, or lacks a column that is needed.
        """
        path = self.path(name)
        return None if path is None else read_table(path, self.where(name), needed)

    def settings(self) -> dict[str, object] | None:
        """config.resolved.yaml; None where the run has none.

        Raises:
            InputError: It is not YAML, or no group of settings.
        """
        import yaml

        path = self.path("config.resolved.yaml")
        if path is None:
            return None
        where = self.where("config.resolved.yaml")
        try:
            loaded = yaml.safe_load(read_text(path, where))
        except yaml.YAMLError as error:
            raise InputError(where, "is not YAML", mend=MEND) from error
        if not isinstance(loaded, dict):
            raise InputError(where, "must hold key: value, one a line", got=loaded, mend=MEND)
        return loaded


@contextmanager
def open_run(name: str, project: Path | None = None) -> Iterator[Run]:
    """Opens a run for reading; copies of a revision's files live as long as the context.

    Args:
        name: A folder, or within a project an experiment's name or a git revision.
        project: The project's folder; None outside of one.

    Raises:
        InputError: There is no such run, or a file of it cannot be used.
        RefusedError: Its files are not those of one run.
    """
    folder = Path(name)
    if folder.is_dir():
        yield _checked(name, _folder(name, folder), None)
        return
    commit = None if project is None else commit_of(project, name)
    if project is None or commit is None:
        kinds = "a folder" if project is None else "a folder, an experiment or a revision"
        raise InputError(name, "no such run", allowed=kinds, mend="See: dvc exp list")
    with tempfile.TemporaryDirectory(prefix="quorum-") as to:
        source = Commit(Revision(project, commit, Path(to)))
        yield _checked(name, source, commit)


def _folder(name: str, root: Path) -> Folder:
    for layout, places in _LAYOUTS.items():
        if (root / places["run.json"]).is_file():
            if layout == "flat":
                _check_sums(name, root)
            return Folder(root, layout)
    raise InputError(
        name,
        "holds no finished run: no run.json",
        allowed="a project after dvc repro, a copy of its data, or an export",
        mend="Run: dvc repro, or dvc pull",
    )


def _checked(name: str, source: Source, revision: str | None) -> Run:
    found = {}
    for file in ("run.json", "metrics.json"):
        path = source.path(file)
        if path is None:
            raise InputError(f"{name}: {file}", "is missing", mend=MEND)
        found[file] = read_object(path, f"{name}: {file}")
    record, metrics = found["run.json"], found["metrics.json"]
    _check_record(f"{name}: run.json", record)
    _check_metrics(f"{name}: metrics.json", metrics, str(record["study"]))
    run = cast("Mapping[str, object]", metrics["run"])
    digest = str(record["settings_digest"])
    if not digest.startswith(str(run.get("settings"))):
        raise RefusedError(
            name,
            "run.json and metrics.json are of two runs",
            got=run.get("settings"),
            allowed=digest[:12],
            mend=MEND,
        )
    return Run(name, source, revision, record, metrics)


def _check_record(where: str, record: Mapping[str, object]) -> None:
    missing = [key for key in _RECORD if key not in record]
    if missing:
        raise InputError(where, "is no record of a run: lacks " + ", ".join(missing), mend=MEND)
    if record["study"] not in STUDIES:
        allowed = " | ".join(STUDIES)
        raise InputError(f"{where}: study", "unknown study", got=record["study"], allowed=allowed)
    for key in ("run_id", "settings_digest"):
        if not isinstance(record[key], str) or not re.fullmatch("[0-9a-f]{64}", str(record[key])):
            allowed = "64 hexadecimal digits"
            raise InputError(f"{where}: {key}", "is no digest", got=record[key], allowed=allowed)
    for key in ("input", "versions"):
        if not isinstance(record[key], Mapping):
            raise InputError(f"{where}: {key}", "must be an object", got=record[key])


def _check_metrics(where: str, metrics: Mapping[str, object], study: str) -> None:
    for key, kind in (("run", Mapping), (study, Mapping), ("records", list)):
        if not isinstance(metrics.get(key), kind):
            what = "an object" if kind is Mapping else "a list"
            raise InputError(where, f"{key} must be {what}", got=metrics.get(key), mend=MEND)
    for name, value in cast("Mapping[str, object]", metrics[study]).items():
        _check_number(f"{where}: {study}.{name}", value)
    for number, record in enumerate(cast("list[object]", metrics["records"])):
        place = f"{where}: records[{number}]"
        if not isinstance(record, Mapping):
            raise InputError(place, "must be an object", got=record, mend=MEND)
        for key in ("metric", "unit"):
            if not isinstance(record.get(key), str):
                raise InputError(place, f"{key} must be a text", got=record.get(key), mend=MEND)
        if "value" not in record:
            raise InputError(place, "lacks its value", mend=MEND)
        _check_number(f"{place}.value", record["value"])


def _check_number(where: str, value: object) -> None:
    is_number = isinstance(value, float) and math.isfinite(value)
    if isinstance(value, int) and not isinstance(value, bool):
        is_number = abs(value) < 2**63  # what the tables of other programs can hold
    if value is not None and not is_number:
        raise InputError(where, "must be a number or null", got=value, mend=MEND)


def _check_sums(name: str, root: Path) -> None:
    """An export has a digest of each of its files: all are there, and as they were written."""
    sums = root / SUMS
    if not sums.is_file():
        return
    for line in read_text(sums, f"{name}: {SUMS}").splitlines():
        digest, _, file = line.partition("  ")
        path = root / file
        if not file or not path.resolve().is_relative_to(root.resolve()):
            raise InputError(f"{name}: {SUMS}", "is no list of digests", got=line, mend=MEND)
        if not path.is_file():
            raise RefusedError(f"{name}: {file}", f"is missing, and {SUMS} names it", mend=MEND)
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            what = f"was changed since the export: its digest is not that of {SUMS}"
            raise RefusedError(f"{name}: {file}", what, mend=MEND)
