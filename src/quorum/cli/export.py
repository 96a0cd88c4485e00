"""``quorum export``: a run as a flat folder, to keep or to deposit."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quorum.cli.settings import Commands
from quorum.pipeline.experiments import nearest_project


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "export",
        help="write a run as a flat folder, with licences, citation and disclosure",
        description="Writes all artifacts of a run into one flat folder, with SHA256SUMS, "
        "LICENCES.md, CITATION.cff and disclosure.md. Nothing of the run is changed.",
        epilog="example: quorum export HEAD deposit --author 'Ada Lovelace'",
    )
    parser.add_argument("run", metavar="RUN", help="a folder, an experiment's name or a revision")
    parser.add_argument("to", metavar="DIR", type=Path, help="a new or empty folder")
    parser.add_argument(
        "--author",
        metavar="NAME",
        action="append",
        default=[],
        help="whom to cite; may be given several times",
    )
    parser.add_argument(
        "--spreadsheet",
        action="store_true",
        help="add copies of the tables in which no cell can run as a formula",
    )
    parser.add_argument(
        "--with-respondents",
        action="store_true",
        help="where people answered, copy the rows about single people too",
    )
    parser.set_defaults(command=_export)


def _export(args: argparse.Namespace) -> None:
    from quorum.pipeline.export import export
    from quorum.pipeline.runs import open_run

    with open_run(args.run, nearest_project()) as run:
        written = export(
            run,
            args.to,
            authors=tuple(args.author),
            spreadsheet=args.spreadsheet,
            people=args.with_respondents,
        )
    sys.stdout.write(f"Wrote {len(written.files) + 1} files to {written.folder}\n")
    for name in written.left_out:
        sys.stdout.write(f"left out, rows about single people: {name}\n")
    for name in written.missing:
        sys.stdout.write(f"not in this run's files: {name}\n")
    if not args.author:
        sys.stdout.write("CITATION.cff names nobody: --author NAME does\n")
