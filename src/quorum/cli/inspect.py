"""``quorum inspect``: a finished run in the terminal, or as a page."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from quorum.cli.output import print_json, print_table
from quorum.cli.settings import Commands
from quorum.errors import InputError, RefusedError
from quorum.pipeline.experiments import nearest_project

if TYPE_CHECKING:
    from quorum.pipeline.runs import Run


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "inspect",
        help="what a finished run found, and what it rests on",
        description="Reads a finished run of any study and prints a summary. No model is asked, "
        "nothing is changed.",
        epilog="RUN is a folder (a project, a copy of its data, an export), an experiment's name "
        "or a git revision. example: quorum inspect HEAD --html",
    )
    parser.add_argument("run", metavar="RUN", help="the run; . is the workspace")
    parser.add_argument("--snapshot", metavar="ID", help="print this snapshot's attribution")
    parser.add_argument(
        "--html",
        metavar="FILE",
        nargs="?",
        type=Path,
        const=Path("diagnostics.html"),
        help="write the page too (diagnostics.html, where no FILE is given)",
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(command=_inspect)


def _inspect(args: argparse.Namespace) -> None:
    from quorum.pipeline.inspection import inspect
    from quorum.pipeline.runs import open_run
    from quorum.report.inspection import cell_text

    with open_run(args.run, nearest_project()) as run:
        if args.snapshot is not None:
            _print_snapshot(run, args.snapshot)
            return
        found = inspect(run)
        page = None if args.html is None else _page(run, args.html)
    if page is not None:
        from quorum.pipeline.artifacts import write_text

        write_text(args.html, page)
    if args.json:
        print_json(dataclasses.asdict(found))
        return
    facts = [{"": name, "run": value} for name, value in found.facts]
    print_table(found.title, facts, limit=500)
    sys.stdout.write(f"{found.label}\n")
    for table in found.tables:
        rows = [{key: cell_text(value) for key, value in row.items()} for row in table.rows]
        print_table(table.title, rows)
        if table.note:
            sys.stdout.write(f"{table.note}\n")
    for note in found.notes:
        sys.stdout.write(f"note: {note}\n")
    for name in found.missing:
        sys.stdout.write(f"not in this run's files: {name}\n")
    if page is not None:
        sys.stdout.write(f"Wrote {args.html}\n")


def _print_snapshot(run: Run, snapshot: str) -> None:
    from quorum.pipeline.inspection import attributions_of
    from quorum.report.terminal import print_attribution

    read = attributions_of(run)
    if read is None:
        raise InputError(run.name, "has no attributions.jsonl", mend="Leave --snapshot out")
    names = [item.snapshot for item in read]
    if snapshot not in names:
        allowed = ", ".join(names)
        raise InputError(
            f"{run.name}: --snapshot", "no such snapshot", got=snapshot, allowed=allowed
        )
    rows = run.read_rows("attributions.jsonl")
    assert rows is not None
    print_attribution(rows[names.index(snapshot)], sys.stdout)


def _page(run: Run, to: Path) -> str:
    """The page's text: the study's own diagnostics where it has some, else the summary.

    Raises:
        RefusedError: The page would land among the run's own files.
    """
    from quorum.pipeline.inspection import diagnostics_page

    if any(to.resolve().is_relative_to(folder) for folder in run.folders):
        raise RefusedError(
            str(to),
            "lies among the files of the run, which stay as they are",
            mend="Name a file elsewhere: --html FILE",
        )
    return diagnostics_page(run)
