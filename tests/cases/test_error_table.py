"""Bad settings and bad files, each with the exact line that a user reads, and the exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

Row = dict[str, Any]


def rows(name: str) -> list[Any]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return [pytest.param(row, id=row["name"]) for row in yaml.safe_load(text)]


def check(row: Row, seen: tuple[int, str]) -> None:
    code, errors = seen
    assert errors == f"error: {row['says']}\n"
    assert code == row.get("code", 2)
    assert "hunter2" not in errors  # what the environment holds


@pytest.mark.parametrize("row", rows("settings.yaml"))
def test_a_bad_setting_is_one_line(row: Row, entry, monkeypatch):
    for package in row.get("without", ()):
        monkeypatch.setitem(sys.modules, package, None)
    changes = [part for change in row["set"] for part in ("-S", change)]
    check(row, entry.command("explain", "one two three", *changes))
    if row.get("code", 2) == 2:
        assert not (entry.root / "store.sqlite").exists()  # refused before any call


@pytest.mark.parametrize("row", rows("project.yaml"))
def test_a_bad_project_is_one_line(row: Row, entry):
    if "params" in row:
        entry.write({"params.yaml": row["params"]})
    entry.write(row.get("files", {}))
    entry.write({name: text.encode("latin-1") for name, text in row.get("bytes", {}).items()})
    for name, (old, new) in row.get("replace", {}).items():
        text = (entry.root / name).read_text(encoding="utf-8")
        assert old in text
        entry.write({name: text.replace(old, new)})
    check(row, entry.stages(*row.get("run", ["config"])))
    if row.get("run", ["config"]) == ["config"]:
        assert not (entry.root / "data/settings").exists()


@pytest.mark.parametrize("row", rows("surveys.yaml"))
def test_a_bad_survey_or_setting_of_a_reconstruction_is_one_line(row: Row, entry):
    entry.write({"params.yaml": row["params"], **row.get("files", {})})
    check(row, entry.stages("config"))
    assert not (entry.root / "data/settings").exists()


@pytest.mark.parametrize("row", rows("prompt_files.yaml"))
def test_a_bad_prompt_file_is_one_line(row: Row, entry):
    if "content" in row:
        entry.write({row["file"]: row["content"]})
    if "bytes" in row:
        entry.write({row["file"]: row["bytes"].encode("latin-1")})
    check(row, entry.command("validate", row["file"]))


def test_every_case_has_its_own_name():
    files = ("settings", "project", "prompt_files", "surveys")
    names = [p.id for file in files for p in rows(f"{file}.yaml")]
    assert len(names) == len(set(names)) > 260
