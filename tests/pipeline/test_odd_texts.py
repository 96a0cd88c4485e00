"""Prompts and replies of any text, in folders of any name, under any locale."""

from __future__ import annotations

import csv
import subprocess
import sys

import pytest

PROMPTS = [
    "=2+3 @home",
    "caf\u00e9 \u4f60\u597d \U0001f468\u200d\U0001f469\u200d\U0001f467 \u0645\u0631\u062d",
    "</script><b>x",
    "tab\there\u2028line",
]
RULES = [
    {"contains": "script", "reply": "</script><b>x \x1b[31mred\x00"},
    {"contains": "home", "reply": "=2+3"},
]


def prepared(make_project, name: str):
    project = make_project(name)
    project.write_prompts(PROMPTS)
    # echo, or what the rules say; auto: lines of progress where there is no terminal
    project.write_params(backend={"rules": RULES}, runtime={"progress": "auto"})
    return project


def run_all(project, **environ: str) -> str:
    errors = ""
    for stage in ("config", "partition", "generate", "score", "aggregate"):
        run = subprocess.run(
            [sys.executable, f"stages/{stage}.py"],
            cwd=project.root,
            env=project.environ(**environ),
            capture_output=True,
        )
        assert run.returncode == 0, run.stderr
        errors += run.stderr.decode("ascii")
    return errors


@pytest.fixture
def found(make_project):
    project = prepared(make_project, "project")
    project.run()
    return project


def test_the_locale_and_the_folders_name_change_no_byte(make_project, found):
    odd = prepared(make_project, "a folder with spaces")
    errors = run_all(odd, LC_ALL="C", LANG="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert odd.results() == found.results()
    assert errors.count("\n") <= 12  # a line every tenth of the way


def test_pages_show_replies_as_text(found):
    for name, content in found.results("data/aggregate/result").items():
        if name.endswith(".html"):
            assert b"</script><b>" not in content
            assert b"\x1b" not in content
            assert b"\x00" not in content


def test_tables_for_machines_keep_texts_as_they_are(found):
    path = found.root / "data/aggregate/result/attributions.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    texts = [row["text"] for row in rows if row["snapshot"] == "p0"]
    assert "".join(texts) == "=2+3@home"
    assert found.attributions()["p0"]["base_generation"] == "=2+3"
