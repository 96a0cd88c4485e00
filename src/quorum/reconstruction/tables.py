"""Tables of survey data: CSV bytes to rows with line numbers, and nothing lost on the way.

A cell is a text: ``NA``, ``None``, ``null`` and ``nan`` are texts, ``007`` keeps its zeros, and
only an empty cell is missing. White space around a cell does not count; inside it does.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from quorum.errors import InputError, SettingsError

_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32 LE"),  # before UTF-16 LE, which begins in the same way
    (codecs.BOM_UTF32_BE, "UTF-32 BE"),
    (codecs.BOM_UTF16_LE, "UTF-16 LE"),
    (codecs.BOM_UTF16_BE, "UTF-16 BE"),
)
_DELIMITERS = {";": "semicolon", "\t": "tab", "|": "vertical bar"}
_LISTED = 5  # names that an error shows
_MAX_CELL = 1 << 20  # characters; csv's own limit of 131,072 would stop a long text


@dataclass(frozen=True, slots=True)
class Row:
    """One record: the line that it begins on (from 1) and its cells by column."""

    line: int
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Table:
    """A file's rows, none of them blank, and its columns in order."""

    where: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def at(self, row: Row, column: str | None = None) -> str:
        """The address of a row, or of one of its cells, for an error."""
        return f"{self.where}:{row.line}" + (f", column {column}" if column else "")


def read_table(
    content: bytes,
    where: str,
    *,
    required: Sequence[str],
    known: Sequence[str] | None = (),
    encoding: str = "utf-8",
) -> Table:
    """The table of a CSV file: comma, double quotes, one header row, any kind of line end.

    Args:
        content: The file's bytes, with or without a byte order mark.
        where: The file's name, for errors.
        required: Columns that must be there.
        known: Further columns that have a meaning; one spelled nearly like them is an error.
            None: columns bear names of the file's own, such as question ids.
        encoding: How the bytes are to be read.

    Raises:
        InputError: The bytes are not in that encoding, the delimiter is another one, a column is
            missing, stands twice or is misspelled, a row has too few or too many cells.
        SettingsError: There is no such encoding.
    """
    text = _decoded(content, where, encoding)
    records = _records(text, where)
    line, header = next(records, (1, []))
    columns = tuple(cell.strip() for cell in header)
    _check_header(columns, f"{where}:{line}", required, known)
    rows = tuple(Row(n, _cells(columns, cells, f"{where}:{n}")) for n, cells in records)
    if not rows:
        raise InputError(where, "has a header but no row", mend="Add the data below the header")
    return Table(where, columns, rows)


def _decoded(content: bytes, where: str, encoding: str) -> str:
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise SettingsError(
            "encoding",
            "there is no such encoding",
            got=encoding,
            allowed="utf-8, cp1252, latin-1 and the others that Python knows",
        ) from None
    if name in ("utf-8", "utf-8-sig"):
        for mark, kind in _MARKS:
            if content.startswith(mark):
                raise InputError(
                    where,
                    f"not UTF-8 but {kind} (byte order mark at offset 0)",
                    mend=f"Save it as UTF-8, or read it with input.encoding: {kind[:6].lower()}",
                )
    try:
        text = content.decode(name)
    except UnicodeDecodeError as error:
        raise _undecodable(content, where, name, error) from None
    return text.removeprefix("\ufeff")


def _undecodable(content: bytes, where: str, name: str, error: UnicodeDecodeError) -> InputError:
    line = content.count(b"\n", 0, error.start) + 1
    byte = content[error.start : error.start + 1]
    guess = byte.decode("cp1252", "replace")
    hint = f" (in Windows-1252 that byte is {guess})" if guess != "\ufffd" else ""
    shown = "UTF-8" if name.startswith("utf-8") else name
    return InputError(
        f"{where}:{line}",
        f"not {shown}: byte 0x{byte.hex()} at byte offset {error.start}",
        mend=f"Read it with input.encoding: cp1252{hint}, or save it as UTF-8"
        if shown == "UTF-8"
        else "Name the encoding that it was saved in: input.encoding",
    )


def _records(text: str, where: str) -> Iterator[tuple[int, list[str]]]:
    """Records that are not blank, each with the line that it begins on."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        before = csv.field_size_limit(_MAX_CELL)  # the limit is the process's
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(
                f"{where}:{line}",
                f"not CSV: {error}",
                mend="Put a text that holds a comma, a quote or a line break between double quotes,"
                ' and write a quote inside it as ""',
            ) from None
        finally:
            csv.field_size_limit(before)
        if any(cell.strip() for cell in record):
            yield line, record


def _check_header(
    columns: Sequence[str], at: str, required: Sequence[str], known: Sequence[str] | None
) -> None:
    if not columns:
        raise InputError(at, "the file is empty", mend=f"Begin with {','.join(required)}")
    if len(columns) == 1:
        for delimiter, name in _DELIMITERS.items():
            if delimiter in columns[0]:
                raise InputError(
                    at,
                    f"the cells are separated by {name}s ({delimiter!r})",
                    allowed="commas",
                    mend="Save the table as CSV with commas",
                )
    for number, column in enumerate(columns, start=1):
        if not column:
            raise InputError(at, f"column {number} has no name", mend="Name it, or delete it")
        if column in columns[: number - 1]:
            raise InputError(at, "a column stands twice", got=column)
    missing = [column for column in required if column not in columns]
    if missing:
        raise InputError(
            at,
            f"no column {', '.join(missing)}",
            got=list(columns),
            mend=f"Name the columns as in {','.join(required)}",
        )
    if known is not None:
        _check_spelling(columns, at, [*required, *known])


def _check_spelling(columns: Sequence[str], at: str, known: Sequence[str]) -> None:
    for column in columns:
        if column not in known and (near := get_close_matches(column, known, n=1)):
            raise InputError(
                at, "unknown column", got=column, allowed=", ".join(known),
                mend=f"Did you mean {near[0]}?",
            )  # fmt: skip


def _cells(columns: Sequence[str], record: Sequence[str], at: str) -> dict[str, str]:
    if len(record) != len(columns):
        raise InputError(
            at,
            f"{len(record)} cells where the header has {len(columns)} columns",
            mend="Put a text that holds a comma between double quotes"
            if len(record) > len(columns)
            else "Give every column a cell, even an empty one",
        )
    return {column: cell.strip() for column, cell in zip(columns, record, strict=True)}


def listed(names: Sequence[str]) -> str:
    """The first names of a list, quoted, and how many there are beyond them."""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(repr(name) for name in names[:_LISTED]) + more
