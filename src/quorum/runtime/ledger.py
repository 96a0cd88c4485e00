"""The usage ledger: one row for each call, written as it completes, and totals at the end.

Usage schema 2: cached_input_tokens and cache_write_tokens are disjoint parts of input_tokens,
reasoning_tokens ⊂ output_tokens; ``mode`` says whether the call was made at once or in a batch,
which has prices of its own; a row with status ``failed`` is an attempt without a reply, which a
provider may have charged all the same.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from quorum.errors import RefusedError
from quorum.records import Usage

_LOG = logging.getLogger(__name__)
_TOKENS = (
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
)
COLUMNS = (
    "time",
    "module",
    "backend",
    "model",
    "key",
    "sample",
    "finish_reason",
    "attempt",
    *_TOKENS,
    "seconds",
    "mode",
    "status",
)
USAGE_SCHEMA = 2
_ORDER = ("module", "backend", "model", "key", "attempt", "time")
_HEADER = ",".join(COLUMNS) + "\n"
_ADDED = {"cache_write_tokens": "0", "mode": "sync"}  # what rows without the column mean
_OLD_COLUMNS = tuple(name for name in COLUMNS if name not in _ADDED)


@dataclass(frozen=True, slots=True)
class Call:
    """One attempt: which request, how it ended, what it used.

    ``finish_reason`` of a failed attempt says how it failed: transient, permanent, timeout,
    cancelled, failed (an error of our own). ``mode`` is sync or batch.
    """

    module: str
    backend: str
    model: str
    key: str
    sample: int
    finish_reason: str
    attempt: int
    usage: Usage
    seconds: float
    status: str
    mode: str = "sync"


class UsageLedger:
    """The ledger of one run, kept over all its resumptions; several processes may share it.

    Args:
        directory: Holds usage.csv while the run lasts, and usage.json after ``finish``.

    Raises:
        RefusedError: usage.csv has other columns.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._csv = directory / "usage.csv"
        self._json = directory / "usage.json"
        self._lock = os.open(directory / "usage.lock", os.O_RDWR | os.O_CREAT, 0o644)
        with self._locked(fcntl.LOCK_EX):
            self._mend()

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        """Rows are appended under a shared lock, the file is replaced under an exclusive one."""
        fcntl.flock(self._lock, how)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _mend(self) -> None:
        """Cuts a torn last line off (also one followed by blank lines) and keeps it aside.

        Rows with the columns of earlier versions are rewritten with today's.
        """
        content = self._csv.read_bytes() if self._csv.exists() else b""
        header, old_header = (",".join(c).encode("ascii") for c in (COLUMNS, _OLD_COLUMNS))
        first, *rows = content.rstrip(b"\n").split(b"\n")
        is_old = first == old_header
        torn = not rows and (header.startswith(first) or old_header.startswith(first))
        if first != header and not is_old and not torn:
            raise RefusedError(
                str(self._csv),
                "has other columns",
                got=first.decode("utf-8", "replace"),
                allowed=_HEADER.strip(),
                mend="Move the file aside; its calls stay in it",
            )
        if rows and not _is_row(rows[-1], len(_OLD_COLUMNS if is_old else COLUMNS)):
            with (self._csv.parent / "usage.csv.torn").open("ab") as aside:
                aside.write(rows.pop() + b"\n")
            _LOG.warning("%s: a torn last line was cut off and kept in usage.csv.torn", self._csv)
        if is_old:
            rows = [self._with_added_columns(row, n) for n, row in enumerate(rows, start=2)]
        sound = b"".join(line + b"\n" for line in (header, *rows))
        if sound != content:
            _replace(self._csv, sound)

    def _with_added_columns(self, line: bytes, n_line: int) -> bytes:
        if not _is_row(line, len(_OLD_COLUMNS)):
            raise RefusedError(
                f"{self._csv}, line {n_line}",
                "is not a row of a ledger",
                got=line.decode("utf-8", "replace"),
                mend="Move the file aside; its calls stay in it",
            )
        row = {**_ADDED, **dict(zip(_OLD_COLUMNS, _fields(line), strict=True))}
        return _line(tuple(row[name] for name in COLUMNS)).rstrip("\n").encode("utf-8")

    def append(self, call: Call) -> None:
        """Writes one row with one write, so that a crash tears at most the last line.

        Raises:
            RefusedError: The disk is full, or the file cannot be written.
        """
        usage = call.usage
        row = (
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            call.module,
            call.backend,
            call.model,
            call.key,
            call.sample,
            call.finish_reason,
            call.attempt,
            usage.input_tokens,
            usage.cached_input_tokens,
            usage.cache_write_tokens,
            usage.output_tokens,
            usage.reasoning_tokens,
            f"{call.seconds:.6f}",
            call.mode,
            call.status,
        )
        line = _line(row).encode("utf-8", "backslashreplace")
        try:
            with self._locked(fcntl.LOCK_SH):
                file = os.open(self._csv, os.O_WRONLY | os.O_APPEND)
                try:
                    n_written = os.write(file, line)
                finally:
                    os.close(file)
        except OSError as error:
            raise self._unwritable(str(error)) from error
        if n_written < len(line):
            raise self._unwritable("a row was cut short")

    def _unwritable(self, why: str) -> RefusedError:
        mend = "Free disk space and run the same command again: what is done is kept"
        return RefusedError(str(self._csv), f"cannot be written: {why}", mend=mend)

    def finish(self) -> None:
        """Rewrites usage.csv in its final form (sorted), writes usage.json, closes the ledger."""
        with self._locked(fcntl.LOCK_EX):
            text = self._csv.read_text(encoding="utf-8")
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
            rows.sort(key=lambda row: [int(row[c]) if c == "attempt" else row[c] for c in _ORDER])
            lines = [_HEADER, *(_line(tuple(row[c] for c in COLUMNS)) for row in rows)]
            _replace(self._csv, "".join(lines))
            totals = {"total": _totals(rows), "usage_schema": USAGE_SCHEMA}
            for name in ("module", "model"):
                values = sorted({row[name] for row in rows})
                split = {v: _totals([row for row in rows if row[name] == v]) for v in values}
                totals[f"by_{name}"] = split
            document = json.dumps(totals, sort_keys=True, indent=2, ensure_ascii=False)
            _replace(self._json, document + "\n")
        self.close()

    def close(self) -> None:
        """Ends the use of the ledger without its final form; safe to call twice."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _is_row(line: bytes, n_columns: int) -> bool:
    fields = _fields(line)
    return len(fields) == n_columns and fields[-1] in ("ok", "failed")


def _fields(line: bytes) -> list[str]:
    return next(csv.reader([line.decode("utf-8", "replace")]), [])


def _line(row: tuple[object, ...]) -> str:
    line = ",".join(map(str, row))
    if line.count(",") == len(row) - 1 and not any(mark in line for mark in '"\r\n'):
        return line + "\n"
    quoted = io.StringIO()
    flat = (" ".join(v.splitlines()) if isinstance(v, str) else v for v in row)
    csv.writer(quoted, lineterminator="\n").writerow(flat)
    return quoted.getvalue()


def _totals(rows: list[dict[str, str]]) -> dict[str, int | float]:
    n_ok = sum(row["status"] == "ok" for row in rows)
    totals: dict[str, int | float] = {"n_calls": n_ok, "n_failed": len(rows) - n_ok}
    for name in _TOKENS:
        totals[name] = sum(int(row[name]) for row in rows)
    totals["seconds"] = round(sum(float(row["seconds"]) for row in rows), 6)
    return totals


def _replace(path: Path, content: str | bytes) -> None:
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    temporary.replace(path)
