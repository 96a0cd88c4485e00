"""The ``quorum`` command: what DVC has no word for.

Exit codes: 0 ok, 2 settings or input, 3 refused, 4 budget, 5 backend, 130 interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import quorum
from quorum.cli import aggregate, doctor, explain, export, forecast, inspect, store, trace, validate
from quorum.pipeline.entry import guarded

COMMANDS = (
    explain,
    validate,
    forecast,
    doctor,
    inspect,
    export,
    aggregate,
    trace,
    store,
)  # in the order of --help


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; an error that a user can mend is one line on standard error."""
    args = parser().parse_args(argv)
    return guarded(lambda: args.command(args), is_debugging=args.debug)


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    whole = argparse.ArgumentParser(
        "quorum",
        description="Which parts of a prompt made the model answer so? How would a population "
        "answer this survey? "
        "DVC runs experiments (dvc repro, dvc exp run); this command does the rest.",
    )
    whole.add_argument("--version", action="version", version=f"quorum {quorum.__version__}")
    whole.add_argument("--debug", action="store_true", help="show a traceback for errors")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add(commands)
    for added in commands.choices.values():  # --debug may stand after the command, too
        added.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    return whole
