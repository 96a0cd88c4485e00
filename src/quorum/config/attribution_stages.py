"""From checked settings to the views of an attribution run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from quorum.config.attribution_views import (
    AggregateView,
    BudgetView,
    ForecastView,
    GenerateView,
    PartitionView,
    ScoreView,
)
from quorum.config.compose import Settings, input_path
from quorum.config.families import class_options, part_class
from quorum.config.parts import (
    backend_part,
    caps_of,
    input_file,
    manifest,
    part_of,
    partial_caps,
    prices_of,
    resolved,
)
from quorum.config.schema import CAPS
from quorum.config.view import InputFile, View
from quorum.errors import SettingsError


def views(root: Path, settings: Settings) -> list[View]:
    """The views of the five stages.

    Raises:
        SettingsError: The input file cannot be used, or the parts do not go together.
    """
    section = cast("dict[str, Mapping[str, object]]", settings)
    path = input_path(root, str(section["input"]["path"]))
    generate = generate_view(settings)
    return [
        partition_view(settings, input_file(root, path)),
        generate,
        score_view(settings),
        aggregate_view(settings),
        ForecastView("attribution", generate, caps_of(settings), prices_of(settings)),
    ]


def partition_view(settings: Settings, input_file: InputFile) -> PartitionView:
    """Players and plan: the estimator only with the options that change its plan."""
    rules = cast("Mapping[str, object]", settings["partition"])
    return PartitionView(
        study="attribution",
        input=input_file,
        partitioner=part_of(settings, "partition"),
        roles=tuple(cast("list[str]", rules["roles"])),
        max_players=cast("int", rules["max_players"]),
        overflow=str(rules["overflow"]),
        absence=part_of(settings, "absence"),
        estimator=part_of(settings, "estimator", _plan_fields(settings)),
        budget=BudgetView(**cast("dict[str, int]", _plan_budget(settings))),
        seed=cast("int", settings["seed"]),
    )


def _plan_budget(settings: Settings) -> dict[str, object]:
    section = cast("Mapping[str, object]", settings["budget"])
    return {key: value for key, value in section.items() if key not in CAPS}


def _plan_fields(settings: Settings) -> tuple[str, ...]:
    name = str(cast("Mapping[str, object]", settings["estimator"])["name"])
    return class_options(part_class("estimator", name), "plan_fields")


def generate_view(settings: Settings) -> GenerateView:
    """Who answers and how; payoffs too, where a plan or a likelihood needs them."""
    generation = cast("dict[str, int]", settings["generation"])
    value = cast("Mapping[str, object]", settings["value"])
    estimator = part_of(settings, "estimator", _plan_fields(settings))
    needs = str(getattr(part_class("value", str(value["name"])), "needs", "text"))
    is_two_phase = bool(getattr(part_class("estimator", estimator.name), "two_phase", False))
    uses_reference = needs == "continuation" or is_two_phase
    if needs == "continuation" and generation["samples"] > 1:
        raise SettingsError(
            "generation.samples",
            f"value={value['name']} scores one given reply, it draws none",
            got=generation["samples"],
            allowed="1",
        )
    return GenerateView(
        study="attribution",
        backend=backend_part(settings),
        absence=part_of(settings, "absence"),
        max_tokens=generation["max_tokens"],
        temperature=float(generation["temperature"]),
        samples=generation["samples"],
        noise_repeats=generation["noise_repeats"],
        seed=cast("int", settings["seed"]),
        needs=needs,
        reference=str(value["reference"]) if uses_reference else None,
        estimator=estimator if is_two_phase else None,
        value=part_of(settings, "value") if is_two_phase else None,
        partial=partial_caps(settings),
    )


def score_view(settings: Settings) -> ScoreView:
    """The value function and what it compares with."""
    value = cast("Mapping[str, object]", settings["value"])
    return ScoreView("attribution", part_of(settings, "value"), str(value["reference"]))


def aggregate_view(settings: Settings) -> AggregateView:
    """Estimator, presentation, and all that the outputs tell about the run."""
    section = cast("dict[str, Mapping[str, object]]", settings)
    return AggregateView(
        study="attribution",
        estimator=part_of(settings, "estimator"),
        normaliser=part_of(settings, "normaliser"),
        absence=str(section["absence"]["name"]),
        value=str(section["value"]["name"]),
        reference=str(section["value"]["reference"]),
        level=cast("float", section["report"]["level"]),
        seed=cast("int", settings["seed"]),
        manifest=manifest(settings),
        resolved=resolved(settings),
    )
