"""Snapshots: the prompts to be explained, read from JSONL or CSV as a function of content.

A snapshot is an immutable conversation. Nothing here opens a file: `read_snapshots` is given the
bytes and the file's name, and every complaint carries that name and a line number. Texts are
taken literally: no stripping, no Unicode normalisation, and `NA`, `None`, `null` are texts.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from quorum.digests import digest
from quorum.errors import Bare, InputError
from quorum.records import Message

T = TypeVar("T")

ROLES = ("system", "user", "assistant")
_KEYS = ("id", "messages", "spans", "target", "partition")
_COLUMNS = ("id", "prompt", "system", "target")
_SURROGATE = re.compile("[\ud800-\udfff]")
_EXAMPLE = '{"id": "a", "messages": [{"role": "user", "content": "…"}]}'


@dataclass(frozen=True, slots=True)
class Span:
    """Characters start..end (end excluded) of the content of one message (index from 0)."""

    message: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A conversation to be explained.

    Args:
        id: Its name, unique in its file.
        messages: The turns, in order.
        spans: Players given by the author, in text order; None where there are none.
        target: A text to be explained instead of the base generation.
        partition: Its own partitioner, ``{"name": …, option: …, "roles": […]}``, used instead of
            the experiment's.
    """

    id: str
    messages: tuple[Message, ...]
    spans: tuple[Span, ...] | None = None
    target: str | None = None
    partition: Mapping[str, object] | None = None

    @property
    def digest(self) -> str:
        """SHA-256 (64 hex digits) over roles and texts, in order; the id does not count."""
        return digest([[m.role, m.content] for m in self.messages])


def read_snapshots(text: bytes | str, name: str) -> list[Snapshot]:
    """The snapshots of a JSONL or CSV file, in file order.

    A snapshot without an id gets ``s-`` and 12 hex digits of a digest of its content, so that
    moving or inserting lines changes no id.

    Args:
        text: The file's content; bytes must be UTF-8, with or without a byte order mark.
        name: The file's name; its ending (``.jsonl``, ``.ndjson``, ``.csv``) says the format.

    Raises:
        InputError: The content cannot be used; the error names file, line and mend.
    """
    content = _decode(text, name) if isinstance(text, bytes) else text
    content = content.removeprefix("\ufeff")
    ending = name.lower().rpartition(".")[2]
    if ending in ("jsonl", "ndjson"):
        rows = _jsonl_rows(content, name)
    elif ending == "csv":
        rows = _csv_rows(content, name)
    else:
        raise InputError(
            name, "unknown kind of prompt file", got=ending, allowed=".jsonl, .ndjson, .csv"
        )
    return _unique(rows, name)


def _unique(rows: Iterator[tuple[int, Snapshot]], name: str) -> list[Snapshot]:
    seen: dict[str, int] = {}
    snapshots: list[Snapshot] = []
    for line, snapshot in rows:
        first = seen.setdefault(snapshot.id, line)
        if first != line:
            raise InputError(
                f"{name}:{line}",
                f"the id stands on line {first} already",
                got=snapshot.id,
                mend="Give each snapshot its own id, or drop one of the two lines",
            )
        snapshots.append(snapshot)
    if not snapshots:
        raise InputError(name, "no snapshot in it", mend=f"Write one a line, as in {_EXAMPLE}")
    return snapshots


def _decode(data: bytes, name: str) -> str:
    for mark, encoding in ((b"\xff\xfe", "UTF-16 LE"), (b"\xfe\xff", "UTF-16 BE")):
        if data.startswith(mark):
            raise InputError(
                name,
                f"not UTF-8 but {encoding} (byte order mark at offset 0)",
                mend="Save as UTF-8",
            )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name}:{line}",
            f"not UTF-8: byte 0x{data[error.start]:02x} at byte offset {error.start}",
            mend="Save the file as UTF-8 (such a byte is often Windows-1252 or Latin-1)",
        ) from None


# -- JSONL --------------------------------------------------------------------------------------


def _jsonl_rows(content: str, name: str) -> Iterator[tuple[int, Snapshot]]:
    for line, text in enumerate(content.split("\n"), start=1):
        if text.strip():
            where = f"{name}:{line}"
            yield line, _snapshot(_json_object(text.removesuffix("\r"), where), where)


def _json_object(text: str, where: str) -> dict[str, object]:
    try:
        value = json.loads(text, object_pairs_hook=_no_twins, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(
            where, f"not JSON: {error.msg} at column {error.colno}", mend=f"Write {_EXAMPLE}"
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(where, f"not usable JSON: {error}", mend=f"Write {_EXAMPLE}") from None
    return _typed(value, dict, where, "the line", "an object")


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        twin = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twin!r} stands twice in one object")
    return result


def _no_constant(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON number")


def _snapshot(row: Mapping[str, object], where: str) -> Snapshot:
    _only_known(row, _KEYS, where)
    if "messages" not in row:
        raise InputError(where, "the key 'messages' is missing", mend=f"Write {_EXAMPLE}")
    given = _typed(row["messages"], list, where, "messages", "a list")
    if not given:
        raise InputError(where, "messages is empty", mend="A snapshot needs at least one message")
    messages = tuple(_message(m, i, where) for i, m in enumerate(given))
    spans = None if row.get("spans") is None else _spans(row["spans"], messages, where)
    target = None if row.get("target") is None else _text(row["target"], "target", where)
    own = row.get("partition")
    partition = None if own is None else _partition(own, where)
    chosen = None if row.get("id") is None else _text(row["id"], "id", where)
    return _named(chosen, messages, spans, target, partition)


def _named(
    chosen: str | None,
    messages: tuple[Message, ...],
    spans: tuple[Span, ...] | None,
    target: str | None,
    partition: Mapping[str, object] | None,
) -> Snapshot:
    if chosen is None:
        content = {
            "messages": [[m.role, m.content] for m in messages],
            "spans": None if spans is None else [[s.message, s.start, s.end] for s in spans],
            "target": target,
            "partition": partition,
        }
        chosen = f"s-{digest(content)[:12]}"
    return Snapshot(chosen, messages, spans, target, partition)


def _message(value: object, index: int, where: str) -> Message:
    what = f"messages[{index}]"
    row = _typed(value, dict, where, what, "an object with role and content")
    _only_known(row, ("role", "content"), where, of=what)
    for key in ("role", "content"):
        if key not in row:
            raise InputError(where, f"the key {key!r} of {what} is missing")
    role = row["role"]
    if not isinstance(role, str) or role not in ROLES:
        raise InputError(where, f"unknown role of {what}", got=_got(role), allowed=", ".join(ROLES))
    return Message(role, _text(row["content"], f"{what}.content", where))


def _partition(value: object, where: str) -> Mapping[str, object]:
    if isinstance(value, str):
        return {"name": _text(value, "partition", where)}
    row = _typed(value, dict, where, "partition", "a partitioner's name or an object with a name")
    if "name" not in row:
        raise InputError(where, "the key 'name' of partition is missing", got=row)
    _text(row["name"], "partition.name", where)
    roles = row.get("roles", ["user"])
    if not isinstance(roles, list) or not roles or any(r not in ROLES for r in roles):
        raise InputError(
            where, "partition.roles is no list of roles", got=roles, allowed=", ".join(ROLES)
        )
    return row


def _spans(value: object, messages: Sequence[Message], where: str) -> tuple[Span, ...]:
    given = _typed(value, list, where, "spans", "a list")
    if not given:
        raise InputError(where, "spans is empty", mend="Leave it out, or give at least one span")
    spans = sorted(
        (_span(v, i, messages, where) for i, v in enumerate(given)),
        key=lambda s: (s.message, s.start, s.end),
    )
    for before, after in pairwise(spans):
        if before.message == after.message and after.start < before.end:
            raise InputError(
                where,
                f"two spans of message {after.message} overlap: "
                f"{before.start}–{before.end} and {after.start}–{after.end}",
            )
    return tuple(spans)


def _span(value: object, index: int, messages: Sequence[Message], where: str) -> Span:
    what = f"spans[{index}]"
    row = _typed(value, dict, where, what, 'an object {"message": 0, "start": 0, "end": 4}')
    _only_known(row, ("message", "start", "end"), where, of=what)
    numbers: list[int] = []
    for key in ("message", "start", "end"):
        number = row.get(key)
        if not isinstance(number, int) or isinstance(number, bool):
            raise InputError(where, f"{what}.{key} is no whole number", got=_got(number))
        numbers.append(number)
    message, start, end = numbers
    if not 0 <= message < len(messages):
        raise InputError(
            where, f"{what} names a message that is not there", got=message,
            allowed=f"0 to {len(messages) - 1}",
        )  # fmt: skip
    length = len(messages[message].content)
    if not 0 <= start <= length or not 0 <= end <= length:
        raise InputError(
            where, f"{what} is outside the text of message {message}", got=f"{start}–{end}",
            allowed=f"0–{length} (characters)",
        )  # fmt: skip
    if not messages[message].content[start:end].strip():
        raise InputError(where, f"{what} holds no text", got=f"{start}–{end}")
    return Span(message, start, end)


# -- CSV ----------------------------------------------------------------------------------------


def _csv_rows(content: str, name: str) -> Iterator[tuple[int, Snapshot]]:
    header: list[str] | None = None
    for line, cells in _csv_cells(content, name):
        where = f"{name}:{line}"
        if header is None:
            header = _csv_header(cells, where)
            continue
        if len(cells) != len(header):
            raise InputError(
                where,
                f"{len(cells)} cells under {len(header)} columns",
                mend='Put a text that holds a comma, a quote or a line break in "…"',
            )
        yield line, _csv_snapshot(dict(zip(header, cells, strict=True)), where)


def _csv_cells(content: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, each with the line on which it begins."""
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(
                f"{name}:{line}", f"not CSV: {error}", mend="Or give the prompts as JSONL"
            ) from None
        if cells is None:
            return
        if cells:
            yield line, cells


def _csv_header(cells: list[str], where: str) -> list[str]:
    if "prompt" not in cells:
        for delimiter, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if any("prompt" in cell.split(delimiter) for cell in cells if delimiter in cell):
                raise InputError(
                    where, f"the columns are parted by {word}", got=delimiter, allowed="a comma"
                )
    _only_known(dict.fromkeys(cells), _COLUMNS, where, of="the header", kind="column")
    if "prompt" not in cells:
        raise InputError(where, "the column 'prompt' is missing", allowed=", ".join(_COLUMNS))
    twins = sorted({c for c in cells if cells.count(c) > 1})
    if twins:
        raise InputError(where, "a column stands twice in the header", got=twins[0])
    return cells


def _csv_snapshot(row: Mapping[str, str], where: str) -> Snapshot:
    """An empty cell is a missing value; any other cell is a text, `NA` and `null` too."""
    messages = [Message("user", _text(row["prompt"], "prompt", where))]
    if row.get("system"):
        messages.insert(0, Message("system", _text(row["system"], "system", where)))
    target = _text(row["target"], "target", where) if row.get("target") else None
    chosen = _text(row["id"], "id", where) if row.get("id") else None
    return _named(chosen, tuple(messages), None, target, None)


# -- checks of single values --------------------------------------------------------------------


def _typed(value: object, kind: type[T], where: str, what: str, allowed: str) -> T:
    if not isinstance(value, kind):
        raise InputError(where, f"{what} is of the wrong type", got=_got(value), allowed=allowed)
    return value


def _got(value: object) -> object:
    return Bare("null") if value is None else value


def _text(value: object, what: str, where: str) -> str:
    text = _typed(value, str, where, what, 'a text in "…"')
    if not text.strip():
        raise InputError(where, f"{what} is blank", got=text, mend="There is nothing to explain")
    lone = _SURROGATE.search(text)
    if lone:
        raise InputError(
            where,
            f"{what} holds half a character (a lone surrogate) at character {lone.start()}",
            got=lone.group(),
            mend="Write the whole character, as in \\ud83d\\ude00",
        )
    return text


def _only_known(
    row: Mapping[str, object], known: Sequence[str], where: str, of: str = "", kind: str = "key"
) -> None:
    for key in row:
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            raise InputError(
                where,
                f"unknown {kind}" + (f" in {of}" if of else ""),
                got=key,
                allowed=", ".join(known),
                mend=f"Did you mean {close[0]!r}?" if close else "",
            )
