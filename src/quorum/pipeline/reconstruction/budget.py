"""Stage ``budget``: what a reconstruction will ask for, before it asks; see its forecasting."""

from __future__ import annotations

from pathlib import Path

from quorum.config.reconstruction_views import ForecastView
from quorum.config.view import RuntimeView
from quorum.pipeline import artifacts
from quorum.pipeline.budget_files import write
from quorum.pipeline.reconstruction.forecasting import UNIT, live_forecast
from quorum.pipeline.reconstruction.questions import read_questions, read_targets, split_of


def run(root: Path) -> None:
    """Writes budget.json, budget.csv, budget_history.csv and budget.html."""
    partition = root / artifacts.PARTITION
    view = ForecastView.read(root).generate
    targets = None if view.weighting is None else read_targets(partition, "train")
    found = live_forecast(
        root,
        read_questions(partition),
        targets,
        split_of(partition),
        view,
        RuntimeView.read(root),
    )
    write(artifacts.fresh_folder(root / artifacts.BUDGET), found, UNIT)
