"""Stage ``generate``: one pool over the coalitions of all prompts, paid once and kept.

Writes ``generations/<snapshot>.jsonl`` (a line a reply: coalition, sample, request key, text,
tokens) and, as a log that nothing depends on, usage, counts and timings of this execution, and
the rows of the store that the replies came from.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import cast

from quorum.attribution.absence import AbsencePolicy
from quorum.backends.base import Backend
from quorum.config.attribution_views import GenerateView
from quorum.config.view import RuntimeView
from quorum.digests import digest
from quorum.errors import SettingsError
from quorum.pipeline import artifacts
from quorum.pipeline.attribution import plan as plan_file
from quorum.pipeline.attribution.plan import Plan
from quorum.pipeline.attribution.pool import Pool, target_text
from quorum.pipeline.attribution.replies import ReplyRow, write_rows
from quorum.pipeline.driving import Driver
from quorum.pipeline.forecasting import one_line
from quorum.pipeline.spending import account, cost_so_far
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.scheduler import RunStats
from quorum.runtime.shards import keep_shard
from quorum.runtime.store import GenerationStore, store_path


@dataclass(frozen=True, slots=True)
class Generated:
    """What ``generate`` found out.

    Args:
        rows: Replies by snapshot id, sorted by coalition and repeat.
        stats: Counts and timings of this execution.
        identity: Which model answered.
        incomplete: Snapshots that a cap left without all their replies, and how many they have.
    """

    rows: Mapping[str, list[ReplyRow]]
    stats: RunStats
    identity: Mapping[str, object]
    incomplete: Mapping[str, str] = field(default_factory=dict)


def run(root: Path) -> None:
    """Asks for what the store lacks and writes all replies."""
    plan = plan_file.read(root / artifacts.PARTITION)
    view = GenerateView.read(root)
    runtime = RuntimeView.read(root)
    log = root / artifacts.GENERATE_LOG
    path = store_path()
    name = run_digest(plan, view)
    folder = path.parent / "runs" / name
    backend = make_backend(view, runtime)
    with GenerationStore(path) as store, account(root, name, backend, runtime, store) as spending:
        announce(root, plan, view, runtime, store)
        ledger = UsageLedger(folder)
        driver = Driver(
            backend,
            store,
            runtime,
            folder,
            spending,
            on_pilot=lambda: announce(root, plan, view, runtime, store),
        )
        generated = generate(plan, view, driver, ledger)
        artifacts.fresh_folder(log)
        keep_shard(store, (row.key for rows in generated.rows.values() for row in rows), log)
    ledger.finish()
    for name in ("usage.csv", "usage.json"):
        artifacts.write_text(log / name, (folder / name).read_text(encoding="utf-8"))
    write(generated, artifacts.fresh_folder(root / artifacts.GENERATE))
    _write_log(generated, log, cost_so_far(root, folder, backend, runtime))


def run_digest(plan: Plan, view: GenerateView) -> str:
    """What the calls of a run belong to: the plan's prompts and the settings of ``generate``."""
    settings = replace(view, partial=None).dump()  # a raised cap goes on with the same run
    return digest([[p.snapshot.digest for p in plan.snapshots], settings])[:16]


def announce(
    root: Path, plan: Plan, view: GenerateView, runtime: RuntimeView, store: GenerationStore
) -> None:
    """Says, before the first call, what the run will take."""
    if runtime.options["progress"] == "off" or runtime.options["calls"] == "forbid":
        return
    from quorum.pipeline.attribution.forecasting import forecast  # which builds on this module

    sys.stderr.write(one_line(forecast(root, plan, view, runtime, store)) + "\n")


def make_backend(view: GenerateView, runtime: RuntimeView) -> Backend:
    """The chosen backend."""
    return cast("Backend", view.backend.make(**runtime.backend))


def generate(
    plan: Plan, view: GenerateView, driver: Driver, ledger: UsageLedger | None
) -> Generated:
    """Replies to every coalition of the plan, from the store where it has them.

    Raises:
        SettingsError: The backend cannot do what the run needs; nothing was asked.
        BackendError: A call failed; everything finished is in the store.
    """
    check_capabilities(driver.backend, plan, view)
    backend = driver.backend
    group_by_prefix = bool(driver.runtime.options["group_by_prefix"])
    reuse = backend.capabilities.prefix_reuse and group_by_prefix
    target = backend.target
    pool = Pool(plan, view, target, group_by_prefix=reuse)
    stats = driver.drive(
        pool.groups(), pool.accept, label="generate", n_jobs=pool.n_jobs, ledger=ledger
    )
    for state in pool.snapshots:
        state.rows.sort(key=ReplyRow.order)
    identity = {"backend": target.backend, "model": target.model, "identity": dict(target.identity)}
    incomplete = {
        s.planned.id: f"a cap was reached: {len(s.rows)} replies there, {s.waiting} missing"
        for s in pool.snapshots
        if stats.stopped and s.waiting
    }
    rows = {s.planned.id: s.rows for s in pool.snapshots}
    return Generated(rows, stats, identity, incomplete)


def check_capabilities(backend: Backend, plan: Plan, view: GenerateView) -> None:
    """Refuses, before any call, what the backend cannot do.

    Raises:
        SettingsError: It names the setting and what would do.
    """
    can = backend.capabilities
    name = view.backend.name
    if view.needs == "continuation" and not can.continuation:
        raise SettingsError(
            "value",
            f"backend={name} cannot score a given text",
            allowed="value functions of texts, such as tfidf_cosine",
            mend="Choose another value, or backend=embedded",
        )
    if view.samples > 1 and can.deterministic and not can.seed:
        raise SettingsError("generation.samples", f"backend={name} draws no second reply")
    if view.reference == "target":
        for planned in plan.snapshots:
            target_text(planned)
    if not can.empty_message:
        policy = cast("AbsencePolicy", view.absence.make())
        for planned in plan.snapshots:
            empty = policy.render(planned.snapshot, planned.players, [False] * len(planned.players))
            if any(not m.content.strip() for m in empty):
                raise SettingsError(
                    "absence.empty_message",
                    f"backend={name} takes no empty message, which {planned.id} without players is",
                    mend="Set absence.empty_message to a text that stands for it",
                )


def write(generated: Generated, folder: Path) -> None:
    """Writes ``generations/`` and which model answered."""
    for snapshot_id, rows in generated.rows.items():
        write_rows(folder, snapshot_id, rows)
    facts = dict(generated.identity)
    if generated.incomplete:
        facts["incomplete"] = dict(generated.incomplete)
    artifacts.write_text(folder / "model.json", artifacts.json_text(facts))


def _write_log(generated: Generated, log: Path, cost: Mapping[str, object]) -> None:
    stats = {**asdict(generated.stats), "cost": dict(cost)}
    artifacts.write_text(log / "generation.json", artifacts.json_text(stats))
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines = [f"{made} generate: {key} = {value}" for key, value in sorted(stats.items())]
    artifacts.write_text(log / "pipeline.log", "\n".join(lines) + "\n")
