"""What the next ``dvc repro`` would ask for, against the store of this moment."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from quorum.config.attribution_stages import generate_view, partition_view
from quorum.config.compose import Settings, input_path
from quorum.config.stages import runtime_view
from quorum.config.view import InputFile
from quorum.pipeline.attribution.forecasting import live_forecast
from quorum.pipeline.attribution.partition import plan_of_file


def forecast(root: Path, settings: Settings) -> dict[str, object]:
    """The forecast of a run with these settings: ``rows``, ``totals`` and what they rest on."""
    section = cast("dict[str, dict[str, object]]", settings)
    path = input_path(root, str(section["input"]["path"])).relative_to(root).as_posix()
    plan = plan_of_file(root, partition_view(settings, InputFile(path, "")))
    return live_forecast(root, plan, generate_view(settings), runtime_view(settings))
