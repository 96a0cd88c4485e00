r"""Tables of an aggregation as CSV, Markdown and LaTeX, with the same cells at the same addresses.

An address is that of a spreadsheet that has opened the CSV: a column's letter and a row's number,
the headings being row 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from quorum.report.escape import visible_label
from quorum.report.tables import Cell, csv_text

LONG = 200  # graphemes of a text in a table
NOTHING = "–"
MINUS = "−"
FIRST_ROW = 2
_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",  # the other name needs a font encoding that is not the default
    "`": r"\textasciigrave{}",
    "[": "{[}",  # behind a line's end a bracket or a star would be read as its option
    "]": "{]}",
    "*": "{*}",
    "−": "$-$",
    "–": "--",
    "∅": r"$\emptyset$",
    "φ": r"$\varphi$",
    "Σ": r"$\Sigma$",
    "…": r"\ldots{}",
    "·": r"$\cdot$",
}
_MARKDOWN = re.compile(r"[\\`*\[\]|~$!#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


@dataclass(frozen=True, slots=True)
class TableCell:
    """A number of a table.

    Args:
        address: Such as ``C2``.
        value: None with a reason where undefined.
        reason: Why undefined.
        anchor: Where the page tells what it came from.
    """

    address: str
    value: float | int | None
    reason: str | None
    anchor: str


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row: the texts of its head, and its numbers."""

    head: tuple[str, ...]
    cells: tuple[TableCell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Args:
        title: What it is.
        head: Names of the columns that say which row it is.
        groups: Heading over a group of columns, and the names of its columns.
        rows: From top to bottom.
        notes: Sentences below it.
    """

    title: str
    head: tuple[str, ...]
    groups: tuple[tuple[str, tuple[str, ...]], ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        own = [f"{group} {name}".strip() for group, names in self.groups for name in names]
        return [*self.head, *own]


def letters(column: int) -> str:
    """The letters of a column, counted from 0: A … Z, AA …."""
    rest, last = divmod(column, 26)
    return (letters(rest - 1) if rest else "") + chr(ord("A") + last)


def number_text(value: float | None, digits: int, minus: str = MINUS) -> str:
    """A number for readers: counts as they are, others with this many significant digits."""
    if value is None:
        return NOTHING
    text = str(value) if isinstance(value, int) else _significant(value, digits)
    return text.replace("-", minus)


def _significant(value: float, digits: int) -> str:
    mantissa, e, exponent = f"{value + 0.0:#.{digits}g}".partition("e")
    mantissa = mantissa.rstrip(".")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def table_csv(table: Table) -> str:
    """The table in full precision, safe to be opened by a spreadsheet; undefined is empty."""
    columns = table.columns
    rows: list[dict[str, Cell]] = [
        dict(zip(columns, [*row.head, *(cell.value for cell in row.cells)], strict=True))
        for row in table.rows
    ]
    return csv_text(columns, rows, spreadsheet=True)


def tables_markdown(tables: Sequence[Table], digits: int) -> str:
    """The tables as one Markdown page."""
    return "\n".join(
        _markdown(table, digits, "#" if i == 0 else "##") for i, table in _seen(tables)
    )


def _seen(tables: Sequence[Table]) -> list[tuple[int, Table]]:
    return list(enumerate(table for table in tables if table.rows))


def _markdown(table: Table, digits: int, mark: str) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    n_numbers = len(table.columns) - len(table.head)
    lines = [f"{mark} {markdown_text(table.title)}", ""]
    lines.append(line([markdown_text(name) for name in table.columns]))
    lines.append(line(["---"] * len(table.head) + ["--:"] * n_numbers))
    for row in table.rows:
        head = [markdown_text(text) for text in row.head]
        lines.append(line(head + [number_text(cell.value, digits) for cell in row.cells]))
    lines += ["", *(f"- {markdown_text(note)}" for note in all_notes(table))]
    return "\n".join(lines) + "\n"


def tables_latex(tables: Sequence[Table], digits: int, label: str) -> str:
    """The tables in LaTeX; they need the package booktabs and UTF-8.

    Args:
        tables: From first to last.
        digits: Significant digits.
        label: Of the first table, behind ``tab:``; the next get a number.
    """
    slug = re.sub(r"[^A-Za-z0-9-]+", "-", label).strip("-") or "table"
    head = "% made by quorum aggregate; needs \\usepackage{booktabs}\n"
    return head + "\n".join(
        _latex(table, digits, slug if i == 0 else f"{slug}-{i + 1}") for i, table in _seen(tables)
    )


def _latex(table: Table, digits: int, label: str) -> str:
    n_head = len(table.head)
    n_numbers = len(table.columns) - n_head
    spans, rules, at = [], [], n_head + 1
    for name, columns in table.groups:
        end = at + len(columns) - 1
        spans.append(rf"\multicolumn{{{len(columns)}}}{{c}}{{{latex_text(name)}}}")
        rules += [rf"\cmidrule(lr){{{at}-{end}}}"] if name else []
        at = end + 1
    names = [*table.head, *(name for _, columns in table.groups for name in columns)]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(table.title)}}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{{'l' * n_head}{'r' * n_numbers}}}",
        r"\toprule",
        *([" & ".join([""] * n_head + spans) + r" \\", *rules] if rules else []),
        " & ".join(map(latex_text, names)) + r" \\",
        r"\midrule",
    ]
    for row in table.rows:
        numbers = [_latex_number(number_text(cell.value, digits)) for cell in row.cells]
        lines.append(" & ".join([*map(latex_text, row.head), *numbers]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    notes = all_notes(table)
    lines += [r"\par\smallskip", r"\begin{minipage}{\linewidth}\footnotesize"] if notes else []
    lines += [latex_text(note) + r"\par" for note in notes]
    lines += [r"\end{minipage}"] if notes else []
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _latex_number(text: str) -> str:
    if text == NOTHING:
        return "--"
    mantissa, e, exponent = text.replace(MINUS, "-").partition("e")
    return rf"${mantissa} \times 10^{{{exponent}}}$" if e else f"${mantissa}$"


def all_notes(table: Table) -> list[str]:
    """The notes, and why cells are empty, by reason."""
    reasons: dict[str, list[str]] = {}
    for row in table.rows:
        for cell in row.cells:
            if cell.value is None:
                reasons.setdefault(str(cell.reason), []).append(cell.address)
    empty = [f"{', '.join(addresses)}: {reason}." for reason, addresses in reasons.items()]
    return [*table.notes, *empty]


def latex_text(text: str) -> str:
    """A text that LaTeX sets as it is, on one line."""
    line = visible_label(text, limit=LONG)
    signs = [_LATEX.get(sign, sign) for sign in line]
    for index, sign in enumerate(line[:-1]):
        if sign == line[index + 1] == "-":  # two hyphens would become a dash
            signs[index] = "-{}"
    return "".join(signs)


def markdown_text(text: str) -> str:
    """A text that Markdown shows as it is, on one line, also inside a table."""
    line = visible_label(text, limit=LONG)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(lambda match: "\\" + match.group(), line)
