"""Forecasts of tokens and cost: from text length alone, from earlier runs, from a pilot.

How many requests there are is exact and given. Tokens per request are the structural forecast (text
length, typical replies, reasoning) times a ratio learned from earlier runs of the same kind of
call; ``regression`` says how. No tokeniser is asked: its vocabulary would have to be downloaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from statistics import NormalDist
from typing import Generic, TypeVar

import numpy as np

from quorum.errors import InputError
from quorum.pricing.cards import card, notes
from quorum.pricing.cost import cost, rates
from quorum.pricing.history import RunUsage
from quorum.pricing.regression import Floats
from quorum.pricing.sides import Side
from quorum.pricing.structural import Features, name_of
from quorum.pricing.table import Price
from quorum.records import Usage

MAX_RUNS = 100  # that a forecast learns from; those of the same model first
N_DRAWS = 2000

T = TypeVar("T", float, Decimal)


@dataclass(frozen=True, slots=True)
class Band(Generic[T]):
    """A forecast: the best guess, and the ends of the interval around it."""

    low: T
    base: T
    high: T


@dataclass(frozen=True, slots=True)
class Model:
    """Earlier runs by kind of call: what forecasts are learned from."""

    runs: Mapping[str, tuple[RunUsage, ...]] = field(default_factory=dict)

    def of(self, features: Features) -> tuple[RunUsage, ...]:
        """The runs that a forecast learns from, those of the same model first."""
        found = self.runs.get(features.module, ())
        same = [run for run in found if name_of(run) == name_of(features)]
        other = [run for run in found if name_of(run) != name_of(features)]
        return tuple((same + other)[:MAX_RUNS])


@dataclass(frozen=True, slots=True)
class Forecast:
    """What one kind of call will use and cost, all requests together.

    Attributes:
        input_tokens: Cached ones included.
        output_tokens: Reasoning included.
        usd: Cost of what will be answered; None where the model has no price.
        possible_usd: Cost of attempts without a reply, which a provider may charge, at the rate of
            the earlier runs; None likewise.
        card: What the forecast rests on, as plain values for budget.json.
        notes: What a reader should know.
    """

    input_tokens: Band[float]
    output_tokens: Band[float]
    usd: Band[Decimal] | None
    possible_usd: Decimal | None
    card: Mapping[str, object]
    notes: tuple[str, ...]


def fit_history(runs: Iterable[RunUsage]) -> Model:
    """The model that forecasts learn from; runs without an answered request count for nothing."""
    found: dict[str, list[RunUsage]] = {}
    for run in runs:
        if run.n_requests > 0:
            found.setdefault(run.module, []).append(run)
    ordered = {name: sorted(found[name], key=lambda run: run.run) for name in sorted(found)}
    return Model({name: tuple(members) for name, members in ordered.items()})


def forecast(
    features: Features,
    model: Model,
    level: float = 0.9,
    *,
    price: Price | None = None,
    mode: str = "sync",
    pilot: RunUsage | None = None,
) -> Forecast:
    """What one kind of call will use and cost.

    Args:
        features: The calls to come.
        model: Earlier runs, from ``fit_history``.
        level: Of the interval from low to high.
        price: Of the model; None forecasts tokens only.
        mode: sync or batch.
        pilot: What the first calls of this very run used, to re-estimate from.

    Raises:
        InputError: The level or the features are out of range.
    """
    _check(features, level)
    runs = model.of(features)
    features = _as_seen(features, runs, pilot)
    inputs, outputs = _sides(replace(features, n_requests=0), runs, pilot)
    draws = _draws(inputs, outputs, features.n_requests)
    shares = _cache_shares(features, runs, pilot)
    base = inputs.base * features.n_requests, outputs.base * features.n_requests
    usd = None if price is None else _usd(base, draws, shares, price, mode, level)
    n_failed = sum(run.n_failed for run in runs) / max(sum(run.n_requests for run in runs), 1)
    found = notes(features, runs, pilot)
    return Forecast(
        input_tokens=_band(draws[0], base[0], level),
        output_tokens=_band(draws[1], base[1], level),
        usd=usd,
        possible_usd=None if usd is None else usd.base * Decimal(str(round(n_failed, 6))),
        card=card(features, runs, inputs, outputs, pilot, level),
        notes=found if price is None else (*found, *rates(price, mode).notes),
    )


def _as_seen(features: Features, runs: Sequence[RunUsage], pilot: RunUsage | None) -> Features:
    """Whether the model reasons, as its own calls tell where there are any."""
    own = [pilot] if pilot else [run for run in runs if name_of(run) == name_of(features)]
    if not own:
        return features
    return replace(features, is_reasoning=any(run.reasoning_tokens for run in own))


@lru_cache(maxsize=32)
def _sides(
    features: Features, runs: tuple[RunUsage, ...], pilot: RunUsage | None
) -> tuple[Side, Side]:
    """Input and output of one request: the same for any number of them, so kept for a while."""
    return Side("input", features, runs, pilot), Side("output", features, runs, pilot)


# The joint distribution of both sides, and its cost


def _draws(inputs: Side, outputs: Side, n_requests: int) -> tuple[Floats, Floats]:
    """Tokens of all requests: pairs drawn with the correlation of the runs' residuals."""
    first, second, orders = _normals()
    z_in, z_out = inputs.predicted.z, outputs.predicted.z
    n = len(z_in)
    rho = float(z_in @ z_out) / (n + 5.0) if n else 0.0
    rho = min(max(rho, -0.95), 0.95)
    pair = (first, rho * first + math.sqrt(1 - rho**2) * second)
    found = []
    for target, z, order in zip((inputs, outputs), pair, orders, strict=True):
        mixture = target.predicted
        ends = np.cumsum(mixture.weights)
        which = np.searchsorted(ends / ends[-1], (order + 0.5) / N_DRAWS)
        variance = mixture.variances[which] + target.variation**2 / max(n_requests, 1)
        y = mixture.means[which] + np.sqrt(variance) * z
        found.append(target.tokens(y) * n_requests)
    return found[0], found[1]


@lru_cache(maxsize=1)
def _normals() -> tuple[Floats, Floats, tuple[Floats, Floats]]:
    """Two independent stratified normal samples and two orders; the same in every forecast."""
    normal = NormalDist()
    z = np.array([normal.inv_cdf((i + 0.5) / N_DRAWS) for i in range(N_DRAWS)])
    rng = np.random.default_rng(0)
    ranks = np.arange(N_DRAWS, dtype=np.float64)
    orders = (rng.permutation(ranks), rng.permutation(ranks))
    return rng.permutation(z), rng.permutation(z), orders


def _usd(
    base: tuple[float, float],
    draws: tuple[Floats, Floats],
    shares: Floats,
    price: Price,
    mode: str,
    level: float,
) -> Band[Decimal]:
    """Cost at the draws of the interval's ends: ranked as floats, then exact in Decimal."""
    rate = rates(price, mode)
    cached, write = shares[np.arange(N_DRAWS) % len(shares)].T
    per_input = (
        float(rate.input) * (1 - cached - write)
        + float(rate.cached_input) * cached
        + float(rate.cache_write) * write
    )
    order = np.argsort(draws[0] * per_input + draws[1] * float(rate.output), kind="stable")
    low, high = _ends(level)
    ends = [
        _exact(draws[0][i], draws[1][i], cached[i], write[i], price, mode)
        for i in (order[low], order[high])
    ]
    middle = shares.mean(axis=0)
    guess = _exact(*base, middle[0], middle[1], price, mode)
    return Band(min(ends[0], guess), guess, max(ends[1], guess))


def _exact(
    inputs: float, outputs: float, cached: float, write: float, price: Price, mode: str
) -> Decimal:
    n = round(inputs)
    n_cached = min(int(n * cached), n)
    n_write = min(int(n * write), n - n_cached)
    return cost(Usage(n, n_cached, round(outputs), 0, n_write), price, mode)


def _cache_shares(features: Features, runs: Sequence[RunUsage], pilot: RunUsage | None) -> Floats:
    """Shares of the input read from and written to the cache: the model's runs, else none."""
    known = [pilot] if pilot else [run for run in runs if name_of(run) == name_of(features)]
    shares = [
        (run.cached_input_tokens / run.input_tokens, run.cache_write_tokens / run.input_tokens)
        for run in known
        if run.input_tokens
    ]
    return np.array(shares or [(0.0, 0.0)], dtype=np.float64)


def _band(draws: Floats, base: float, level: float) -> Band[float]:
    ordered = np.sort(draws)
    low, high = _ends(level)
    ends = float(ordered[low]), float(ordered[high])
    return Band(min(ends[0], float(base)), float(base), max(ends[1], float(base)))


def _ends(level: float) -> tuple[int, int]:
    low = math.floor((1 - level) / 2 * N_DRAWS)
    return low, N_DRAWS - 1 - low


def _check(features: Features, level: float) -> None:
    if not 0 < level < 1:
        raise InputError("level", "is no share", got=level, allowed="0 < level < 1")
    numbers = {"n_requests": features.n_requests, "length": features.length}
    for name, value in numbers.items():
        if not math.isfinite(value) or value < 0:
            raise InputError(f"forecast of {features.module}", f"has no {name}", got=value)
