"""Stage ``budget``: what a run will ask for, before it asks.

Counts are exact: coalitions, distinct requests, and how many of them the store has already.
Tokens and seconds are forecasts, from calls of the same model in the store where there are any.
Works right after ``partition``. The store is a hidden input: the stage records what it saw, and
``quorum forecast`` prints the same for the store of this moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean, quantiles
from typing import cast

from quorum.attribution.absence import AbsencePolicy
from quorum.backends.base import Backend
from quorum.config.view import ForecastView, GenerateView, RuntimeView
from quorum.pipeline import artifacts
from quorum.pipeline import plan as plan_file
from quorum.pipeline.generate import check_capabilities, make_backend
from quorum.pipeline.plan import Plan, Planned
from quorum.records import Request, Target
from quorum.report.budget import budget_page
from quorum.runtime.store import GenerationStore, store_path

COLUMNS = (
    "module",
    "n_coalitions",
    "n_requests",
    "n_in_store",
    "n_calls",
    *(
        f"{what}_{end}"
        for what in ("input_tokens", "output_tokens", "seconds")
        for end in ("low", "base", "high")
    ),
    "source",
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
    """What one kind of call needs: exact counts, and the texts that would be sent."""

    name: str
    n_coalitions: int
    requests: dict[str, Request]  # by key, distinct
    n_unknown: int  # distinct requests at most, whose text is not known yet
    max_tokens: int


def run(root: Path) -> None:
    """Writes budget.json, budget.csv and budget.html."""
    plan = plan_file.read(root / artifacts.PARTITION)
    view = ForecastView.read(root).generate
    found = live_forecast(plan, view, RuntimeView.read(root))
    folder = artifacts.fresh_folder(root / artifacts.BUDGET)
    artifacts.write_text(folder / "budget.json", artifacts.json_text(found))
    rows = cast("list[dict[str, object]]", found["rows"])
    artifacts.write_text(folder / "budget.csv", artifacts.csv_text(COLUMNS, rows))
    artifacts.write_text(folder / "budget.html", budget_page(found))


def live_forecast(plan: Plan, view: GenerateView, runtime: RuntimeView) -> Forecast:
    """The forecast against the store of this moment."""
    with GenerationStore(store_path()) as store:
        return forecast(plan, view, runtime, store)


def forecast(
    plan: Plan, view: GenerateView, runtime: RuntimeView, store: GenerationStore
) -> Forecast:
    """Calls, tokens and seconds of a run, by module and in total."""
    backend = make_backend(view, runtime)
    check_capabilities(backend, plan, view)
    history = read_history(store, backend.target)
    lanes = backend.lanes or cast("int", runtime.options["max_inflight"])
    rows = [
        _row(module, store, history, backend, lanes)
        for module in modules(plan, view, backend.target, store)
    ]
    totals = {
        key: _sum([row[key] for row in rows]) for key in COLUMNS if key not in {"module", "source"}
    }
    notes = (
        [] if view.estimator is None else ["a second phase counts with all that its budget allows"]
    )
    limits = sorted({p.binding for p in plan.snapshots})
    return {
        "title": "Forecast",
        "backend": backend.target.backend,
        "model": backend.target.model,
        "limits_that_bind": ", ".join(limits),
        "n_snapshots": len(plan.snapshots),
        "n_calls_learned_from": history.n_calls,
        "rows": rows,
        "totals": totals,
        "status": "unpriced" if backend.capabilities.priced else "no_cap",
        "notes": notes,
    }


def modules(plan: Plan, view: GenerateView, target: Target, store: GenerationStore) -> list[Module]:
    """What would be sent, by kind of call."""
    policy = cast("AbsencePolicy", view.absence.make())
    options = view.decoding
    texts: dict[str, Request] = {}
    scores: dict[str, Request] = {}
    n_coalitions = n_unknown = n_unknown_scores = 0
    for planned in plan.snapshots:
        render = policy.prepare(planned.snapshot, planned.players)
        prompts = [render(row.tolist()) for row in planned.coalitions]
        grand = render([True] * len(planned.players))
        second = planned.n_coalitions - len(planned.coalitions) if view.estimator else 0
        n_coalitions += len(planned.coalitions) + second
        if view.needs == "continuation":
            base = Request(grand, options)
            texts[base.key(target)] = base
            reference = _reference(planned, view, base.key(target), store)
            n_unknown_scores += second
            if reference is None:
                n_unknown_scores += len(set(prompts))
                continue
            found = [Request(prompt, continuation=reference) for prompt in prompts]
            scores.update((request.key(target), request) for request in found)
            continue
        n_unknown += second * view.samples
        for prompt in prompts:
            n = max(view.samples, view.noise_repeats) if prompt == grand else view.samples
            for sample in range(n):
                request = Request(prompt, options, sample)
                texts[request.key(target)] = request
    out = [Module("generate", n_coalitions, texts, n_unknown, view.max_tokens)]
    if view.needs == "continuation":
        out = [
            Module("base generation", len(plan.snapshots), texts, 0, view.max_tokens),
            Module("log-likelihood", n_coalitions, scores, n_unknown_scores, view.max_tokens),
        ]
    return out


def _reference(
    planned: Planned, view: GenerateView, base_key: str, store: GenerationStore
) -> str | None:
    if view.reference == "target":
        return planned.snapshot.target
    base = store.get(base_key)
    return None if base is None else base.text


def read_history(store: GenerationStore, target: Target) -> History:
    """What the store's calls of the same model used, ``MAX_HISTORY`` at most."""
    mark = [target.backend, target.model, dict(target.identity)]
    characters = tokens = 0
    outputs: list[int] = []
    seconds: list[float] = []
    for row in islice(store.rows(), 20 * MAX_HISTORY):
        request = json.loads(row.request)
        if [request["backend"], request["model"], request["identity"]] != mark:
            continue
        if request["continuation"] is not None or request["choices"]:
            continue
        characters += sum(len(text) for _, text in request["messages"])
        tokens += row.generation.usage.input_tokens
        outputs.append(row.generation.usage.output_tokens)
        seconds.append(row.generation.seconds)
        if len(seconds) == MAX_HISTORY:
            break
    ratio = tokens / characters if characters else None
    return History(ratio, tuple(outputs), tuple(seconds))


def _row(
    module: Module, store: GenerationStore, history: History, backend: Backend, lanes: int
) -> dict[str, object]:
    present = store.contains_many(module.requests)
    missing = [request for key, request in module.requests.items() if key not in present]
    n_calls = len(missing) + module.n_unknown
    inputs = _input_tokens(missing, n_calls, history)
    outputs = _output_tokens(module, n_calls, history)
    seconds, source = _seconds(n_calls, inputs, outputs, history, backend, lanes)
    return {
        "module": module.name,
        "n_coalitions": module.n_coalitions,
        "n_requests": len(module.requests) + module.n_unknown,
        "n_in_store": len(present),
        "n_calls": n_calls,
        **_band("input_tokens", inputs),
        **_band("output_tokens", outputs),
        **_band("seconds", seconds),
        "source": source,
    }


def _input_tokens(missing: Sequence[Request], n_calls: int, history: History) -> list[float]:
    characters = [sum(len(m.content) for m in request.messages) for request in missing]
    mean = fmean(characters) if characters else 0.0
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
