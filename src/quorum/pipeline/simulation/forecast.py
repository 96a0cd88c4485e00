"""What the next ``dvc repro`` would ask for: nothing."""

from __future__ import annotations

from pathlib import Path

from quorum.config.compose import Settings
from quorum.config.simulation_stages import partition_view
from quorum.config.sweeps import read_axes
from quorum.pipeline.forecasting import Forecast
from quorum.pipeline.simulation.budget import no_calls
from quorum.pipeline.simulation.partition import make_grid


def forecast(root: Path, settings: Settings) -> Forecast:  # noqa: ARG001 - no file is read
    """The forecast of a sweep with these settings: how many simulations, and no call."""
    return no_calls(make_grid(partition_view(settings, read_axes(settings))))
