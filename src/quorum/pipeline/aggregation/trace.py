"""``quorum trace``: from a cell of a table back to its runs and metric records, and recomputed."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from quorum.config.families import nearest
from quorum.digests import text_digest
from quorum.errors import InputError, RefusedError
from quorum.pipeline.aggregation.files import SCHEMA, TABLES, TRACE
from quorum.pipeline.aggregation.layout import LEFT_OUT
from quorum.pipeline.aggregation.statistics import statistics
from quorum.pipeline.artifacts import shown
from quorum.pipeline.run_files import read_object
from quorum.report.aggregation_tables import FIRST_ROW, letters

TOLERANCE = 1e-9  # relative; other versions of numpy and scipy may differ in the last digits
CONTRASTS = "contrasts.csv"
Found = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Trace:
    """A cell and what it came from.

    Args:
        table: The file that it stands in.
        address: Such as ``C2``.
        cell: Its entry in trace.json.
        value: Recomputed from the records: equal to the entry's.
        runs: Rows name, run id, revision.
        records: Rows of records.csv.
    """

    table: str
    address: str
    cell: Found
    value: float | int | None
    runs: Sequence[Mapping[str, object]]
    records: Sequence[Mapping[str, str]]


def trace(table: Path, names: Sequence[str]) -> Trace:
    """Finds a cell and recomputes its value from the records.

    Args:
        table: The folder of an aggregation, or one of its table files.
        names: The cell's address, or the names of its row and of its column.

    Raises:
        InputError: There is no such table or cell, or a file of it cannot be read.
        RefusedError: The value does not follow from the records, or a file was changed.
    """
    folder, file = _place(table)
    found = read_object(folder / TRACE, shown(folder / TRACE))
    if found.get("schema") != SCHEMA:
        where = shown(folder / TRACE)
        raise InputError(where, "is no trace", got=found.get("schema"), allowed=SCHEMA)
    part = "contrasts" if file == CONTRASTS else "table"
    cells = cast("Mapping[str, Found]", found[part])
    address = _address(cells, names, part)
    cell = cells[address]
    where = f"{shown(folder / file)}: {address}"
    rows = _records(folder)
    records = [_of(rows, name, where) for name in (*_list(cell, "records"), *_list(cell, "minus"))]
    value = _recomputed(cell, rows, cast("float", found["level"]), where)
    _check_agrees(where, cell["value"], value, "the records")
    if part == "contrasts" or (folder / TABLES["csv"]).is_file():
        own = CONTRASTS if part == "contrasts" else TABLES["csv"]
        _check_agrees(where, cell["value"], _printed(folder / own, address), own)
    for name in sorted({file, "records.csv"}):
        _check_unchanged(folder / name, cast("Mapping[str, str]", found["files"]))
    runs = cast("Mapping[str, Mapping[str, object]]", found["runs"])
    return Trace(
        table=file,
        address=address,
        cell=cell,
        value=value,
        runs=[{"run": label, **runs[label]} for label in _list(cell, "runs")],
        records=records,
    )


def _place(table: Path) -> tuple[Path, str]:
    """The folder, and which of its tables."""
    tables = (*TABLES.values(), CONTRASTS)
    if table.is_dir():
        here = next((name for name in tables if (table / name).is_file()), None)
        if here is None or not (table / TRACE).is_file():
            raise InputError(
                shown(table), "holds no aggregation", mend="Run: quorum aggregate --config SPEC"
            )
        return table, here
    if not table.is_file():
        raise InputError(shown(table), "no such table", allowed="a folder, or a table in it")
    if table.name not in tables:
        raise InputError(shown(table), "is no table", allowed=", ".join(tables))
    return table.parent, table.name


def _address(cells: Mapping[str, Found], names: Sequence[str], part: str) -> str:
    if not cells:
        raise InputError("TABLE", "has no cells", allowed="a table with rows")
    if len(names) == 1:
        if names[0].upper() in cells:
            return names[0].upper()
        raise InputError(
            "CELL",
            f"no number of the {part} stands there",
            got=names[0],
            allowed=f"{next(iter(cells))} to {[*cells][-1]}, or the names of a row and a column",
        )
    row, column = names
    rows = list(dict.fromkeys(str(cell["row"]) for cell in cells.values()))
    columns = list(dict.fromkeys(str(cell["column"]) for cell in cells.values()))
    for what, name, known in (("row", row, rows), ("column", column, columns)):
        if name not in known:
            raise InputError(
                "CELL",
                f"no {what} has this name",
                got=name,
                allowed=" | ".join(known),
                mend=nearest(name, known),
            )
    return next(
        address
        for address, cell in cells.items()
        if cell["row"] == row and cell["column"] == column
    )


def _records(folder: Path) -> dict[str, dict[str, str]]:
    text = _text(folder / "records.csv")
    return {row["record"]: row for row in csv.DictReader(io.StringIO(text, newline=""))}


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            shown(path), "cannot be read", mend="Run quorum aggregate again"
        ) from error


def _of(rows: Mapping[str, Mapping[str, str]], name: str, where: str) -> Mapping[str, str]:
    if name not in rows:
        raise RefusedError(
            where, "records.csv lacks a record of this cell", got=name, mend=_CHANGED
        )
    return rows[name]


_CHANGED = "Files were changed by hand: run quorum aggregate again"


def _recomputed(
    cell: Found, rows: Mapping[str, Mapping[str, str]], level: float, where: str
) -> float | int | None:
    records, minus = _list(cell, "records"), _list(cell, "minus")
    if cell["statistic"] in LEFT_OUT:
        return len(records)
    values = [_value(_of(rows, name, where), where) for name in records]
    if minus:
        others = [_value(_of(rows, name, where), where) for name in minus]
        values = [one - other for one, other in zip(values, others, strict=True)]
    found = statistics(values, len(_list(cell, "runs")), level)
    return found[str(cell["statistic"])].value


def _value(row: Mapping[str, str], where: str) -> float:
    try:
        value = float(row["value"])
    except ValueError as error:
        raise RefusedError(
            where, f"record {row['record']} has no value", got=row["value"], mend=_CHANGED
        ) from error
    if not math.isfinite(value):
        raise RefusedError(
            where, f"record {row['record']} is not finite", got=row["value"], mend=_CHANGED
        )
    return value


def _printed(path: Path, address: str) -> float | None:
    """What stands at an address of a CSV file."""
    rows = list(csv.reader(io.StringIO(_text(path), newline="")))
    name = address.rstrip("0123456789")
    line = int(address.removeprefix(name)) - FIRST_ROW + 1
    column = next(index for index in range(len(rows[0])) if letters(index) == name)
    text = rows[line][column]
    try:
        return float(text) if text else None
    except ValueError as error:
        raise RefusedError(
            f"{shown(path)}: {address}", "is no number", got=text, mend=_CHANGED
        ) from error


def _check_agrees(where: str, told: object, value: float | None, source: str) -> None:
    if told is None or value is None:
        agrees = told is None and value is None
    else:
        agrees = math.isclose(cast("float", told), value, rel_tol=TOLERANCE, abs_tol=1e-300)
    if not agrees:
        raise RefusedError(
            where,
            f"does not agree with {source}",
            got=told if told is not None else "null",
            allowed=repr(value) if value is not None else "null",
            mend=_CHANGED,
        )


def _check_unchanged(path: Path, digests: Mapping[str, str]) -> None:
    if text_digest(_text(path)) != digests.get(path.name):
        raise RefusedError(shown(path), "was changed since it was made", mend=_CHANGED)


def _list(cell: Found, key: str) -> list[str]:
    return cast("list[str]", cell[key])
