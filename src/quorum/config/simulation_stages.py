"""From checked settings to the views of a simulation run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from quorum.config.code import code_digest
from quorum.config.compose import Settings
from quorum.config.parts import resolved, settings_digest
from quorum.config.simulation_views import (
    AggregateView,
    ForecastView,
    GenerateView,
    PartitionView,
    ScoreView,
)
from quorum.config.sweeps import Axes, parts_used, read_axes
from quorum.config.view import Manifest, View

# A sweep has no input file: its worlds are drawn from seeds.
INPUT = {
    "name": "worlds",
    "title": "Synthetic worlds",
    "licence": "CC0-1.0",
    "attribution": "not applicable",
    "citation": "not applicable",
}
BACKEND = {"name": "simulated", "options": {}}


def views(root: Path, settings: Settings) -> list[View]:  # noqa: ARG001 - no file is read
    """The views of the five stages.

    Raises:
        SettingsError: The sweep cannot be carried out.
    """
    axes = read_axes(settings)
    return [
        partition_view(settings, axes),
        GenerateView("simulation", axes.kind),
        score_view(settings, axes),
        aggregate_view(settings, axes),
        ForecastView("simulation", axes.kind),
    ]


def partition_view(settings: Settings, axes: Axes) -> PartitionView:
    """The grid."""
    return PartitionView(
        study="simulation",
        kind=axes.kind,
        replicates=axes.replicates,
        fixed=axes.fixed,
        grid=axes.grid,
        seed=cast("int", settings["seed"]),
    )


def score_view(settings: Settings, axes: Axes) -> ScoreView:
    """The parts, each with the digest that a sweep of it alone would have."""
    level = _level(settings)
    parts = parts_used(axes)
    alone = {
        str(part["name"]): ScoreView("simulation", axes.kind, (part,), {}, level) for part in parts
    }
    codes = {name: code_digest(view) for name, view in alone.items()}
    return ScoreView("simulation", axes.kind, parts, codes, level)


def aggregate_view(settings: Settings, axes: Axes) -> AggregateView:
    """All that the outputs tell about the run."""
    seed = cast("int", settings["seed"])
    return AggregateView(
        study="simulation",
        kind=axes.kind,
        sweep=str(cast("Mapping[str, object]", settings["sweep"])["name"]),
        level=_level(settings),
        seed=seed,
        manifest=Manifest(INPUT, BACKEND, settings_digest(settings), seed),
        resolved=resolved(settings),
    )


def _level(settings: Settings) -> float:
    return cast("float", cast("Mapping[str, object]", settings["report"])["level"])
