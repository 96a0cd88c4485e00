"""From checked settings to one view a stage: who needs to know what."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from quorum.config.compose import Settings, input_path
from quorum.config.families import class_options, option_fields, part_class
from quorum.config.view import (
    AggregateView,
    BudgetView,
    ForecastView,
    GenerateView,
    InputFile,
    Manifest,
    Part,
    PartitionView,
    RuntimeView,
    ScoreView,
    View,
)
from quorum.digests import digest
from quorum.errors import SettingsError

NO_RESULT = ("runtime", "report")  # groups that change how a run is carried out or shown


def views(root: Path, settings: Settings) -> list[View]:
    """One view a stage.

    Raises:
        SettingsError: The input file cannot be used, or the parts do not go together.
    """
    section = cast("dict[str, Mapping[str, object]]", settings)
    path = input_path(root, section["input"])
    input_file = InputFile(
        str(section["input"]["path"]), hashlib.sha256(path.read_bytes()).hexdigest()
    )
    generate = generate_view(settings)
    return [
        partition_view(settings, input_file),
        generate,
        score_view(settings),
        aggregate_view(settings),
        ForecastView("attribution", generate),
        runtime_view(settings),
    ]


def part_of(settings: Settings, family: str, keep: tuple[str, ...] | None = None) -> Part:
    """The chosen part of a family, with those of its options that are to be kept."""
    section = cast("Mapping[str, object]", settings[family])
    name = str(section["name"])
    part = part_class(family, name)
    runtime = class_options(part, "runtime_options")
    wanted = [key for key in option_fields(part) if key not in runtime]
    options = {key: section[key] for key in wanted if key in section}
    if keep is not None:
        options = {key: value for key, value in options.items() if key in keep}
    return Part(family, name, options)


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
        budget=BudgetView(**cast("dict[str, int]", settings["budget"])),
        seed=cast("int", settings["seed"]),
    )


def backend_part(settings: Settings) -> Part:
    """The backend with its model: the ``model`` knob wins over the backend's own default."""
    part = part_of(settings, "backend")
    model = settings["model"]
    if model is None:
        return part
    return Part("backend", part.name, {**part.options, "model": model})


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
    )


def score_view(settings: Settings) -> ScoreView:
    """The value function and what it compares with."""
    value = cast("Mapping[str, object]", settings["value"])
    return ScoreView("attribution", part_of(settings, "value"), str(value["reference"]))


def aggregate_view(settings: Settings) -> AggregateView:
    """Estimator, presentation, and all that the outputs tell about the run."""
    section = cast("dict[str, Mapping[str, object]]", settings)
    backend = backend_part(settings)
    told = ("name", "title", "licence", "attribution", "citation")
    return AggregateView(
        study="attribution",
        estimator=part_of(settings, "estimator"),
        normaliser=part_of(settings, "normaliser"),
        absence=str(section["absence"]["name"]),
        value=str(section["value"]["name"]),
        reference=str(section["value"]["reference"]),
        level=cast("float", section["report"]["level"]),
        seed=cast("int", settings["seed"]),
        manifest=Manifest(
            input={key: str(section["input"][key]) for key in told},
            backend={"name": backend.name, "options": dict(backend.options)},
            settings_digest=settings_digest(settings),
            seed=cast("int", settings["seed"]),
        ),
        resolved=resolved(settings),
    )


def resolved(settings: Settings) -> dict[str, object]:
    """All settings but those that change no result: how a run is carried out."""
    kept: dict[str, object] = {k: settings[k] for k in sorted(settings) if k != "runtime"}
    backend = cast("Mapping[str, object]", settings["backend"])
    runtime = class_options(part_class("backend", str(backend["name"])), "runtime_options")
    kept["backend"] = {key: value for key, value in backend.items() if key not in runtime}
    return kept


def settings_digest(settings: Settings) -> str:
    """SHA-256 over the settings that can change a result."""
    kept: dict[str, object] = {k: v for k, v in settings.items() if k not in NO_RESULT}
    backend = backend_part(settings)
    kept["backend"] = {"name": backend.name, **backend.options}
    kept.pop("model")  # it stands in the backend's options
    return digest(kept)


def runtime_view(settings: Settings) -> RuntimeView:
    """How the run is carried out, with those options of the backend that change no answer."""
    backend = cast("Mapping[str, object]", settings["backend"])
    names = class_options(part_class("backend", str(backend["name"])), "runtime_options")
    return RuntimeView(
        study="attribution",
        backend={key: backend[key] for key in names if key in backend},
        options=cast("Mapping[str, object]", settings["runtime"]),
    )
