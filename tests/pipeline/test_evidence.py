"""What a finished run says of itself: inspect, export and load, from wherever its files lie."""

from __future__ import annotations

import hashlib
import json
import sys
import types
from pathlib import Path

import finished_runs as runs
import pytest
import survey_project as small
import yaml

import quorum
from quorum.cli import main
from quorum.errors import InputError, MissingExtraError


@pytest.fixture(scope="module")
def attribution(make_projects) -> Path:
    """An attribution of two prompts."""
    return runs.attribution(make_projects("attribution"))


@pytest.fixture(scope="module")
def reconstruction(make_projects) -> Path:
    """A small survey, rebuilt for three targets."""
    return runs.reconstruction(make_projects("reconstruction"))


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """An empty working directory that is in no project."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "160")
    return folder


def digests(root: Path) -> dict[str, tuple[str, int]]:
    files = [p for p in sorted(root.rglob("*")) if p.is_file()]
    return {
        str(p): (hashlib.sha256(p.read_bytes()).hexdigest(), p.stat().st_mtime_ns) for p in files
    }


def test_inspect_prints_what_a_run_found(attribution, here, capsys):
    assert main(["inspect", str(attribution)]) == 0
    shown = capsys.readouterr().out
    record = json.loads((attribution / "data/aggregate/log/run.json").read_text())
    assert record["run_id"] in shown
    assert "Model-generated" in shown
    rows = [line for line in shown.splitlines() if line.startswith(("│ p0", "│ p1"))]
    assert [row.split("│")[2].strip() for row in rows] == ["3", "4"]  # players


def test_inspect_prints_the_targets_of_a_reconstruction(reconstruction, here, capsys):
    assert main(["inspect", str(reconstruction)]) == 0
    shown = capsys.readouterr().out
    for name in ("population", "sex=f", "sex=m"):
        assert name in shown
    assert "weighted to match a population" in shown


def test_inspect_shows_one_snapshot(attribution, here, capsys):
    assert main(["inspect", str(attribution), "--snapshot", "p1"]) == 0
    shown = capsys.readouterr().out
    assert "three" in shown
    assert "red" not in shown
    assert main(["inspect", str(attribution), "--snapshot", "p9"]) == 2
    assert "no such snapshot, got 'p9'; allowed p0, p1" in capsys.readouterr().err


def test_inspect_gives_json_to_programs(attribution, here, capsys):
    assert main(["inspect", str(attribution), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    numbers = {row["scalar"]: row["value"] for row in found["tables"][0]["rows"]}
    assert numbers["n_snapshots"] == 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [("attribution", "three"), ("reconstruction", "Every question")],
)
def test_inspect_writes_a_page_beside_the_run(kind, words, request, here, capsys):
    root = request.getfixturevalue(kind)
    assert main(["inspect", str(root), "--html"]) == 0
    page = (here / "diagnostics.html").read_text()
    assert capsys.readouterr().out.endswith("Wrote diagnostics.html\n")
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    title = {"attribution": "own", "reconstruction": "A small survey"}[kind]
    assert title in page


def test_inspect_needs_no_optional_file(attribution, here, tmp_path, capsys):
    data = runs.copy_data(attribution, tmp_path / "copy")
    for path in [*data.rglob("*")]:
        if path.is_file() and path.name not in {"run.json", "metrics.json"}:
            path.unlink()
    assert main(["inspect", str(data), "--html"]) == 0
    shown = capsys.readouterr().out
    assert "n_coalitions" in shown
    assert "not in this run's files: attributions.jsonl" in shown
    assert "attributions.jsonl" in (here / "diagnostics.html").read_text()


def test_nothing_of_a_run_is_touched(attribution, here, tmp_path, capsys):
    data = runs.copy_data(attribution, tmp_path / "copy")
    before = digests(data)
    for path in [*data.rglob("*"), data]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    assert main(["inspect", str(data), "--html"]) == 0
    assert main(["export", str(data), "out", "--spreadsheet"]) == 0
    quorum.load(data)
    assert main(["inspect", str(data), "--html", str(data / "page.html")]) == 3
    assert main(["export", str(data), str(data / "out")]) == 3
    assert capsys.readouterr().err.count("lies among the files of the run") == 2
    assert digests(data) == before


def test_an_export_is_the_flat_list_with_a_digest_of_each_file(reconstruction, here, capsys):
    assert main(["export", str(reconstruction), "out", "--author", "Ada Lovelace"]) == 0
    named = {
        "active_generation.checkpoint",
        "endowments.csv",
        "responses.csv",
        "attribute_bank.resolved.yaml",
        "aggregate_entropy_trajectory.csv",
        "persistent_mode_entropy.csv",
        "question_entropy_trajectories.csv",
        "mode_summary.csv",
        "usage.csv",
        "usage.json",
        "pipeline.log",
        "config.resolved.yaml",
        "run.json",
        "metrics.json",
        "metrics.csv",
        "diagnostics.json",
        "budget.json",
        "budget.csv",
        "budget_history.csv",
        "budget.html",
    }
    assert named <= {p.name for p in (here / "out").iterdir()}
    sums = dict(
        reversed(line.split("  ", 1)) for line in (here / "out/SHA256SUMS").read_text().splitlines()
    )
    files = {
        p.relative_to(here / "out").as_posix()
        for p in (here / "out").rglob("*")
        if p.is_file() and p.name != "SHA256SUMS"
    }
    assert set(sums) == files
    content = (here / "out/run.json").read_bytes()
    assert sums["run.json"] == hashlib.sha256(content).hexdigest()
    cited = yaml.safe_load((here / "out/CITATION.cff").read_text())
    assert cited["authors"] == [{"name": "Ada Lovelace"}]
    assert cited["version"] == json.loads(content)["run_id"][:12]


def test_an_export_is_a_run_again(attribution, here, capsys):
    assert main(["export", str(attribution), "out"]) == 0
    assert main(["export", "out", "again"]) == 0
    first, second = (here / "out/SHA256SUMS").read_text(), (here / "again/SHA256SUMS").read_text()
    assert first == second
    assert quorum.load("again").run_id == quorum.load(attribution).run_id


def test_the_disclosure_says_what_was_asked_of_whom(reconstruction, here, capsys):
    assert main(["export", str(reconstruction), "out"]) == 0
    text = (here / "out/disclosure.md").read_text()
    assert "**Model-generated answers" in text
    assert "How often do you read a paper?" in text
    assert "1: Daily / 2: Weekly / 3: Never" in text
    assert "- **Population**: 5,836 respondents in the United States, weighted" in text
    assert "- **Field dates of the survey**: 2020-09-15 to 2020-09-25" in text
    assert "- **Mode of the survey**: poll by Ipsos" in text
    assert "- **Licence of the data**: CC-BY-4.0" in text
    assert "- **Cleaning policy**: impute\\_pool" in text
    found = json.loads((here / "out/diagnostics.json").read_text())
    for row in found["cleaning"]["counts"]:
        assert f"{row['reason']} {row['n']}" in text.replace("\\", "")
    fit = found["targets"][0]["fit"]
    (line,) = [row for row in text.splitlines() if row.startswith("| population")]
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[3] == str(fit["n_active"])
    assert cells[6] == str(fit["max_weight"])
    assert "You are" in text.split("The persona's text, as it was sent")[1]


def test_the_disclosure_says_why_something_is_not_there(attribution, here, tmp_path, capsys):
    data = runs.copy_data(attribution, tmp_path / "copy")
    for name in ("usage.csv", "store.jsonl.gz"):
        (data / "generate/log" / name).unlink()
    assert main(["export", str(data), "out"]) == 0
    text = (here / "out/disclosure.md").read_text()
    assert "- **Dates of the calls**: not recorded (no reply and no call is on record)" in text
    assert "Not recorded (the run's files hold no request)." in text


def test_a_spreadsheet_runs_no_formula(make_project, here, capsys):
    project = make_project()
    project.write_prompts(["=2+3 and @home"])
    project.write_params(value="chrf", partition="words")
    project.run()
    assert main(["export", str(project.root), "out", "--spreadsheet"]) == 0
    plain = (here / "out/attributions.csv").read_text()
    guarded = (here / "out/spreadsheet/attributions.csv").read_text()
    assert "p0,0,=2+3,user," in plain
    assert "p0,0,'=2+3,user," in guarded
    assert "'@home" in guarded
    assert "Model-generated" in guarded.splitlines()[1]
    numbers = [line.split(",")[4] for line in guarded.splitlines()[1:]]
    assert numbers == [line.split(",")[4] for line in plain.splitlines()[1:]]


def test_rows_about_single_people_stay_where_they_are(make_project, here, capsys):
    project = make_project()
    rows = [
        {"id": i, **{q: str(1 + i % len(o)) for q, (_, _, _, o) in small.QUESTIONS.items()}}
        for i in range(20)
    ]
    small.write_survey(project.root)
    (project.root / "data/surveys/people.csv").write_text(small.csv_of(rows), encoding="utf-8")
    backend = {"use": "panel", "path": "data/surveys/people.csv", "attributes": []}
    project.write_params(study="reconstruction", backend={**backend, "call_log": None})
    project.run()
    assert main(["export", str(project.root), "out"]) == 0
    told = capsys.readouterr().out
    for name in ("endowments.csv", "responses.csv", "weights.csv", "generations"):
        assert f"left out, rows about single people: {name}\n" in told
        assert not (here / "out" / name).exists()
    assert "Real people's answers" in (here / "out/disclosure.md").read_text()
    assert main(["export", str(project.root), "whole", "--with-respondents"]) == 0
    assert (here / "whole/weights.csv").is_file()


def test_load_gives_data_frames_with_numbers_and_texts(attribution, reconstruction, here):
    run = quorum.load(attribution)
    assert run.study == "attribution"
    players = run["attributions"]
    assert list(players["text"][players["snapshot"] == "p0"]) == ["red", "green", "blue"]
    assert players["raw_value"].dtype == float
    row = players.iloc[0]
    assert row["low"] <= row["raw_value"] <= row["high"]
    assert set(run["payoffs"]["coalition"]) >= {
        "0",
        "7",
        "f",
    }  # texts, though they look like numbers
    assert run.labels("p1") == ["one", "two", "three", "four"]

    rebuilt = quorum.load(reconstruction)
    weights = rebuilt["weights"]
    totals = weights.groupby("target")["weight"].sum()
    assert set(totals.index) == {"population", "sex=f", "sex=m"}
    assert ((totals > 0) & (totals < 1 + 1e-9)).all()
    assert rebuilt["predictions"]["option_label"].iloc[0] == "1"
    assert rebuilt["metrics"]["value"].notna().any()
    with pytest.raises(InputError, match="no such table, got 'payoffs'; allowed "):
        rebuilt["payoffs"]


def test_load_finds_a_project_and_its_revisions_from_inside(attribution, monkeypatch):
    monkeypatch.chdir(attribution / "data")
    with pytest.raises(InputError, match="nowhere: no such run; allowed a folder, an experiment"):
        quorum.load("nowhere")
    assert quorum.load("..").run_id == quorum.load(attribution).run_id


class Values:
    """Stands for shapiq's class: keeps what it is given."""

    def __init__(self, **given: object) -> None:
        self.__dict__.update(given)


def test_values_go_to_shapiq_in_its_own_order(attribution, monkeypatch):
    run = quorum.load(attribution)
    monkeypatch.setitem(sys.modules, "shapiq", None)
    with pytest.raises(MissingExtraError, match="shapiq"):
        run.to_shapiq("p0")

    library = types.ModuleType("shapiq")
    library.InteractionValues = Values
    monkeypatch.setitem(sys.modules, "shapiq", library)
    found = run.to_shapiq("p0")
    values = run["attributions"].query("snapshot == 'p0'")["raw_value"].tolist()
    base = run["snapshots"].query("snapshot == 'p0'")["base_value"].iloc[0]
    assert found.values.tolist() == [base, *values]
    assert found.interaction_lookup == {(): 0, (0,): 1, (1,): 2, (2,): 3}
    assert (found.index, found.max_order, found.n_players) == ("SV", 1, 3)
    with pytest.raises(InputError, match="no such snapshot; allowed p0, p1"):
        run.to_shapiq()


def test_a_page_is_written_under_its_own_name_only(attribution, here, capsys):
    assert main(["inspect", str(attribution), "--html", "mine.html"]) == 0
    assert [path.name for path in here.iterdir()] == ["mine.html"]
