"""What each stage of an attribution run may know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from quorum.config.view import InputFile, Manifest, Options, Part, View


@dataclass(frozen=True, slots=True)
class BudgetView:
    """How many coalitions a prompt may have."""

    fraction: float
    max_coalitions: int
    calls_per_player: int | None


@dataclass(frozen=True, slots=True)
class PartitionView(View):
    """What ``partition`` needs: players and plan, and no option that cannot change them."""

    FILE: ClassVar[str] = "partition.json"

    input: InputFile
    partitioner: Part
    roles: tuple[str, ...]
    max_players: int
    overflow: str
    absence: Part
    estimator: Part
    budget: BudgetView
    seed: int


@dataclass(frozen=True, slots=True)
class GenerateView(View):
    """What ``generate`` needs: who answers, how, and, for two phases, how payoffs are made.

    ``partial`` are the caps where a run may end at one with what it has: with another cap it runs
    again, and pays for what it lacks.
    """

    FILE: ClassVar[str] = "generate.json"

    backend: Part
    absence: Part
    max_tokens: int
    temperature: float
    samples: int
    noise_repeats: int
    seed: int
    needs: str
    reference: str | None
    estimator: Part | None
    value: Part | None
    partial: Options | None

    @property
    def decoding(self) -> dict[str, int | float]:
        """Options of a request for a reply; the forecast and the pool must agree on them."""
        return {"max_tokens": self.max_tokens, "temperature": self.temperature, "seed": self.seed}


@dataclass(frozen=True, slots=True)
class ScoreView(View):
    """What ``score`` needs: how a reply becomes a payoff."""

    FILE: ClassVar[str] = "score.json"

    value: Part
    reference: str


@dataclass(frozen=True, slots=True)
class AggregateView(View):
    """What ``aggregate`` needs: estimator, presentation, and the run's identity."""

    FILE: ClassVar[str] = "aggregate.json"

    estimator: Part
    normaliser: Part
    absence: str
    value: str
    reference: str
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
