"""Prices of the optional package genai-prices, with its silent fall-backs caught.

The package matches names by their beginning, charges the standard rate where a batch has none, and
takes the lowest tier of a tiered price for a price without saying so. Here: only a name that a
rule of the package states in full, only batch rates that it states, and no price at all for a model
whose price hangs on the length of a request, the time of day, or other units than tokens.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.metadata import version
from typing import Any

from quorum.errors import MissingExtraError
from quorum.pricing.table import Price

_BATCH = {"processing": "batch"}
_TOKEN_UNITS = {  # the package's name of a rate: ours
    "input_mtok": "input",
    "cache_read_mtok": "cached_input",
    "cache_write_mtok": "cache_write",
    "output_mtok": "output",
}
_BATCH_UNITS = {
    "input_mtok": "batch_input",
    "cache_read_mtok": "batch_cached_input",
    "output_mtok": "batch_output",
}


class GenaiPrices:
    """The rates that the installed package has for a day; it is not asked over the network.

    Raises:
        MissingExtraError: The package is not installed.
    """

    def __init__(self, today: date) -> None:
        try:
            data = importlib.import_module("genai_prices.data")
        except ImportError as error:
            raise MissingExtraError(
                "prices.genai_prices",
                "needs the package genai-prices",
                mend="pip install 'quorum[genai-prices]'",
            ) from error
        self._today = datetime.combine(today, time(12), UTC)
        self._source = f"genai-prices {version('genai-prices')}"
        self._models: dict[tuple[str, str], Any] = {}
        for provider in data.providers:
            for model in provider.models:
                for name in _names(model):
                    self._models.setdefault((provider.id, name), model)

    def find(self, provider: str, model: str) -> Price | None:
        """The price of a model that a rule of the package names in full; None otherwise."""
        found = self._models.get((provider, model))
        if found is None or _has_time_of_day(found):
            return None
        standard = _rates(found.get_prices(self._today), _TOKEN_UNITS)
        if standard is None or not {"input", "output"} <= standard.keys():
            return None
        batch: dict[str, Decimal] = {}
        for variant in found.price_variants or ():
            is_now = variant.constraint is None or variant.constraint.active(self._today)
            if variant.when == _BATCH and is_now:
                batch = {**(_rates(variant.prices, _BATCH_UNITS) or {}), **batch}
        return Price(
            provider=provider,
            model=found.id,
            source=self._source,
            as_of=_since(found),
            matched=model,
            input=standard["input"],
            output=standard["output"],
            cached_input=standard.get("cached_input"),
            cache_write=standard.get("cache_write"),
            batch_input=batch.get("batch_input"),
            batch_cached_input=batch.get("batch_cached_input"),
            batch_output=batch.get("batch_output"),
        )


def _names(model: Any) -> Iterator[str]:
    """The names that the model's rules state in full; its id only if they match it at all."""
    if model.is_match(model.id):
        yield model.id
    yield from _equals(model.match)


def _equals(rule: Any) -> Iterator[str]:
    if hasattr(rule, "equals"):
        yield rule.equals
    for part in getattr(rule, "or_", ()):
        yield from _equals(part)


def _has_time_of_day(model: Any) -> bool:
    prices = model.prices if isinstance(model.prices, list) else []
    return any(hasattr(price.constraint, "start_time") for price in prices)


def _rates(prices: Any, units: dict[str, str]) -> dict[str, Decimal] | None:
    """The token rates; None if one is tiered, or if each request is charged as such."""
    found = {key: value for key, value in vars(prices).items() if value is not None}
    if "requests_kcount" in found:
        return None
    rates = {ours: found[theirs] for theirs, ours in units.items() if theirs in found}
    return rates if all(isinstance(rate, Decimal) for rate in rates.values()) else None


def _since(model: Any) -> date | None:
    """The day from which the rates in force are known to hold, where the package says so."""
    starts = [
        variant.constraint.start_date
        for variant in model.price_variants or ()
        if variant.when == _BATCH and hasattr(variant.constraint, "start_date")
    ]
    return max(starts, default=None)
