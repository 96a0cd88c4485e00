"""A price and the table it stands in: dated rows with a source, read and checked line by line."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path

from quorum.errors import InputError

RATES = (
    "input",
    "cached_input",
    "cache_write",
    "output",
    "batch_input",
    "batch_cached_input",
    "batch_output",
)
COLUMNS = ("provider", "model", "aliases", *RATES, "currency", "source", "as_of")
REQUIRED = ("provider", "model", "input", "output")
MAX_RATE = Decimal(1000)  # USD per million tokens: $1 per 1,000, more than any model asks
MIN_RATE = Decimal("0.0001")  # below it a rate per token was typed where one per million belongs
STALE_DAYS = 90


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, in USD per million tokens.

    Args:
        provider: Who is paid.
        model: The row's model.
        input: Input that is neither read from nor written to a prompt cache.
        output: Output, reasoning included.
        cached_input: Input read from the prompt cache; None where no rate is published.
        cache_write: Input written to the prompt cache; None likewise.
        batch_input: As ``input``, in a batch; None likewise. So the next two.
        batch_cached_input: As ``cached_input``, in a batch.
        batch_output: As ``output``, in a batch.
        currency: USD, always.
        source: Where the rates were read: an address, a file, ``local``.
        as_of: When; None where the user's file does not say.
        matched: The name that was found: the model's, or the alias that was asked for.
    """

    provider: str
    model: str
    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    batch_input: Decimal | None = None
    batch_cached_input: Decimal | None = None
    batch_output: Decimal | None = None
    currency: str = "USD"
    source: str = ""
    as_of: date | None = None
    matched: str = ""

    @classmethod
    def local(cls, provider: str, model: str) -> Price:
        """The price of a model on a machine of one's own: 0, from source ``local``."""
        zero = Decimal(0)
        return cls(provider, model, zero, zero, source="local", matched=model)

    def warnings(self, today: date) -> tuple[str, ...]:
        """What a reader should know before trusting it: an old date, or none."""
        if self.source == "local":
            return ()
        name = f"the price of {self.provider}/{self.model}"
        if self.as_of is None:
            return (f"{name} has no date",)
        n_days = (today - self.as_of).days
        return (f"{name} is {n_days} days old",) if n_days > STALE_DAYS else ()

    def describe(self) -> str:
        """One line: the row that was found, its rates, source and date."""
        row = self.model if self.matched in ("", self.model) else f"{self.model} ({self.matched})"
        rates = f"{self.input} in, {self.output} out per million tokens"
        when = "" if self.as_of is None else f", {self.as_of.isoformat()}"
        return f"{self.provider}/{row}: {rates}, USD; {self.source}{when}"


@dataclass(frozen=True, slots=True)
class Table:
    """Prices by provider and exact name."""

    rows: Mapping[tuple[str, str], Price] = field(default_factory=dict)

    def find(self, provider: str, model: str) -> Price | None:
        """The row of exactly that name or alias; None where there is none."""
        return self.rows.get((provider, model))


def read_table(path: Path, *, confirmed: bool = False) -> Table:
    """The prices of a CSV file.

    Args:
        path: UTF-8, with at least the columns provider, model, input, output.
        confirmed: Take rates that look like a slip of the unit.

    Raises:
        InputError: The file, a column or a value cannot be used; the line is named.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read as a price table: {error}") from error
    return parse_table(text, str(path), confirmed=confirmed)


def parse_table(text: str, where: str, *, confirmed: bool = False) -> Table:
    """The prices of a table's text; see ``read_table``."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        _check_header(tuple(reader.fieldnames or ()), where)
        rows: dict[tuple[str, str], Price] = {}
        for fields in reader:
            line = f"{where}, line {reader.line_num}"
            if None in fields or None in fields.values():
                raise InputError(line, "has more or fewer cells than the header")
            values = {name: value.strip() for name, value in fields.items()}
            price = _price(values, where, line, confirmed=confirmed)
            for name in dict.fromkeys((price.model, *values.get("aliases", "").split())):
                if (price.provider, name) in rows:
                    raise InputError(line, "prices a model that an earlier line prices", got=name)
                rows[price.provider, name] = replace(price, matched=name)
    except csv.Error as error:
        raise InputError(where, f"is not a CSV table: {error}") from error
    return Table(rows)


def _check_header(names: tuple[str, ...], where: str) -> None:
    for name in names:
        if name not in COLUMNS:
            near = difflib.get_close_matches(name, COLUMNS, n=1)
            mend = f"Did you mean {near[0]}?" if near else ""
            raise InputError(
                where, "has an unknown column", got=name, allowed=", ".join(COLUMNS), mend=mend
            )
    for name in REQUIRED:
        if name not in names:
            raise InputError(where, f"lacks the column {name}", allowed=", ".join(COLUMNS))
    if len(set(names)) < len(names):
        raise InputError(where, "names a column twice", got=", ".join(names))


def _price(values: Mapping[str, str], where: str, line: str, *, confirmed: bool) -> Price:
    for name in REQUIRED:
        if not values[name]:
            raise InputError(line, f"has no {name}", mend="Unknown is not 0: type 0 if it is free")
    currency = values.get("currency") or "USD"
    if currency != "USD":
        raise InputError(line, "has a currency that caps do not count in", got=currency)
    rates = {name: _rate(values.get(name, ""), name, line) for name in RATES}
    if not confirmed:
        _check_unit(rates, line)
    return Price(
        provider=values["provider"],
        model=values["model"],
        input=Decimal(values["input"]),
        output=Decimal(values["output"]),
        source=values.get("source") or where,
        as_of=_date(values.get("as_of", ""), line),
        cached_input=rates["cached_input"],
        cache_write=rates["cache_write"],
        batch_input=rates["batch_input"],
        batch_cached_input=rates["batch_cached_input"],
        batch_output=rates["batch_output"],
    )


def _rate(text: str, name: str, line: str) -> Decimal | None:
    if not text:
        return None
    try:
        rate = Decimal(text)
    except InvalidOperation:
        rate = Decimal("NaN")
    if not rate.is_finite() or rate < 0 or rate.is_signed():
        allowed = "USD per million tokens, such as 0.25"
        raise InputError(line, f"has no price in {name}", got=text, allowed=allowed)
    return rate


def _check_unit(rates: Mapping[str, Decimal | None], line: str) -> None:
    for name, rate in rates.items():
        if rate and not MIN_RATE <= rate <= MAX_RATE:
            raise InputError(
                line,
                f"has an unlikely {name}",
                got=str(rate),
                allowed=f"{MIN_RATE} to {MAX_RATE} USD per million tokens",
                mend="Prices are per million tokens, not per token; "
                "set prices.confirmed=true if it is meant",
            )


def _date(text: str, line: str) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError as error:
        raise InputError(line, "has no date in as_of", got=text, allowed="2026-11-30") from error
