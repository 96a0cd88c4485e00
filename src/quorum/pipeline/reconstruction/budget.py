"""Stage ``budget``: what a reconstruction will ask for, before it asks.

How many requests there are is exact; who is made after the first round hangs on answers, so the
texts of later rounds are known only as far as the store has replies: the interview is gone
through with what is there. Works right after ``partition``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import cast

from quorum.backends.base import Backend
from quorum.config.reconstruction_views import ForecastView, GenerateView
from quorum.config.view import RuntimeView
from quorum.pipeline import artifacts
from quorum.pipeline.forecasting import (
    Forecast,
    Module,
    columns,
    forecast_row,
    read_history,
    totals,
)
from quorum.pipeline.reconstruction.generate import (
    check_capabilities,
    choose_by,
    make_interview,
    planned,
)
from quorum.pipeline.reconstruction.interview import ASK, LEARN, Interview, Replayed, Script, replay
from quorum.pipeline.reconstruction.questions import Targets, read_questions, read_targets, split_of
from quorum.reconstruction.learner import MAX_TOKENS
from quorum.reconstruction.survey import Question
from quorum.report.budget import budget_page
from quorum.runtime.store import GenerationStore, store_path

UNIT = "n_personas"
LEARN_CHARACTERS = 1200.0  # of a learner's prompt: three questions, their options, the task


def run(root: Path) -> None:
    """Writes budget.json, budget.csv and budget.html."""
    partition = root / artifacts.PARTITION
    view = ForecastView.read(root).generate
    targets = None if view.weighting is None else read_targets(partition, "train")
    questions = read_questions(partition)
    found = live_forecast(questions, targets, split_of(partition), view, RuntimeView.read(root))
    folder = artifacts.fresh_folder(root / artifacts.BUDGET)
    artifacts.write_text(folder / "budget.json", artifacts.json_text(found))
    rows = cast("list[dict[str, object]]", found["rows"])
    artifacts.write_text(folder / "budget.csv", artifacts.csv_text(columns(UNIT), rows))
    artifacts.write_text(folder / "budget.html", budget_page(found))


def live_forecast(
    questions: tuple[Question, ...],
    targets: Targets | None,
    by: str,
    view: GenerateView,
    runtime: RuntimeView,
) -> Forecast:
    """The forecast against the store of this moment."""
    if view.respondents is not None:
        return _of_panel(questions)
    backend = cast("Backend", view.backend.make(**runtime.backend))
    check_capabilities(backend, view)
    active, script = make_interview(view, questions, backend)
    interview = Interview(
        active,
        script,
        backend.target,
        {},
        choose_active=choose_by(view, questions, targets, by),
    )
    lanes = backend.lanes or cast("int", runtime.options["max_inflight"])
    with GenerationStore(store_path()) as store:
        replayed = replay(interview, store.get, backend.target)
        history = read_history(
            store, backend.target, choices=script.elicitation.needs == "choice_probs"
        )
        rows = []
        for module in modules(view, script, replayed):
            n_found = replayed.n_found[module.name]
            row = forecast_row(module, store, history, backend, lanes)
            for column in ("n_requests", "n_in_store"):
                row[column] = cast("int", row[column]) + n_found
            rows.append(row)
    return {
        "title": "Forecast",
        "backend": backend.target.backend,
        "model": backend.target.model,
        "n_questions": len(questions),
        "n_calls_learned_from": history.n_calls,
        "rows": rows,
        "totals": totals(rows, UNIT),
        "status": "unpriced" if backend.capabilities.priced else "no_cap",
        "notes": _notes(view),
    }


def modules(view: GenerateView, script: Script, replayed: Replayed) -> list[Module]:
    """What is still to be sent, by kind of call; what the replay found is left out."""
    totals = planned(view, script)
    asks = script.asks("p0001", "", (*script.train, *script.test))
    size = cast("Mapping[str, int]", view.pool)["size"]
    lengths = [sum(len(m.content) for m in ask.request.messages) for ask in asks]
    max_tokens = cast("int", view.elicitation.options.get("max_tokens", 1))
    return [
        Module(
            name=name,
            unit=UNIT,
            n_units=size if name == ASK else 0,
            requests=replayed.missing[name],
            n_unknown=totals[name] - replayed.n_found[name] - len(replayed.missing[name]),
            max_tokens=max_tokens if name == ASK else MAX_TOKENS,
            typical_characters=fmean(lengths) if name == ASK else LEARN_CHARACTERS,
        )
        for name in (ASK, LEARN)
        if totals[name]
    ]


def _of_panel(questions: Sequence[Question]) -> Forecast:
    """Nothing is asked of a model."""
    row: dict[str, object] = dict.fromkeys(columns(UNIT), 0)
    row |= {"module": "panel", UNIT: None, "source": "answers are in the table"}
    return {
        "title": "Forecast",
        "backend": "panel",
        "model": "respondents",
        "n_questions": len(questions),
        "n_calls_learned_from": 0,
        "rows": [row],
        "totals": totals([row], UNIT),
        "status": "no_cap",
        "notes": ["people of a table answer: no model is called"],
    }


def _notes(view: GenerateView) -> list[str]:
    notes = ["a pool counts with its whole size, whatever may stop it earlier"]
    if view.elicit_test == "active_only":
        notes.append("test questions count for everybody, though personas without weight get none")
    return notes
