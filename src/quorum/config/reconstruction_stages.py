"""From checked settings to the views of a reconstruction run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from quorum.config.compose import Settings, input_path
from quorum.config.families import part_class
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
from quorum.config.reconstruction_views import (
    AggregateView,
    ForecastView,
    GenerateView,
    PartitionView,
    ScoreView,
    SplitView,
    SurveyFiles,
    Weighting,
)
from quorum.config.view import InputFile, Options, View

READING = ("encoding", "less_than", "asterisk", "blank", "refusals", "multi_select", "duplicates")
TOLD = ("population", "field_dates", "mode")


def views(root: Path, settings: Settings) -> list[View]:
    """The views of the five stages.

    Raises:
        SettingsError: An input file cannot be used.
    """
    generate = generate_view(root, settings)
    return [
        partition_view(root, settings),
        generate,
        score_view(root, settings),
        aggregate_view(root, settings),
        ForecastView("reconstruction", generate, caps_of(settings), prices_of(settings)),
    ]


def _section(settings: Settings, group: str) -> Mapping[str, object]:
    return cast("Mapping[str, object]", settings[group])


def _texts(section: Mapping[str, object], key: str) -> tuple[str, ...]:
    return tuple(cast("list[str]", section[key]))


def _file(root: Path, section: Mapping[str, object], group: str, key: str) -> InputFile | None:
    """A file that a setting names; None where it names none."""
    path = section[key]
    if path is None:
        return None
    return input_file(root, input_path(root, str(path), f"{group}.{key}"))


def survey_files(root: Path, settings: Settings) -> SurveyFiles:
    """The chosen survey's files, each with the digest of what it holds."""
    section = _section(settings, "input")
    return SurveyFiles(
        survey=input_file(root, input_path(root, str(section["path"]))),
        groups=_file(root, section, "input", "groups"),
        refused=_file(root, section, "input", "refused"),
        reading={key: section[key] for key in READING},
    )


def split_view(settings: Settings) -> SplitView:
    """Which questions are asked and which are held out."""
    section = _section(settings, "split")
    return SplitView(
        by=str(section["by"]),
        train_share=cast("float", section["train_share"]),
        exclude=_texts(section, "exclude"),
        max_questions=cast("int | None", section["max_questions"]),
    )


def partition_view(root: Path, settings: Settings) -> PartitionView:
    """The survey and the split of its questions."""
    return PartitionView(
        study="reconstruction",
        files=survey_files(root, settings),
        split=split_view(settings),
        seed=cast("int", settings["seed"]),
    )


def weighting(root: Path, settings: Settings) -> Weighting:
    """How personas are weighted, and for whom."""
    return Weighting(
        cleaning=str(_section(settings, "cleaning")["name"]),
        ensemble=part_of(settings, "ensemble"),
        targets=_texts(_section(settings, "target"), "groups"),
        anchor_file=_file(root, _section(settings, "ensemble"), "ensemble", "anchor_file"),
    )


def has_respondents(settings: Settings) -> bool:
    """Whether people of a table answer, instead of a model's personas."""
    return hasattr(part_class("backend", str(_section(settings, "backend")["name"])), "seat")


def generate_view(root: Path, settings: Settings) -> GenerateView:
    """Who is asked and how."""
    is_panel = has_respondents(settings)
    elicit_test = str(_section(settings, "elicitation")["elicit_test"])
    backend = _section(settings, "backend")
    bank = cast("list[Options]", _section(settings, "bank")["attributes"])
    return GenerateView(
        study="reconstruction",
        backend=backend_part(settings),
        respondents=_file(root, backend, "backend", "path") if is_panel else None,
        elicitation=part_of(settings, "elicitation"),
        elicit_test=elicit_test,
        pool=None if is_panel else _section(settings, "pool"),
        bank=None if is_panel else tuple(bank),
        weighting=weighting(root, settings) if elicit_test == "active_only" else None,
        seed=cast("int", settings["seed"]),
        partial=partial_caps(settings),
    )


def score_view(root: Path, settings: Settings) -> ScoreView:
    """How answers are read, cleaned and weighted."""
    return ScoreView(
        study="reconstruction",
        elicitation=part_of(settings, "elicitation"),
        weighting=weighting(root, settings),
        policies=_texts(_section(settings, "ensemble"), "policies"),
        test=str(_section(settings, "split")["test"]),
        level=cast("float", _section(settings, "report")["level"]),
        seed=cast("int", settings["seed"]),
    )


def aggregate_view(root: Path, settings: Settings) -> AggregateView:
    """All that the outputs tell about the run."""
    files = survey_files(root, settings)
    found = [files.survey, files.groups, files.refused, generate_view(root, settings).respondents]
    told = manifest(settings)
    section = _section(settings, "input")
    return AggregateView(
        study="reconstruction",
        survey={**told.input, **{key: str(section[key]) for key in TOLD}},
        sources={file.path: file.sha256 for file in found if file is not None},
        cleaning=str(_section(settings, "cleaning")["name"]),
        policies=_texts(_section(settings, "ensemble"), "policies"),
        level=cast("float", _section(settings, "report")["level"]),
        seed=cast("int", settings["seed"]),
        manifest=told,
        resolved=resolved(settings),
    )
