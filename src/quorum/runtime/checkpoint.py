"""The checkpoint of a paid run: a readable folder that is whole at every moment.

A save writes a new folder beside the old one, swaps the two by renaming, and removes the old one.
Killed between any two of these steps, the next look at the folder finds the old state or the new
one, never a mixture. ``state.json`` says what the run is (its identity: digests of settings and
inputs by name) and the SHA-256 of every other file.

A run saves its first checkpoint before its first call: from then on, usage rows without a
checkpoint mean that the checkpoint was lost.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from quorum.digests import canonical_json, text_digest
from quorum.errors import RefusedError

FOLDER = "active_generation.checkpoint"
STATE = "state.json"
SCHEMA = 1
_LOG = logging.getLogger(__name__)


def save(folder: Path, identity: Mapping[str, str], files: Mapping[str, str]) -> None:
    """Replaces the checkpoint as a whole.

    Args:
        folder: The checkpoint's folder; made with its parents where missing.
        identity: What the run is: name → digest; compared when it is loaded.
        files: Name → text; written in UTF-8 as they are.

    Raises:
        RefusedError: The disk is full, or the folder cannot be written.
    """
    assert STATE not in files
    new, old = _beside(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            os.mkdir(new)  # noqa: PTH102 - every step of a save goes through os (see the tests)
            for name in sorted(files):
                _write(new / name, files[name])
            _write(new / STATE, _state_text(identity, files))
            _sync(new)
            if folder.exists():
                os.rename(folder, old)  # noqa: PTH104
            os.rename(new, folder)  # noqa: PTH104
            _sync(folder.parent)
            _remove(old)
    except OSError as error:
        raise RefusedError(
            str(folder),
            f"the checkpoint cannot be written: {error}",
            mend="Free disk space and run the same command again: what is done is kept",
        ) from error


def load(folder: Path, identity: Mapping[str, str]) -> dict[str, str] | None:
    """The files of the last save, by name; None where nothing was ever saved.

    Raises:
        RefusedError: The checkpoint is damaged, of another schema, or of another run (the
            differing keys are named).
    """
    try:
        with _locked(folder, is_reader=True):
            if not folder.is_dir():
                return None
            state, files = _read(folder)
    except OSError as error:
        raise RefusedError(
            str(folder),
            f"the checkpoint cannot be read: {error}",
            mend="Mend the folder's permissions and run the same command again",
        ) from error
    saved = state["identity"]
    assert isinstance(saved, dict)
    if differing := _differing(saved, identity):
        raise RefusedError(
            str(folder),
            f"belongs to another run: {', '.join(differing)} differ",
            mend="Undo the change, or name no folder to resume from: a changed run gets its own",
        )
    return files


def resume(
    run: Path, identity: Mapping[str, str], explicit: Path | None = None
) -> dict[str, str] | None:
    """What a run starts from; the whole table of resumptions.

    | found | outcome |
    |---|---|
    | no checkpoint, no usage rows | None: a fresh start |
    | a checkpoint of this run | its files |
    | ``explicit`` with a checkpoint of this run | its files, whatever ``run`` holds |
    | ``explicit`` with the checkpoint of another run | refused, with the keys that differ |
    | ``explicit`` without any checkpoint | refused |
    | usage rows, no checkpoint | refused: what was paid for would be mixed with a new run |
    | a damaged checkpoint | refused, with the file |

    Args:
        run: The run's folder: holds the ledger (usage.csv) and the checkpoint.
        identity: What the run is.
        explicit: A folder that the user names (``runtime.resume``): a checkpoint or its parent.

    Raises:
        RefusedError: See the table; each row has its own message.
    """
    if explicit is not None:
        is_run = (explicit / FOLDER).is_dir() or explicit.name != FOLDER
        found = load(explicit / FOLDER if is_run else explicit, identity)
        if found is None:
            raise RefusedError(
                "runtime.resume",
                "there is no checkpoint in the folder",
                got=str(explicit),
                allowed=f"a folder named {FOLDER}, or the one that holds it",
                mend="Leave runtime.resume empty: the same settings find their own checkpoint",
            )
        return found
    found = load(run / FOLDER, identity)
    if found is None and (n_rows := _usage_rows(run / "usage.csv")):
        raise RefusedError(
            str(run / "usage.csv"),
            f"{n_rows} calls are booked, but their checkpoint is gone",
            mend=f"Bring {FOLDER} back, or move usage.csv aside to start afresh: replies that "
            "are in the store are not paid for again",
        )
    return found


# Reading


def _read(folder: Path) -> tuple[dict[str, object], dict[str, str]]:
    state = _read_state(folder)
    if state.get("schema") != SCHEMA:
        raise RefusedError(
            str(folder / STATE),
            "is of another version",
            got=state.get("schema"),
            allowed=str(SCHEMA),
            mend="Use the release that wrote it, or move the folder aside",
        )
    digests = state["sha256"]
    assert isinstance(digests, dict)
    files = {}
    for name, expected in sorted(digests.items()):
        text = _read_text(folder / name)
        if text is None or text_digest(text) != expected:
            raise _damaged(folder / name)
        files[name] = text
    return state, files


def _read_state(folder: Path) -> dict[str, object]:
    text = _read_text(folder / STATE)
    try:
        state = json.loads(text or "")
    except ValueError as error:
        raise _damaged(folder / STATE) from error
    rest = {k: v for k, v in state.items() if k != "digest"} if isinstance(state, dict) else {}
    if not rest or state.get("digest") != text_digest(canonical_json(rest)):
        raise _damaged(folder / STATE)
    return rest


def _read_text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "surrogatepass")
    except (FileNotFoundError, UnicodeDecodeError):
        return None


def _damaged(path: Path) -> RefusedError:
    return RefusedError(
        str(path),
        "the checkpoint is damaged: its content does not fit its digest",
        mend="Bring the file back from a copy, or move the checkpoint and usage.csv aside: "
        "replies that are in the store are not paid for again",
    )


def _differing(saved: Mapping[str, str], identity: Mapping[str, str]) -> list[str]:
    return sorted(k for k in {*saved, *identity} if saved.get(k) != identity.get(k))


def _usage_rows(path: Path) -> int:
    if not path.exists():
        return 0
    lines = path.read_bytes().split(b"\n")
    return sum(bool(line.strip()) for line in lines[1:])


# Writing


def _beside(folder: Path) -> tuple[Path, Path]:
    return folder.with_name(folder.name + ".new"), folder.with_name(folder.name + ".old")


def _recover(folder: Path) -> None:
    """Brings the folder to its last whole state, wherever a save was cut off."""
    new, old = _beside(folder)
    if not folder.is_dir() and old.is_dir():  # killed between the two renames: new is whole
        os.rename(new if new.is_dir() else old, folder)  # noqa: PTH104
        _LOG.warning("%s: a save that was cut off was completed", folder)
    _remove(new)
    _remove(old)


def _state_text(identity: Mapping[str, str], files: Mapping[str, str]) -> str:
    state: dict[str, object] = {
        "schema": SCHEMA,
        "identity": dict(identity),
        "sha256": {name: text_digest(text) for name, text in files.items()},
    }
    state["digest"] = text_digest(canonical_json(state))
    return json.dumps(state, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        content = memoryview(text.encode("utf-8", "surrogatepass"))
        while content:
            content = content[os.write(file, content) :]
        os.fsync(file)
    finally:
        os.close(file)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _remove(folder: Path) -> None:
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        os.unlink(path)  # noqa: PTH108
    os.rmdir(folder)  # noqa: PTH106


@contextmanager
def _locked(folder: Path, *, is_reader: bool = False) -> Iterator[None]:
    """One process at a time looks at, mends or replaces the checkpoint.

    Nothing was ever saved where there is no lock file: a reader leaves such a folder (a copy)
    as it is.
    """
    lock = folder.with_name(folder.name + ".lock")
    if is_reader and not lock.exists():
        yield
        return
    file = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        _recover(folder)
        yield
    finally:
        os.close(file)
