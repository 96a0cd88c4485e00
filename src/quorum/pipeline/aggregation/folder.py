"""The folder of an aggregation: written as a whole or not at all, and never over something else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from quorum.errors import InputError, RefusedError
from quorum.pipeline.aggregation.files import NAMES_OF_FILES, SPECIFICATION, TRACE
from quorum.pipeline.artifacts import shown, write_text


def check_target(folder: Path, read: Iterable[Path]) -> None:
    """Refuses a folder that holds anything but an earlier aggregation.

    Args:
        folder: Where the tables are to be written.
        read: Folders in which files of the source runs lie.

    Raises:
        RefusedError: It holds something else, is no folder, or lies inside a source run.
        InputError: It cannot be read.
    """
    whole = folder.resolve()
    for source in read:
        if whole.is_relative_to(source):
            raise RefusedError(
                shown(folder),
                "lies inside a run that is read, and those are never written to",
                mend="Name another folder with --to",
            )
    if not os.path.lexists(folder):
        return
    try:
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else {folder.name}
    except OSError as error:
        raise InputError(shown(folder), f"cannot be read ({error.strerror})") from error
    is_earlier = {SPECIFICATION, TRACE} <= names <= set(NAMES_OF_FILES)
    if names and not (folder.is_dir() and is_earlier):
        raise RefusedError(
            shown(folder),
            "holds something else than an earlier aggregation",
            got=min(names - set(NAMES_OF_FILES), default=min(names)),
            mend="Name another folder with --to",
        )


def write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Writes all files beside the folder and puts them into its place.

    Raises:
        InputError: The place cannot be written.
    """
    new = folder.with_name(f".{folder.name}.{os.getpid()}.new")
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        for name, text in files.items():
            write_text(new / name, text)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    except OSError as error:
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise InputError(shown(folder), f"cannot be written ({error.strerror})") from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
