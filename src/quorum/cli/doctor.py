"""``quorum doctor``: one tiny request, and what works."""

from __future__ import annotations

import argparse
import sys
from typing import cast

from quorum.cli.output import print_json, print_table
from quorum.cli.settings import Commands, add_settings, changed_params, project_root


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "doctor",
        help="send a backend one tiny request and print what works",
        description="Sends one tiny request (it may cost a fraction of a cent) and prints what "
        "the backend can do. Nothing is stored.",
        epilog="example: quorum doctor openai -S model=gpt-4o-mini",
    )
    parser.add_argument("backend", help="an option of conf/backend")
    parser.add_argument("--thorough", action="store_true", help="try all that is declared")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    add_settings(parser)
    parser.set_defaults(command=_doctor)


def _doctor(args: argparse.Namespace) -> None:
    from quorum.config.compose import compose
    from quorum.pipeline.doctor import doctor

    root = project_root()
    params = changed_params(root, [f"backend={args.backend}", *args.changes])
    found = doctor(root, compose(root, params), is_thorough=args.thorough)
    if args.json:
        print_json(found)
    else:
        shown = ("model_version", "reply", "finish_reason", "seconds", "usage", "limits")
        told = {key: found.get(key) for key in shown}
        told["usage"] = ", ".join(
            f"{n} {key}" for key, n in cast("dict[str, int]", found["usage"]).items() if n
        )
        facts = [{"": key, "found": value} for key, value in told.items()]
        print_table(f"{found['backend']} {found['model']}", facts)
        print_table("What it can do", cast("list[dict[str, object]]", found["capabilities"]))
    if found["problem"] is not None:
        sys.stderr.write(f"error: {found['problem']}\n")
        sys.exit(cast("int", found["exit_code"]))
