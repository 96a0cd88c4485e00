"""``quorum explain``: the answer to one prompt, attributed to its parts."""

from __future__ import annotations

import argparse
import sys

from quorum.cli.output import print_json
from quorum.cli.settings import Commands, add_settings, changed_params, project_root
from quorum.errors import InputError


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "explain",
        help="attribute the answer to one prompt to its parts",
        description="Attributes the answer to one prompt to its parts and prints a table.",
        epilog="example: quorum explain 'What is the capital of France?' -S budget.fraction=0.5",
    )
    parser.add_argument("prompt", help="the user's message, or - to read it from standard input")
    parser.add_argument("--system", default="", help="a system message before it")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    add_settings(parser)
    parser.set_defaults(command=_explain)


def _explain(args: argparse.Namespace) -> None:
    from quorum.attribution.snapshots import Snapshot
    from quorum.config.compose import compose
    from quorum.pipeline.attribution.explain import explain
    from quorum.records import Message
    from quorum.report.terminal import print_attribution

    root = project_root()
    params = changed_params(root, args.changes)
    if params.get("study") in ("reconstruction", "simulation"):  # the workspace's; not a prompt's
        params |= {"study": "attribution", "input": None}
    settings = compose(root, params)
    prompt = _prompt(args.prompt)
    messages = (Message("system", args.system),) if args.system else ()
    result = explain(root, Snapshot("prompt", (*messages, Message("user", prompt))), settings)
    if args.json:
        print_json(result)
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
