"""The two kinds of sweep: how a world is drawn, what is done in it, and how it is shown."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from quorum.simulation.recovery import Metric

Parameters = Mapping[str, object]
DECIMALS = 9  # of the numbers that a world's digest covers; further ones differ between machines


@dataclass(frozen=True, slots=True)
class WorldRecord:
    """What is told of a world.

    Args:
        digest: Of its arrays, 64 hex digits.
        truths: What a simulation is held against.
        facts: Sizes, and how far guesses without any fit are off.
    """

    digest: str
    truths: Mapping[str, object]
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation found.

    Args:
        metrics: Always the same names for a kind, in the same order.
        details: What else is worth keeping.
    """

    metrics: Sequence[Metric]
    details: Mapping[str, object] = field(default_factory=dict)


class Kind(Protocol):
    """A module of this folder, by the name of the kind."""

    def draw(self, parameters: Parameters, seed: int) -> Any:
        """The world of these parameters and this seed."""

    def record(self, world: Any) -> WorldRecord:
        """What is told of it."""

    def simulate(
        self,
        parameters: Parameters,
        world: Any,
        seed: int,
        level: float,
    ) -> Outcome:
        """What is done in it, and what comes of it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How a kind is shown.

    Args:
        headline: The metric of the charts; less is better.
        is_log: Whether its axis is logarithmic.
        baselines: Metrics that stand beside it.
        across: Parameters that go along the axis, the first that varies.
        marks: The parameter, options included, that a line or mark stands for.
        scalars: Metric → name in metrics.json, means over all simulations.
    """

    headline: str
    is_log: bool
    baselines: tuple[str, ...]
    across: tuple[str, ...]
    marks: str
    scalars: Mapping[str, str]


SHOWN = {
    "survey": Shown(
        headline="test_mse",
        is_log=False,
        baselines=("test_mse_uniform", "test_mse_pool_mean"),
        across=("n_train", "n_personas", "s", "b"),
        marks="ensemble",
        scalars={
            "test_mse": "mean_test_mse",
            "test_mse_pool_mean": "mean_test_mse_pool_mean",
            "test_mse_uniform": "mean_test_mse_uniform",
            "test_coverage": "mean_coverage",
            "support_f1": "mean_support_f1",
        },
    ),
    "attribution": Shown(
        headline="nmse",
        is_log=True,
        baselines=(),
        across=("budget", "n_players", "noise"),
        marks="estimator",
        scalars={
            "nmse": "mean_nmse",
            "max_error": "mean_max_error",
            "coverage": "mean_coverage",
            "n_coalitions": "mean_n_coalitions",
        },
    ),
}


def kind_of(name: str) -> Kind:
    """The kind of a name."""
    return cast("Kind", import_module(f"quorum.pipeline.simulation.{name}"))


def array_digest(arrays: Sequence[NDArray[np.float64]]) -> str:
    """SHA-256 over shapes and numbers to nine decimals (little-endian doubles)."""
    sha = hashlib.sha256(repr([array.shape for array in arrays]).encode("ascii"))
    for array in arrays:
        rounded = np.round(array, DECIMALS) + 0.0  # no signed zero
        sha.update(np.ascontiguousarray(rounded, "<f8").tobytes())
    return sha.hexdigest()
