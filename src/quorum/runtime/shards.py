"""Shards: rows of a store in a file of their own, to be shared with a run, a team or a paper.

A shard is a gzip file of JSON lines in the order of their keys: ``created`` (Unix time),
``generation`` (the reply, with the fields of `codec`), ``key`` and ``request`` (the canonical JSON
whose SHA-256 is the key). Equal rows give equal bytes. Importing is a union: the store's own
replies stay.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import math
import os
import re
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import NoReturn, cast

from quorum.digests import canonical_json, text_digest
from quorum.errors import InputError
from quorum.records import Generation, Usage
from quorum.runtime.codec import (
    pack_generation,
    pack_request,
    row_digest,
    unpack_generation,
    unpack_request,
)
from quorum.runtime.store import GenerationStore, PackedRow

_LOG = logging.getLogger(__name__)
SHARD = "store.jsonl.gz"  # its name among the logs of a run
_LEVEL = 6  # of gzip
_FIELDS = ("created", "generation", "key", "request")
_MEND = "Get the file again (dvc checkout, or from whoever made it)"
_REPLY_FIELDS = {field.name for field in fields(Generation)}
_USAGE_FIELDS = {field.name for field in fields(Usage)}
_ARRIVING = (
    "CREATE TEMP TABLE arriving (key BLOB PRIMARY KEY, request BLOB, generation BLOB, digest BLOB,"
    " created REAL) WITHOUT ROWID"
)
_UNION = (
    "INSERT INTO generation SELECT key, request, generation, digest, created FROM arriving"
    " WHERE true ORDER BY key ON CONFLICT DO NOTHING"
)
_SHARED = "SELECT arriving.key FROM arriving JOIN generation USING (key)"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"holds {name}")


_STRICT = json.JSONDecoder(parse_constant=_no_constant)


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did.

    Args:
        n_rows: Rows of the shard.
        n_new: Of them, rows that the store did not have.
        conflicts: Keys (hex) under which the store has another reply; its own stays.
    """

    n_rows: int
    n_new: int
    conflicts: tuple[str, ...]


# Writing


def write_shard(path: Path, rows: Iterable[PackedRow]) -> int:
    """Writes rows, which come in the order of their keys; complete or not at all.

    Returns:
        How many there were.

    Raises:
        InputError: The file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    n_rows = 0
    try:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with (
                temporary.open("wb") as raw,
                gzip.GzipFile("", "wb", compresslevel=_LEVEL, fileobj=raw, mtime=0) as file,
            ):
                for row in rows:
                    file.write(_line(row))
                    n_rows += 1
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(str(path), f"cannot be written ({error.strerror})") from error
    return n_rows


def _line(row: PackedRow) -> bytes:
    request = json.dumps(unpack_request(row.request), ensure_ascii=False)
    return b'{"created":%b,"generation":%b,"key":"%b","request":%b}\n' % (
        repr(row.created).encode("ascii"),
        row.generation,
        row.key.hex().encode("ascii"),
        request.encode("utf-8", "surrogatepass"),
    )


def keep_shard(store: GenerationStore, keys: Iterable[str], folder: Path) -> None:
    """Writes the shard that a run rests on into a folder; a run without keys has none.

    Args:
        store: It has the rows.
        keys: Keys of all replies; the empty one, of a reply that is in no store, does not count.
        folder: Where ``store.jsonl.gz`` is put.
    """
    wanted = set(keys) - {""}
    if not wanted:
        return
    path = folder / SHARD
    n_rows = write_shard(path, store.packed(wanted))
    if n_rows < len(wanted):
        _LOG.warning(
            "store %s: lacks %d of the %d replies that this run rests on; %s is without them",
            store.path,
            len(wanted) - n_rows,
            len(wanted),
            SHARD,
        )
    digest = shard_digest(path)
    with store.transaction() as db:
        _mark(db, digest)  # its rows came from here


# Reading


def read_shard(path: Path, name: str) -> Iterator[PackedRow]:
    """The rows of a shard, checked one by one.

    Args:
        path: The file.
        name: What to call it in an error.

    Raises:
        InputError: The file is missing, damaged or cut short, or a line of it is no row.
    """
    before = b""
    try:
        with gzip.open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                where = f"{name}:{number}"
                row = _parsed(line, where)
                if row.key <= before:
                    what = "its key does not come after that of the line before"
                    raise InputError(where, what, got=row.key.hex()[:12], mend=_MEND)
                before = row.key
                yield row
    except FileNotFoundError as error:
        raise InputError(name, "is missing", mend=_MEND) from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        what = f"is no whole gzip file ({error})"
        raise InputError(name, what, mend=_MEND) from error
    except OSError as error:
        raise InputError(name, f"cannot be read ({error.strerror})", mend=_MEND) from error


def _parsed(line: bytes, where: str) -> PackedRow:
    row = _object(line, where)
    if set(row) != set(_FIELDS):
        allowed = ", ".join(_FIELDS)
        _refuse(where, "is no row of a store", ", ".join(sorted(row)), allowed)
    key, request = row["key"], row["request"]
    if not isinstance(key, str) or not re.fullmatch("[0-9a-f]{64}", key):
        _refuse(f"{where}: key", "is no SHA-256", key, "64 hexadecimal digits")
    if not isinstance(request, str):
        _refuse(f"{where}: request", "is no text", request, "canonical JSON as a text")
    if text_digest(request) != key:
        _refuse(f"{where}: key", "is not the SHA-256 of its request", key[:12])
    asked = _object(request.encode("utf-8", "surrogatepass"), f"{where}: request")
    for name in ("backend", "model"):
        if not isinstance(asked.get(name), str):
            _refuse(f"{where}: request.{name}", "must be a text", asked.get(name))
    _check_number(f"{where}: created", row["created"])
    _check_generation(f"{where}: generation", row["generation"])
    reply = unpack_generation(canonical_json(row["generation"]).encode("utf-8", "surrogatepass"))
    return PackedRow(
        bytes.fromhex(key),
        pack_request(request),
        pack_generation(reply),
        float(cast("float", row["created"])),
    )


def _object(text: bytes, where: str) -> Mapping[str, object]:
    try:
        loaded = _STRICT.decode(text.decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as error:
        problem = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise InputError(where, f"is not JSON ({problem})", mend=_MEND) from error
    if not isinstance(loaded, Mapping):
        _refuse(where, "must be an object", type(loaded).__name__)
    return loaded


def _check_generation(where: str, value: object) -> None:
    if not isinstance(value, Mapping):
        _refuse(where, "must be an object", value)
    if not _REPLY_FIELDS - {"choice_bound"} <= set(value) <= _REPLY_FIELDS:
        allowed = ", ".join(sorted(_REPLY_FIELDS))
        _refuse(where, "has other fields", ", ".join(sorted(value)), allowed)
    for name in ("text", "finish_reason", "model_version"):
        if not isinstance(value[name], str):
            _refuse(f"{where}.{name}", "must be a text", value[name])
    for name in ("token_logprobs", "choice_probs"):
        if value[name] is not None:
            if not isinstance(value[name], list):
                _refuse(f"{where}.{name}", "must be a list or null", value[name])
            for number, item in enumerate(value[name]):
                _check_number(f"{where}.{name}[{number}]", item, least=-math.inf)
    _check_number(f"{where}.seconds", value["seconds"])
    for name in ("choice_mass", "choice_bound"):
        if value.get(name) is not None:
            _check_number(f"{where}.{name}", value[name])
    _check_usage(f"{where}.usage", value["usage"])


def _check_usage(where: str, value: object) -> None:
    if not isinstance(value, Mapping):
        _refuse(where, "must be an object", value)
    if not _USAGE_FIELDS - {"cache_write_tokens"} <= set(value) <= _USAGE_FIELDS:
        allowed = ", ".join(sorted(_USAGE_FIELDS))
        _refuse(where, "has other fields", ", ".join(sorted(value)), allowed)
    for name, n_tokens in value.items():
        _check_number(f"{where}.{name}", n_tokens)
        if not isinstance(n_tokens, int):
            _refuse(f"{where}.{name}", "must be a whole number", n_tokens)


def _check_number(where: str, value: object, least: float = 0.0) -> None:
    is_number = isinstance(value, float) and math.isfinite(value)
    if isinstance(value, int) and not isinstance(value, bool):
        is_number = abs(value) < 2**63  # what a column of SQLite can hold
    if not is_number or cast("float", value) < least:
        allowed = "a finite number" + ", 0 or more" * (least == 0)
        _refuse(where, "is no number that can stand there", value, allowed)


def _refuse(where: str, what: str, got: object, allowed: str = "") -> NoReturn:
    raise InputError(where, what, got=got, allowed=allowed, mend=_MEND)


# Importing


def shard_digest(path: Path) -> bytes:
    """SHA-256 (32 bytes) of a file.

    Raises:
        InputError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise InputError(str(path), f"cannot be read ({error.strerror})", mend=_MEND) from error


def is_imported(store: GenerationStore, path: Path) -> bool:
    """Whether the store has all rows of a shard, as far as it was told."""
    digest = shard_digest(path)
    with store.connection() as db:
        found = db.execute("SELECT 1 FROM imported WHERE digest=?", (digest,))
        return found.fetchone() is not None


def import_shard(store: GenerationStore, path: Path, name: str) -> Imported:
    """Takes over the rows of a shard that the store lacks: all of them, or after an error none.

    The file is read and checked before the store is locked.

    Raises:
        InputError: See ``read_shard``.
    """
    with store.connection() as db:
        db.execute(_ARRIVING)
    try:
        with store.connection() as db:
            n_rows = _arrive(db, read_shard(path, name))
        conflicts = _conflicts(store)
        digest = shard_digest(path)
        with store.transaction() as db:
            n_new = db.execute(_UNION).rowcount
            _mark(db, digest)
    finally:
        with store.connection() as db:
            db.execute("DROP TABLE arriving")
    return Imported(n_rows, n_new, tuple(conflicts))


def _arrive(db: sqlite3.Connection, rows: Iterable[PackedRow]) -> int:
    packed = ((r.key, r.request, r.generation, row_digest(*r[:3]), r.created) for r in rows)
    db.execute("BEGIN")  # of the temporary table alone: the store is not locked
    try:
        db.executemany("INSERT INTO arriving VALUES (?,?,?,?,?)", packed)
    finally:
        db.execute("COMMIT")  # after an error, too: the table is dropped
    return int(db.execute("SELECT count(*) FROM arriving").fetchone()[0])


def _conflicts(store: GenerationStore) -> list[str]:
    """Keys whose reply is another one there; a damaged row of ours is set aside and is none."""
    with store.connection() as db:
        shared = [key.hex() for (key,) in db.execute(_SHARED)]
    found = []
    for ours in store.packed(shared):
        with store.connection() as db:
            query = "SELECT generation FROM arriving WHERE key=?"
            (theirs,) = db.execute(query, (ours.key,)).fetchone()
        if theirs != ours.generation and _result(theirs) != _result(ours.generation):
            found.append(ours.key.hex())
    return found


def _result(packed: bytes) -> Generation:
    """A reply without what no result shows: how long it took, what the provider's cache held."""
    reply = unpack_generation(packed)
    usage = replace(reply.usage, cached_input_tokens=0, cache_write_tokens=0)
    return replace(reply, usage=usage, seconds=0.0)


def _mark(db: sqlite3.Connection, digest: bytes) -> None:
    query = "INSERT INTO imported VALUES (?,?) ON CONFLICT DO NOTHING"
    db.execute(query, (digest, time.time()))
