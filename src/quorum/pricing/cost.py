"""Exact cost of usage in USD: every token in exactly one bucket, Decimal throughout.

Cost = (input - cached - write)·p_in + cached·p_cached + write·p_write + output·p_out, per million.
Reasoning is part of the output and is not charged again. No price means no cost: None, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import overload

from quorum.errors import InputError
from quorum.pricing.history import UsageRow
from quorum.pricing.table import Price
from quorum.records import Usage

MODES = ("sync", "batch")
_MILLION = Decimal(1_000_000)
_NOT_CHARGED = {"permanent", "rate_limit"}  # refused at the door: nothing was produced


@dataclass(frozen=True, slots=True)
class Rates:
    """What each kind of token costs in one mode, in USD per million, and what was assumed."""

    input: Decimal
    cached_input: Decimal
    cache_write: Decimal
    output: Decimal
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bill:
    """What the rows of a ledger cost.

    Attributes:
        known_usd: Cost of what was reported; None where a row's model has no price.
        possible_usd: Attempts without a reply that a provider may have charged all the same, each
            at the mean cost of a reply of the same module, model and mode; None where unknown.
        n_calls: Replies.
        n_possible: Those attempts.
        n_unpriced: Rows whose model has no price.
        usage: Tokens of all rows.
        status: ``priced`` or ``unpriced``.
    """

    known_usd: Decimal | None
    possible_usd: Decimal | None
    n_calls: int
    n_possible: int
    n_unpriced: int
    usage: Usage
    status: str


def rates(price: Price, mode: str = "sync") -> Rates:
    """The rates of a mode; a rate that nobody published is the standard one, and that is said.

    Raises:
        InputError: There is no such mode.
    """
    if mode not in MODES:
        raise InputError("mode", "is not one of a call", got=mode, allowed=", ".join(MODES))
    name = f"{price.provider}/{price.model}"
    notes = []
    cached, write = price.cached_input, price.cache_write
    if cached is None:
        cached = price.input
        notes.append(f"{name}: no rate for cached input, so it counts as other input")
    if write is None:
        write = price.input  # such providers report no cache writes
    if mode == "sync":
        return Rates(price.input, cached, write, price.output, tuple(notes))
    found = {
        "input": price.batch_input,
        "cached input": price.batch_cached_input,
        "output": price.batch_output,
    }
    notes += [
        f"{name}: no batch rate for {kind}, so the standard rate counts"
        for kind, rate in found.items()
        if rate is None
    ]
    if price.cache_write:
        notes.append(f"{name}: no batch rate for cache writes, so the standard rate counts")
    return Rates(
        input=_first(price.batch_input, price.input),
        cached_input=_first(price.batch_cached_input, cached),
        cache_write=write,
        output=_first(price.batch_output, price.output),
        notes=tuple(notes),
    )


def check_usage(usage: Usage, where: str = "usage") -> None:
    """Refuses counts that contradict each other.

    Raises:
        InputError: A count is negative, or a part is larger than its whole.
    """
    cached_and_written = usage.cached_input_tokens + usage.cache_write_tokens
    counts = {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    for name, count in counts.items():
        if count < 0:
            raise InputError(where, f"has negative {name}", got=count)
    if cached_and_written > usage.input_tokens:
        raise InputError(
            where,
            "has more tokens read from and written to the cache than input_tokens",
            got=cached_and_written,
            allowed=f"at most {usage.input_tokens}",
        )
    if usage.reasoning_tokens > usage.output_tokens:
        raise InputError(
            where,
            "has more reasoning_tokens than output_tokens, which include them",
            got=usage.reasoning_tokens,
            allowed=f"at most {usage.output_tokens}",
        )


@overload
def cost(usage: Usage, price: Price, mode: str = "sync") -> Decimal: ...
@overload
def cost(usage: Usage, price: Price | None, mode: str = "sync") -> Decimal | None: ...
def cost(usage: Usage, price: Price | None, mode: str = "sync") -> Decimal | None:
    """Exact cost in USD; None where the model has no price.

    Raises:
        InputError: The counts contradict each other, or there is no such mode.
    """
    check_usage(usage)
    if price is None:
        return None
    rate = rates(price, mode)
    plain = usage.input_tokens - usage.cached_input_tokens - usage.cache_write_tokens
    total = (
        plain * rate.input
        + usage.cached_input_tokens * rate.cached_input
        + usage.cache_write_tokens * rate.cache_write
        + usage.output_tokens * rate.output
    )
    return total / _MILLION


def worst_case(input_tokens: int, output_tokens: int, price: Price, mode: str = "sync") -> Decimal:
    """The most that a call can cost, in USD: no input from the cache, the longest reply.

    Args:
        input_tokens: Upper bound of the input.
        output_tokens: The limit of the reply, reasoning included.
        price: What the model costs.
        mode: sync or batch.
    """
    rate = rates(price, mode)
    dearest = max(rate.input, rate.cached_input, rate.cache_write)
    return (input_tokens * dearest + output_tokens * rate.output) / _MILLION


def usd_text(amount: Decimal | None) -> str | None:
    """An amount as plain decimal text, exact, with at least two places; None stays None."""
    if amount is None:
        return None
    text = format(amount, "f")
    whole, _, places = text.partition(".")
    return f"{whole}.{places.rstrip('0').ljust(2, '0')}"


def bill(rows: Iterable[UsageRow], price_of: Callable[[str, str], Price | None]) -> Bill:
    """What the rows of a ledger cost, what they may cost besides, and what has no price.

    Args:
        rows: Of usage.csv.
        price_of: Backend and model to price.

    Raises:
        InputError: A row's counts contradict each other.
    """
    groups: dict[tuple[str, str, str, str], list[UsageRow]] = {}
    for row in rows:
        groups.setdefault((row.module, row.backend, row.model, row.mode), []).append(row)
    known, possible = Decimal(0), Decimal(0)
    n_calls = n_possible = n_unpriced = 0
    is_possible_known = True
    usage = Usage()
    for (_, backend, model, mode), members in groups.items():
        price = price_of(backend, model)
        used = total_usage(members)
        amount = cost(used, price, mode)
        n_open = sum(map(_may_be_charged, members))
        usage = _sum(usage, used)
        n_calls += sum(row.status == "ok" for row in members)
        n_possible += n_open
        if amount is None:
            n_unpriced += len(members)
        known += amount or Decimal(0)
        mean = _mean_reply(members, price, mode)
        if n_open and mean is None:
            is_possible_known = False
        elif mean is not None:
            possible += mean * n_open
    return Bill(
        known_usd=None if n_unpriced else known,
        possible_usd=possible if is_possible_known else None,
        n_calls=n_calls,
        n_possible=n_possible,
        n_unpriced=n_unpriced,
        usage=usage,
        status="unpriced" if n_unpriced else "priced",
    )


def _mean_reply(rows: list[UsageRow], price: Price | None, mode: str) -> Decimal | None:
    """Mean cost of a reply; None where there is no price, or no reply to judge by."""
    replies = [row for row in rows if row.status == "ok"]
    if price is None:
        return None
    if price.source == "local":
        return Decimal(0)
    return cost(total_usage(replies), price, mode) / len(replies) if replies else None


def bill_by(
    rows: Iterable[UsageRow], name: str, price_of: Callable[[str, str], Price | None]
) -> dict[str, Bill]:
    """One bill a module, backend, model or mode (``name``), in order of its value."""
    split: dict[str, list[UsageRow]] = {}
    for row in rows:
        split.setdefault(getattr(row, name), []).append(row)
    return {value: bill(split[value], price_of) for value in sorted(split)}


def total_usage(rows: Iterable[UsageRow]) -> Usage:
    """Tokens of all rows, each row checked.

    Raises:
        InputError: A row's counts contradict each other.
    """
    total = Usage()
    for row in rows:
        check_usage(row.usage, f"usage of call {row.key[:12]}")
        total = _sum(total, row.usage)
    return total


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.cached_input_tokens + other.cached_input_tokens,
        one.output_tokens + other.output_tokens,
        one.reasoning_tokens + other.reasoning_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
    )


def _first(rate: Decimal | None, fallback: Decimal) -> Decimal:
    return fallback if rate is None else rate


def _has_tokens(row: UsageRow) -> bool:
    return bool(row.usage.input_tokens or row.usage.output_tokens)


def _may_be_charged(row: UsageRow) -> bool:
    is_open = row.status == "failed" and not _has_tokens(row)
    return is_open and row.finish_reason not in _NOT_CHARGED
