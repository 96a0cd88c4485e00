from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

import pytest

from quorum.digests import text_digest
from quorum.errors import BackendError, RefusedError
from quorum.records import Generation, Message, Request, Target, Usage
from quorum.runtime import store as store_module
from quorum.runtime.leases import Holder, this_process
from quorum.runtime.store import GenerationStore, store_path

TARGET = Target("scripted", "m", {"rules": "1"})


def request(text: str, sample: int = 0) -> Request:
    return Request((Message("user", text),), {"temperature": 1.0}, sample)


def put(store: GenerationStore, asked: Request, generation: Generation) -> str:
    canonical = asked.canonical(TARGET)
    store.put(text_digest(canonical), canonical, generation)
    return text_digest(canonical)


@pytest.mark.parametrize(
    "generation",
    [
        Generation(""),
        Generation("é \x00 \x1b[31m \ud800 </script>", "length", Usage(4, 3, 2, 1)),
        Generation("", "scored", token_logprobs=(-0.1, -1e-17, -0.1 - 0.2)),
        Generation("", "scored", choice_probs=(0.1, 0.9), choice_mass=1 / 3),
        Generation("a", usage=Usage(9, 3, 2, 1, 4)),
        Generation("a", model_version="m-2026", seconds=0.1 + 0.2),
    ],
)
def test_a_reply_comes_back_bit_for_bit(tmp_path, generation):
    with GenerationStore(tmp_path / "store.sqlite") as store:
        key = put(store, request("\udcff x"), generation)
    with GenerationStore(tmp_path / "store.sqlite") as store:
        assert store.get(key) == generation
        assert store.get_many([key]) == {key: generation}


def test_a_store_lists_requests_short_and_long_under_their_own_digest(store):
    asked = {put(store, request(text), Generation(text)) for text in ("short", "long " * 1000)}
    rows = list(store.rows())
    assert [row.key for row in rows] == sorted(asked)
    assert all(text_digest(row.request) == row.key for row in rows)
    assert len(store) == 2


def test_the_first_reply_to_a_request_stays(store):
    key = put(store, request("x"), Generation("first"))
    canonical = request("x").canonical(TARGET)
    assert not store.put(key, canonical, Generation("second"))
    assert store.get(key) == Generation("first")


def test_samples_of_one_prompt_are_rows_of_their_own(store):
    keys = [put(store, request("x", sample), Generation(str(sample))) for sample in range(5)]
    assert [store.get(key).text for key in keys] == ["0", "1", "2", "3", "4"]


def test_many_keys_are_looked_up_at_once_and_missing_ones_left_out(store):
    keys = [put(store, request(str(i)), Generation(str(i))) for i in range(1100)]
    wanted = [*keys, "0" * 64]
    assert store.get_many(wanted) == {key: Generation(str(i)) for i, key in enumerate(keys)}
    assert store.contains_many(wanted) == set(keys)
    assert store.get("0" * 64) is None


@pytest.mark.parametrize("column", ["generation", "request", "digest"])
def test_a_damaged_row_is_reported_set_aside_and_a_miss(tmp_path, caplog, column):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store:
        key = put(store, request("x"), Generation("good"))
        sound = put(store, request("y"), Generation("sound"))
    db = sqlite3.connect(path)
    db.execute(
        f"UPDATE generation SET {column}=CAST('{{}}' AS BLOB) WHERE hex(key)=?", [key.upper()]
    )
    db.commit()
    with GenerationStore(path) as store, caplog.at_level(logging.WARNING):
        assert store.get_many([key, sound]) == {sound: Generation("sound")}
        assert store.damaged == [key]
        assert key in caplog.text
        assert store.get(key) is None
        assert store.acquire(key)
        put(store, request("x"), Generation("again"))
        assert store.get(key) == Generation("again")
        assert store.damaged == [key]
    assert db.execute("SELECT hex(key) FROM damaged").fetchall() == [(key.upper(),)]
    db.close()


def test_a_number_that_is_not_finite_is_refused(store):
    with pytest.raises(BackendError, match="not finite"):
        put(store, request("x"), Generation("", token_logprobs=(float("-inf"),)))


def test_a_file_of_another_version_is_refused(tmp_path):
    path = tmp_path / "store.sqlite"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(RefusedError, match="another version, got 99; allowed 1"):
        GenerationStore(path)


def test_a_file_that_is_no_store_is_refused_in_one_line(tmp_path):
    path = tmp_path / "store.sqlite"
    path.write_bytes(b"not a database, and long enough to be read as a header" * 40)
    with pytest.raises(RefusedError, match="not a database") as refused:
        GenerationStore(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs", "9p"])
def test_a_network_file_system_is_refused(tmp_path, monkeypatch, kind):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x {tmp_path}/net\\040work {kind} rw 0 0\n")
    monkeypatch.setattr(store_module, "_MOUNTS", mounts)
    with pytest.raises(RefusedError, match=f"network file system, got '{kind}'"):
        GenerationStore(tmp_path / "net work" / "store.sqlite")
    GenerationStore(tmp_path / "local" / "store.sqlite").close()


def test_a_full_disk_is_one_line_that_says_what_to_do(tmp_path):
    with GenerationStore(tmp_path / "store.sqlite") as store:
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(RefusedError, match=r"full.*Free disk space"):
            put(store, request("x"), Generation("long " * 10_000))
        assert len(store) == 0


def test_a_folder_that_cannot_be_made_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RefusedError, match="cannot be used"):
        GenerationStore(tmp_path / "file" / "store.sqlite")


def test_the_path_comes_from_the_environment_then_dvc_then_the_checkout(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    tail = Path(".cache/quorum/store.sqlite")
    assert store_path({"QUORUM_STORE": "/x/s", "DVC_ROOT": "/main"}) == Path("/x/s")
    assert store_path({"DVC_ROOT": "/main"}) == Path("/main") / tail
    assert store_path({}) == tmp_path / tail


def test_one_lease_holder_at_a_time_and_put_frees_it(tmp_path):
    path = tmp_path / "store.sqlite"
    key = text_digest(request("x").canonical(TARGET))
    with GenerationStore(path) as one, GenerationStore(path) as two:
        assert one.acquire(key)
        assert not two.acquire(key)
        two.release(key)  # not its own: nothing happens
        assert not two.acquire(key)
        one.release(key)
        assert two.acquire(key)
        put(two, request("x"), Generation("y"))
        assert not one.acquire(key)  # there is a reply
        assert one.get(key) == Generation("y")


def test_closing_frees_the_leases(tmp_path):
    path = tmp_path / "store.sqlite"
    one = GenerationStore(path)
    assert one.acquire("a" * 64)
    one.close()
    one.close()
    with GenerationStore(path) as two:
        assert two.acquire("a" * 64)


@pytest.mark.parametrize("gone", ["pid", "start", "boot"])
def test_the_lease_of_a_dead_holder_is_free_at_once(tmp_path, gone):
    me = this_process()
    dead = {
        "pid": Holder(2**22 + 1, me.start_time, me.boot_id),  # above any pid_max
        "start": Holder(me.pid, "1", me.boot_id),  # the pid came round again
        "boot": Holder(me.pid, me.start_time, "another"),
    }[gone]
    path = tmp_path / "store.sqlite"
    key = "ab" * 32
    with GenerationStore(path) as one:
        one._me = (dead.pid, dead.start_time, dead.boot_id)
        assert one.acquire(key)
        with GenerationStore(path) as two:
            assert two.acquire(key)
            assert not two.acquire(key)
