"""``quorum validate``: a file of prompts or a survey, checked and made a named input."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quorum.cli.output import print_table
from quorum.cli.settings import Commands, project_root


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "validate",
        help="check a file of prompts or a survey; --write makes it a named input",
        description="Checks a file of prompts (.jsonl or .csv) and counts its players, or a survey "
        "(.csv with a column question_id) and counts its options.",
    )
    parser.add_argument("file", type=Path, help="the file of prompts, or the survey")
    parser.add_argument("--write", metavar="NAME", help="make it the input NAME")
    for fact, text in (
        ("title", "what it is, in a few words"),
        ("licence", "on what terms it may be used; needed with --write"),
        ("attribution", "whom to name"),
        ("citation", "how to cite it"),
    ):
        parser.add_argument(f"--{fact}", default="", help=text)
    parser.set_defaults(command=_validate)


def _validate(args: argparse.Namespace) -> None:
    from quorum.pipeline.validate import check_file, write_input

    checked = check_file(args.file)
    print_table(checked.title, checked.rows)
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
