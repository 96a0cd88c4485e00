"""The files of a forecast: for machines, for spreadsheets, to read."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from quorum.pipeline import artifacts
from quorum.pipeline.forecasting import Forecast, columns
from quorum.pricing.history import HISTORY_COLUMNS
from quorum.report.budget import budget_page


def write(folder: Path, found: Forecast, unit: str) -> None:
    """Writes budget.json, budget.csv, budget_history.csv and budget.html."""
    artifacts.write_text(folder / "budget.json", artifacts.json_text(found))
    rows = cast("list[dict[str, object]]", found["scenarios"])
    artifacts.write_text(folder / "budget.csv", artifacts.csv_text(columns(unit), rows))
    history = cast("list[dict[str, object]]", found["history"])
    table = artifacts.csv_text(HISTORY_COLUMNS, history)
    artifacts.write_text(folder / "budget_history.csv", table)
    artifacts.write_text(folder / "budget.html", budget_page(found))
