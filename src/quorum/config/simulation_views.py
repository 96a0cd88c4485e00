"""What each stage of a simulation run may know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from quorum.config.view import Manifest, Options, View


@dataclass(frozen=True, slots=True)
class PartitionView(View):
    """What ``partition`` needs: the sweep in its canonical form, and the base of all seeds.

    ``grid`` maps a parameter to its values, each ``{label, value}``.
    """

    FILE: ClassVar[str] = "partition.json"

    kind: str
    replicates: int
    fixed: Options
    grid: Mapping[str, Sequence[Options]]
    seed: int


@dataclass(frozen=True, slots=True)
class GenerateView(View):
    """What ``generate`` needs: which kind of world is drawn."""

    FILE: ClassVar[str] = "generate.json"

    kind: str


@dataclass(frozen=True, slots=True)
class ScoreView(View):
    """What ``score`` needs beside the grid: the level of intervals.

    ``parts`` are those that the cells use, so that their code stands in the stage's digest.
    ``codes`` holds, by the part's name, the digest of the code that simulations with it run: one
    more part in a sweep leaves those of the others as they are.
    """

    FILE: ClassVar[str] = "score.json"

    kind: str
    parts: tuple[Options, ...]
    codes: Mapping[str, str]
    level: float


@dataclass(frozen=True, slots=True)
class AggregateView(View):
    """What ``aggregate`` needs: what the outputs tell about the run."""

    FILE: ClassVar[str] = "aggregate.json"

    kind: str
    sweep: str
    level: float
    seed: int
    manifest: Manifest
    resolved: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ForecastView(View):
    """What ``budget`` needs: nothing, since a simulation calls no model."""

    FILE: ClassVar[str] = "budget.json"

    kind: str
