"""``quorum trace``: what a cell of a table came from."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quorum.cli.output import print_table
from quorum.cli.settings import Commands


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "trace",
        help="show what a cell of a table came from, and recompute it",
        description="Prints a cell's value with the runs and metric records behind it, recomputes "
        "it from the records, and fails where they do not agree.",
        epilog="example: quorum trace tables/example C2",
    )
    parser.add_argument("table", type=Path, metavar="TABLE", help="the folder, or a table in it")
    parser.add_argument(
        "cell",
        nargs="+",
        metavar="CELL",
        help="its address as in table.csv (C2), or the names of its row and of its column",
    )
    parser.set_defaults(command=_trace)


def _trace(args: argparse.Namespace) -> None:
    from quorum.config.aggregation import RECORD_KEYS
    from quorum.errors import InputError
    from quorum.pipeline.aggregation.trace import trace

    if len(args.cell) > 2:
        raise InputError(
            "CELL", "is too many words", got=" ".join(args.cell), allowed="C2, or 'ROW' 'COLUMN'"
        )
    found = trace(args.table, args.cell)
    cell = found.cell
    facts = {
        "cell": f"{found.address} of {found.table}",
        "row": cell["row"],
        "column": cell["column"],
        "statistic": cell["statistic"],
        "value": cell["value"] if cell["value"] is not None else f"none: {cell['reason']}",
    }
    print_table("Cell", [{"": key, "found": value} for key, value in facts.items()])
    if found.runs:
        print_table("Runs", [{**run, "run_id": str(run["run_id"])[:12]} for run in found.runs])
    if found.records:
        keys = [key for key in RECORD_KEYS if any(record[key] for record in found.records)]
        names = ("record", "metric", "value", *keys, "place")
        print_table("Records", [{n: record[n] or None for n in names} for record in found.records])
    n = len(found.records)
    sys.stdout.write(f"Recomputed from {n} record{'s' if n != 1 else ''}: it agrees\n")
