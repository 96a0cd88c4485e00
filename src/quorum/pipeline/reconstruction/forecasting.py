"""What a reconstruction will ask for, before it asks.

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
from quorum.config.reconstruction_views import GenerateView
from quorum.config.view import RuntimeView
from quorum.pipeline.forecasting import (
    Forecast,
    Module,
    Situation,
    columns,
    make_forecast,
)
from quorum.pipeline.reconstruction.checkpoints import identity, run_folder
from quorum.pipeline.reconstruction.generate import (
    check_capabilities,
    choose_by,
    make_interview,
    planned,
)
from quorum.pipeline.reconstruction.interview import ASK, LEARN, Interview, Replayed, Script, replay
from quorum.pipeline.reconstruction.questions import Targets
from quorum.reconstruction.learner import MAX_TOKENS
from quorum.reconstruction.survey import Question
from quorum.runtime.store import GenerationStore, store_path

UNIT = "n_personas"
LEARN_LENGTH = 1200.0  # of a learner's prompt: three questions, their options, the task


def live_forecast(
    root: Path,
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
    with GenerationStore(store_path()) as store:
        return forecast(root, questions, targets, by, view, runtime, backend, store)


def forecast(
    root: Path,
    questions: tuple[Question, ...],
    targets: Targets | None,
    by: str,
    view: GenerateView,
    runtime: RuntimeView,
    backend: Backend,
    store: GenerationStore,
) -> Forecast:
    """Calls, tokens, seconds and cost of a run, by module and in total."""
    active, script = make_interview(view, questions, backend)
    chooser = choose_by(view, questions, targets, by)
    interview = Interview(active, script, backend.target, {}, choose_active=chooser)
    replayed = replay(interview, store.get, backend.target)
    what = identity(view, questions, targets if view.weighting else None, backend.target)
    name = run_folder(Path(store.path), what).name
    situation = Situation.of(root, backend, runtime, store, name)
    more = {"n_questions": len(questions), "notes": _notes(view)}
    return make_forecast(modules(view, script, replayed), UNIT, situation, more)


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
            typical_length=fmean(lengths) if name == ASK else LEARN_LENGTH,
            n_found=replayed.n_found[name],
        )
        for name in (ASK, LEARN)
        if totals[name]
    ]


def _of_panel(questions: Sequence[Question]) -> Forecast:
    """Nothing is asked of a model."""
    row: dict[str, object] = dict.fromkeys(columns(UNIT), 0)
    row |= {f"usd_{end}": "0.00" for end in ("low", "base", "high")}
    row |= {"module": "panel", UNIT: None, "source": "answers are in the table"}
    now = {key: value for key, value in row.items() if key != "scenario"}
    return {
        "title": "Forecast",
        "backend": "panel",
        "model": "respondents",
        "n_questions": len(questions),
        "rows": [now],
        "totals": {key: now[key] for key in now if key not in ("module", "source")},
        "scenarios": [{**row, "scenario": "remaining"}],
        "status": "no_cap",
        "history": [],
        "notes": ["people of a table answer: no model is called"],
    }


def _notes(view: GenerateView) -> list[str]:
    notes = ["a pool counts with its whole size, whatever may stop it earlier"]
    if view.elicit_test == "active_only":
        notes.append("test questions count for everybody, though personas without weight get none")
    return notes
