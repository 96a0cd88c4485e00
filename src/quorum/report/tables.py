r"""Tables of the report as CSV text: fixed columns, ``\n``, undefined as an empty cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from quorum.report.document import read_attribution
from quorum.report.escape import storable_text

Cell = str | int | float | None

ATTRIBUTION_COLUMNS = ("snapshot", "player", "text", "role", "value", "raw_value", "se", "rank")


def attribution_rows(attributions: Iterable[Mapping[str, object]]) -> list[dict[str, Cell]]:
    """The long table: a row a player, in the order of the prompt, columns ATTRIBUTION_COLUMNS.

    ``rank`` 1 is the highest raw value, ties go by player index; null where there is no value.
    ``se`` is the standard error of ``raw_value``.
    """
    rows: list[dict[str, Cell]] = []
    for source in attributions:
        attribution = read_attribution(source)
        ranks = {index: rank for rank, index in enumerate(attribution.ranking(), start=1)}
        rows.extend(
            {
                "snapshot": attribution.snapshot,
                "player": player.index,
                "text": player.text,
                "role": player.role,
                "value": attribution.values[index],
                "raw_value": attribution.raw_values[index],
                "se": attribution.standard_errors[index],
                "rank": ranks[index] if attribution.raw_values[index] is not None else None,
            }
            for index, player in enumerate(attribution.players)
        )
    return rows


def attributions_csv(attributions: Iterable[Mapping[str, object]]) -> str:
    """The text of ``attributions.csv``: for machines, cells unchanged."""
    return csv_text(ATTRIBUTION_COLUMNS, attribution_rows(attributions))


def csv_text(
    columns: Sequence[str], rows: Iterable[Mapping[str, Cell]], *, spreadsheet: bool = False
) -> str:
    r"""Rows as CSV: header, ``\n`` line ends, numbers in full precision, None as nothing.

    Args:
        columns: The columns, in their order.
        rows: Each row holds every column and nothing else.
        spreadsheet: Guard text cells against being run as formulas (``guard_cell``).

    Raises:
        ValueError: A row has a column too many or too few.
    """
    stream = io.StringIO()
    minimal = csv.writer(stream, lineterminator="\n")
    # A lone carriage return ends a row for most readers, and the csv module leaves it bare.
    quoted = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    guard = guard_cell if spreadsheet else _same
    minimal.writerow([guard(column) for column in columns])
    for row in rows:
        if set(row) != set(columns):
            raise ValueError(f"columns {sorted(row)} are not {sorted(columns)}")
        cells = [_stored(guard(row[column])) for column in columns]
        has_return = any(isinstance(cell, str) and "\r" in cell for cell in cells)
        (quoted if has_return else minimal).writerow(cells)
    return stream.getvalue()


def guard_cell(cell: Cell) -> Cell:
    """A cell that a spreadsheet does not run: text that starts a formula gets a leading ``'``.

    Text starting with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return is guarded, also
    behind white space; numbers stay numbers.

    Source: OWASP, CSV Injection.
    """
    if not isinstance(cell, str):
        return cell
    starts = cell.lstrip()[:1] in {"=", "+", "-", "@", "＝", "＋", "－", "＠"}
    return f"'{cell}" if starts or cell[:1] in {"\t", "\r"} else cell


def _same(cell: Cell) -> Cell:
    return cell


def _stored(cell: Cell) -> Cell:
    return storable_text(cell) if isinstance(cell, str) else cell
