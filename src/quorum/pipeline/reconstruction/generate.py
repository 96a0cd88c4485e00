"""Stage ``generate``: personas are made and asked, or the respondents of a panel are.

Writes ``generations/<persona>.jsonl`` (raw replies), ``endowments.csv``, the resolved attribute
bank, the tables of active generation and a copy of its checkpoint; usage, counts, timings and the
rows of the store that the replies came from as a log that nothing depends on. No test target is
read here.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from quorum.backends.base import Backend
from quorum.config.reconstruction_views import GenerateView
from quorum.config.view import RuntimeView
from quorum.errors import SettingsError
from quorum.pipeline import artifacts
from quorum.pipeline.driving import Driver
from quorum.pipeline.forecasting import one_line
from quorum.pipeline.reconstruction.checkpoints import Checkpoint, identity, run_folder
from quorum.pipeline.reconstruction.interview import (
    ASK,
    LEARN,
    ChooseActive,
    Interview,
    Replies,
    Script,
)
from quorum.pipeline.reconstruction.panel import ask_panel
from quorum.pipeline.reconstruction.questions import (
    Targets,
    read_questions,
    read_targets,
    sides,
    split_of,
)
from quorum.pipeline.reconstruction.replies import write_rows
from quorum.pipeline.reconstruction.tables import write_tables
from quorum.pipeline.reconstruction.weights import choose_active
from quorum.pipeline.spending import account, cost_so_far
from quorum.reconstruction.active import ActiveGeneration, PoolRules
from quorum.reconstruction.bank import Bank, read_bank
from quorum.reconstruction.elicitation import Elicitation
from quorum.reconstruction.personas import Persona
from quorum.reconstruction.survey import Question
from quorum.reconstruction.trajectories import Trajectories
from quorum.runtime.checkpoint import FOLDER
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.scheduler import RunStats
from quorum.runtime.shards import keep_shard
from quorum.runtime.store import GenerationStore, store_path


@dataclass(frozen=True, slots=True)
class Generated:
    """What ``generate`` found out.

    Args:
        personas: Who was asked.
        replies: Raw replies by persona.
        bank: The attributes that personas have.
        tables: How entropies went.
        facts: Which model answered, why the pool was enough, what the learner did.
        stats: Counts and timings of this execution; None where no model was asked.
        cost: What the run's calls cost over all its resumptions; None likewise.
    """

    personas: Sequence[Persona]
    replies: Replies
    bank: Bank
    tables: Trajectories
    facts: Mapping[str, object]
    stats: RunStats | None
    cost: Mapping[str, object] | None = None


def run(root: Path) -> None:
    """Asks for what the store lacks and writes all replies."""
    view = GenerateView.read(root)
    log = root / artifacts.GENERATE_LOG
    questions = read_questions(root / artifacts.PARTITION)
    if view.respondents is not None:
        generated = Generated(*ask_panel(root, view, questions), stats=None)
        folder = None
        artifacts.fresh_folder(log)
    else:
        generated, folder = ask_model(root, view, RuntimeView.read(root), questions)
    result = artifacts.fresh_folder(root / artifacts.GENERATE)
    write(generated, result)
    if folder is not None:
        shutil.copytree(folder / FOLDER, result / FOLDER)
        for name in ("usage.csv", "usage.json"):
            artifacts.write_text(log / name, (folder / name).read_text(encoding="utf-8"))
    _write_log(generated, log)


def ask_model(
    root: Path, view: GenerateView, runtime: RuntimeView, questions: tuple[Question, ...]
) -> tuple[Generated, Path]:
    """Personas of a model, made and asked, with their rows of the store in the log; run's folder.

    Raises:
        SettingsError: The backend cannot do what the run needs; nothing was asked.
        RefusedError: The run's checkpoint is lost, damaged or another run's.
        BudgetError: A cap is reached, or there is none for calls that cost money.
        BackendError: A call failed; everything finished is kept.
    """
    partition = root / artifacts.PARTITION
    targets = None if view.weighting is None else read_targets(partition, "train")
    backend = cast("Backend", view.backend.make(**runtime.backend))
    check_capabilities(backend, view)
    what = identity(view, questions, targets, backend.target)
    path = store_path()
    checkpoint = Checkpoint(run_folder(path, what), what)
    active, script = make_interview(view, questions, backend)
    folder = checkpoint.folder
    with (
        GenerationStore(path) as store,
        account(root, folder.name, backend, runtime, store) as spending,
    ):
        replies = checkpoint.load(active, cast("str | None", runtime.options["resume"]))
        announce(root, questions, targets, view, runtime, backend, store)
        ledger = UsageLedger(folder)
        interview = Interview(
            active,
            script,
            backend.target,
            replies,
            choose_active=choose_by(view, questions, targets, split_of(partition)),
            on_round=lambda done: checkpoint.save(done.active, done.replies),
        )
        n_kept = sum(map(len, replies.values()))
        driver = Driver(
            backend,
            store,
            runtime,
            folder,
            spending,
            on_pilot=lambda: announce(root, questions, targets, view, runtime, backend, store),
        )
        stats = driver.drive(
            interview.start(),
            interview.accept,
            label=ASK,
            n_jobs=max(0, sum(planned(view, script).values()) - n_kept),
            ledger=ledger,
            note=f"{n_kept} replies are kept from the run's checkpoint" if n_kept else "",
        )
        keep_shard(store, interview.keys(), artifacts.fresh_folder(root / artifacts.GENERATE_LOG))
    ledger.finish()
    cost = cost_so_far(root, folder, backend, runtime)
    return replace(_generated(interview, backend, stats), cost=cost), folder


def announce(
    root: Path,
    questions: tuple[Question, ...],
    targets: Targets | None,
    view: GenerateView,
    runtime: RuntimeView,
    backend: Backend,
    store: GenerationStore,
) -> None:
    """Says, before the first call, what the run will take."""
    if runtime.options["progress"] == "off" or runtime.options["calls"] == "forbid":
        return
    from quorum.pipeline.reconstruction.forecasting import forecast  # which builds on this module

    by = split_of(root / artifacts.PARTITION)
    found = forecast(root, questions, targets, by, view, runtime, backend, store)
    sys.stderr.write(one_line(found) + "\n")


def check_capabilities(backend: Backend, view: GenerateView) -> None:
    """Refuses, before any call, what the backend cannot do.

    Raises:
        SettingsError: It names the setting and what would do.
    """
    elicitation = cast("Elicitation", view.elicitation.make())
    if elicitation.needs == "choice_probs" and not backend.capabilities.choice_probs:
        raise SettingsError(
            "elicitation",
            f"backend={view.backend.name} gives no probabilities of answers",
            got=view.elicitation.name,
            allowed="choice, verbalised",
            mend="-S ++elicitation=choice",
        )
    can_draw = backend.capabilities.seed or not backend.capabilities.deterministic
    if getattr(elicitation, "draws", 1) > 1 and not can_draw:
        raise SettingsError(
            "elicitation.draws", f"backend={view.backend.name} draws no second reply"
        )


def make_interview(
    view: GenerateView, questions: Sequence[Question], backend: Backend
) -> tuple[ActiveGeneration, Script]:
    """A fresh loop of active generation, and what is asked in it and after it."""
    pool = dict(cast("Mapping[str, Any]", view.pool))
    max_requests = pool.pop("max_requests")
    rules = PoolRules(**{**pool, "modes": tuple(pool["modes"])})
    by_side = sides(questions)
    active = ActiveGeneration(
        by_side["train"],
        bank_of(view),
        rules,
        view.seed,
        is_structured=backend.capabilities.structured,
    )
    script = Script(
        train=tuple(by_side["train"]),
        test=tuple(by_side["test"]),
        elicitation=cast("Elicitation", view.elicitation.make()),
        seed=view.seed,
        round_size=rules.round_size,
        max_requests=max_requests,
    )
    return active, script


def bank_of(view: GenerateView) -> Bank:
    """The given attributes."""
    return read_bank(json.dumps({"attributes": view.bank or ()}), "bank")


def planned(view: GenerateView, script: Script) -> dict[str, int]:
    """How many requests a whole pool takes, by module; what may stop it earlier does not count."""
    pool = cast("Mapping[str, int]", view.pool)
    modes = cast("Mapping[str, Sequence[str]]", view.pool)["modes"]
    first = min(pool["size"], pool["burn_in"] * len(modes))
    n_rounds = 1 + math.ceil((pool["size"] - first) / pool["round_size"])
    n_learn = (n_rounds - 1) // pool["learn_every"] if pool["learn_every"] else 0
    n_asks = script.n_requests(pool["size"], 0)
    if script.max_requests is not None:
        n_asks = min(n_asks, script.max_requests)
    return {ASK: n_asks, LEARN: n_learn}


def choose_by(
    view: GenerateView, questions: Sequence[Question], targets: Targets | None, by: str
) -> ChooseActive | None:
    """Who is asked the test questions; None where everybody is."""
    weighting = view.weighting
    if weighting is None or targets is None:
        return None
    elicitation = cast("Elicitation", view.elicitation.make())
    train = sides(questions)["train"]
    return lambda replies: choose_active(
        replies, train, elicitation, weighting, targets, by, view.seed
    )


def _generated(interview: Interview, backend: Backend, stats: RunStats) -> Generated:
    active, target = interview.active, backend.target
    return Generated(
        personas=active.personas,
        replies=interview.replies,
        bank=active.bank,
        tables=active.tables,
        facts={
            "backend": target.backend,
            "model": target.model,
            "identity": dict(target.identity),
            "respondents": "model",
            "stop_reason": "cap" if stats.stopped else active.stop_reason,
            "learner": active.learner_log,
        },
        stats=stats,
    )


def write(generated: Generated, folder: Path) -> None:
    """Writes replies, personas, bank, tables and which model answered."""
    write_rows(folder, generated.replies)
    write_tables(folder, generated.personas, generated.bank, generated.tables)
    artifacts.write_text(folder / "model.json", artifacts.json_text(dict(generated.facts)))


def _write_log(generated: Generated, log: Path) -> None:
    stats: dict[str, object] = {"n_calls": 0}
    if generated.stats is not None:
        stats = {**asdict(generated.stats), "cost": dict(generated.cost or {})}
    artifacts.write_text(log / "generation.json", artifacts.json_text(stats))
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    facts = {**stats, "stop_reason": generated.facts["stop_reason"]}
    lines = [f"{made} generate: {key} = {value}" for key, value in sorted(facts.items())]
    artifacts.write_text(log / "pipeline.log", "\n".join(lines) + "\n")
