"""Which price a model has: the user's file, then our table, then genai-prices where asked for.

A name is matched exactly or by an alias that a row states, never by its beginning: a new model is
not priced as an older one. Unknown is None, never 0.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Protocol

from quorum.errors import BudgetError
from quorum.pricing.table import Price, Table, read_table


class Source(Protocol):
    """Where a price may be found."""

    def find(self, provider: str, model: str) -> Price | None:
        """The price of exactly that model; None where it has none."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices from several sources; the first one that knows a model counts."""

    sources: tuple[Source, ...] = field(default_factory=tuple)

    @classmethod
    def load(
        cls,
        table_csv: Path | None,
        user_csv: Path | None = None,
        *,
        use_genai_prices: bool = False,
        confirmed: bool = False,
        today: date | None = None,
    ) -> Prices:
        """The prices of a run.

        Args:
            table_csv: Our table; None where there is none.
            user_csv: Rows that replace those of our table, model by model.
            use_genai_prices: Ask the package ``genai-prices`` for what neither file knows.
            confirmed: Take the user's rates above $1 per 1,000 tokens (or below $0.0001 per
                million), which look like a slip of the unit.
            today: Which of genai-prices' dated rates count.

        Raises:
            InputError: A file cannot be used.
            MissingExtraError: ``genai-prices`` is asked for and is not installed.
        """
        sources: list[Source] = []
        if user_csv is not None:
            sources.append(read_table(user_csv, confirmed=confirmed))
        if table_csv is not None:
            sources.append(read_table(table_csv))
        if use_genai_prices:
            from quorum.pricing.genai import GenaiPrices

            sources.append(GenaiPrices(today or datetime.now(UTC).date()))
        return cls(tuple(sources))

    def find(self, provider: str, model: str) -> Price | None:
        """The price of exactly that model or stated alias; None where no source knows it."""
        for source in self.sources:
            price = source.find(provider, model)
            if price is not None:
                return price
        return None

    def require(self, provider: str, model: str) -> Price:
        """The price of a model that is to be forecast or capped in USD.

        Raises:
            BudgetError: There is none; unknown is not 0.
        """
        price = self.find(provider, model)
        if price is not None:
            return price
        known = [name for source in self.sources for name in _names(source, provider)]
        near = difflib.get_close_matches(model, known, n=1)
        hint = f" {near[0]} has one, which is another model." if near else ""
        raise BudgetError(
            "model",
            f"{provider} has no price for it, so no cap in USD can hold",
            got=model,
            mend="Give a row in prices.file (provider, model, input, output: USD per million "
            f"tokens), or cap budget.max_tokens and max_calls instead.{hint}",
        )

    def cards(self, models: Iterable[tuple[str, str]]) -> list[dict[str, object]]:
        """Where the prices of some models came from, as plain values for budget.json."""
        rows = []
        for provider, model in sorted(set(models)):
            price = self.find(provider, model)
            rows.append({"provider": provider, "model": model, **plain(price)})
        return rows


def plain(price: Price | None) -> dict[str, object]:
    """A price as JSON values: rates as decimal text, the matched name, source and date."""
    if price is None:
        return {"status": "unpriced"}
    optional = ("cached_input", "cache_write", "batch_input", "batch_cached_input", "batch_output")
    rates = {name: getattr(price, name) for name in ("input", "output", *optional)}
    return {
        "status": "priced",
        "matched": price.matched,
        "currency": price.currency,
        "source": price.source,
        "as_of": None if price.as_of is None else price.as_of.isoformat(),
        **{name: None if rate is None else str(rate) for name, rate in rates.items()},
    }


def _names(source: Source, provider: str) -> list[str]:
    if not isinstance(source, Table):
        return []
    return [model for owner, model in source.rows if owner == provider]
