"""A run in other ways: whole or what remains, at once or in batches; its status; what fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from quorum.pricing.forecast import Band, Forecast, Model, forecast
from quorum.pricing.history import RunUsage
from quorum.pricing.structural import Features
from quorum.pricing.table import Price

SCENARIOS = {  # name: (only what the store lacks, mode)
    "whole": (False, "sync"),
    "whole_batch": (False, "batch"),
    "remaining": (True, "sync"),
    "remaining_batch": (True, "batch"),
}
STATUSES = ("within", "at_risk", "exceeds", "unpriced", "no_cap")


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of call of a run: all its requests, and how many of them the store has."""

    features: Features
    n_in_store: int = 0


@dataclass(frozen=True, slots=True)
class Totals:
    """Forecasts of several kinds of call together.

    The ends are sums of ends: kinds of call of one model err together, so the band is no narrower
    than that. Costs are None where a model has no price.
    """

    n_requests: int
    input_tokens: Band[float]
    output_tokens: Band[float]
    usd: Band[Decimal] | None
    possible_usd: Decimal | None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A way to make the run: its forecasts by kind of call, and their totals."""

    name: str
    mode: str
    parts: tuple[Forecast, ...]
    totals: Totals


def scenarios(
    parts: Sequence[Part],
    model: Model,
    price: Price | None,
    *,
    level: float = 0.9,
    pilots: Mapping[str, RunUsage] | None = None,
    names: Iterable[str] = tuple(SCENARIOS),
) -> tuple[Scenario, ...]:
    """The run in several ways; with batches only for a backend that has them (``names``).

    Args:
        parts: The kinds of call.
        model: Earlier runs.
        price: Of the model; None forecasts tokens only.
        level: Of the intervals.
        pilots: First calls of this run by kind of call.
        names: Of ``SCENARIOS``.
    """
    found = []
    for name in names:
        remains, mode = SCENARIOS[name]
        counts = [part.features.n_requests - (part.n_in_store if remains else 0) for part in parts]
        rows = tuple(
            forecast(
                replace(part.features, n_requests=count),
                model,
                level,
                price=price,
                mode=mode,
                pilot=(pilots or {}).get(part.features.module),
            )
            for part, count in zip(parts, counts, strict=True)
        )
        found.append(Scenario(name, mode, rows, total(rows, sum(counts))))
    return tuple(found)


def total(forecasts: Sequence[Forecast], n_requests: int) -> Totals:
    """Forecasts of several kinds of call together; see ``Totals``."""
    bands = [row.usd for row in forecasts]
    priced = [band for band in bands if band is not None]
    usd = None
    if len(priced) == len(bands):
        usd = Band(
            sum((band.low for band in priced), Decimal(0)),
            sum((band.base for band in priced), Decimal(0)),
            sum((band.high for band in priced), Decimal(0)),
        )
    possible = [row.possible_usd for row in forecasts if row.possible_usd is not None]
    return Totals(
        n_requests=n_requests,
        input_tokens=_added([row.input_tokens for row in forecasts]),
        output_tokens=_added([row.output_tokens for row in forecasts]),
        usd=usd,
        possible_usd=sum(possible, Decimal(0)) if len(possible) == len(forecasts) else None,
    )


def status(
    usd: Band[Decimal] | None, cap_usd: Decimal | None, spent_usd: Decimal = Decimal(0)
) -> str:
    """How a forecast stands to the cap, with what this run has spent already.

    ``within``: the high end is; ``at_risk``: the base is, the high end is not; ``exceeds``: the
    base is above it; ``unpriced``; ``no_cap``.
    """
    if usd is None:
        return "unpriced"
    if cap_usd is None:
        return "no_cap"
    left = cap_usd - spent_usd
    if usd.high <= left:
        return "within"
    return "at_risk" if usd.base <= left else "exceeds"


def what_fits(
    parts: Sequence[Part],
    model: Model,
    price: Price,
    cap_usd: Decimal,
    *,
    spent_usd: Decimal = Decimal(0),
    level: float = 0.9,
    mode: str = "sync",
    pilots: Mapping[str, RunUsage] | None = None,
) -> int:
    """The most requests to send whose high forecast is within the cap, in the run's proportions."""
    counts = [part.features.n_requests - part.n_in_store for part in parts]
    n_all = sum(counts)

    def high(n: int) -> Decimal:
        rows = [
            forecast(
                replace(part.features, n_requests=-(-count * n // n_all)),
                model,
                level,
                price=price,
                mode=mode,
                pilot=(pilots or {}).get(part.features.module),
            )
            for part, count in zip(parts, counts, strict=True)
        ]
        return sum((row.usd.high for row in rows if row.usd is not None), Decimal(0))

    return largest_within(cap_usd - spent_usd, n_all, high)


def largest_within(cap_usd: Decimal, n_max: int, high: Callable[[int], Decimal]) -> int:
    """The largest n of 0 to ``n_max`` with high(n) <= cap, for a cost that grows with n."""
    if n_max == 0 or high(n_max) <= cap_usd:
        return n_max
    fits, fails = 0, n_max
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if high(middle) <= cap_usd:
            fits = middle
        else:
            fails = middle
    return fits


def _added(bands: Sequence[Band[float]]) -> Band[float]:
    return Band(
        sum((band.low for band in bands), 0.0),
        sum((band.base for band in bands), 0.0),
        sum((band.high for band in bands), 0.0),
    )
