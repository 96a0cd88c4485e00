"""``quorum forecast``: what the next run would ask for and cost."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import cast

from quorum.cli.output import print_json, print_table
from quorum.cli.settings import Commands, add_settings, changed_params, project_root


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "forecast",
        help="what the next dvc repro would ask for, against the store of this moment",
        description="Prints coalitions, requests, tokens and time of the next dvc repro.",
    )
    parser.add_argument("--json", action="store_true", help="print the forecast as JSON")
    add_settings(parser)
    parser.set_defaults(command=_forecast)


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
        print_json(found)
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
    print_table(f"Forecast: {found['backend']} {found['model']}", _transposed(shown))
    for row in rows:
        sys.stdout.write(f"{row['module']}: seconds from {row['source']}\n")
    if found.get("cap_usd") is not None:
        sys.stdout.write(
            f"cap: ${found['cap_usd']}, spent ${found['spent_usd']}, {found['status']}; "
            f"{found['what_fits']} calls fit\n"
        )
    for note in cast("list[str]", found["notes"]):
        sys.stdout.write(f"{note}\n")


def _transposed(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    names = [key for key in rows[0] if key != "module"]
    return [{"": name, **{str(row["module"]): row[name] for row in rows}} for name in names]
