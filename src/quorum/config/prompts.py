"""Do the chosen prompts and the settings go together: checked before anything is paid for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from quorum.attribution.snapshots import Snapshot, read_snapshots
from quorum.config.compose import Settings, input_path
from quorum.config.families import part_class
from quorum.config.schema import check_options
from quorum.errors import InputError, SettingsError


def check_prompts(root: Path, settings: Settings) -> None:
    """Reads the chosen file of prompts and refuses what a later stage could not use.

    Raises:
        SettingsError: The file lies outside data/ or is not there.
        InputError: A line cannot be read, or a snapshot lacks what the settings need.
    """
    section = cast("dict[str, Mapping[str, object]]", settings)
    path = input_path(root, str(section["input"]["path"]))
    snapshots = read_snapshots(path.read_bytes(), str(section["input"]["path"]))
    check_own_partitions(snapshots)
    check_targets(snapshots, settings)


def check_targets(snapshots: Sequence[Snapshot], settings: Settings) -> None:
    """Refuses a snapshot without the text that is to be explained, where one is.

    Raises:
        InputError: It names the first.
    """
    if cast("Mapping[str, object]", settings["value"])["reference"] != "target":
        return
    for snapshot in snapshots:
        if snapshot.target is None:
            raise InputError(
                f"snapshot {snapshot.id!r}",
                "has no target text to be explained",
                mend='Add "target" to it, or set value.reference=base',
            )


def check_own_partitions(snapshots: Sequence[Snapshot]) -> None:
    """Refuses a snapshot's own partition that cannot be made.

    Raises:
        InputError: It names the snapshot.
    """
    for snapshot in snapshots:
        if snapshot.partition is None:
            continue
        options = {k: v for k, v in snapshot.partition.items() if k not in {"name", "roles"}}
        try:
            part = part_class("partition", str(snapshot.partition["name"]))
            check_options("partition", part, options)
        except SettingsError as error:
            raise InputError(
                f"snapshot {snapshot.id!r}, {error.where}",
                error.what,
                got=error.got,
                allowed=error.allowed,
                mend=error.mend,
            ) from error
