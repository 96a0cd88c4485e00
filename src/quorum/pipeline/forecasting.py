"""Forecasts: exact counts of calls; their tokens, seconds and cost, learned from earlier runs.

Earlier runs are the ledgers beside the store (usage only, no prompt text); with none, tokens come
from the length of the prompts. Prices, history and the store are as of this moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import cast

from quorum.backends.base import Backend
from quorum.config.view import RuntimeView
from quorum.pipeline.spending import load_prices, mode_of, price_of, provider_of
from quorum.pricing import forecast as model_of
from quorum.pricing.cost import usd_text
from quorum.pricing.history import (
    RequestFacts,
    RunUsage,
    history_rows,
    read_history,
    text_length,
)
from quorum.pricing.prices import Prices
from quorum.pricing.scenarios import SCENARIOS, Part, Scenario, scenarios, status, what_fits
from quorum.pricing.structural import TEMPLATE_TOKENS, Features
from quorum.pricing.table import Price
from quorum.records import Request
from quorum.runtime.caps import Account, Amount, Caps
from quorum.runtime.store import GenerationStore

COUNTS = ("n_requests", "n_in_store", "n_calls")
BANDS = tuple(
    f"{what}_{end}"
    for what in ("input_tokens", "output_tokens", "seconds", "usd")
    for end in ("low", "base", "high")
)
LEVEL = 0.9
MIN_PILOT = 20  # calls of the run itself from which on they decide
MAX_FACTS = 20_000  # requests of the store whose lengths are looked at
EMBEDDED_TEMPLATE = 30.0  # tokens of its chat template, which adds a system message

Forecast = dict[str, object]


@dataclass(frozen=True, slots=True)
class Module:
    """What one kind of call needs: exact counts, and the texts that would be sent.

    Args:
        name: The kind of call, as the ledger names it.
        unit: What the calls are for, such as ``n_coalitions``.
        n_units: How many of them.
        requests: By key, distinct; those whose text is known.
        n_unknown: Distinct requests at most, whose text is not known yet.
        max_tokens: Longest reply; 0 for a log-likelihood.
        typical_length: Length of a prompt whose text is not known, where none is.
        n_found: Requests that are in the store, beside those of ``requests``.
    """

    name: str
    unit: str
    n_units: int
    requests: Mapping[str, Request]
    n_unknown: int
    max_tokens: int
    typical_length: float = 0.0
    n_found: int = 0


@dataclass(frozen=True)
class Situation:
    """What a forecast is made with.

    Args:
        backend: Who answers.
        runtime: Caps, and how the run is carried out.
        store: Replies that there are.
        run: Name of the run: its folder beside the store, and its own account.
        prices: Where the price of the model is found.
    """

    backend: Backend
    runtime: RuntimeView
    store: GenerationStore
    run: str
    prices: Prices

    @classmethod
    def of(
        cls, root: Path, backend: Backend, runtime: RuntimeView, store: GenerationStore, run: str
    ) -> Situation:
        """The situation of a project."""
        return cls(backend, runtime, store, run, load_prices(root, runtime))

    @property
    def price(self) -> Price | None:
        """Of the backend's model; None where nobody knows it."""
        return price_of(self.backend, self.prices)

    @cached_property
    def runs(self) -> tuple[RunUsage, ...]:
        """What all runs on this store used, this one included."""
        if not self.store.is_file:
            return ()
        runs = Path(self.store.path).absolute().parent / "runs"
        return read_history([f for f in sorted(runs.glob("*")) if f.is_dir()], self._facts())

    def pilots(self) -> dict[str, RunUsage]:
        """What this run's own calls used so far, by module, where they are enough to go by."""
        mark = (self.backend.target.backend, self.backend.target.model, mode_of(self.backend))
        return {
            run.module: run
            for run in self.runs
            if run.run == self.run
            and (run.backend, run.model, run.mode) == mark
            and run.n_requests >= MIN_PILOT
        }

    @property
    def history(self) -> tuple[RunUsage, ...]:
        """What earlier runs used; not what this run has used so far."""
        return tuple(run for run in self.runs if run.run != self.run)

    def _facts(self) -> Callable[[str], RequestFacts | None]:
        known: dict[str, RequestFacts] = {}
        for row in islice(self.store.rows(), MAX_FACTS):
            request = json.loads(row.request)
            length = sum(text_length(text) for _, text in request["messages"])
            known[row.key] = RequestFacts(length, request["options"].get("max_tokens"))
        return known.get


def columns(unit: str) -> tuple[str, ...]:
    """Columns of budget.csv, where calls are counted by that unit."""
    return ("scenario", "module", unit, *COUNTS, *BANDS, "source")


def make_forecast(
    modules: Sequence[Module], unit: str, situation: Situation, more: Mapping[str, object]
) -> Forecast:
    """The forecast of a run: what remains by kind of call, other ways to run it, cap and status.

    Args:
        modules: The kinds of call.
        unit: What their calls are for.
        situation: What the forecast is made with.
        more: What else budget.json tells.
    """
    backend, price = situation.backend, situation.price
    runs = situation.history
    model = model_of.fit_history(runs)
    parts = [_part(module, situation) for module in modules]
    names = [
        name
        for name, (_, mode) in SCENARIOS.items()
        if mode == "sync" or backend.capabilities.batch
    ]
    pilots = situation.pilots()
    found = scenarios(parts, model, price, level=LEVEL, names=names, pilots=pilots)
    chosen = "remaining_batch" if mode_of(backend) == "batch" else "remaining"
    rows = [row for scenario in found for row in _rows(scenario, modules, unit, parts, situation)]
    now = [row for row in rows if row["scenario"] == chosen]
    current = next(scenario for scenario in found if scenario.name == chosen)
    cap, spent = _cap(situation)
    usd = current.totals.usd if backend.capabilities.priced else None
    state = status(usd, cap, spent) if backend.capabilities.priced else "no_cap"
    fits = None
    if cap is not None and price is not None and backend.capabilities.priced:
        fits = what_fits(
            parts, model, price, cap, spent_usd=spent, level=LEVEL, mode=current.mode, pilots=pilots
        )
    return {
        "title": "Forecast",
        "backend": backend.target.backend,
        "model": backend.target.model,
        **more,
        "scenario": chosen,
        "level": LEVEL,
        "n_calls_learned_from": sum(r.n_calls for r in (*runs, *pilots.values())),
        "n_calls_of_this_run": sum(r.n_calls for r in pilots.values()),
        "rows": [{k: v for k, v in row.items() if k != "scenario"} for row in now],
        "totals": _totals(now, unit),
        "cap_usd": None if cap is None else usd_text(cap),
        "spent_usd": usd_text(spent),
        "what_fits": fits,
        "status": state,
        "scenarios": rows,
        "cards": [dict(part.card) for part in current.parts],
        "prices": situation.prices.cards([(provider_of(backend), backend.target.model)])
        if backend.capabilities.priced
        else [{"provider": backend.target.backend, "source": "local", "input": "0"}],
        "history": list(history_rows(runs)),
        "notes": [
            *cast("Sequence[str]", more.get("notes", ())),
            *dict.fromkeys(note for part in current.parts for note in part.notes),
            *(price.warnings(datetime.now(UTC).date()) if price is not None else ()),
        ],
    }


def one_line(found: Forecast) -> str:
    """What ``generate`` says before its first call."""
    totals = cast("Mapping[str, object]", found["totals"])
    line = f"forecast: {totals['n_calls']} calls, {totals['n_in_store']} replies in the store"
    if totals["usd_base"] is not None and totals["usd_high"] != "0.00":
        low, base, high = (cents(totals[f"usd_{end}"]) for end in ("low", "base", "high"))
        line += f", ${base} (${low} to ${high})"
        line += f", cap {'$' + str(found['cap_usd']) if found['cap_usd'] else 'none'}"
        line += f", {str(found['status']).replace('_', ' ')}"
    return line


def cents(usd: object) -> str:
    """An amount to the cent, a small one to four places."""
    amount = Decimal(str(usd))
    places = "0.01" if amount == 0 or amount >= 1 else "0.0001"
    return str(amount.quantize(Decimal(places)))


def _part(module: Module, situation: Situation) -> Part:
    backend = situation.backend
    in_store = situation.store.contains_many(module.requests)
    missing = [r for key, r in module.requests.items() if key not in in_store]
    known = missing or list(module.requests.values())
    lengths = [sum(text_length(m.content) for m in r.messages) for r in known]
    length = sum(lengths) / len(lengths) if lengths else module.typical_length
    output = 0.0 if module.max_tokens == 0 else None
    if module.requests and all(request.choices for request in module.requests.values()):
        output = 1.0
    ceiling = getattr(backend, "output_ceiling", None)
    limit = float(module.max_tokens)
    if ceiling is not None and known:
        limit = float(ceiling(known[0]))
    features = Features(
        module=module.name,
        backend=backend.target.backend,
        model=backend.target.model,
        n_requests=len(module.requests) + module.n_unknown + module.n_found,
        length=length,
        max_tokens=limit if output is None else None,
        template_tokens=_template_tokens(backend, known),
        is_reasoning=bool(getattr(backend, "is_reasoning", False)),
        output_tokens=output,
    )
    return Part(features, len(in_store) + module.n_found)


def _template_tokens(backend: Backend, known: Sequence[Request]) -> float:
    """What stands around a prompt; the embedded model's template adds a system message if none."""
    has_system = any(m.role == "system" for m in known[0].messages) if known else True
    is_embedded = backend.target.backend == "embedded"
    return EMBEDDED_TEMPLATE if is_embedded and not has_system else TEMPLATE_TOKENS


def _rows(
    scenario: Scenario,
    modules: Sequence[Module],
    unit: str,
    parts: Sequence[Part],
    situation: Situation,
) -> list[dict[str, object]]:
    rows = []
    only_remaining = SCENARIOS[scenario.name][0]
    for module, part, found in zip(modules, parts, scenario.parts, strict=True):
        n_all = part.features.n_requests
        n_calls = n_all - part.n_in_store if only_remaining else n_all
        bands: dict[str, object] = {}
        for name, band in (("input", found.input_tokens), ("output", found.output_tokens)):
            for end in ("low", "base", "high"):
                bands[f"{name}_tokens_{end}"] = round(getattr(band, end), 1)
        for end in ("low", "base", "high"):
            usd = None if found.usd is None else getattr(found.usd, end)
            bands[f"usd_{end}"] = usd_text(usd)
        seconds, source = _seconds(module, n_calls, bands, situation)
        rows.append(
            {
                "scenario": scenario.name,
                "module": module.name,
                unit: module.n_units,
                "n_requests": n_all,
                "n_in_store": part.n_in_store,
                "n_calls": n_calls,
                **bands,
                **seconds,
                "source": source,
            }
        )
    return rows


def _seconds(
    module: Module, n_calls: int, bands: Mapping[str, object], situation: Situation
) -> tuple[dict[str, object], str]:
    """Wall time: the mean of this model's calls of that kind, else the backend's own speed."""
    backend, runtime = situation.backend, situation.runtime
    lanes = backend.lanes or cast("int", runtime.options["max_inflight"])
    target = backend.target
    own = [
        run
        for run in situation.runs
        if (run.backend, run.model, run.module) == (target.backend, target.model, module.name)
    ]
    n_known = sum(run.n_requests for run in own)
    if n_known:
        base = sum(run.seconds for run in own) / n_known * n_calls / lanes
        return _band("seconds", [0.7 * base, base, 1.5 * base]), f"{n_known} calls of this model"
    can = backend.capabilities
    if can.input_tokens_per_s and can.output_tokens_per_s:
        ends = [
            (
                cast("float", bands[f"input_tokens_{end}"]) / can.input_tokens_per_s
                + cast("float", bands[f"output_tokens_{end}"]) / can.output_tokens_per_s
            )
            / lanes
            for end in ("low", "base", "high")
        ]
        return _band("seconds", ends), "measured speed of the backend; no call yet"
    return _band("seconds", None), "no call of this model yet"


def _cap(situation: Situation) -> tuple[Decimal | None, Decimal]:
    """The cap in USD and what its account has spent."""
    caps = situation.runtime.caps
    name = str(caps["account"] or situation.run)
    nothing = lambda _: Amount()  # noqa: E731 - nothing is booked here
    spent = Account(situation.store, name, Caps(), nothing, nothing).totals().spent.usd
    max_usd = caps["max_usd"]
    return (None if max_usd in (None, "none") else Decimal(str(max_usd))), spent


def _band(name: str, values: Sequence[float] | None) -> dict[str, object]:
    low, base, high = [None] * 3 if values is None else [round(v, 1) for v in values]
    return {f"{name}_low": low, f"{name}_base": base, f"{name}_high": high}


def _totals(rows: Sequence[Mapping[str, object]], unit: str) -> dict[str, object]:
    """Sums over the kinds of call; null where one has no number."""
    found: dict[str, object] = {}
    for key in (unit, *COUNTS, *BANDS):
        values = [row[key] for row in rows]
        if any(value is None for value in values):
            found[key] = None
        elif key.startswith("usd_"):
            found[key] = usd_text(sum((Decimal(str(v)) for v in values), Decimal(0)))
        else:
            found[key] = sum(cast("float", value) for value in values)
    return found
