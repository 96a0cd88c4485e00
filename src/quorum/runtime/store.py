"""The generation store: one SQLite file that keeps every reply under the digest of its request.

Nothing is paid for twice: runs, experiments and processes share the file, a row is checked by its
digest when it is read, and a lease on a key keeps two processes from making the same call. What was
spent lies beside the replies (``runtime.accounts``), so that processes share a cap as well.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from quorum.errors import RefusedError
from quorum.records import Generation
from quorum.runtime.codec import (
    pack_generation,
    pack_request,
    row_digest,
    unpack_generation,
    unpack_request,
)
from quorum.runtime.leases import Holder, this_process
from quorum.runtime.schema import VERSION, upgrades

_LOG = logging.getLogger(__name__)
_MEMORY = ":memory:"
_LOCK_WAIT_S = 60.0  # how long a process waits while another one writes
_PART = 500  # keys in one query
_MOUNTS = Path("/proc/mounts")
_NETWORK = ("nfs", "cifs", "smb", "ceph", "lustre", "glusterfs", "afs", "9p", "beegfs", "gpfs")
_COLUMNS = "key, request, generation, digest, created"
_READ = f"SELECT {_COLUMNS} FROM generation WHERE key=?"  # noqa: S608 - constants only
_SET_ASIDE = f"INSERT INTO damaged SELECT {_COLUMNS}, ? FROM generation WHERE key=?"  # noqa: S608
_WRITE = "INSERT INTO generation VALUES (?,?,?,?,?) ON CONFLICT DO NOTHING"
_TAKE = (
    "INSERT INTO lease SELECT ?1, ?2, ?3, ?4, ?5"
    " WHERE NOT EXISTS (SELECT 1 FROM generation WHERE key=?1) ON CONFLICT DO NOTHING"
)
_HOLDER = "SELECT pid, start_time, boot_id FROM lease WHERE key=?"
_DROP = "DELETE FROM lease WHERE key=? AND pid=? AND start_time=? AND boot_id=?"

_Row = tuple[bytes, bytes, bytes, bytes, float]


def store_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the store lies.

    ``QUORUM_STORE`` where set; else ``.cache/quorum/store.sqlite`` under ``DVC_ROOT`` (which DVC
    sets to the main checkout, also in queued and ``--temp`` runs), under the nearest parent with
    a ``.git``, or under the working directory.
    """
    if named := environ.get("QUORUM_STORE"):
        return Path(named)
    here = Path.cwd()
    base = next((p for p in (here, *here.parents) if (p / ".git").exists()), here)
    return Path(environ.get("DVC_ROOT") or base) / ".cache" / "quorum" / "store.sqlite"


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One row: key (hex), the request's canonical JSON, the reply, when it came (Unix time)."""

    key: str
    request: str
    generation: Generation
    created: float


class PackedRow(NamedTuple):
    """The same as it stands in the file: key (32 bytes), request and reply as of `codec`."""

    key: bytes
    request: bytes
    generation: bytes
    created: float


class GenerationStore:
    """Replies by the digest of their requests.

    Args:
        path: The file, made with its folders where missing; ``":memory:"`` keeps nothing.

    Attributes:
        damaged: Keys (hex) of the rows whose digest did not fit, in the order found. Such a row
            is logged, set aside in the table ``damaged``, and counts as a miss.

    Raises:
        RefusedError: The file lies on a network file system, is no store, has another version,
            or cannot be read or written (every method).
    """

    def __init__(self, path: Path | str = _MEMORY) -> None:
        self.path = str(path)
        self._file = Path(path).absolute()
        self.damaged: list[str] = []
        me = this_process()
        self._me = (me.pid, me.start_time, me.boot_id)
        self._held: set[bytes] = set()
        if self.is_file:
            folder = self._file.parent
            _refuse_network(folder)
            with self._guarded():
                folder.mkdir(parents=True, exist_ok=True)
        with self._guarded():
            self._db = sqlite3.connect(self.path, timeout=_LOCK_WAIT_S, isolation_level=None)
            self._prepare()

    def _prepare(self) -> None:
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._use_wal()
        with self._writing():
            (version,) = self._db.execute("PRAGMA user_version").fetchone()
            if 0 <= version < VERSION:
                for statement in upgrades(version):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version={VERSION}")
        if not 0 <= version <= VERSION:
            self._db.close()
            raise RefusedError(
                f"store {self.path}",
                "is of another version",
                got=version,
                allowed=f"1 to {VERSION}",
                mend="Set QUORUM_STORE to another file, or use the release that wrote this one",
            )

    def _use_wal(self) -> None:
        """Turns the WAL on; SQLite does not wait by itself where another process does the same."""
        deadline = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turns an error of SQLite or of the file system into one line that says what to do."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise RefusedError(
                f"store {self.path}",
                f"cannot be used: {error}",
                mend="Free disk space or move the file aside; `QUORUM_STORE` names another one",
            ) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @property
    def is_file(self) -> bool:
        """Whether it keeps anything."""
        return self.path != _MEMORY

    @property
    def holder(self) -> Holder:
        """The process that opened this store."""
        return Holder(*self._me)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction that writes: all of it stays, or nothing; others wait for its end."""
        with self._guarded(), self._writing():
            yield self._db

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """The file, to be read; what is written goes to temporary tables and takes no lock."""
        with self._guarded():
            yield self._db

    def flush(self) -> None:
        """Returns when all that was written would outlive a power cut; made for a thread.

        A killed process loses nothing anyway. What SQLite has not yet carried over into the main
        file stands in the WAL, on which it holds no locks.
        """
        wal = Path(f"{self._file}-wal")
        with self._guarded():
            if self.is_file and wal.exists():  # without one SQLite flushes by itself
                _fsync(wal)

    # Replies

    def get(self, key: str) -> Generation | None:
        """The reply under a key (64 hex digits); None where there is none or it is damaged."""
        with self._guarded():
            row = self._db.execute(_READ, (bytes.fromhex(key),)).fetchone()
            return None if row is None or not self._is_sound(row) else unpack_generation(row[2])

    def get_many(self, keys: Sequence[str]) -> dict[str, Generation]:
        """The replies that there are, by key; damaged ones are left out."""
        with self._guarded():
            rows = self._select(_COLUMNS, keys)
            return {r[0].hex(): unpack_generation(r[2]) for r in rows if self._is_sound(r)}

    def contains_many(self, keys: Iterable[str]) -> set[str]:
        """Which of the keys there are; reads no reply and checks no digest (for forecasts)."""
        with self._guarded():
            return {row[0].hex() for row in self._select("key", list(keys))}

    def _select(self, columns: str, keys: Sequence[str]) -> Iterator[_Row]:
        for start in range(0, len(keys), _PART):
            part = [bytes.fromhex(key) for key in keys[start : start + _PART]]
            marks = ",".join("?" * len(part))
            query = f"SELECT {columns} FROM generation WHERE key IN ({marks})"  # noqa: S608
            yield from self._db.execute(query, part).fetchall()

    def _is_sound(self, row: _Row) -> bool:
        """Whether the digest fits; a row that fails is set aside, unless it was mended since."""
        key, request, generation, digest, _ = row
        if row_digest(key, request, generation) == digest:
            return True
        self.set_aside(PackedRow(key, request, generation, row[4]), digest)
        return False

    def set_aside(self, row: PackedRow, digest: bytes) -> None:
        """Takes a damaged row with its digest out, unless it was mended since; it is logged."""
        key = row.key
        with self._guarded(), self._writing():
            found = self._db.execute(_READ, (key,)).fetchone()
            if found == (key, row.request, row.generation, digest, row.created):
                self._db.execute(_SET_ASIDE, (time.time(), key))
                self._db.execute("DELETE FROM generation WHERE key=?", (key,))
                self._db.execute("DELETE FROM imported")  # a shard may have it
        self.damaged.append(key.hex())
        _LOG.warning("store %s: row %s is damaged; it is asked for again", self.path, key.hex())

    def put(self, key: str, request: str, generation: Generation) -> bool:
        """Keeps a reply and frees the key's lease, in one transaction; the first reply stays.

        Args:
            key: The request's key (64 hex digits).
            request: The request's canonical JSON (``Request.canonical``).
            generation: The reply.

        Returns:
            False where the store had a reply already.
        """
        raw, packed, reply = bytes.fromhex(key), pack_request(request), pack_generation(generation)
        row = (raw, packed, reply, row_digest(raw, packed, reply), time.time())
        with self._guarded(), self._writing():
            is_new = self._db.execute(_WRITE, row).rowcount == 1
            if raw in self._held:
                self._db.execute(_DROP, (raw, *self._me))
        self._held.discard(raw)
        return is_new

    def rows(self) -> Iterator[StoredRow]:
        """All sound rows in the order of their keys."""
        for key, request, reply, created in self.packed():
            yield StoredRow(key.hex(), unpack_request(request), unpack_generation(reply), created)

    def packed(self, keys: Iterable[str] | None = None) -> Iterator[PackedRow]:
        """Sound rows as they stand, in the order of their keys: those of some keys, or all."""
        with self._guarded():
            if keys is None:
                found = self._db.execute("SELECT key FROM generation ORDER BY key")
                wanted = [key.hex() for (key,) in found]
            else:
                wanted = sorted(set(keys))
            for start in range(0, len(wanted), _PART):
                for row in sorted(self._select(_COLUMNS, wanted[start : start + _PART])):
                    if self._is_sound(row):
                        yield PackedRow(row[0], row[1], row[2], row[4])

    def __len__(self) -> int:
        """How many replies are kept."""
        with self._guarded():
            return int(self._db.execute("SELECT count(*) FROM generation").fetchone()[0])

    # Leases

    def acquire(self, key: str) -> bool:
        """Takes the lease on a key; False where the key has a reply or another live holder.

        A lease whose process is gone is free at once.
        """
        raw = bytes.fromhex(key)
        with self._guarded():
            if not self._take(raw):
                held = self._db.execute(_HOLDER, (raw,)).fetchone()
                if held is None or Holder(*held).is_alive():
                    return False
                self._db.execute(_DROP, (raw, *held))
                if not self._take(raw):
                    return False
        self._held.add(raw)
        return True

    def _take(self, raw: bytes) -> bool:
        return self._db.execute(_TAKE, (raw, *self._me, time.time())).rowcount == 1

    def release(self, key: str) -> None:
        """Frees a lease that this store holds; nothing happens where it holds none."""
        raw = bytes.fromhex(key)
        if raw in self._held:
            with self._guarded():
                self._db.execute(_DROP, (raw, *self._me))
            self._held.discard(raw)

    # Life

    def close(self) -> None:
        """Frees this store's leases and closes the file; safe to call twice."""
        if self._held:
            with self._guarded(), self._writing():
                self._db.executemany(_DROP, [(raw, *self._me) for raw in self._held])
            self._held.clear()
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _fsync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _refuse_network(folder: Path) -> None:
    """SQLite's locks and its WAL do not work over a network."""
    if not _MOUNTS.exists():
        return
    real = folder.resolve()
    best, kind = "", ""
    for line in _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        _, mount, file_system, *_ = line.split(" ")
        mount = mount.replace("\\040", " ")
        if real.is_relative_to(mount) and len(mount) >= len(best):  # a later mount hides one
            best, kind = mount, file_system
    if kind.removeprefix("fuse.").startswith((*_NETWORK, "sshfs", "s3fs", "rclone")):
        raise RefusedError(
            f"store {folder}",
            "lies on a network file system",
            got=kind,
            allowed="a local disk",
            mend="Set QUORUM_STORE to a file on a local disk",
        )
