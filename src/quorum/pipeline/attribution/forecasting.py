"""What a run will ask for, before it asks.

Counts are exact: coalitions, distinct requests, and how many of them the store has already.
Tokens, seconds and cost are forecasts, learned from earlier runs where there are any.
Works right after ``partition``. The store is a hidden input: the stage records what it saw, and
``quorum forecast`` prints the same for the store of this moment.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import cast

from quorum.attribution.absence import AbsencePolicy
from quorum.config.attribution_views import GenerateView
from quorum.config.view import RuntimeView
from quorum.pipeline.attribution.generate import check_capabilities, make_backend, run_digest
from quorum.pipeline.attribution.plan import Plan, Planned
from quorum.pipeline.forecasting import Forecast, Module, Situation, make_forecast
from quorum.pricing.history import text_length
from quorum.records import Request, Target
from quorum.runtime.store import GenerationStore, store_path

UNIT = "n_coalitions"


def live_forecast(root: Path, plan: Plan, view: GenerateView, runtime: RuntimeView) -> Forecast:
    """The forecast against the store of this moment."""
    with GenerationStore(store_path()) as store:
        return forecast(root, plan, view, runtime, store)


def forecast(
    root: Path, plan: Plan, view: GenerateView, runtime: RuntimeView, store: GenerationStore
) -> Forecast:
    """Calls, tokens, seconds and cost of a run, by module and in total."""
    backend = make_backend(view, runtime)
    check_capabilities(backend, plan, view)
    notes = (
        [] if view.estimator is None else ["a second phase counts with all that its budget allows"]
    )
    more = {
        "limits_that_bind": ", ".join(sorted({p.binding for p in plan.snapshots})),
        "n_snapshots": len(plan.snapshots),
        "notes": notes,
    }
    situation = Situation.of(root, backend, runtime, store, run_digest(plan, view))
    return make_forecast(modules(plan, view, backend.target, store), UNIT, situation, more)


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
    if view.needs != "continuation":
        return [Module("generate", UNIT, n_coalitions, texts, n_unknown, view.max_tokens)]
    typical = fmean([_length(request) for request in texts.values()])
    return [
        Module("base generation", UNIT, len(plan.snapshots), texts, 0, view.max_tokens),
        Module("log-likelihood", UNIT, n_coalitions, scores, n_unknown_scores, 0, typical),
    ]


def _length(request: Request) -> int:
    return sum(text_length(m.content) for m in request.messages)


def _reference(
    planned: Planned, view: GenerateView, base_key: str, store: GenerationStore
) -> str | None:
    if view.reference == "target":
        return planned.snapshot.target
    base = store.get(base_key)
    return None if base is None else base.text
