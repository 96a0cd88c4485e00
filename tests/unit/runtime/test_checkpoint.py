"""A checkpoint is whole whenever the process dies, and no other run's is ever taken."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quorum.errors import RefusedError
from quorum.runtime import checkpoint
from quorum.runtime.checkpoint import FOLDER, load, resume, save

RUN = {"settings": "aaa", "survey": "bbb", "bank": "ccc"}
OLD = {"endowments.csv": "persona_id\np0001\n", "responses.csv": "old\n"}
NEW = {"endowments.csv": "persona_id\np0001\np0002\n", "responses.csv": "new é “\n", "more": ""}
STEPS = ("mkdir", "write", "fsync", "rename", "unlink", "rmdir")


class Killed(BaseException):
    """What kill -9 does, for a process that goes on to look at what is left."""


class DyingOs:
    """The module os, whose step number ``at`` is the last one; a write gets through by half."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.n_steps = 0

    def __getattr__(self, name: str):
        real = getattr(os, name)
        if name not in STEPS:
            return real

        def step(*args):
            self.n_steps += 1
            if self.n_steps < self.at:
                return real(*args)
            if name == "write":
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            elif name != "fsync":
                real(*args)
            raise Killed

        return step


def killed_save(monkeypatch, folder: Path, files: dict[str, str], at: int) -> bool:
    """Saves, dying after step ``at``; False where the save had fewer steps."""
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "os", DyingOs(at))
        try:
            save(folder, RUN, files)
        except Killed:
            return True
    return False


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.parent.iterdir()}


def test_what_was_saved_is_loaded_and_can_be_read(tmp_path):
    folder = tmp_path / "run" / FOLDER
    save(folder, RUN, OLD)
    save(folder, RUN, NEW)
    assert load(folder, RUN) == NEW
    assert (folder / "responses.csv").read_text(encoding="utf-8") == "new é “\n"
    state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    assert state["identity"] == RUN
    assert set(state["sha256"]) == set(NEW)
    assert names(folder) == {FOLDER, FOLDER + ".lock"}


@pytest.mark.parametrize("has_old", [True, False])
def test_killed_after_any_step_the_old_state_or_the_new_one_is_found(
    tmp_path, monkeypatch, has_old
):
    """Every step of a save that changes the disk; half a write counts as a step."""
    at, outcomes = 0, []
    while True:
        at += 1
        folder = tmp_path / str(at) / FOLDER
        if has_old:
            save(folder, RUN, OLD)
        if not killed_save(monkeypatch, folder, NEW, at):
            break
        found = load(folder, RUN)
        assert found in (OLD if has_old else None, NEW)
        outcomes.append(found == NEW)
        assert names(folder) <= {FOLDER, FOLDER + ".lock"}  # nothing is left lying about
        save(folder, RUN, NEW)  # and the run goes on
        assert load(folder, RUN) == NEW
    assert at > 10
    assert sorted(outcomes) == outcomes  # once the new state counts, it stays
    assert {True, False} == set(outcomes)


def test_killed_again_while_it_mends_itself(tmp_path, monkeypatch):
    """The second process dies at any step as well; the third finds a whole state."""
    n_both = 0
    for first in range(1, 40, 2):
        for second in range(1, 12):
            folder = tmp_path / f"{first}-{second}" / FOLDER
            save(folder, RUN, OLD)
            if not killed_save(monkeypatch, folder, NEW, first):
                assert n_both > 30
                return
            if not killed_save(monkeypatch, folder, NEW, second):
                break
            assert load(folder, RUN) in (OLD, NEW)
            n_both += 1
    pytest.fail("a save has more steps than were tried")


def test_a_process_killed_by_the_system_leaves_a_whole_state(tmp_path):
    """The real SIGKILL at the two renames and around them."""
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from quorum.runtime import checkpoint\n"
        "real, left = os.rename, [int(sys.argv[2])]\n"
        "def rename(*names):\n"
        "    left[0] -= 1\n"
        "    if left[0] == 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    real(*names)\n"
        "os.rename = rename\n"
        "checkpoint.save(Path(sys.argv[1]), {'settings': 'aaa', 'survey': 'bbb', 'bank': 'ccc'},"
        " {'responses.csv': 'new'})\n"
    )
    for n in (1, 2):
        folder = tmp_path / str(n) / FOLDER
        save(folder, RUN, OLD)
        run = subprocess.run([sys.executable, "-c", script, str(folder), str(n)])
        assert run.returncode == -signal.SIGKILL
        assert load(folder, RUN) == (OLD if n == 1 else {"responses.csv": "new"})


# -- the table of resumptions ---------------------------------------------------------------------


@pytest.fixture
def run(tmp_path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def book(run: Path, n: int = 2) -> None:
    rows = ["time,module,status\n", *["2026-11-29,elicit,ok\n"] * n]
    (run / "usage.csv").write_text("".join(rows), encoding="utf-8")


def test_without_checkpoint_and_without_calls_a_run_starts_afresh(run):
    assert resume(run, RUN) is None
    book(run, n=0)  # a ledger with nothing but its header
    assert resume(run, RUN) is None
    assert load(run / "nowhere" / FOLDER, RUN) is None


def test_the_same_run_goes_on_whatever_is_booked(run):
    save(run / FOLDER, RUN, OLD)
    book(run)
    assert resume(run, RUN) == OLD
    assert resume(run, dict(reversed(RUN.items()))) == OLD


def test_an_explicit_folder_of_the_same_run_is_taken_wherever_it_lies(run, tmp_path):
    """A copy, or the folder that holds it; where the run lies is part of no identity."""
    save(tmp_path / "copy" / FOLDER, RUN, OLD)
    assert resume(run, RUN, explicit=tmp_path / "copy" / FOLDER) == OLD
    assert resume(run, RUN, explicit=tmp_path / "copy") == OLD


def test_a_copy_is_read_without_a_trace(run, tmp_path):
    save(tmp_path / "copy" / FOLDER, RUN, OLD)
    (tmp_path / "copy" / (FOLDER + ".lock")).unlink()
    assert resume(run, RUN, explicit=tmp_path / "copy") == OLD
    assert names(tmp_path / "copy" / FOLDER) == {FOLDER}


def test_another_run_s_checkpoint_is_refused_with_the_keys_that_differ(run, tmp_path):
    other = tmp_path / "other" / FOLDER
    save(other, {"settings": "xxx", "survey": "bbb", "templates": "ddd"}, OLD)
    with pytest.raises(RefusedError) as raised:
        resume(run, RUN, explicit=other)
    assert str(raised.value) == (
        f"{other}: belongs to another run: bank, settings, templates differ. "
        "Undo the change, or name no folder to resume from: a changed run gets its own"
    )
    assert raised.value.exit_code == 3


def test_an_explicit_folder_without_checkpoint_is_refused(run, tmp_path):
    with pytest.raises(RefusedError, match=r"^runtime.resume: there is no checkpoint in the fold"):
        resume(run, RUN, explicit=tmp_path / "empty")


def test_booked_calls_without_their_checkpoint_are_refused(run):
    book(run)
    with pytest.raises(RefusedError) as raised:
        resume(run, RUN)
    assert str(raised.value).startswith(
        f"{run / 'usage.csv'}: 2 calls are booked, but their checkpoint is gone."
    )


@pytest.mark.parametrize("name", ["responses.csv", "endowments.csv", "state.json"])
@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "binary"])
def test_a_damaged_checkpoint_is_refused_with_the_file(run, name, damage):
    save(run / FOLDER, RUN, OLD)
    path = run / FOLDER / name
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "binary":
        path.write_bytes(b"\xff\xfe" + content)
    elif damage == "cut":
        path.write_bytes(content[:-3])
    else:
        path.write_bytes(content.replace(b"o", b"0"))
    with pytest.raises(RefusedError, match="the checkpoint is damaged") as raised:
        resume(run, RUN)
    assert str(raised.value).startswith(f"{path}: ")


def test_an_identity_that_was_edited_by_hand_is_damage(run):
    save(run / FOLDER, {**RUN, "settings": "xxx"}, OLD)
    path = run / FOLDER / "state.json"
    path.write_text(path.read_text(encoding="utf-8").replace("xxx", "aaa"), encoding="utf-8")
    with pytest.raises(RefusedError, match="the checkpoint is damaged"):
        resume(run, RUN)


def test_a_checkpoint_of_another_version_is_refused(run, monkeypatch):
    monkeypatch.setattr(checkpoint, "SCHEMA", 2)
    save(run / FOLDER, RUN, OLD)
    monkeypatch.setattr(checkpoint, "SCHEMA", 1)
    with pytest.raises(RefusedError, match="is of another version, got 2; allowed 1"):
        resume(run, RUN)


def test_a_folder_that_cannot_be_written_is_one_line(run):
    (run / "file").write_text("", encoding="utf-8")
    with pytest.raises(RefusedError, match="the checkpoint cannot be written"):
        save(run / "file" / FOLDER, RUN, OLD)
