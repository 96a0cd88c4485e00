"""Stage ``budget``: a simulation asks no model for anything, and the usual files say so."""

from __future__ import annotations

from pathlib import Path

from quorum.pipeline import artifacts
from quorum.pipeline.budget_files import write
from quorum.pipeline.forecasting import Forecast, columns
from quorum.pipeline.simulation import grid as grid_file
from quorum.pipeline.simulation.grid import Grid

UNIT = "n_simulations"


def run(root: Path) -> None:
    """Writes budget.json, budget.csv, budget_history.csv and budget.html."""
    grid = grid_file.read(root / artifacts.PARTITION)
    write(artifacts.fresh_folder(root / artifacts.BUDGET), no_calls(grid), UNIT)


def no_calls(grid: Grid) -> Forecast:
    """The forecast of a sweep."""
    row: dict[str, object] = dict.fromkeys(columns(UNIT), 0)
    row |= {f"usd_{end}": "0.00" for end in ("low", "base", "high")}
    row |= {"module": "simulate", UNIT: len(grid.simulations), "source": "no call is made"}
    now = {key: value for key, value in row.items() if key != "scenario"}
    return {
        "title": "Forecast",
        "backend": "simulated",
        "model": "worlds",
        "n_cells": len(grid.cells()),
        "rows": [now],
        "totals": {key: now[key] for key in now if key not in ("module", "source")},
        "scenarios": [{**row, "scenario": "remaining"}],
        "status": "no_cap",
        "prices": [{"provider": "simulated", "source": "local", "input": "0"}],
        "history": [],
        "notes": ["worlds are drawn and computed here: no model is called"],
    }
