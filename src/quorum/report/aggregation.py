"""The self-contained page of an aggregation: tables whose cells lead to what they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quorum.report.aggregation_tables import Table, all_notes, letters, number_text
from quorum.report.escape import visible_label, visible_text
from quorum.report.pages import environment

LABEL_LIMIT = 120


@dataclass(frozen=True, slots=True)
class Origin:
    """What the cells of one group and metric came from.

    Args:
        anchor: Its address on the page.
        title: The group and the metric, in words.
        addresses: The cells.
        columns: Names of the columns of ``rows``.
        rows: The metric records, as texts.
    """

    anchor: str
    title: str
    addresses: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Listing:
    """A plain table of texts, behind a summary."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def aggregation_page(
    title: str,
    tables: Sequence[Table],
    origins: Sequence[Sequence[Origin]],
    listings: Sequence[Listing],
    answered_by: Sequence[str],
    *,
    is_model_generated: bool,
    digits: int,
) -> str:
    """The text of ``table.html``.

    Args:
        title: Of the page.
        tables: From first to last.
        origins: Of each table's cells.
        listings: Runs and checks.
        answered_by: Who answered in the runs, each once.
        is_model_generated: Whether any run is.
        digits: Significant digits.
    """
    pairs = zip(tables, origins, strict=True)
    return (
        environment()
        .get_template("aggregation.html")
        .render(
            title=visible_text(title),
            tables=[
                _table(table, origin, digits, number)
                for number, (table, origin) in enumerate(pairs)
                if table.rows
            ],
            listings=[_listing(listing) for listing in listings],
            answered_by=[visible_text(text) for text in answered_by],
            is_model_generated=is_model_generated,
        )
    )


def _table(
    table: Table, origins: Sequence[Origin], digits: int, number: int
) -> Mapping[str, object]:
    n_head = len(table.head)
    names = [*table.head, *(name for _, columns in table.groups for name in columns)]
    return {
        "id": f"table-{number + 1}",
        "title": visible_text(table.title),
        "n_head": n_head,
        "groups": [(_label(name), len(columns)) for name, columns in table.groups],
        "has_groups": any(name for name, _ in table.groups),
        "columns": [(letters(index), _label(name)) for index, name in enumerate(names)],
        "rows": [
            {
                "number": position,
                "head": [_label(text) for text in row.head],
                "cells": [
                    {
                        "address": cell.address,
                        "text": number_text(cell.value, digits),
                        "reason": None
                        if cell.value is not None
                        else visible_text(str(cell.reason)),
                        "anchor": cell.anchor,
                    }
                    for cell in row.cells
                ],
            }
            for position, row in enumerate(table.rows, start=2)
        ],
        "notes": [visible_text(note) for note in all_notes(table)],
        "origins": [_origin(origin) for origin in origins],
    }


def _origin(origin: Origin) -> Mapping[str, object]:
    return {
        "anchor": origin.anchor,
        "title": _label(origin.title),
        "addresses": f"{origin.addresses[0]} to {origin.addresses[-1]}",
        "columns": [_label(name) for name in origin.columns],
        "rows": [[_label(text) for text in row] for row in origin.rows],
    }


def _listing(listing: Listing) -> Mapping[str, object]:
    return {
        "title": visible_text(listing.title),
        "columns": [_label(name) for name in listing.columns],
        "rows": [[_label(text) for text in row] for row in listing.rows],
    }


def _label(text: str) -> str:
    return visible_label(text, limit=LABEL_LIMIT) if text else ""
