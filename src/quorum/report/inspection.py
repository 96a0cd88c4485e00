"""The page of one run of any study: facts, tables, notes; one file without a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quorum.report.escape import visible_label, visible_text
from quorum.report.pages import environment

MAX_CELL = 80  # graphemes of a cell's text


def cell_text(value: object) -> str:
    """A cell as people read it: four significant digits, thousands apart, null as a dash."""
    if value is None or value == "":
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}".replace("-", "−")
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    return visible_label(str(value), limit=MAX_CELL)


def inspection_page(
    title: str,
    label: str,
    facts: Sequence[tuple[str, str]],
    tables: Sequence[tuple[str, Sequence[Mapping[str, object]], str]],
    notes: Sequence[str],
    missing: Sequence[str],
) -> str:
    """The text of ``diagnostics.html``.

    Args:
        title: What the run is.
        label: What its answers are.
        facts: Names and values.
        tables: Title, rows with equal columns, and a note each.
        notes: What a reader must know.
        missing: Files that such a run has as a rule, and this one has not.
    """
    shown = [
        {
            "id": f"table-{number}",
            "title": name,
            "columns": [
                (column, all(not isinstance(row[column], str) for row in rows))
                for column in rows[0]
            ],
            "rows": [[cell_text(value) for value in row.values()] for row in rows],
            "note": note,
        }
        for number, (name, rows, note) in enumerate(tables)
    ]
    return (
        environment()
        .get_template("inspection.html")
        .render(
            title=visible_text(title),
            label=visible_text(label),
            facts=[(name, visible_text(value)) for name, value in facts],
            tables=shown,
            notes=[visible_text(note) for note in notes],
            missing=list(missing),
        )
    )
