"""What commands print: tables, and JSON that any terminal takes."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

PIPE_WIDTH = 200  # characters of a table's line where there is no terminal


def print_table(title: str, rows: Sequence[Mapping[str, object]], limit: int = 60) -> None:
    """Prints rows as a table, cells of at most ``limit`` graphemes; null prints as a dash."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from quorum.report.escape import visible_label

    # A pipe has no width: nothing is cut there. Names are text and never markup.
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else PIPE_WIDTH)

    def cell(value: object) -> Text:
        text = "-" if value is None else visible_label(str(value), limit)
        return Text(text.encode(console.encoding, "backslashreplace").decode(console.encoding))

    table = Table(title=cell(title), title_justify="left")
    for index, name in enumerate(rows[0]):
        table.add_column(cell(name), justify="left" if index == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*map(cell, row.values()))
    console.print(table)


def print_json(value: object) -> None:
    """Prints a value as JSON, in ASCII where the terminal is not UTF-8."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=not is_utf8)
    sys.stdout.write(text + "\n")
