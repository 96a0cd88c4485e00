"""``quorum store``: its words, its exit codes, and what stays as it is."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest

from quorum.cli import main
from quorum.digests import text_digest
from quorum.records import Generation, Message, Request, Target, Usage
from quorum.runtime.shards import SHARD, keep_shard, read_shard
from quorum.runtime.store import GenerationStore

OLD = 1_000_000_000.0  # 2001-09-09
DAY_S = 86_400.0


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """The working directory is a project in a git repository, with a store of its own."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/config.yaml").write_text("")
    git(tmp_path, "init", "-q", "-b", "main")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUORUM_STORE", "store.sqlite")
    return tmp_path


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@localhost")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def put(text: str, reply: str = "reply", model: str = "m", age_s: float | None = None) -> str:
    """A reply in the store; of 2001, or of some seconds ago."""
    canonical = Request((Message("user", text),)).canonical(Target("scripted", model))
    key = text_digest(canonical)
    with GenerationStore("store.sqlite") as store:
        store.put(key, canonical, Generation(reply, usage=Usage(10, 0, 2)))
        moment = OLD if age_s is None else time.time() - age_s
        with store.transaction() as db:
            db.execute("UPDATE generation SET created=? WHERE key=?", (moment, bytes.fromhex(key)))
    return key


def stored() -> set[str]:
    with GenerationStore("store.sqlite") as store:
        return {row.key for row in store.rows()}


def shard(path: Path | str) -> set[str]:
    return {row.key.hex() for row in read_shard(Path(path), "shard")}


def run_of(folder: Path, *keys: str) -> Path:
    """A project's folder whose run rests on some replies of the store."""
    log = folder / "data/generate/log"
    log.mkdir(parents=True)
    with GenerationStore("store.sqlite") as store:
        keep_shard(store, keys, log)
    return folder


def quorum(capsys, *argv: str) -> tuple[int, str, str]:
    code = main(["store", *argv])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_ls_tells_replies_by_model(capsys):
    put("a")
    put("b", age_s=0.0)
    put("a", model="another")
    today = time.strftime("%Y-%m-%d", time.gmtime())
    code, out, err = quorum(capsys, "ls", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    rows = [{k: v for k, v in row.items() if k != "bytes"} for row in found["rows"]]
    same = {"backend": "scripted", "oldest": "2001-09-09"}
    assert rows == [
        {**same, "model": "another", "replies": 1, "input_tokens": 10, "output_tokens": 2,
         "newest": "2001-09-09"},
        {**same, "model": "m", "replies": 2, "input_tokens": 20, "output_tokens": 4,
         "newest": today},
    ]  # fmt: skip
    assert (found["store"], found["n_damaged"]) == ("store.sqlite", 0)
    code, out, err = quorum(capsys, "ls")
    assert out.splitlines()[0].strip() == "Store store.sqlite"
    assert out.splitlines()[-1] == "3 replies; damaged rows set aside so far: 0"


@pytest.mark.parametrize("argv", [["ls"], ["check"], ["export", "s.gz"], ["prune"]])
def test_where_there_is_no_store_none_is_made(capsys, argv):
    told = "there is no store yet. Run: dvc repro, or quorum store import"
    assert quorum(capsys, *argv) == (2, "", f"error: store.sqlite: {told}\n")
    assert not Path("store.sqlite").exists()


def test_a_check_sets_damaged_rows_aside_and_ends_with_3(capsys):
    put("a")
    key = put("b")
    assert quorum(capsys, "check") == (0, "2 replies sound, 0 damaged\n", "")
    with GenerationStore("store.sqlite") as store, store.transaction() as db:
        db.execute("UPDATE generation SET digest=x'00' WHERE key=?", (bytes.fromhex(key),))
    code, out, err = quorum(capsys, "check")
    assert (code, out) == (3, "1 reply sound, 1 damaged\n")
    assert f"error: store store.sqlite: damaged rows were set aside: {key[:12]}. The next" in err
    assert quorum(capsys, "check") == (0, "1 reply sound, 0 damaged\n", "")
    assert "so far: 1\n" in quorum(capsys, "ls")[1]


def test_an_export_holds_all_rows_or_those_of_runs_and_replaces_no_file(capsys, root):
    keys = [put(text) for text in "abc"]
    one, two = run_of(root / "one", keys[0]), run_of(root / "two", keys[0], keys[1])
    assert quorum(capsys, "export", "all.gz") == (0, "Wrote 3 replies to all.gz\n", "")
    assert shard("all.gz") == set(keys)
    told = (0, "Wrote 2 replies to runs.gz\n", "")
    assert quorum(capsys, "export", "runs.gz", "--run", str(one), "--run", str(two)) == told
    assert shard("runs.gz") == set(keys[:2])
    code, out, err = quorum(capsys, "export", "all.gz", "--run", "one")
    told = "error: all.gz: is there already. Name another file, or add --force\n"
    assert (code, out, err) == (3, "", told)
    assert shard("all.gz") == set(keys)
    told = (0, "Wrote 1 reply to all.gz\n", "")
    assert quorum(capsys, "export", "all.gz", "--run", "one", "--force") == told
    assert shard("all.gz") == set(keys[:1])


def test_an_export_that_lacks_replies_of_a_run_says_so(capsys, root):
    run_of(root / "one", put("a"), put("b"))
    with GenerationStore("store.sqlite") as store, store.transaction() as db:
        db.execute("DELETE FROM generation WHERE key IN (SELECT key FROM generation LIMIT 1)")
    code, out, err = quorum(capsys, "export", "s.gz", "--run", "one")
    assert (code, out) == (3, "Wrote 1 reply to s.gz\n")
    assert err.startswith("error: s.gz: is without 1 reply of the runs, which the store lacks.")


def test_a_run_that_names_no_requests_is_one_line(capsys, root):
    put("a")
    folder = root / "odd/data/generate/result/generations"
    folder.mkdir(parents=True)
    (folder / "p.jsonl").write_text('{"text": "reply"}\n')
    told = "error: odd: its results do not name the requests they rest on\n"
    assert quorum(capsys, "export", "s.gz", "--run", "odd") == (2, "", told)
    assert not (root / "s.gz").exists()


def test_an_import_is_a_union_and_tells_conflicts(capsys, root, monkeypatch):
    keys = [put(text) for text in "abcde"]
    run_of(root / "one", *keys)
    monkeypatch.setenv("QUORUM_STORE", "new.sqlite")
    told = (0, "one: 5 replies, 5 new\n", "")
    assert quorum(capsys, "import", "one") == told
    assert quorum(capsys, "import", f"one/data/generate/log/{SHARD}") == (
        0,
        f"one/data/generate/log/{SHARD}: 5 replies, 0 new\n",
        "",
    )
    with GenerationStore("new.sqlite") as store, store.transaction() as db:
        db.execute("DELETE FROM generation")
    for text in "abcd":
        canonical = Request((Message("user", text),)).canonical(Target("scripted", "m"))
        with GenerationStore("new.sqlite") as store:
            store.put(text_digest(canonical), canonical, Generation("ours"))
    first = ", ".join(key[:12] for key in sorted(keys[:4])[:3])
    code, out, err = quorum(capsys, "import", "one")
    assert (code, err) == (0, "")
    assert out == (
        "one: 5 replies, 1 new\n"
        f"one: 4 replies differ from what the store has, which stays: {first}, …\n"
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere", "nowhere: no such shard or run; allowed a file, a folder, an"),
        ("empty", "empty: holds no replies: no store.jsonl.gz. Run: dvc repro, or dvc pull"),
        ("old", "old: has no store.jsonl.gz: it is of an earlier version, or asked no model. "),
        ("plain.gz", "plain.gz: is no whole gzip file"),
    ],
)
def test_what_is_no_shard_and_no_run_is_one_line(capsys, root, name, told):
    (root / "empty").mkdir()
    (root / "old/data/generate/result/generations").mkdir(parents=True)
    (root / "plain.gz").write_text("{}\n")
    code, out, err = quorum(capsys, "import", name)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {told}")
    assert stored() == set()


def test_of_several_files_those_before_a_wrong_one_stay(capsys, root):
    run_of(root / "one", put("a"))
    (root / "plain.gz").write_text("{}\n")
    code, out, _ = quorum(capsys, "import", "one", "plain.gz")
    assert (code, out) == (2, "one: 1 reply, 0 new\n")


def test_prune_keeps_the_workspace_unfinished_runs_and_what_is_young(capsys, root):
    shown, begun, ended, gone = (put(text) for text in "abcd")
    young = put("e", age_s=6 * DAY_S)
    run_of(root / "x", shown)
    (root / "x/data").rename(root / "data")
    for name, key in (("begun", begun), ("ended", ended)):
        (root / "runs" / name).mkdir(parents=True)
        (root / "runs" / name / "usage.csv").write_text(f"time,key,status\n1,{key},ok\n2,torn")
    (root / "runs/ended/usage.json").write_text("{}")
    kept = (
        "Kept: 3 replies of 0 commits and experiments, the workspace and 1 unfinished runs, or "
        "of the last 7 days\n"
        "QUORUM_STORE is set: what other checkouts rest on is not kept\n"
    )
    code, out, err = quorum(capsys, "prune")
    assert (code, err) == (0, "")
    assert out.startswith(kept)
    assert "│ scripted │     m │       2 │" in out.replace("┃", "│")
    assert out.endswith("Nothing was removed; add --yes to remove them\n")
    assert len(stored()) == 5
    code, out, _ = quorum(capsys, "prune", "--yes")
    assert (code, out.splitlines()[-1]) == (0, "Removed 2 replies")
    assert stored() == {shown, begun, young}
    assert quorum(capsys, "prune", "--yes") == (0, f"{kept}Nothing to remove\n", "")
    assert quorum(capsys, "prune", "--yes", "--keep-days", "5")[0] == 0
    assert stored() == {shown, begun}
    assert gone not in stored()


@pytest.mark.parametrize("folder", [".", "a project/in the repository"])
def test_prune_refuses_where_it_cannot_know_what_is_wanted(capsys, root, monkeypatch, folder):
    project = root / folder
    (project / "conf").mkdir(parents=True, exist_ok=True)
    (project / "conf/config.yaml").write_text("")
    monkeypatch.chdir(project)
    put("a")
    (project / "dvc.lock").write_text("<<<<<<< merged by hand\n")
    git(project, "add", "dvc.lock")
    git(root, "commit", "-qm", "A lock that nobody can read")
    code, out, err = quorum(capsys, "prune", "--yes")
    assert (code, out) == (3, "")
    assert err.startswith("error: commit ")
    assert "so what it rests on is unknown. Run: dvc fetch --all-commits" in err
    assert len(stored()) == 1
    assert quorum(capsys, "prune", "--yes", "--force")[0] == 0
    assert stored() == set()


def test_prune_outside_of_a_git_repository_is_refused(capsys, root):
    key = put("a")
    (root / ".git").rename(root / "not.git")
    code, out, err = quorum(capsys, "prune", "--yes")
    assert (code, out) == (3, "")
    assert err.startswith("error: .: is in no git repository, so nobody knows which runs are")
    assert stored() == {key}


def test_days_to_keep_cannot_be_negative(capsys):
    put("a")
    told = "error: --keep-days: is negative, got -1; allowed 0 or more\n"
    assert quorum(capsys, "prune", "--keep-days", "-1") == (2, "", told)


@pytest.mark.parametrize("argv", [["ls", "--debug"], ["--debug", "ls"]])
def test_debug_may_stand_before_or_after_the_inner_command(argv):
    from quorum.errors import InputError

    with pytest.raises(InputError, match="there is no store yet"):
        main(["store", *argv])
