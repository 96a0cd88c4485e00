"""What each stage of a reconstruction run may know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from quorum.config.view import InputFile, Manifest, Options, Part, View


@dataclass(frozen=True, slots=True)
class SurveyFiles:
    """The chosen survey: shares of the population, of groups, of refusals; how to read them."""

    survey: InputFile
    groups: InputFile | None
    refused: InputFile | None
    reading: Options


@dataclass(frozen=True, slots=True)
class SplitView:
    """Which questions are asked, and which of them are held out."""

    by: str
    train_share: float
    exclude: tuple[str, ...]
    max_questions: int | None


@dataclass(frozen=True, slots=True)
class PartitionView(View):
    """What ``partition`` needs: the survey and how its questions are split."""

    FILE: ClassVar[str] = "partition.json"

    files: SurveyFiles
    split: SplitView
    seed: int


@dataclass(frozen=True, slots=True)
class Weighting:
    """How personas are weighted, and for which populations."""

    cleaning: str
    ensemble: Part
    targets: tuple[str, ...]
    anchor_file: InputFile | None


@dataclass(frozen=True, slots=True)
class GenerateView(View):
    """What ``generate`` needs: who is asked, and how.

    ``respondents`` is the table of a backend ``panel``, which has no pool to make. ``pool`` and
    ``bank`` are null there. ``weighting`` stands here only where test questions go to those
    personas alone that a first fit gives weight (``elicit_test: active_only``).
    """

    FILE: ClassVar[str] = "generate.json"

    backend: Part
    respondents: InputFile | None
    elicitation: Part
    elicit_test: str
    pool: Options | None
    bank: tuple[Options, ...] | None
    weighting: Weighting | None
    seed: int
    partial: Options | None


@dataclass(frozen=True, slots=True)
class ScoreView(View):
    """What ``score`` needs: how answers are read and cleaned, and how weights are fitted."""

    FILE: ClassVar[str] = "score.json"

    elicitation: Part
    weighting: Weighting
    policies: tuple[str, ...]
    test: str
    level: float
    seed: int


@dataclass(frozen=True, slots=True)
class AggregateView(View):
    """What ``aggregate`` needs: what the outputs tell about the run.

    ``sources`` are the files that the run rests on, each with its digest.
    """

    FILE: ClassVar[str] = "aggregate.json"

    survey: Mapping[str, str]
    sources: Mapping[str, str]
    cleaning: str
    policies: tuple[str, ...]
    level: float
    seed: int
    manifest: Manifest
    resolved: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ForecastView(View):
    """What ``budget`` needs: what would be sent, and to whom; caps and prices as of now."""

    FILE: ClassVar[str] = "budget.json"

    generate: GenerateView
    caps: Options
    prices: Options
