"""Check a file of prompts or a survey, and make it a named input."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import yaml

from quorum.attribution.partitioners import Partitioner
from quorum.attribution.snapshots import read_snapshots
from quorum.config.families import FAMILIES, make, option_fields, part_class
from quorum.config.prompts import check_own_partitions
from quorum.errors import InputError, SettingsError
from quorum.reconstruction.reading import read_survey
from quorum.reconstruction.shares import ReadingRules
from quorum.reconstruction.survey import POPULATION

ROLES = ("user",)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a file holds: a row a snapshot (players by partitioner) or a row a question.

    Args:
        kind: ``prompts`` or ``survey``.
        title: What there is, in a few words.
        rows: The table to show.
        notes: What the reader recognised.
    """

    kind: str
    title: str
    rows: tuple[Mapping[str, object], ...]
    notes: tuple[str, ...] = ()


def check_file(path: Path) -> Checked:
    """Reads a file of prompts, or a survey: a CSV file with a column ``question_id``.

    Raises:
        InputError: The file cannot be read; the line says where and why.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})") from error
    if is_survey(path, content):
        return _check_survey(content, path.name)
    return _check_prompts(content, path.name)


def is_survey(path: Path, content: bytes) -> bool:
    """Whether a file looks like a survey: its first line names ``question_id``."""
    return path.suffix.lower() == ".csv" and b"question_id" in content.partition(b"\n")[0]


def _check_survey(content: bytes, name: str) -> Checked:
    survey = read_survey(content, name)
    shares = survey.targets.get(POPULATION) or next(iter(survey.targets.values()))
    rows = [
        {
            "question": q.id,
            "topic": q.topic,
            "options": len(q.options),
            "scale": "yes" if q.ordinal else "no",
            "n": None if q.id not in shares else shares[q.id].n,
        }
        for q in survey.questions
    ]
    n = len(rows)
    title = f"{n} question{'s' if n > 1 else ''}, targets: {', '.join(survey.targets)}"
    return Checked("survey", title, tuple(rows), survey.notes)


def _check_prompts(content: bytes, name: str) -> Checked:
    snapshots = tuple(read_snapshots(content, name))
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
    n = len(snapshots)
    return Checked("prompts", f"{n} snapshot{'s' if n > 1 else ''}", tuple(rows))


def write_input(root: Path, path: Path, name: str, facts: Mapping[str, str]) -> tuple[Path, Path]:
    """Copies the file to data/prompts/ or data/surveys/ and writes conf/input/NAME.yaml.

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
            mend="Say on what terms the file may be used, such as CC0-1.0, or 'private'",
        )
    config = root / "conf" / "input" / f"{name}.yaml"
    is_a_survey = is_survey(path, path.read_bytes())
    folder = "surveys" if is_a_survey else "prompts"
    copy = root / "data" / folder / f"{name}{path.suffix.lower()}"
    if config.exists():
        raise SettingsError("--write", "an input of this name is there already", got=name)
    if copy.resolve() != path.resolve():
        if copy.exists():
            raise SettingsError("--write", f"{copy.name} is there already in data/{folder}")
        shutil.copyfile(path, copy)
    record = {
        "name": name,
        "path": copy.relative_to(root).as_posix(),
        "kind": "survey" if is_a_survey else "prompts",
        **{key: facts[key] for key in ("title", "licence", "attribution", "citation")},
    }
    if is_a_survey:
        unknown = dict.fromkeys(("population", "field_dates", "mode"), "not stated")
        rules = {**asdict(ReadingRules()), "groups": None, "refused": None, **unknown}
        del rules["refusal_labels"]
        record |= rules
    text = yaml.safe_dump(record, sort_keys=False, allow_unicode=True)
    config.write_text(text, encoding="utf-8", newline="\n")
    return copy, config
