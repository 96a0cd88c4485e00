"""Check a file of prompts, and make it a named input."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import yaml

from quorum.attribution.partitioners import Partitioner
from quorum.attribution.snapshots import Snapshot, read_snapshots
from quorum.config.families import FAMILIES, make, option_fields, part_class
from quorum.config.prompts import check_own_partitions
from quorum.errors import InputError, SettingsError

ROLES = ("user",)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a file of prompts holds: a row a snapshot, players by partitioner."""

    snapshots: tuple[Snapshot, ...]
    rows: tuple[Mapping[str, object], ...]


def check_file(path: Path) -> Checked:
    """Reads a file of prompts and counts its players.

    Raises:
        InputError: The file cannot be read as prompts; the line says where and why.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})") from error
    snapshots = tuple(read_snapshots(content, path.name))
    check_own_partitions(snapshots)
    names = [n for n in FAMILIES["partition"] if not option_fields(part_class("partition", n))]
    parts = {
        name: cast("Partitioner", make("partition", name, {})) for name in names if name != "spans"
    }
    rows = [
        {
            "snapshot": s.id,
            "messages": len(s.messages),
            "characters": sum(len(m.content) for m in s.messages),
            **{name: len(part.spans(s, ROLES)) for name, part in parts.items()},
        }
        for s in snapshots
    ]
    return Checked(snapshots, tuple(rows))


def write_input(root: Path, path: Path, name: str, facts: Mapping[str, str]) -> tuple[Path, Path]:
    """Copies the file to data/prompts/ and writes conf/input/NAME.yaml.

    Args:
        root: The project's folder.
        path: A file that ``check_file`` has read.
        name: The input's name.
        facts: title, licence, attribution and citation.

    Returns:
        The copy and the YAML file.

    Raises:
        SettingsError: The name cannot be used or is taken, or the licence is missing.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,40}", name):
        raise SettingsError(
            "--write",
            "not a name for an input",
            got=name,
            allowed="lower-case letters, digits, - and _",
        )
    if not facts["licence"]:
        raise SettingsError(
            "--licence",
            "is missing",
            mend="Say on what terms the prompts may be used, such as CC0-1.0, or 'private'",
        )
    config = root / "conf" / "input" / f"{name}.yaml"
    copy = root / "data" / "prompts" / f"{name}{path.suffix.lower()}"
    if config.exists():
        raise SettingsError("--write", "an input of this name is there already", got=name)
    if copy.resolve() != path.resolve():
        if copy.exists():
            raise SettingsError("--write", f"{copy.name} is there already in data/prompts")
        shutil.copyfile(path, copy)
    record = {
        "name": name,
        "path": copy.relative_to(root).as_posix(),
        "kind": "prompts",
        **{key: facts[key] for key in ("title", "licence", "attribution", "citation")},
    }
    text = yaml.safe_dump(record, sort_keys=False, allow_unicode=True)
    config.write_text(text, encoding="utf-8", newline="\n")
    return copy, config
