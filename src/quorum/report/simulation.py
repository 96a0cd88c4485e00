"""The self-contained page of a sweep: small multiples with intervals, and a table of all cells.

It holds no script and asks for nothing; its text depends on its arguments alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quorum.report.charts import percent
from quorum.report.document import integer, number, table, texts
from quorum.report.escape import visible_text
from quorum.report.pages import environment
from quorum.report.simulation_charts import View, key_shape, small_multiples
from quorum.report.simulation_series import CellRow, Figure, Panel, figure, read_cells

Fact = tuple[str, str]

LABEL = (
    "Worlds were drawn at random and their truth is known. Nothing here was said by people, "
    "and no model was asked."
)
NAMES = {
    "nmse": "Error: mean squared error over the mean squared true value",
    "test_mse": "Mean squared error on test questions, by cell",
}
_FACTS = (
    ("Sweep", "sweep"),
    ("Kind", "kind"),
    ("Cells", "n_cells"),
    ("Simulations", "n_simulations"),
    ("Worlds", "n_worlds"),
    ("Replicates of a cell", "replicates"),
)


def simulation_page(
    summary: Mapping[str, object], shown: Mapping[str, object], run: Mapping[str, object]
) -> str:
    """The text of ``report.html``.

    Args:
        summary: The object of ``simulation_summary.json``.
        shown: See `quorum.report.simulation_series.figure`.
        run: What the run is: ``title``, ``notes``, and any other entry, which is shown under its
            own name.

    Raises:
        InputError: The object is not the summary of a sweep.
    """
    found = figure(summary, shown)
    cells = read_cells(summary)
    views = small_multiples(found)
    for view, panel in zip(views, found.panels, strict=True):
        view["name"] = visible_text(panel.name)
        view["heads"] = [visible_text(name) for name in found.series]
        view["rows"] = _numbers(found, panel)
    level = number(summary, "level")
    return (
        environment()
        .get_template("simulation.html")
        .render(
            title=visible_text(str(run.get("title") or "A sweep of simulations")),
            label=LABEL,
            level=percent(0.9 if level is None else level),
            metric=NAMES.get(found.metric, found.metric),
            axis=visible_text(found.axis) or "the only cell of a line",
            is_log=found.is_log,
            keys=_keys(found, len(texts(shown, "baselines"))),
            panels=views,
            n_hidden=found.n_hidden,
            cells=_cell_table(cells),
            reasons=_reasons(cells),
            facts=_facts(summary, run),
            notes=[visible_text(note) for note in texts(run, "notes")],
        )
    )


def shown_number(value: float | None) -> str:
    """A number with four figures, in powers of ten where it is small or large."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        text = f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    else:
        text = f"{value:.2e}"
    return text.replace("-", "−")


def _keys(found: Figure, n_baselines: int) -> list[View]:
    n_lines = len(found.series) - n_baselines
    return [
        {
            "name": visible_text(name),
            "index": index if index <= n_lines else 0,
            "dash": max(0, index - n_lines),
            "shape": key_shape(index) if index <= n_lines else "",
        }
        for index, name in enumerate(found.series, start=1)
    ]


def _numbers(found: Figure, panel: Panel) -> list[tuple[str, list[str]]]:
    """The table beside a chart: a row a place, a column a line; mean (low to high)."""
    rows = []
    for place, label in enumerate(found.labels):
        cells = []
        for series in panel.series:
            here = [point for point in series.points if point.place == place]
            text = shown_number(here[0].mean) if here else ""
            if here and here[0].low is not None:
                text += f" ({shown_number(here[0].low)} to {shown_number(here[0].high)})"
            cells.append(text)
        rows.append((visible_text(label) or "all", cells))
    return rows


def _cell_table(cells: Sequence[CellRow]) -> View:
    """Every cell with every metric: mean, and ± its standard error."""
    metrics = [*cells[0].metrics]
    rows = []
    for cell in cells:
        numbers = []
        for name in metrics:
            statistics = cell.metrics[name]
            error = number(statistics, "se")
            spread = "" if error is None else f"± {shown_number(error)}"
            numbers.append((shown_number(number(statistics, "mean")), spread))
        counts = max(integer(cell.metrics[name], "n") for name in metrics)
        labels = [visible_text(label) for label in cell.varied.values()]
        rows.append({"cell": cell.cell, "labels": labels, "n": counts, "numbers": numbers})
    return {
        "varied": [visible_text(name) for name in cells[0].varied],
        "metrics": metrics,
        "rows": rows,
    }


def _reasons(cells: Sequence[CellRow]) -> list[Fact]:
    """Why there are metrics without a number, each reason once."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, statistics in cell.metrics.items():
            if number(statistics, "mean") is None:
                found.setdefault(name, {})[str(statistics.get("reason"))] = None
    return [(name, visible_text("; ".join(reasons))) for name, reasons in found.items()]


def _facts(summary: Mapping[str, object], run: Mapping[str, object]) -> list[Fact]:
    facts = [(label, _shown(summary.get(name))) for label, name in _FACTS]
    source = table(run, "input")
    facts += [("Input", _shown(source.get("title"))), ("Licence", _shown(source.get("licence")))]
    placed = ("title", "notes", "input")
    facts += [
        (visible_text(key.replace("_", " ").capitalize()), _shown(run[key]))
        for key in sorted(run)
        if key not in placed
    ]
    return [(name, value) for name, value in facts if value]


def _shown(value: object) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else visible_text(str(value))
