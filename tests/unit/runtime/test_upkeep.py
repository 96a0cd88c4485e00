from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest

from quorum.digests import text_digest
from quorum.errors import RefusedError
from quorum.records import Generation, Message, Request, Target, Usage
from quorum.runtime.schema import VERSION, VERSIONS
from quorum.runtime.shards import SHARD, is_imported, keep_shard
from quorum.runtime.store import GenerationStore
from quorum.runtime.upkeep import check, holdings, loose, n_set_aside, prune


def put(store: GenerationStore, text: str, model: str = "m", created: float = 0.0) -> str:
    canonical = Request((Message("user", text),)).canonical(Target("scripted", model))
    key = text_digest(canonical)
    store.put(key, canonical, Generation("reply", usage=Usage(10, 0, 2)))
    with store.transaction() as db:
        db.execute("UPDATE generation SET created=? WHERE key=?", (created, bytes.fromhex(key)))
    return key


def test_replies_are_told_by_model_with_tokens_room_and_dates(store):
    for i, moment in enumerate((30.0, 10.0, 20.0)):
        put(store, f"{i}", created=moment)
    put(store, "0", "another", 5.0)
    another, m = holdings(store.packed())
    assert (another.backend, another.model, another.n_replies) == ("scripted", "another", 1)
    assert (m.n_replies, m.input_tokens, m.output_tokens) == (3, 30, 6)
    assert (m.oldest, m.newest) == (10.0, 30.0)
    with store.connection() as db:
        query = "SELECT sum(length(request) + length(generation)) FROM generation"
        assert another.n_bytes + m.n_bytes == db.execute(query).fetchone()[0]


def test_a_sound_store_is_counted_and_not_written_to(tmp_path):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store:
        for i in range(5):
            put(store, str(i))
    with GenerationStore(path) as store:
        with store.connection() as db:
            before = db.total_changes
        found = check(store)
        assert (found.n_replies, found.damaged, found.problems) == (5, (), ())
        with store.connection() as db:
            assert db.total_changes == before


def test_what_the_digest_or_the_key_does_not_fit_is_set_aside(store):
    digest, key, sound = put(store, "digest"), put(store, "key"), put(store, "sound")
    moved = bytes(32)
    with store.transaction() as db:
        db.execute("UPDATE generation SET digest=x'00' WHERE key=?", (bytes.fromhex(digest),))
        db.execute("DELETE FROM generation WHERE key=?", (bytes.fromhex(key),))
    canonical = Request((Message("user", "key"),)).canonical(Target("scripted", "m"))
    store.put(moved.hex(), canonical, Generation("reply"))  # its own digest fits
    found = check(store)
    assert found.n_replies == 1
    assert sorted(found.damaged) == sorted([moved.hex(), digest])
    assert n_set_aside(store) == 2
    assert [row.key for row in store.rows()] == [sound]
    assert check(store).damaged == ()


def test_what_sqlite_finds_wrong_is_told(tmp_path):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store:
        for i in range(200):
            put(store, str(i))
        with store.transaction() as db:  # an index that lacks a row
            db.execute("PRAGMA writable_schema=ON")
            db.execute("CREATE INDEX of_dates ON generation (created) WHERE created >= 0")
        with store.transaction() as db:
            query = "UPDATE sqlite_master SET sql='CREATE INDEX of_dates ON generation (created)"
            db.execute(f"{query} WHERE created < 0' WHERE name='of_dates'")
    with GenerationStore(path) as store:
        found = check(store)
    assert found.n_replies == 200
    assert found.problems
    assert "of_dates" in found.problems[0]


def test_old_replies_that_nothing_rests_on_go_and_all_others_stay(tmp_path):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store:
        kept, old, young = put(store, "a"), put(store, "b"), put(store, "c", created=100.0)
        keep_shard(store, [kept], tmp_path)
        assert loose(store, [kept], before=50.0) == [old]
        assert len(store) == 3, "looking removes nothing"
        assert prune(store, [kept], before=50.0) == 1
        assert store.contains_many([kept, old, young]) == {kept, young}
        assert not is_imported(store, tmp_path / SHARD), "shards may bring back what went"
        assert prune(store, [kept], before=50.0) == 0


def test_pruning_gives_room_back(tmp_path):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store:
        for i in range(50):
            put(store, f"{i} " + "".join(map(str, range(2000))))
        put(store, "kept", created=100.0)
    before = path.stat().st_size
    with GenerationStore(path) as store:
        assert prune(store, [], before=50.0) == 50
    assert path.stat().st_size < before / 2


HOLDING = """
import sys
from quorum.runtime.store import GenerationStore
with GenerationStore(sys.argv[1]) as store:
    print(store.acquire("ab" * 32), flush=True)
    sys.stdin.read()
"""


def test_nothing_goes_while_another_process_is_at_work(tmp_path):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store:
        put(store, "old")
        command = [sys.executable, "-c", HOLDING, str(path)]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout.readline() == "True\n"
            with pytest.raises(RefusedError, match=f"process {other.pid} is at work on it"):
                prune(store, [], before=50.0)
            assert len(store) == 1
            other.kill()
        assert prune(store, [], before=50.0) == 1, "one that is gone holds nobody up"


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_file_of_an_earlier_version_is_upgraded_and_keeps_what_it_has(tmp_path, version):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store:
        key = put(store, "x")
        rows = list(store.rows())
    db = sqlite3.connect(path)
    for statement in VERSIONS[version:]:
        for created in statement.split(";"):
            kind, name = created.split()[1:3]
            if kind == "TABLE":
                db.execute(f"DROP TABLE {name}")
    db.execute(f"PRAGMA user_version={version}")
    db.commit()
    db.close()
    with GenerationStore(path) as store:
        assert list(store.rows()) == rows
        keep_shard(store, [key], tmp_path)
        assert is_imported(store, tmp_path / SHARD)
        with store.connection() as db:
            assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
            assert db.execute("SELECT count(*) FROM reservation").fetchone() == (0,)
