"""Runs and the store: which replies a run rests on, where they come from, which ones may go."""

from __future__ import annotations

import csv
import logging
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from quorum.errors import InputError, RefusedError
from quorum.pipeline import artifacts
from quorum.pipeline.experiments import Locked, Revision, commit_of, locked_outs
from quorum.runtime.shards import (
    SHARD,
    Imported,
    import_shard,
    is_imported,
    read_shard,
    write_shard,
)
from quorum.runtime.store import GenerationStore, store_path

_LOG = logging.getLogger(__name__)
_WORKSPACE = (artifacts.GENERATE_LOG, artifacts.GENERATE)
_LAYOUTS = (  # logs and results of `generate` in a project, in a copy of its data, in an export
    _WORKSPACE,
    (Path("generate/log"), Path("generate/result")),
    (Path(), Path()),
)
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Replies:
    """Where the replies of a run are told.

    Args:
        name: As a user names the run.
        shard: Its rows of the store; None for a run of an earlier version, and for one that
            asked no model.
        result: The results of ``generate``.
    """

    name: str
    shard: Path | None
    result: Path

    def keys(self) -> set[str]:
        """Keys of all its replies: of its shard, else as its results name them.

        Raises:
            InputError: A file cannot be read.
        """
        if self.shard is not None:
            return {row.key.hex() for row in read_shard(self.shard, f"{self.name}: {SHARD}")}
        rows = [
            row
            for path in sorted((self.result / "generations").glob("*.jsonl"))
            for row in artifacts.read_jsonl(path)
        ]
        model = self.result / "model.json"
        if model.is_file():
            facts = artifacts.read_json(model)
            rows += cast("list[dict[str, object]]", facts.get("learner", []))
        if not all("key" in row for row in rows):
            raise InputError(self.name, "its results do not name the requests they rest on")
        return {key for row in rows if is_key(key := str(row["key"]))}


# Into the store and out of it


def restore(root: Path) -> None:
    """Fills the store from the replies that came with a pull; each shard is read once.

    Raises:
        InputError: The shard is damaged.
    """
    path = root / artifacts.GENERATE_LOG / SHARD
    if not path.is_file():
        return
    name = artifacts.shown(path)
    with GenerationStore(store_path()) as store:
        if is_imported(store, path):
            return
        found = import_shard(store, path, name)
    if found.n_new:
        sys.stderr.write(f"store: {found.n_new:,} replies came from {name}\n")
    if found.conflicts:
        _LOG.warning("%s: %s", name, told_conflicts(found.conflicts))


def told_conflicts(conflicts: Sequence[str], n_shown: int = 3) -> str:
    """The sentence for keys under which the store has another reply."""
    shown = ", ".join(key[:12] for key in conflicts[:n_shown])
    more = ", …" if len(conflicts) > n_shown else ""
    n = f"{len(conflicts):,} replies differ" if len(conflicts) > 1 else "1 reply differs"
    return f"{n} from what the store has, which stays: {shown}{more}"


def import_replies(store: GenerationStore, name: str, project: Path | None) -> Imported:
    """Takes over a shard, or that of a run.

    Args:
        store: Gets the rows that it lacks.
        name: A file, a folder, or within a project an experiment or a revision.
        project: The project's folder; None outside of one.

    Raises:
        InputError: There is no such thing, it has no shard, or the shard cannot be used.
    """
    if Path(name).is_file():
        return import_shard(store, Path(name), name)
    with replies_of(name, project) as found:
        if found.shard is None:
            raise InputError(
                name,
                f"has no {SHARD}: it is of an earlier version, or asked no model",
                mend="Where its store is, run: quorum store export FILE --run RUN",
            )
        return import_shard(store, found.shard, f"{name}: {SHARD}")


def export_replies(
    store: GenerationStore, to: Path, runs: Sequence[str], project: Path | None, *, force: bool
) -> tuple[int, int]:
    """Writes a shard of all rows, or of those that some runs rest on.

    Returns:
        How many rows were written, and how many of the runs' the store lacks.

    Raises:
        RefusedError: The file is there already, and nobody said that it may be replaced.
    """
    if to.exists() and not force:
        raise RefusedError(str(to), "is there already", mend="Name another file, or add --force")
    if not runs:
        return write_shard(to, store.packed()), 0
    wanted: set[str] = set()
    for name in runs:
        with replies_of(name, project) as found:
            wanted |= found.keys()
    n_rows = write_shard(to, store.packed(wanted))
    return n_rows, len(wanted) - n_rows


@contextmanager
def replies_of(name: str, project: Path | None) -> Iterator[Replies]:
    """The replies of a run; copies of a revision's files live as long as the context.

    Raises:
        InputError: There is no such run, it holds no replies, or they cannot be had.
    """
    folder = Path(name)
    if folder.is_dir():
        found = _in_folder(name, folder)
        if found is None:
            raise InputError(
                name, f"holds no replies: no {SHARD}", mend="Run: dvc repro, or dvc pull"
            )
        yield found
        return
    commit = None if project is None else commit_of(project, name)
    if project is None or commit is None:
        allowed = "a file, a folder" + ", an experiment or a revision" * (project is not None)
        raise InputError(name, "no such shard or run", allowed=allowed, mend="See: dvc exp list")
    with tempfile.TemporaryDirectory(prefix="quorum-") as to:
        yield _of_commit(project, commit, name, Path(to))


def _in_folder(name: str, folder: Path) -> Replies | None:
    for log, result in _LAYOUTS:
        shard = folder / log / SHARD
        if shard.is_file():
            return Replies(name, shard, folder / result)
        if (folder / result / "generations").is_dir():
            return Replies(name, None, folder / result)
    return None


def _of_commit(project: Path, commit: str, name: str, to: Path) -> Replies:
    """The replies of a commit; its results are copied only where it has no shard."""
    revision = Revision(project, commit, to)
    log, result = (path.as_posix() for path in _WORKSPACE)
    folder = revision.path(log)
    if folder is not None and (folder / SHARD).is_file():
        return Replies(name, folder / SHARD, to / result)
    if folder is None or revision.path(result) is None:
        raise InputError(name, "holds no replies: generate has not run")
    return Replies(name, None, to / result)


# What may go


@dataclass(frozen=True, slots=True)
class Roots:
    """What rests on the store.

    Args:
        keys: Keys of all replies that are needed.
        n_commits: Commits with replies of their own: of branches, tags and experiments.
        n_unfinished: Runs that have not come to their end.
    """

    keys: set[str]
    n_commits: int
    n_unfinished: int


def roots(project: Path, store: Path, *, force: bool) -> Roots:
    """What commits, the workspace and unfinished runs rest on.

    Args:
        project: The project's folder.
        store: The store, beside which the folders of runs lie.
        force: Leave out what cannot be found out, instead of refusing.

    Raises:
        RefusedError: It is unknown what a commit rests on; the first one is named.
    """
    commits = locked_outs(project, "generate")
    if commits is None and not force:
        raise RefusedError(
            artifacts.shown(project),
            "is in no git repository, so nobody knows which runs are wanted",
            mend="--force keeps the workspace, unfinished runs and what is young, nothing else",
        )
    keys: set[str] = set()
    n_commits = 0
    for locked in commits or ():
        found = _keys_of_commit(project, locked)
        if found is None and not force:
            raise RefusedError(
                f"commit {locked.commit[:10]}",
                "its replies are neither in DVC's cache nor in a remote, so what it rests on is"
                " unknown",
                mend="Run: dvc fetch --all-commits; or prune with --force, and pay for it again",
            )
        n_commits += found is not None
        keys |= found or set()
    workspace = _in_folder("workspace", project)
    keys |= workspace.keys() if workspace is not None else set()
    unfinished = list(_unfinished(store.parent / "runs"))
    for ledger in unfinished:
        keys |= _ledger_keys(ledger)
    return Roots(keys, n_commits, len(unfinished))


def _keys_of_commit(project: Path, locked: Locked) -> set[str] | None:
    if locked.outs is None:
        return None
    with tempfile.TemporaryDirectory(prefix="quorum-") as to:
        try:
            return _of_commit(project, locked.commit, locked.commit[:10], Path(to)).keys()
        except InputError:
            return None


def _unfinished(runs: Path) -> Iterator[Path]:
    """Ledgers of the runs without totals, which are written at the end of a run."""
    for ledger in sorted(runs.glob("*/usage.csv")):
        if not (ledger.parent / "usage.json").is_file():
            yield ledger


def _ledger_keys(ledger: Path) -> set[str]:
    """Keys of a ledger; a line that a crash has torn has none."""
    with ledger.open(encoding="utf-8", errors="replace", newline="") as file:
        found = {row["key"] for row in csv.DictReader(file) if row["key"]}
    return {key for key in found if is_key(key)}


def is_key(text: str) -> bool:
    """Whether a text is a request's key."""
    return len(text) == 64 and set(text) <= set("0123456789abcdef")


def days_ago(n_days: int) -> float:
    """The moment (Unix time) so many days ago."""
    return time.time() - n_days * _DAY_S
