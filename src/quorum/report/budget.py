"""The self-contained budget page: one row a module, readable on a phone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quorum.report.document import records, table, texts
from quorum.report.escape import visible_text
from quorum.report.pages import environment

_UNITS = {"usd": "USD", "s": "s"}
_BAND = ("low", "base", "high")
_TABLES = {
    "scenarios": "Ways to make the run",
    "prices": "Prices, in USD for a million tokens",
    "cards": "What the forecast rests on",
    "history": "Earlier runs",
}
_MEANING = {
    "within": "The high forecast is within the cap.",
    "at_risk": "The base forecast is within the cap, the high one is not.",
    "exceeds": "The base forecast is above the cap.",
    "unpriced": "There is no price for this model.",
    "no_cap": "No cap is set.",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the page: the row's field, or the three fields of a band, under one label."""

    name: str
    label: str
    is_number: bool


def budget_page(budget: Mapping[str, object]) -> str:
    """The text of ``budget.html``.

    Args:
        budget: ``rows`` (a mapping a module), ``totals`` (a mapping with the same fields),
            ``status`` and ``notes`` (texts), all optional; ``title`` too. Any other entry is shown
            above the table under its own name. A forecast is a mapping ``low``, ``base``, ``high``,
            or ``tokens_low``, ``tokens_base``, ``tokens_high``: shown as *base (low to high)*.
            Columns stand in the order in which the rows name them; null is "not available".

    Raises:
        InputError: ``rows``, ``totals`` or ``notes`` are not what they must be.
    """
    rows = [_with_bands(row) for row in records(budget, "rows")]
    totals = _with_bands(table(budget, "totals"))
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [Column(name, _label(name), _is_number(rows, name)) for name in names]
    status = _shown(budget["status"]) if budget.get("status") is not None else ""
    placed = {"rows", "totals", "status", "notes", "title", *_TABLES}
    facts = [(_label(key), _shown(value)) for key, value in _flat(budget, placed)]
    facts += [
        (f"Total {_label(key).lower()}", _shown(totals[key])) for key in totals if key not in names
    ]
    return (
        environment()
        .get_template("budget.html")
        .render(
            title=visible_text(str(budget.get("title") or "Budget")),
            status=status.replace("_", " "),
            meaning=_MEANING.get(status, ""),
            facts=facts,
            columns=columns,
            rows=[[_cell(row, name) for name in names] for row in rows],
            totals=_totals(totals, names),
            notes=[visible_text(note) for note in texts(budget, "notes")],
            tables=[_table(budget, name) for name in _TABLES if budget.get(name)],
        )
    )


def _table(budget: Mapping[str, object], name: str) -> dict[str, object]:
    """A further table: all that its rows name, in the order in which they name it."""
    rows = [_with_bands(row) for row in records(budget, name)]
    names = list(dict.fromkeys(key for row in rows for key in row))
    return {
        "id": name,
        "title": _TABLES[name],
        "columns": [Column(key, _label(key), _is_number(rows, key)) for key in names],
        "rows": [[_cell(row, key) for key in names] for row in rows],
    }


def _totals(totals: Mapping[str, object], names: Sequence[str]) -> list[str]:
    if not any(name in totals for name in names):
        return []
    first, *others = names
    head = _shown(totals[first]) if isinstance(totals.get(first), str) else "Total"
    return [head, *(_cell(totals, name) for name in others)]


def _cell(row: Mapping[str, object], name: str) -> str:
    return _shown(row[name]) if name in row else ""


def _with_bands(row: Mapping[str, object]) -> dict[str, object]:
    """The row with ``X_low``, ``X_base``, ``X_high`` put together as one ``X``, in their place."""
    merged: dict[str, object] = {}
    for name, value in row.items():
        stem, _, end = name.rpartition("_")
        if end in _BAND and all(f"{stem}_{level}" in row for level in _BAND):
            merged.setdefault(stem, {level: row[f"{stem}_{level}"] for level in _BAND})
        else:
            merged[name] = value
    return merged


def _flat(budget: Mapping[str, object], placed: set[str]) -> list[tuple[str, object]]:
    found: list[tuple[str, object]] = []
    for name, value in _with_bands({k: budget[k] for k in budget if k not in placed}).items():
        if isinstance(value, Mapping) and set(value) != set(_BAND):
            found.extend((f"{name} {key}", value[key]) for key in value)
        else:
            found.append((name, value))
    return found


def _label(name: str) -> str:
    stem, _, unit = name.rpartition("_")
    if name == "usd":
        return "Cost (USD)"
    if stem and unit in _UNITS:
        return visible_text(f"{stem.replace('_', ' ').capitalize()} ({_UNITS[unit]})")
    words = name.removeprefix("n_").replace("_", " ")
    return visible_text(words[:1].upper() + words[1:])


def _is_number(rows: Sequence[Mapping[str, object]], name: str) -> bool:
    return not any(isinstance(row.get(name), str) for row in rows)


def _shown(value: object) -> str:
    """A cell as text: numbers with thousands separators, a band as *base (low to high)*."""
    if value is None:
        return "not available"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        if abs(value) >= 1000:
            return f"{value:,.0f}"
        return f"{value:,.2f}".removesuffix(".00") if abs(value) >= 100 else f"{value:.4g}"
    if isinstance(value, Mapping):
        if set(value) == set(_BAND):
            low, base, high = (_shown(value[level]) for level in _BAND)
            return base if low == base == high else f"{base} ({low} to {high})"
        return ", ".join(f"{key}: {_shown(value[key])}" for key in value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(_shown(item) for item in value)
    return visible_text(str(value))
