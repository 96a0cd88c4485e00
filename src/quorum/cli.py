"""The ``quorum`` command: what DVC has no word for.

Exit codes: 0 ok, 2 settings or input, 3 refused, 4 budget, 5 backend, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import quorum
from quorum.errors import InputError, SettingsError
from quorum.pipeline.entry import guarded

PIPE_WIDTH = 200  # characters of a table's line where there is no terminal


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; an error that a user can mend is one line on standard error."""
    parser = _parser()
    args = parser.parse_args(argv)
    return guarded(lambda: args.command(args), is_debugging=args.debug)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "quorum",
        description="Which parts of a prompt made the model answer so? How would a population "
        "answer this survey? "
        "DVC runs experiments (dvc repro, dvc exp run); this command does the rest.",
    )
    parser.add_argument("--version", action="version", version=f"quorum {quorum.__version__}")
    parser.add_argument("--debug", action="store_true", help="show a traceback for errors")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    explain = commands.add_parser(
        "explain",
        help="attribute the answer to one prompt to its parts",
        description="Attributes the answer to one prompt to its parts and prints a table.",
        epilog="example: quorum explain 'What is the capital of France?' -S budget.fraction=0.5",
    )
    explain.add_argument("prompt", help="the user's message, or - to read it from standard input")
    explain.add_argument("--system", default="", help="a system message before it")
    explain.add_argument("--json", action="store_true", help="print the result as JSON")
    _add_settings(explain)
    explain.set_defaults(command=_explain)

    validate = commands.add_parser(
        "validate",
        help="check a file of prompts or a survey; --write makes it a named input",
        description="Checks a file of prompts (.jsonl or .csv) and counts its players, or a survey "
        "(.csv with a column question_id) and counts its options.",
    )
    validate.add_argument("file", type=Path, help="the file of prompts, or the survey")
    validate.add_argument("--write", metavar="NAME", help="make it the input NAME")
    for fact, text in (
        ("title", "what it is, in a few words"),
        ("licence", "on what terms it may be used; needed with --write"),
        ("attribution", "whom to name"),
        ("citation", "how to cite it"),
    ):
        validate.add_argument(f"--{fact}", default="", help=text)
    validate.set_defaults(command=_validate)

    forecast = commands.add_parser(
        "forecast",
        help="what the next dvc repro would ask for, against the store of this moment",
        description="Prints coalitions, requests, tokens and time of the next dvc repro.",
    )
    forecast.add_argument("--json", action="store_true", help="print the forecast as JSON")
    _add_settings(forecast)
    forecast.set_defaults(command=_forecast)

    doctor = commands.add_parser(
        "doctor",
        help="send a backend one tiny request and print what works",
        description="Sends one tiny request (it may cost a fraction of a cent) and prints what "
        "the backend can do. Nothing is stored.",
        epilog="example: quorum doctor openai -S model=gpt-4o-mini",
    )
    doctor.add_argument("backend", help="an option of conf/backend")
    doctor.add_argument("--thorough", action="store_true", help="try all that is declared")
    doctor.add_argument("--json", action="store_true", help="print the findings as JSON")
    _add_settings(doctor)
    doctor.set_defaults(command=_doctor)
    for command in (
        explain,
        validate,
        forecast,
        doctor,
    ):  # --debug may stand after the command, too
        command.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-S",
        "--set",
        dest="changes",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting, as in dvc exp run -S (budget.fraction=0.5, estimator=exact)",
    )


def project_root() -> Path:
    """The project's folder: the nearest one upwards that holds conf/config.yaml.

    Raises:
        SettingsError: There is none.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "conf" / "config.yaml").is_file():
            return folder
    raise SettingsError(
        str(here), "is not in a Quorum project", mend="Change to the folder that holds conf/"
    )


def changed_params(root: Path, changes: Sequence[str]) -> dict[str, object]:
    """params.yaml with changes of the form ``key=value`` or ``group.key=value``.

    Raises:
        SettingsError: A change has no ``=``, or its value is not YAML.
    """
    from quorum.config.compose import default_choice, read_params, read_value
    from quorum.config.schema import GROUPS

    params = read_params(root / "params.yaml")
    for change in changes:
        key, equals, text = change.lstrip("+").partition("=")
        if not equals or not key:
            raise SettingsError("-S", "a change reads KEY=VALUE", got=change)
        group, dot, inner = key.partition(".")
        if not group or (dot and not inner):
            raise SettingsError("-S", "a change reads KEY=VALUE", got=change)
        value = read_value(text)
        if not inner:
            params[group] = value
            continue
        old = params.get(group)
        if old is None and GROUPS.get(group, (None, None))[0] is not None:
            old = default_choice(root, group)
        section = (
            {"use": old} if isinstance(old, str) else dict(cast("dict[str, object]", old or {}))
        )
        params[group] = {**section, inner: value}
    return params


def _explain(args: argparse.Namespace) -> None:
    from quorum.attribution.snapshots import Snapshot
    from quorum.config.compose import compose
    from quorum.pipeline.attribution.explain import explain
    from quorum.records import Message
    from quorum.report.terminal import print_attribution

    root = project_root()
    params = changed_params(root, args.changes)
    if params.get("study") == "reconstruction":  # the workspace shows one; this is about a prompt
        params |= {"study": "attribution", "input": None}
    settings = compose(root, params)
    prompt = _prompt(args.prompt)
    messages = (Message("system", args.system),) if args.system else ()
    result = explain(root, Snapshot("prompt", (*messages, Message("user", prompt))), settings)
    if args.json:
        _print_json(result)
    else:
        print_attribution(result, sys.stdout)


def _prompt(given: str) -> str:
    """The prompt's text: as given, or from standard input where it is ``-``."""
    try:
        prompt = sys.stdin.read() if given == "-" else given
        prompt.encode("utf-8")  # bytes of another encoding come as lone surrogates
    except UnicodeError as error:
        raise InputError("PROMPT", "is not UTF-8", mend="Give the text in UTF-8") from error
    if not prompt.strip():
        raise InputError("PROMPT", "is empty", mend="Give the text of a prompt")
    return prompt


def _validate(args: argparse.Namespace) -> None:
    from quorum.pipeline.validate import check_file, write_input

    checked = check_file(args.file)
    _print_table(checked.title, checked.rows)
    for note in checked.notes:
        sys.stdout.write(f"{note}\n")
    if args.write:
        facts = {
            name: getattr(args, name) for name in ("title", "licence", "attribution", "citation")
        }
        root = project_root()
        written = write_input(root, args.file, args.write, facts)
        names = " ".join(path.relative_to(root).as_posix() for path in written)
        sys.stdout.write(f"Wrote {names}\n")
        study = " -S study=reconstruction" if checked.kind == "survey" else ""
        sys.stdout.write(f"Now: git add {names}; dvc exp run{study} -S input={args.write}\n")


def _forecast(args: argparse.Namespace) -> None:
    from importlib import import_module

    from quorum.config.checks import check_inputs
    from quorum.config.compose import compose
    from quorum.config.parts import study_of
    from quorum.pipeline.forecasting import cents

    root = project_root()
    settings = compose(root, changed_params(root, args.changes))
    check_inputs(root, settings)
    study = import_module(f"quorum.pipeline.{study_of(settings)}.forecast")
    found = cast("dict[str, object]", study.forecast(root, settings))
    if args.json:
        _print_json(found)
        return
    rows = cast("list[dict[str, object]]", found["rows"])
    shown = [
        {
            key: cents(value) if key.startswith("usd_") and value is not None else value
            for key, value in row.items()
            if key != "source"
        }
        for row in rows
    ]
    _print_table(f"Forecast: {found['backend']} {found['model']}", _transposed(shown))
    for row in rows:
        sys.stdout.write(f"{row['module']}: seconds from {row['source']}\n")
    if found.get("cap_usd") is not None:
        sys.stdout.write(
            f"cap: ${found['cap_usd']}, spent ${found['spent_usd']}, {found['status']}; "
            f"{found['what_fits']} calls fit\n"
        )
    for note in cast("list[str]", found["notes"]):
        sys.stdout.write(f"{note}\n")


def _doctor(args: argparse.Namespace) -> None:
    from quorum.config.compose import compose
    from quorum.pipeline.doctor import doctor

    root = project_root()
    params = changed_params(root, [f"backend={args.backend}", *args.changes])
    found = doctor(root, compose(root, params), is_thorough=args.thorough)
    if args.json:
        _print_json(found)
    else:
        shown = ("model_version", "reply", "finish_reason", "seconds", "usage", "limits")
        told = {key: found.get(key) for key in shown}
        told["usage"] = ", ".join(
            f"{n} {key}" for key, n in cast("dict[str, int]", found["usage"]).items() if n
        )
        facts = [{"": key, "found": value} for key, value in told.items()]
        _print_table(f"{found['backend']} {found['model']}", facts)
        _print_table("What it can do", cast("list[dict[str, object]]", found["capabilities"]))
    if found["problem"] is not None:
        sys.stderr.write(f"error: {found['problem']}\n")
        sys.exit(cast("int", found["exit_code"]))


def _transposed(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    names = [key for key in rows[0] if key != "module"]
    return [{"": name, **{str(row["module"]): row[name] for row in rows}} for name in names]


def _print_json(value: object) -> None:
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=not is_utf8)
    sys.stdout.write(text + "\n")


def _print_table(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from quorum.report.escape import visible_label

    # A pipe has no width: nothing is cut there. Names are text and never markup.
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else PIPE_WIDTH)

    def cell(value: object) -> Text:
        text = "-" if value is None else visible_label(str(value))
        return Text(text.encode(console.encoding, "backslashreplace").decode(console.encoding))

    table = Table(title=cell(title), title_justify="left")
    for index, name in enumerate(rows[0]):
        table.add_column(cell(name), justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*map(cell, row.values()))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
