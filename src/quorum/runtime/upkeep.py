"""Looking after a store: what lies in it, whether it is sound, and what may go."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from quorum.digests import text_digest
from quorum.errors import RefusedError
from quorum.runtime.codec import row_digest, unpack_generation, unpack_request
from quorum.runtime.leases import Holder
from quorum.runtime.store import GenerationStore, PackedRow

_KEPT = "CREATE TEMP TABLE kept (key BLOB PRIMARY KEY) WITHOUT ROWID"
_LOOSE = "created < ? AND key NOT IN (SELECT key FROM kept)"
_HOLDERS = "SELECT DISTINCT pid, start_time, boot_id FROM lease"


@dataclass(slots=True)
class Holding:
    """The replies of one model.

    Args:
        backend: Who answered.
        model: As the backend calls it.
        n_replies: How many.
        input_tokens: Sent for them.
        output_tokens: Received.
        n_bytes: That they take in the store, requests included.
        oldest: When the first one came, Unix time.
        newest: When the last one came.
    """

    backend: str
    model: str
    n_replies: int
    input_tokens: int
    output_tokens: int
    n_bytes: int
    oldest: float
    newest: float


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found.

    Args:
        n_replies: Sound rows.
        damaged: Keys (hex) of the rows that this check set aside.
        problems: What SQLite says is wrong with the file.
    """

    n_replies: int
    damaged: tuple[str, ...]
    problems: tuple[str, ...]


def holdings(rows: Iterable[PackedRow]) -> list[Holding]:
    """Rows by backend and model."""
    found: dict[tuple[str, str], Holding] = {}
    for row in rows:
        request = json.loads(unpack_request(row.request))
        usage = unpack_generation(row.generation).usage
        key = (request["backend"], request["model"])
        held = found.setdefault(key, Holding(*key, 0, 0, 0, 0, row.created, row.created))
        held.n_replies += 1
        held.input_tokens += usage.input_tokens
        held.output_tokens += usage.output_tokens
        held.n_bytes += len(row.request) + len(row.generation)
        held.oldest = min(held.oldest, row.created)
        held.newest = max(held.newest, row.created)
    return [found[key] for key in sorted(found)]


def n_set_aside(store: GenerationStore) -> int:
    """How many damaged rows have been set aside so far."""
    with store.connection() as db:
        return int(db.execute("SELECT count(*) FROM damaged").fetchone()[0])


def check(store: GenerationStore) -> Checked:
    """Looks at the file, at each row's digest, and at each key against its request.

    What does not fit is set aside, as reading does; a sound store is not written to.
    """
    with store.connection() as db:
        found = [str(line) for (line,) in db.execute("PRAGMA integrity_check")]
    n_before = len(store.damaged)
    n_replies = 0
    for row in store.packed():
        if text_digest(unpack_request(row.request)) == row.key.hex():
            n_replies += 1
        else:
            store.set_aside(row, row_digest(*row[:3]))
    problems = () if found == ["ok"] else tuple(found)
    return Checked(n_replies, tuple(store.damaged[n_before:]), problems)


def loose(store: GenerationStore, keep: Iterable[str], before: float) -> list[str]:
    """Keys of the replies that are older than a time (Unix) and not among those to keep."""
    _keep(store, keep)
    with store.connection() as db:
        query = f"SELECT key FROM generation WHERE {_LOOSE} ORDER BY key"  # noqa: S608
        return [key.hex() for (key,) in db.execute(query, (before,))]


def prune(store: GenerationStore, keep: Iterable[str], before: float) -> int:
    """Removes what ``loose`` finds and gives its room back to the disk.

    Shards have to be imported again after it: some of their rows may be gone.

    Returns:
        How many replies went.

    Raises:
        RefusedError: Another process is at work on the store; nothing went.
    """
    _keep(store, keep)
    with store.transaction() as db:
        for row in db.execute(_HOLDERS).fetchall():
            holder = Holder(*row)
            if holder != store.holder and holder.is_alive():
                raise RefusedError(
                    f"store {store.path}",
                    f"process {holder.pid} is at work on it",
                    mend="Wait until its run ends, then prune again",
                )
        n_gone = db.execute(f"DELETE FROM generation WHERE {_LOOSE}", (before,)).rowcount  # noqa: S608
        if n_gone:
            db.execute("DELETE FROM imported")
    with store.connection() as db:
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return n_gone


def _keep(store: GenerationStore, keys: Iterable[str]) -> None:
    with store.connection() as db:
        db.execute("DROP TABLE IF EXISTS kept")
        db.execute(_KEPT)
        rows = ((bytes.fromhex(key),) for key in keys)
        db.executemany("INSERT INTO kept VALUES (?) ON CONFLICT DO NOTHING", rows)
