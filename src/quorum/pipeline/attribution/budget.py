"""Stage ``budget``: what a run will ask for, before it asks.

Works right after ``partition``. The store, earlier runs and prices are hidden inputs: the stage
records what it saw, and ``quorum forecast`` prints the same for this moment.
"""

from __future__ import annotations

from pathlib import Path

from quorum.config.attribution_views import ForecastView
from quorum.config.view import RuntimeView
from quorum.pipeline import artifacts
from quorum.pipeline.attribution import plan as plan_file
from quorum.pipeline.attribution.forecasting import UNIT, live_forecast
from quorum.pipeline.budget_files import write


def run(root: Path) -> None:
    """Writes budget.json, budget.csv, budget_history.csv and budget.html."""
    plan = plan_file.read(root / artifacts.PARTITION)
    view = ForecastView.read(root).generate
    found = live_forecast(root, plan, view, RuntimeView.read(root))
    write(artifacts.fresh_folder(root / artifacts.BUDGET), found, UNIT)
