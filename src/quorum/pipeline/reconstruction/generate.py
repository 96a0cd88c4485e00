"""Stage ``generate``: personas are made and asked, or the respondents of a panel are.

Writes ``generations/<persona>.jsonl`` (raw replies), ``endowments.csv``, the resolved attribute
bank, the tables of active generation and a copy of its checkpoint; usage, counts and timings as a
log that nothing depends on. No test target is read here.
"""

from __future__ import annotations

import asyncio
import json
import math
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from quorum.backends.base import Backend
from quorum.config.reconstruction_views import GenerateView
from quorum.config.view import RuntimeView
from quorum.errors import SettingsError
from quorum.pipeline import artifacts
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
from quorum.reconstruction.active import ActiveGeneration, PoolRules
from quorum.reconstruction.bank import Bank, read_bank
from quorum.reconstruction.elicitation import Elicitation
from quorum.reconstruction.personas import Persona
from quorum.reconstruction.survey import Question
from quorum.reconstruction.trajectories import Trajectories
from quorum.runtime.checkpoint import FOLDER
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import progress_for
from quorum.runtime.scheduler import RunStats, run_jobs
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
    """

    personas: Sequence[Persona]
    replies: Replies
    bank: Bank
    tables: Trajectories
    facts: Mapping[str, object]
    stats: RunStats | None


def run(root: Path) -> None:
    """Asks for what the store lacks and writes all replies."""
    view = GenerateView.read(root)
    runtime = RuntimeView.read(root)
    partition = root / artifacts.PARTITION
    questions = read_questions(partition)
    log = root / artifacts.GENERATE_LOG
    result = root / artifacts.GENERATE
    if view.respondents is not None:
        generated = Generated(*ask_panel(root, view, questions), stats=None)
        artifacts.fresh_folder(log)
        write(generated, artifacts.fresh_folder(result))
        _write_log(generated, log)
        return
    targets = None if view.weighting is None else read_targets(partition, "train")
    backend = cast("Backend", view.backend.make(**runtime.backend))
    check_capabilities(backend, view)
    what = identity(view, questions, targets, backend.target)
    path = store_path()
    checkpoint = Checkpoint(run_folder(path, what), what)
    active, script = make_interview(view, questions, backend)
    options = RuntimeOptions(**cast("dict[str, Any]", runtime.options))
    replies = checkpoint.load(active, options.resume)
    ledger = UsageLedger(checkpoint.folder)
    with GenerationStore(path) as store:
        interview = Interview(
            active,
            script,
            backend.target,
            replies,
            choose_active=choose_by(view, questions, targets, split_of(partition)),
            on_round=lambda done: checkpoint.save(done.active, done.replies),
        )
        stats = _converse(
            interview, backend, store, ledger, options, sum(planned(view, script).values())
        )
    ledger.finish()
    generated = _generated(interview, backend, stats)
    artifacts.fresh_folder(log)
    for name in ("usage.csv", "usage.json"):
        text = (checkpoint.folder / name).read_text(encoding="utf-8")
        artifacts.write_text(log / name, text)
    write(generated, artifacts.fresh_folder(result))
    shutil.copytree(checkpoint.folder / FOLDER, result / FOLDER)
    _write_log(generated, log)


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


def _converse(
    interview: Interview,
    backend: Backend,
    store: GenerationStore,
    ledger: UsageLedger,
    options: RuntimeOptions,
    n_jobs: int,
) -> RunStats:
    n_kept = sum(map(len, interview.replies.values()))

    async def drive() -> RunStats:
        try:
            with progress_for(options.progress, ASK, max(0, n_jobs - n_kept)) as progress:
                if n_kept:
                    progress.note(f"{n_kept} replies are kept from the run's checkpoint")
                return await run_jobs(
                    backend,
                    store,
                    interview.start(),
                    on_result=interview.accept,
                    options=options,
                    ledger=ledger,
                    progress=progress,
                )
        finally:
            await backend.close()

    return asyncio.run(drive())


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
            "stop_reason": active.stop_reason,
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
    stats = {"n_calls": 0} if generated.stats is None else asdict(generated.stats)
    artifacts.write_text(log / "generation.json", artifacts.json_text(stats))
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    facts = {**stats, "stop_reason": generated.facts["stop_reason"]}
    lines = [f"{made} generate: {key} = {value}" for key, value in sorted(facts.items())]
    artifacts.write_text(log / "pipeline.log", "\n".join(lines) + "\n")
