"""``quorum aggregate``: tables across runs, each number with what it came from."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from quorum.cli.output import print_table
from quorum.cli.settings import Commands
from quorum.pipeline.experiments import nearest_project

if TYPE_CHECKING:
    from quorum.report.aggregation_tables import Table


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "aggregate",
        help="make tables across runs; source runs are never written to",
        description="Reads runs, groups their metric records, and writes tables, ledgers and a "
        "trace from every number to its runs and records.",
        epilog="example: quorum aggregate --config tables/example.yaml",
    )
    parser.add_argument(
        "--config", required=True, type=Path, metavar="SPEC", help="what to do, a YAML file"
    )
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="folder for the tables (tables/<name of SPEC>)"
    )
    parser.set_defaults(command=_aggregate)


def _aggregate(args: argparse.Namespace) -> None:
    from quorum.pipeline.aggregation.run import aggregate
    from quorum.pipeline.artifacts import shown

    done = aggregate(args.config, args.to, nearest_project())
    for layout in (done.result.table, done.result.contrasts):
        if layout.table.rows:
            print_table(layout.table.title, _long(layout.table, done.result.spec.digits))
    filtered = done.result.filtered
    n_runs, n_left_out = len(filtered.sources), len(filtered.left_out)
    counts = f"{n_runs} run{'s' if n_runs != 1 else ''}, {len(done.result.records)} records"
    sys.stdout.write(counts + (f"; {n_left_out} left out by filters" if n_left_out else "") + "\n")
    sys.stdout.write(f"Wrote {shown(done.folder)}: {' '.join(sorted(done.names))}\n")


def _long(table: Table, digits: int) -> list[dict[str, object]]:
    """A line a row and group of columns: a terminal is narrower than a page."""
    from quorum.report.aggregation_tables import number_text

    lines: list[dict[str, object]] = []
    for row in table.rows:
        at = 0
        for name, columns in table.groups:
            cells = row.cells[at : at + len(columns)]
            at += len(columns)
            numbers = [
                None if cell.value is None else number_text(cell.value, digits, minus="-")
                for cell in cells
            ]
            lines.append(
                {
                    "cells": f"{cells[0].address} to {cells[-1].address}",
                    **dict(zip(table.head, row.head, strict=True)),
                    **({"": name} if name else {}),
                    **dict(zip(columns, numbers, strict=True)),
                }
            )
    return lines
