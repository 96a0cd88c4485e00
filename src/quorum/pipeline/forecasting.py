"""Forecasts: exact counts of calls, and their tokens and seconds learned from the store."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean, quantiles
from typing import cast

from quorum.backends.base import Backend
from quorum.records import Request, Target
from quorum.runtime.store import GenerationStore

COUNTS = ("n_requests", "n_in_store", "n_calls")
BANDS = tuple(
    f"{what}_{end}"
    for what in ("input_tokens", "output_tokens", "seconds")
    for end in ("low", "base", "high")
)
MAX_HISTORY = 2000  # calls of the same model that are read from the store
CHARACTERS_PER_TOKEN = 4.0  # where the store has no call to learn from
TEMPLATE_TOKENS = 12.0  # roles and turn marks of a conversation, likewise
OUTPUT_SHARE = (0.25, 0.6, 1.0)  # of max_tokens: low, base, high, likewise

Forecast = dict[str, object]


@dataclass(frozen=True, slots=True)
class History:
    """What calls of the same model have taught: one number a call."""

    tokens_per_character: float | None
    output_tokens: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def n_calls(self) -> int:
        """How many calls it rests on."""
        return len(self.seconds)


@dataclass(frozen=True, slots=True)
class Module:
    """What one kind of call needs: exact counts, and the texts that would be sent.

    Args:
        name: The kind of call.
        unit: What the calls are for, such as ``n_coalitions``.
        n_units: How many of them.
        requests: By key, distinct; those whose text is known.
        n_unknown: Distinct requests at most, whose text is not known yet.
        max_tokens: Longest reply.
        typical_characters: Length of a prompt whose text is not known, where none is.
    """

    name: str
    unit: str
    n_units: int
    requests: Mapping[str, Request]
    n_unknown: int
    max_tokens: int
    typical_characters: float = 0.0


def columns(unit: str) -> tuple[str, ...]:
    """Columns of budget.csv, where calls are counted by that unit."""
    return ("module", unit, *COUNTS, *BANDS, "source")


def totals(rows: Sequence[Mapping[str, object]], unit: str) -> dict[str, object]:
    """Sums over the modules; null where a module has no number."""
    return {key: _sum([row[key] for row in rows]) for key in (unit, *COUNTS, *BANDS)}


def read_history(store: GenerationStore, target: Target, *, choices: bool = False) -> History:
    """What the store's calls of the same model used, ``MAX_HISTORY`` at most.

    Args:
        store: Where earlier calls are kept.
        target: The model.
        choices: Learn from calls for option probabilities, not from those for a text.
    """
    mark = [target.backend, target.model, dict(target.identity)]
    characters = tokens = 0
    outputs: list[int] = []
    seconds: list[float] = []
    for row in islice(store.rows(), 20 * MAX_HISTORY):
        request = json.loads(row.request)
        if [request["backend"], request["model"], request["identity"]] != mark:
            continue
        if request["continuation"] is not None or bool(request["choices"]) != choices:
            continue
        characters += sum(len(text) for _, text in request["messages"])
        tokens += row.generation.usage.input_tokens
        outputs.append(row.generation.usage.output_tokens)
        seconds.append(row.generation.seconds)
        if len(seconds) == MAX_HISTORY:
            break
    ratio = tokens / characters if characters else None
    return History(ratio, tuple(outputs), tuple(seconds))


def forecast_row(
    module: Module, store: GenerationStore, history: History, backend: Backend, lanes: int
) -> dict[str, object]:
    """Counts, tokens and seconds of one kind of call."""
    present = store.contains_many(module.requests)
    missing = [request for key, request in module.requests.items() if key not in present]
    n_calls = len(missing) + module.n_unknown
    inputs = _input_tokens(module, missing, n_calls, history)
    outputs = _output_tokens(module, n_calls, history)
    seconds, source = _seconds(n_calls, inputs, outputs, history, backend, lanes)
    return {
        "module": module.name,
        module.unit: module.n_units,
        "n_requests": len(module.requests) + module.n_unknown,
        "n_in_store": len(present),
        "n_calls": n_calls,
        **_band("input_tokens", inputs),
        **_band("output_tokens", outputs),
        **_band("seconds", seconds),
        "source": source,
    }


def _input_tokens(
    module: Module, missing: Sequence[Request], n_calls: int, history: History
) -> list[float]:
    characters = [sum(len(m.content) for m in request.messages) for request in missing]
    mean = fmean(characters) if characters else module.typical_characters
    total = sum(characters) + mean * (n_calls - len(missing))
    if history.tokens_per_character is not None:
        base = total * history.tokens_per_character
        return [0.9 * base, base, 1.1 * base]
    base = total / CHARACTERS_PER_TOKEN + TEMPLATE_TOKENS * n_calls
    return [0.6 * base, base, 1.8 * base]


def _output_tokens(module: Module, n_calls: int, history: History) -> list[float]:
    known = [min(tokens, module.max_tokens) for tokens in history.output_tokens]
    if len(known) < 2:
        return [share * module.max_tokens * n_calls for share in OUTPUT_SHARE]
    low, *_, high = quantiles(known, n=10)
    base = fmean(known)
    spread = (high - low) / 2 * max(n_calls, 1) ** 0.5
    return [
        max(0.0, base * n_calls - spread),
        base * n_calls,
        min(base * n_calls + spread, float(module.max_tokens * n_calls)),
    ]


def _seconds(
    n_calls: int,
    inputs: Sequence[float],
    outputs: Sequence[float],
    history: History,
    backend: Backend,
    lanes: int,
) -> tuple[list[float] | None, str]:
    if history.seconds:
        base = fmean(history.seconds) * n_calls / lanes
        return [0.7 * base, base, 1.5 * base], f"{history.n_calls} calls in the store"
    can = backend.capabilities
    if can.input_tokens_per_s and can.output_tokens_per_s:
        spans = [
            (i / can.input_tokens_per_s + o / can.output_tokens_per_s) / lanes
            for i, o in zip(inputs, outputs, strict=True)
        ]
        return spans, "measured speed of the backend; no call in the store yet"
    return None, "no call of this model in the store yet"


def _band(name: str, values: Sequence[float] | None) -> dict[str, object]:
    low, base, high = [None] * 3 if values is None else [round(v, 1) for v in values]
    return {f"{name}_low": low, f"{name}_base": base, f"{name}_high": high}


def _sum(values: Iterable[object]) -> float | int | None:
    known = [cast("float", value) for value in values]
    return None if any(value is None for value in known) else sum(known)
