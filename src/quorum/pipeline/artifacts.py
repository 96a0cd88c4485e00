r"""Files of a run: their names, and how they are read and written.

Every file is written under a temporary name and renamed, in UTF-8 with ``\n``, sorted keys and a
fixed order, so that equal results have equal bytes.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from quorum.errors import InputError

PARTITION = Path("data/partition/result")
GENERATE = Path("data/generate/result")
GENERATE_LOG = Path("data/generate/log")
SCORE = Path("data/score/result")
AGGREGATE = Path("data/aggregate/result")
AGGREGATE_LOG = Path("data/aggregate/log")
BUDGET = Path("data/budget/result")
REPORT = Path("data/report")
SETTINGS = Path("data/settings")


def fresh_folder(path: Path) -> Path:
    """An empty folder: DVC removes outputs before a stage, a run by hand must do so too."""
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def write_text(path: Path, text: str) -> None:
    """A text file, complete or not there at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8", errors="surrogatepass", newline="\n")
    temporary.replace(path)


def json_text(value: object) -> str:
    """Readable JSON with sorted keys; NaN and infinity are errors."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def jsonl_text(rows: Iterable[Mapping[str, object]]) -> str:
    """One JSON object a line, keys sorted."""
    return "".join(
        json.dumps(row, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n" for row in rows
    )


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """CSV with a fixed column order; null is an empty cell."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({key: "" if row[key] is None else _cell(row[key]) for key in columns})
    return out.getvalue()


def _cell(value: object) -> object:
    return repr(value) if isinstance(value, float) else value


def shown(path: Path) -> str:
    """A path as a user reads it: relative to the project's folder."""
    return os.path.relpath(path)


def read_json(path: Path) -> dict[str, object]:
    """A JSON object.

    Raises:
        InputError: The file is missing or not JSON.
    """
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(shown(path), "is missing", mend="Run: dvc repro, or dvc pull") from error
    except ValueError as error:
        raise InputError(shown(path), f"is not JSON ({error})", mend="Run: dvc repro -f") from error
    assert isinstance(loaded, dict)
    return loaded


def read_jsonl(path: Path) -> list[dict[str, object]]:
    """JSON objects, one a line.

    Raises:
        InputError: The file is missing, or a line of it is not JSON.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="surrogatepass")
    except FileNotFoundError as error:
        raise InputError(shown(path), "is missing", mend="Run: dvc repro, or dvc pull") from error
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line:
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                where = f"{shown(path)}:{number}"
                raise InputError(where, "is not JSON", mend="Run: dvc repro -f") from error
    return rows


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file, every cell a text."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError as error:
        raise InputError(shown(path), "is missing", mend="Run: dvc repro, or dvc pull") from error
