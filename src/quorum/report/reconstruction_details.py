"""What the pages show of a run's inside: who carries the weight, entropy, solver, position bias."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quorum.report.charts import decimal, percent
from quorum.report.escape import visible_label, visible_text
from quorum.report.reconstruction_charts import View, cv_chart, lines_chart, sparkline
from quorum.report.reconstruction_reading import Node
from quorum.report.reconstruction_records import (
    Cell,
    Diagnostics,
    Entropy,
    Persona,
    Target,
)
from quorum.report.reconstruction_texts import Fact, facts, scalar, share, words
from quorum.report.reconstruction_views import LONG, bar_style

_WEIGHT_DIGITS = 4
_UNUSED = ("intercept", "reference", "lam")  # null: the fit has none


def active_personas(diagnostics: Diagnostics, target: str, count: int | None) -> View:
    """The personas of weight above 0 in a target's fit, heaviest first, with their text.

    Keys: ``rows`` (at most ``count``), ``n`` (all of them), ``share`` (their part of the mass).
    """
    weighted: list[tuple[float, Persona]] = [
        (weight, persona)
        for persona in diagnostics.personas
        if (weight := persona.weights.get(target)) is not None and weight > 0.0
    ]
    weighted.sort(key=lambda item: (-item[0], item[1].id))
    mass = sum(weight for weight, _ in weighted)
    shown = weighted if count is None else weighted[:count]
    largest = weighted[0][0] if weighted else 1.0
    return {
        "rows": [
            {
                "id": visible_label(persona.id),
                "mode": visible_label(persona.mode),
                "text": visible_label(persona.text, limit=LONG),
                "weight": decimal(weight, _WEIGHT_DIGITS),
                "style": bar_style([("p", weight / largest)]),
            }
            for weight, persona in shown
        ],
        "n": len(weighted),
        "share": percent(sum(weight for weight, _ in shown) / mass) if mass > 0.0 else "",
    }


def cell_rows(diagnostics: Diagnostics, target: str) -> list[View]:
    """Groups of real people: share of the respondents and of the ensemble weight, in %."""
    totals: dict[str, float] = {}
    for cell in diagnostics.cells:
        totals[cell.attribute] = totals.get(cell.attribute, 0.0) + (cell.weights.get(target) or 0.0)
    rows: list[View] = []
    for cell in diagnostics.cells:
        weight = _weight_share(cell, target, totals[cell.attribute])
        rows.append(
            {
                "attribute": visible_label(cell.attribute),
                "value": visible_label(cell.value),
                "n": f"{cell.n:,}",
                "share": share(cell.share) or "n/a",
                "weight": share(weight) or "n/a",
                "style": bar_style([("p", weight), ("t", cell.share)]),
            }
        )
    return rows


def _weight_share(cell: Cell, target: str, total: float) -> float | None:
    weight = cell.weights.get(target)
    return None if weight is None or total <= 0.0 else weight / total


def mode_rows(diagnostics: Diagnostics) -> list[tuple[str, list[str]]]:
    """The mode table: personas, mean entropy, total weight."""
    return [
        (
            visible_label(row.mode),
            [
                f"{row.n_personas:,}",
                "n/a" if row.mean_entropy is None else decimal(row.mean_entropy, 3),
                "n/a" if row.total_weight is None else decimal(row.total_weight, _WEIGHT_DIGITS),
            ],
        )
        for row in diagnostics.modes
    ]


def entropy_view(entropy: Entropy) -> View:
    """Charts and tables of the entropies 0..1 by round."""
    modes = list(dict.fromkeys(item[1] for item in entropy.modes))
    by_mode = [
        (visible_label(mode), [(row[0], row[3]) for row in entropy.modes if row[1] == mode])
        for mode in modes
    ]
    aggregate = [(place, value) for place, _, value in entropy.aggregate]
    return {
        "chart": lines_chart([("all personas", aggregate), *by_mode]),
        "rounds": [
            (str(place), ["" if n is None else f"{n:,}", _entropy(value)])
            for place, n, value in entropy.aggregate
        ],
        "modes": [
            (
                f"{row[0]} {visible_label(row[1])}",
                ["" if row[2] is None else f"{row[2]:,}", *(_entropy(value) for value in row[3:])],
            )
            for row in entropy.modes
        ],
        "questions": _question_entropies(entropy),
    }


def _question_entropies(entropy: Entropy) -> list[View]:
    found: dict[str, list[float | None]] = {}
    for _, question, value in entropy.questions:
        found.setdefault(question, []).append(value)
    return [
        {
            "question": visible_label(question),
            "first": _entropy(values[0]),
            "last": _entropy(values[-1]),
            "path": sparkline(values),
        }
        for question, values in found.items()
    ]


def _entropy(value: float | None) -> str:
    return "n/a" if value is None else decimal(value, 3)


def fit_facts(target: Target) -> list[Fact]:
    """The fit, its coverage and its noise floor as facts."""
    fit = {
        name: "none" if value is None and name in _UNUSED else value
        for name, value in target.fit.items()
    }
    found = facts(fit)
    why = visible_text(target.coverage_reason)
    missing = "not available" + (f": {why}" if why else "")
    for name, value in (("cross-validated", target.cv_coverage), ("test", target.test_coverage)):
        found.append((f"Interval coverage, {name}", missing if value is None else percent(value)))
    floor, reason = scalar(target.noise_floor), visible_text(target.noise_floor_reason)
    if reason:
        floor += f": {reason}" if target.noise_floor is None else f" ({reason})"
    return [*found, ("Noise floor of the targets (MSE)", floor)]


def cv_view(target: Target) -> View:
    """The cross-validation curve as a chart and as a table."""
    return {
        "chart": cv_chart(target.cv),
        "rows": [
            (
                scalar(point.lam),
                [
                    visible_text(point.anchor),
                    scalar(point.mse),
                    scalar(point.se),
                    "chosen" if point.is_chosen else "",
                ],
            )
            for point in target.cv
        ],
    }


def problems(target: Target) -> View:
    """Options no persona answers with the share lost, and the largest misfits."""
    return {
        "uncovered": [
            (visible_label(question), [visible_label(option), share(lost) or "n/a"])
            for question, option, lost in target.uncovered
        ],
        "misfit": [
            (visible_label(question), [share(error) or "n/a"]) for question, error in target.misfit
        ],
    }


def position_view(bias: Mapping[str, object]) -> View | None:
    """The position-bias audit: its scalars as facts, its lists of rows as tables, in their order.

    Rows of ``by_position`` or ``positions`` (``position``, ``probability`` or ``mean``,
    ``expected``, and where given ``n_options`` and ``n``) are drawn as bars with the expected
    share as a tick. A nested mapping is flattened, its name in front.

    Raises:
        InputError: A number is not finite, or a list holds anything but mappings of scalars.
    """
    if not bias:
        return None
    plain, tables = _parted(Node("diagnostics.position_bias", bias))
    places = [*tables.pop("by_position", []), *tables.pop("positions", [])]
    return {
        "facts": facts(plain),
        "bars": [_position_bar(row) for row in places],
        "tables": [_generic_table(name, rows) for name, rows in tables.items() if rows],
    }


def _parted(node: Node) -> tuple[dict[str, str | int | float | bool | None], dict[str, list[Node]]]:
    plain: dict[str, str | int | float | bool | None] = {}
    tables: dict[str, list[Node]] = {}
    for name, value in node.items.items():
        if isinstance(value, Mapping):
            inner, more = _parted(node.need_child(name))
            plain.update({f"{name} {key}": item for key, item in inner.items()})
            tables.update({f"{name} {key}": rows for key, rows in more.items()})
        elif isinstance(value, Sequence) and not isinstance(value, str):
            tables[name] = list(node.need_children(name))
        else:
            plain.update(Node(node.where, {name: value}).scalars())
    return plain, tables


def _position_bar(row: Node) -> View:
    name = "mean" if "mean" in row.items else "probability"
    probability, expected = row.number(name), row.give_number("expected")
    n_options = row.give_count("n_options")
    place = scalar(row.scalars().get("position"))
    return {
        "position": place if n_options is None else f"{place} of {n_options}",
        "n": "" if row.give_count("n") is None else f"{row.need_count('n'):,}",
        "probability": share(probability) or "n/a",
        "expected": share(expected) or "n/a",
        "style": bar_style([("p", probability), ("t", expected)]),
    }


def _generic_table(name: str, rows: Sequence[Node]) -> View:
    read = [row.scalars() for row in rows]
    columns = list(dict.fromkeys(key for row in read for key in row))
    return {
        "name": words(name),
        "heads": [words(column) for column in columns],
        "rows": [[scalar(row[c]) if c in row else "" for c in columns] for row in read],
    }
