"""Forecasts of tokens and cost: from text length alone, from earlier runs, from a pilot.

How many requests there are is exact and given. Tokens per request are the structural forecast (text
length, typical replies, reasoning) times a ratio learned from earlier runs of the same kind of
call; ``regression`` says how. No tokeniser is asked: its vocabulary would have to be downloaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from statistics import NormalDist, median
from typing import Generic, TypeVar

import numpy as np

from quorum.errors import InputError
from quorum.pricing.cost import cost, rates
from quorum.pricing.history import RunUsage
from quorum.pricing.regression import Floats, Predicted, Runs, predict
from quorum.pricing.table import Price
from quorum.records import Usage

BYTES_PER_TOKEN = 4.0
TEMPLATE_TOKENS = 12.0  # roles and turn marks of a conversation
TYPICAL_REPLY_TOKENS = 80.0  # median; a factor of e up or down is one standard deviation
REASONING_ALLOWANCE = 4.0  # a reasoning model's output over its visible reply, where unknown
MIN_LOG_LINEAR = 6  # runs from which on slopes are learned, besides the ratio
MAX_RUNS = 100  # that a forecast learns from; those of the same model first
N_DRAWS = 2000
CALL_VARIATION = 0.5  # standard deviation of a call's tokens over their mean, where unknown

_INPUT_SD = 0.25  # of the log ratio before any run: the margin of 1.3 on text length
_OUTPUT_SD = 0.5
_REASONING_SD = 0.8
_SLOPE_SD = 0.2
_LIMIT_SLOPE_SD = 0.4
_LEARNED_SD = 0.6  # of the ratio once there are runs: they overrule the structural forecast
_OUTSIDE = math.log(1.25)  # beyond the runs' range by a quarter is extrapolation

T = TypeVar("T", float, Decimal)


@dataclass(frozen=True, slots=True)
class Features:
    """One kind of call of the run to come.

    Args:
        module: The kind of call.
        backend: Who answers.
        model: The model that answers.
        n_requests: How many are to be sent; exact.
        length: Mean length of a prompt (see ``history.text_length``).
        max_tokens: Limit of a reply, reasoning included; None where there is none.
        template_tokens: What the backend wraps around a prompt.
        is_reasoning: The model reasons before it replies.
        output_tokens: Of a request, where it is known: 0 for a log-likelihood, 1 for a choice.
    """

    module: str
    backend: str
    model: str
    n_requests: int
    length: float
    max_tokens: float | None = None
    template_tokens: float = TEMPLATE_TOKENS
    is_reasoning: bool = False
    output_tokens: float | None = None


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
        same = [run for run in found if _name(run) == _name(features)]
        other = [run for run in found if _name(run) != _name(features)]
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
    inputs = _Target("input", features, runs, pilot)
    outputs = _Target("output", features, runs, pilot)
    draws = _draws(inputs, outputs, features.n_requests)
    shares = _cache_shares(features, runs, pilot)
    usd = None if price is None else _usd(inputs, outputs, draws, shares, price, mode, level)
    n_failed = sum(run.n_failed for run in runs) / max(sum(run.n_requests for run in runs), 1)
    notes = _notes(features, runs, pilot)
    return Forecast(
        input_tokens=_band(draws[0], inputs.base, level),
        output_tokens=_band(draws[1], outputs.base, level),
        usd=usd,
        possible_usd=None if usd is None else usd.base * Decimal(str(round(n_failed, 6))),
        card=_card(features, runs, inputs, outputs, pilot, level),
        notes=notes if price is None else (*notes, *rates(price, mode).notes),
    )


def structural_tokens(features: Features, length: float | None = None) -> tuple[float, float]:
    """Input and output tokens of a request with no run to learn from.

    Input: length / 4 plus the template. Output: the mean of min(reply, max_tokens) for a log-normal
    reply with median 80 (times the allowance of a reasoning model) and log-standard-deviation 1.
    """
    size = features.length if length is None else length
    inputs = size / BYTES_PER_TOKEN + features.template_tokens
    if features.output_tokens is not None:
        return inputs, features.output_tokens
    allowance = REASONING_ALLOWANCE if features.is_reasoning else 1.0
    return inputs, _cut_reply(TYPICAL_REPLY_TOKENS * allowance, features.max_tokens)


# One target: input or output tokens of a request


class _Target:
    """The forecast of one side's tokens per request."""

    def __init__(
        self, name: str, features: Features, runs: Sequence[RunUsage], pilot: RunUsage | None
    ) -> None:
        self.name = name
        self.features = features
        self.columns, rows = _design(name, features, runs)
        self._centre = rows.mean(axis=0) if len(runs) else np.zeros(len(self.columns))
        self._centre[0] = 0.0
        variation = [v for run in runs if (v := self._variation(run)) is not None]
        self.variation = median(variation) if variation else CALL_VARIATION
        names = list(dict.fromkeys(map(_name, runs)))
        own = names.index(_name(features)) if _name(features) in names else -1
        self._offset = self._log_structural(features.length, features.max_tokens)
        learned = Runs(
            x=rows - self._centre,
            y=np.array([self._ratio(run) for run in runs], dtype=np.float64),
            models=np.array([names.index(_name(run)) for run in runs], dtype=np.int64),
            sampling_var=np.array([self._sampling_var(run) for run in runs], dtype=np.float64),
        )
        x = _row(self.columns, features.length, features.max_tokens) - self._centre
        found = predict(learned, x, own, self._prior_sd(n_runs=len(runs)))
        if pilot is not None and pilot.n_requests > 1:
            found = found.updated(self._ratio(pilot), self._sampling_var(pilot))
            self.variation = self._variation(pilot) or self.variation
        self.predicted: Predicted = found
        self.most = self._most(runs, pilot)
        self.base = self.tokens(np.array([found.mean]))[0] * features.n_requests

    def tokens(self, y: Floats) -> Floats:
        """Tokens per request at these log ratios."""
        raw: Floats = np.clip(np.exp(self._offset + y) - 1.0, 0.0, self.most)
        return raw

    def _most(self, runs: Sequence[RunUsage], pilot: RunUsage | None) -> float:
        """The most a request can use: the reply's limit, times what was ever paid for twice."""
        if self.name == "input":
            return math.inf
        if self.features.output_tokens is not None and not runs and pilot is None:
            return self.features.output_tokens
        if self.features.max_tokens is None:
            return math.inf
        repeats = [run.n_calls / run.n_requests for run in runs]
        return self.features.max_tokens * max([1.0, *repeats])

    def _log_structural(self, length: float | None, max_tokens: float | None) -> float:
        changed = self.features.max_tokens if max_tokens is None else max_tokens
        at = Features(
            "", "", "", 0, 0.0, changed, self.features.template_tokens,
            self.features.is_reasoning, self.features.output_tokens,
        )  # fmt: skip
        pair = structural_tokens(at, self.features.length if length is None else length)
        return math.log(pair[self.name == "output"] + 1.0)

    def _ratio(self, run: RunUsage) -> float:
        used = run.input_tokens if self.name == "input" else run.output_tokens
        return math.log(used / run.n_requests + 1.0) - self._log_structural(
            run.length, run.max_tokens
        )

    def _variation(self, run: RunUsage) -> float | None:
        return run.input_variation if self.name == "input" else run.output_variation

    def _sampling_var(self, run: RunUsage) -> float:
        variation = self._variation(run)
        spread = self.variation if variation is None else variation
        few = 1.0 + 2.0 / run.n_requests  # the spread itself is a guess from few calls
        return max(spread**2 / run.n_requests * few, 1e-8)

    def _prior_sd(self, n_runs: int) -> Floats:
        if self.name == "input":
            first = _INPUT_SD
        elif self.features.output_tokens is not None:
            first = 0.02
        else:
            first = _REASONING_SD if self.features.is_reasoning else _OUTPUT_SD
        first = max(first, _LEARNED_SD) if n_runs else first
        slopes = [_SLOPE_SD if name == "log_length" else _LIMIT_SLOPE_SD for name in self.columns]
        return np.array([first, *slopes[1:]], dtype=np.float64)


def _design(
    name: str, features: Features, runs: Sequence[RunUsage]
) -> tuple[tuple[str, ...], Floats]:
    """Names of the columns, and a row a run."""
    columns = ["one"]
    if len(runs) >= MIN_LOG_LINEAR:
        if _varies([run.length for run in runs]):
            columns.append("log_length")
        if name == "output" and features.max_tokens and _varies([r.max_tokens for r in runs]):
            columns.append("log_max_tokens")
    rows = [_row(columns, run.length, run.max_tokens) for run in runs]
    return tuple(columns), np.array(rows, dtype=np.float64).reshape(len(runs), len(columns))


def _row(columns: Sequence[str], length: float | None, max_tokens: float | None) -> Floats:
    values = {
        "one": 1.0,
        "log_length": math.log(max(length or 1.0, 1.0)),
        "log_max_tokens": math.log(max(max_tokens or 1.0, 1.0)),
    }
    return np.array([values[name] for name in columns], dtype=np.float64)


def _varies(values: Sequence[float | None]) -> bool:
    known = [math.log(value) for value in values if value]
    return len(known) == len(values) and max(known) - min(known) > 0.1


def _cut_reply(typical: float, max_tokens: float | None) -> float:
    """Mean of min(L, M) for log L ~ N(log typical, 1)."""
    mean = typical * math.exp(0.5)
    if max_tokens is None:
        return mean
    if max_tokens <= 0:
        return 0.0
    normal = NormalDist()
    z = math.log(max_tokens / typical)
    return mean * normal.cdf(z - 1.0) + max_tokens * (1.0 - normal.cdf(z))


# The joint distribution of both sides, and its cost


def _draws(inputs: _Target, outputs: _Target, n_requests: int) -> tuple[Floats, Floats]:
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
    inputs: _Target,
    outputs: _Target,
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
    base = _exact(inputs.base, outputs.base, middle[0], middle[1], price, mode)
    return Band(min(ends[0], base), base, max(ends[1], base))


def _exact(
    inputs: float, outputs: float, cached: float, write: float, price: Price, mode: str
) -> Decimal:
    n = round(inputs)
    n_cached = min(int(n * cached), n)
    n_write = min(int(n * write), n - n_cached)
    return cost(Usage(n, n_cached, round(outputs), 0, n_write), price, mode)


def _cache_shares(features: Features, runs: Sequence[RunUsage], pilot: RunUsage | None) -> Floats:
    """Shares of the input read from and written to the cache: the model's runs, else none."""
    known = [pilot] if pilot else [run for run in runs if _name(run) == _name(features)]
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


def _name(run: RunUsage | Features) -> tuple[str, str]:
    return run.backend, run.model


# What it rests on


def _stage(n_runs: int) -> str:
    if n_runs == 0:
        return "prior"
    return "shrunken_ratio" if n_runs < MIN_LOG_LINEAR else "log_linear"


def _extrapolates(features: Features, runs: Sequence[RunUsage]) -> list[str]:
    if not runs:
        return []
    reasons = []
    if all(_name(run) != _name(features) for run in runs):
        reasons.append("no earlier run of this model")
    for name, value in (("length", features.length), ("max_tokens", features.max_tokens)):
        known = [math.log(v) for run in runs if (v := getattr(run, name))]
        if (
            known
            and value
            and not (min(known) - _OUTSIDE <= math.log(value) <= max(known) + _OUTSIDE)
        ):
            reasons.append(f"{name} is outside of what earlier runs had")
    return reasons


def _fallback(features: Features, runs: Sequence[RunUsage]) -> str | None:
    if not runs:
        return "no earlier run of this kind of call: text length and typical replies"
    if all(_name(run) != _name(features) for run in runs):
        return "no earlier run of this model: the ratio of other models"
    return None


def _notes(features: Features, runs: Sequence[RunUsage], pilot: RunUsage | None) -> tuple[str, ...]:
    notes = []
    if not runs and pilot is None:
        notes.append(
            f"{features.module}: tokens are estimated as characters / 4 with a margin of 1.3 "
            "(bytes / 4 in other scripts); no tokeniser is downloaded"
        )
    known = any(_name(run) == _name(features) for run in runs)
    if features.is_reasoning and not known and pilot is None:
        notes.append(
            f"{features.module}: {features.model} reasons before it replies; an allowance of "
            f"{REASONING_ALLOWANCE:g} times the visible reply is counted until calls are known"
        )
    if pilot is not None:
        notes.append(f"{features.module}: re-estimated from {pilot.n_requests} pilot calls")
    return tuple(notes)


def _card(
    features: Features,
    runs: Sequence[RunUsage],
    inputs: _Target,
    outputs: _Target,
    pilot: RunUsage | None,
    level: float,
) -> dict[str, object]:
    reasons = _extrapolates(features, runs)
    known = any(_name(run) == _name(features) for run in runs)
    allowed = features.is_reasoning and not known and pilot is None
    return {
        "module": features.module,
        "backend": features.backend,
        "model": features.model,
        "method": _stage(len(runs)),
        "n_runs": len(runs),
        "n_runs_of_model": sum(_name(run) == _name(features) for run in runs),
        "level": level,
        "features": {
            "n_requests": features.n_requests,
            "length": round(features.length, 6),
            "max_tokens": features.max_tokens,
            "template_tokens": features.template_tokens,
            "is_reasoning": features.is_reasoning,
        },
        "input": _side_card(inputs, level),
        "output": _side_card(outputs, level),
        "extrapolates": bool(reasons),
        "extrapolation": reasons,
        "fallback": _fallback(features, runs),
        "reasoning_allowance": REASONING_ALLOWANCE if allowed else None,
        "calibration": None if pilot is None else {"n_calls": pilot.n_requests, "run": pilot.run},
    }


def _side_card(target: _Target, level: float) -> dict[str, object]:
    found = target.predicted
    bound = NormalDist().inv_cdf((1 + level) / 2)
    n = len(found.residuals)
    index = target.name == "output"
    return {
        "structural_tokens_per_request": round(structural_tokens(target.features)[index], 3),
        "tokens_per_request": round(float(target.tokens(np.array([found.mean]))[0]), 3),
        "coefficients": {
            "log_ratio" if name == "one" else name: round(float(value), 6)
            for name, value in zip(target.columns, found.coefficients, strict=True)
        },
        "loro_median_error": (
            round(float(np.median(np.abs(np.expm1(-found.residuals)))), 6) if n else None
        ),
        "loro_coverage": round(float(np.mean(np.abs(found.z) <= bound)), 6) if n else None,
    }
