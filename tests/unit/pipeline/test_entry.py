from __future__ import annotations

from pathlib import Path

import pytest

from quorum.errors import (
    BackendError,
    BudgetError,
    InputError,
    MissingExtraError,
    QuorumError,
    RefusedError,
    SettingsError,
    TransientBackendError,
)
from quorum.pipeline.entry import run_stage


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (SettingsError, 2),
        (InputError, 2),
        (MissingExtraError, 2),
        (RefusedError, 3),
        (BudgetError, 4),
        (BackendError, 5),
        (TransientBackendError, 5),
    ],
)
def test_an_error_is_one_line_and_its_own_exit_code(kind, code, capsys):
    def stage(root: Path) -> None:
        raise kind("here", "is wrong")

    assert run_stage(stage) == code
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.startswith("error: here: is wrong")
    assert seen.err.count("\n") == 1


def test_a_stage_runs_in_the_current_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    seen: list[Path] = []
    assert run_stage(seen.append) == 0
    assert seen == [tmp_path]
    assert capsys.readouterr().err == ""


def test_control_c_says_that_what_is_done_is_kept(capsys):
    def stage(root: Path) -> None:
        raise KeyboardInterrupt

    assert run_stage(stage) == 130
    assert capsys.readouterr().err == (
        "interrupted: what is done is kept; run the same command again\n"
    )


def test_a_mistake_of_ours_is_not_hidden():
    def stage(root: Path) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_stage(stage)


def test_the_traceback_can_be_asked_for(monkeypatch):
    def stage(root: Path) -> None:
        raise QuorumError("here", "is wrong")

    monkeypatch.setenv("QUORUM_DEBUG", "1")
    with pytest.raises(QuorumError):
        run_stage(stage)
