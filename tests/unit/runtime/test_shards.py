from __future__ import annotations

import gzip
import json
import logging
import sqlite3

import pytest

from quorum.digests import text_digest
from quorum.errors import InputError, RefusedError
from quorum.records import Generation, Message, Request, Target, Usage
from quorum.runtime.shards import (
    SHARD,
    import_shard,
    is_imported,
    keep_shard,
    read_shard,
    write_shard,
)
from quorum.runtime.store import GenerationStore

TARGET = Target("scripted", "m", {"rules": "1"})
ODD = Generation(
    "é \x00 \u2028 \ud800 </script>", "length", Usage(4, 3, 2, 1, 1), seconds=0.1 + 0.2
)
SCORED = Generation("", "scored", token_logprobs=(-0.1, -1e-17, -1e300))
CHOSEN = Generation("", "scored", choice_probs=(0.1, 0.9), choice_mass=1 / 3, choice_bound=0.25)


def canonical(text: str) -> str:
    return Request((Message("user", text),), {"temperature": 1.0}).canonical(TARGET)


def put(store: GenerationStore, text: str, generation: Generation) -> str:
    key = text_digest(canonical(text))
    store.put(key, canonical(text), generation)
    return key


@pytest.fixture
def filled(tmp_path):
    """A store with one reply of each kind, a long request among them."""
    with GenerationStore(tmp_path / "filled.sqlite") as store:
        for text, reply in (("odd \udcff", ODD), ("scored", SCORED), ("long " * 999, CHOSEN)):
            put(store, text, reply)
        yield store


def row(text: str = "x", **changes: object) -> dict[str, object]:
    """A line of a shard, as an object."""
    request = canonical(text)
    reply = {
        "text": "reply",
        "finish_reason": "stop",
        "usage": {
            "input_tokens": 1,
            "cached_input_tokens": 0,
            "output_tokens": 1,
            "reasoning_tokens": 0,
        },
        "token_logprobs": None,
        "choice_probs": None,
        "choice_mass": None,
        "model_version": "",
        "seconds": 0.5,
    }
    return {
        "created": 1.5,
        "generation": reply,
        "key": text_digest(request),
        "request": request,
        **changes,
    }


def reply(**changes: object) -> dict[str, object]:
    return {**row()["generation"], **changes}


def write(path, *lines: object) -> None:
    """A shard by hand: objects as JSON, texts as they are."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))


def test_rows_come_back_bit_for_bit_and_equal_rows_give_equal_bytes(filled, tmp_path):
    rows = list(filled.packed())
    assert write_shard(tmp_path / "one.gz", rows) == 3
    assert write_shard(tmp_path / "two.gz", read_shard(tmp_path / "one.gz", "one.gz")) == 3
    content = (tmp_path / "one.gz").read_bytes()
    assert content == (tmp_path / "two.gz").read_bytes()
    assert content[3:8] == bytes(5), "no file name and no time of writing in the header"
    with GenerationStore(tmp_path / "other.sqlite") as other:
        found = import_shard(other, tmp_path / "one.gz", "one.gz")
        assert (found.n_rows, found.n_new, found.conflicts) == (3, 3, ())
        assert list(other.rows()) == list(filled.rows())


def test_a_line_is_an_object_of_four_keys_whose_key_is_the_digest_of_its_request(filled, tmp_path):
    write_shard(tmp_path / "s.gz", filled.packed())
    packed = gzip.decompress((tmp_path / "s.gz").read_bytes()).decode("utf-8", "surrogatepass")
    lines = [json.loads(line) for line in packed.split("\n")[:-1]]
    assert [list(line) for line in lines] == [["created", "generation", "key", "request"]] * 3
    assert [line["key"] for line in lines] == sorted(text_digest(line["request"]) for line in lines)


def test_a_store_that_has_the_rows_gains_nothing(filled, tmp_path):
    write_shard(tmp_path / "s.gz", filled.packed())
    found = import_shard(filled, tmp_path / "s.gz", "s.gz")
    assert (found.n_rows, found.n_new, found.conflicts) == (3, 0, ())
    assert len(filled) == 3


def test_another_reply_to_the_same_request_is_a_conflict_and_ours_stays(store, tmp_path):
    key = put(store, "x", Generation("ours"))
    write(tmp_path / "s.gz", row("x"))
    found = import_shard(store, tmp_path / "s.gz", "s.gz")
    assert (found.n_rows, found.n_new, found.conflicts) == (1, 0, (key,))
    assert store.get(key) == Generation("ours")


def test_how_long_a_call_took_and_what_a_cache_held_is_no_conflict(store, tmp_path):
    put(store, "x", Generation("reply", usage=Usage(1, 1, 1), seconds=9.0))
    write(tmp_path / "s.gz", row("x"))
    assert import_shard(store, tmp_path / "s.gz", "s.gz").conflicts == ()


def test_a_damaged_row_of_the_store_is_mended_by_a_shard(tmp_path):
    path = tmp_path / "store.sqlite"
    with GenerationStore(path) as store:
        key = put(store, "x", Generation("reply"))
        keep_shard(store, [key], tmp_path)
    db = sqlite3.connect(path)
    db.execute("UPDATE generation SET generation=CAST('{}' AS BLOB)")
    db.commit()
    db.close()
    with GenerationStore(path) as store:
        assert is_imported(store, tmp_path / SHARD)
        found = import_shard(store, tmp_path / SHARD, SHARD)
        assert (found.n_new, found.conflicts) == (1, ())
        assert store.damaged == [key]
        assert store.get(key) == Generation("reply")


def test_a_row_that_was_set_aside_is_looked_for_in_shards_again(tmp_path):
    with GenerationStore(tmp_path / "store.sqlite") as store:
        key = put(store, "x", Generation("reply"))
        keep_shard(store, [key], tmp_path)
        with store.transaction() as db:
            db.execute("UPDATE generation SET digest=x'00'")
        assert store.get(key) is None
        assert not is_imported(store, tmp_path / SHARD)


def without(name: str) -> dict[str, object]:
    return {key: value for key, value in row().items() if key != name}


REQUEST = '{"backend":"b","model":"m","options":{"temperature":NaN}}'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "s.gz:1: is not JSON (Expecting property name enclosed in double quotes)"),
        ("", "s.gz:1: is not JSON (Expecting value)"),
        ("[]", "s.gz:1: must be an object, got 'list'"),
        (without("created"), "s.gz:1: is no row of a store, got 'generation, key, request'"),
        (row(more=1), "s.gz:1: is no row of a store, got 'created, generation, key, more, req"),
        (row(key="AB" * 32), "s.gz:1: key: is no SHA-256, got 'ABAB"),
        (row(key="0" * 64), "s.gz:1: key: is not the SHA-256 of its request, got '000000000000'"),
        (row(request=1), "s.gz:1: request: is no text, got 1"),
        (row(request="{}", key=text_digest("{}")), "s.gz:1: request.backend: must be a text"),
        (row(request=REQUEST, key=text_digest(REQUEST)), "s.gz:1: request: is not JSON (holds NaN"),
        (row(created=-1), "s.gz:1: created: is no number that can stand there, got -1; allowed a"),
        (row(created=float("inf")), "s.gz:1: is not JSON (holds Infinity)"),
        (row(created=True), "s.gz:1: created: is no number that can stand there, got true"),
        (row(generation=[]), "s.gz:1: generation: must be an object, got []"),
        (row(generation=reply(more=1)), "s.gz:1: generation: has other fields"),
        (row(generation=reply(text=None)), "s.gz:1: generation.text: must be a text"),
        (row(generation=reply(seconds=float("nan"))), "s.gz:1: is not JSON (holds NaN)"),
        (row(generation=reply(seconds="1")), "s.gz:1: generation.seconds: is no number"),
        (row(generation=reply(choice_probs={})), "s.gz:1: generation.choice_probs: must be a list"),
        (
            row(generation=reply(choice_probs=[0.5, None])),
            "s.gz:1: generation.choice_probs[1]: is no number",
        ),
        (row(generation=reply(usage={})), "s.gz:1: generation.usage: has other fields, got ''"),
        (
            row(generation=reply(usage={**row()["generation"]["usage"], "input_tokens": 0.5})),
            "s.gz:1: generation.usage.input_tokens: must be a whole number, got 0.5",
        ),
        (
            row(generation=reply(usage={**row()["generation"]["usage"], "input_tokens": 2**63})),
            "s.gz:1: generation.usage.input_tokens: is no number that can stand there",
        ),
        (
            json.dumps(row()).replace("0.5", "1e999"),
            "s.gz:1: generation.seconds: is no number that can stand there, got inf",
        ),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_taken_over(store, tmp_path, line, message):
    write(tmp_path / "s.gz", line)
    with pytest.raises(InputError) as refused:
        import_shard(store, tmp_path / "s.gz", "s.gz")
    assert str(refused.value).startswith(message)
    assert len(store) == 0


def test_nothing_of_a_file_with_a_wrong_line_is_taken_over(store, tmp_path):
    rows = sorted((row(str(i)) for i in range(9)), key=lambda line: line["key"])
    write(tmp_path / "s.gz", *rows[:8], {**rows[8], "created": None})
    with pytest.raises(InputError, match=r"^s\.gz:9: created"):
        import_shard(store, tmp_path / "s.gz", "s.gz")
    assert len(store) == 0
    assert not is_imported(store, tmp_path / "s.gz")
    write(tmp_path / "s.gz", *rows)
    assert import_shard(store, tmp_path / "s.gz", "s.gz").n_new == 9
    assert is_imported(store, tmp_path / "s.gz")


def test_keys_must_rise_so_that_none_comes_twice(store, tmp_path):
    write(tmp_path / "s.gz", row(), row())
    with pytest.raises(InputError, match=r"^s\.gz:2: its key does not come after"):
        import_shard(store, tmp_path / "s.gz", "s.gz")
    assert len(store) == 0


@pytest.mark.parametrize("damage", ["cut", "flipped", "plain", "missing", "folder"])
def test_a_file_that_is_no_whole_shard_is_one_line(filled, store, tmp_path, damage):
    path = tmp_path / "s.gz"
    write_shard(path, filled.packed())
    content = path.read_bytes()
    path.unlink()
    if damage == "cut":
        path.write_bytes(content[:-9])
    elif damage == "flipped":  # in the checksum at the end
        path.write_bytes(content[:-6] + bytes([content[-6] ^ 1]) + content[-5:])
    elif damage == "plain":
        path.write_text("{}\n")
    elif damage == "folder":
        path.mkdir()
    what = {"missing": "is missing", "folder": "cannot be read"}
    with pytest.raises(InputError) as refused:
        import_shard(store, path, "s.gz")
    assert str(refused.value).startswith(f"s.gz: {what.get(damage, 'is no whole gzip file')}")
    assert "\n" not in str(refused.value)
    assert len(store) == 0


def test_a_run_keeps_its_own_rows_and_none_is_missed_twice(filled, tmp_path, caplog):
    keys = [packed.key.hex() for packed in filled.packed()]
    with caplog.at_level(logging.WARNING):
        keep_shard(filled, [*keys[:2], keys[0], ""], tmp_path)
    assert caplog.text == ""
    found = [packed.key.hex() for packed in read_shard(tmp_path / SHARD, SHARD)]
    assert found == keys[:2]
    assert is_imported(filled, tmp_path / SHARD)
    assert [path.name for path in tmp_path.glob("*.gz*")] == [SHARD], "no temporary file is left"


def test_a_row_that_the_store_lacks_is_one_warning(filled, tmp_path, caplog):
    keys = [packed.key.hex() for packed in filled.packed()]
    with caplog.at_level(logging.WARNING):
        keep_shard(filled, [*keys, "f" * 64], tmp_path)
    what = "lacks 1 of the 4 replies that this run rests on; store.jsonl.gz is without them"
    assert [r.getMessage() for r in caplog.records] == [f"store {filled.path}: {what}"]
    assert len(list(read_shard(tmp_path / SHARD, SHARD))) == 3


def test_a_run_without_keys_has_no_shard(store, tmp_path):
    keep_shard(store, ["", ""], tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_a_shard_that_cannot_be_written_leaves_the_old_one(filled, tmp_path):
    path = tmp_path / "s.gz"
    write_shard(path, filled.packed())
    content = path.read_bytes()

    def failing():
        yield next(iter(filled.packed()))
        raise RefusedError("store", "has gone")

    with pytest.raises(RefusedError):
        write_shard(path, failing())
    assert path.read_bytes() == content
    assert sorted(p.name for p in tmp_path.iterdir() if "gz" in p.name) == ["s.gz"]
    with pytest.raises(InputError, match="cannot be written"):
        write_shard(path / "below", filled.packed())
