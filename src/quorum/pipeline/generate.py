"""Stage ``generate``: one pool over the coalitions of all prompts, paid once and kept.

Writes ``generations/<snapshot>.jsonl`` (a line a reply: coalition, sample, request key, text,
tokens) and, as a log that nothing depends on, usage, counts and timings of this execution.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from quorum.attribution.absence import AbsencePolicy, Renderer
from quorum.attribution.coalitions import to_hex
from quorum.attribution.estimators.base import Estimator
from quorum.backends.base import Backend
from quorum.config.view import GenerateView, PartitionView, RuntimeView
from quorum.digests import digest
from quorum.errors import InputError, SettingsError
from quorum.pipeline import artifacts
from quorum.pipeline import partition as partition_stage
from quorum.pipeline.partition import Plan, Planned
from quorum.pipeline.payoffs import ReplyRow, payoffs_of
from quorum.records import Generation, Request, Target
from quorum.report.escape import file_slug
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import progress_for
from quorum.runtime.scheduler import Job, RunStats, run_jobs
from quorum.runtime.store import GenerationStore, store_path

RUN = 16  # jobs with a common beginning that one lane works through in a row
MODULE = "attribution"
_LOG = logging.getLogger(__name__)


class Address(NamedTuple):
    """Where a reply belongs: snapshot (index), coalition (bits, player 0 lowest), repeat."""

    snapshot: int
    coalition: int
    sample: int
    is_score: bool


@dataclass(slots=True)
class Progressing:
    """One snapshot on its way through the pool."""

    planned: Planned
    render: Renderer
    coalitions: list[int]
    waiting: int = 0
    refined: bool = False
    rows: list[ReplyRow] = field(default_factory=list)
    base: str | None = None


class Pool:
    """The jobs of all snapshots: what is asked first, and what follows from an answer.

    Base generations come first for each snapshot. A value function that scores a given text asks
    for it as soon as that snapshot's base generation is there; a second phase starts as soon as
    that snapshot's first phase is complete: no snapshot waits for another one.
    """

    def __init__(
        self, plan: Plan, view: GenerateView, target: Target, *, group_by_prefix: bool
    ) -> None:
        policy = cast("AbsencePolicy", view.absence.make())
        self._view = view
        self._target = target
        self._group = group_by_prefix
        self._estimator = cast("Estimator", view.estimator.make()) if view.estimator else None
        self.snapshots = [
            Progressing(p, policy.prepare(p.snapshot, p.players), _bits(p.coalitions))
            for p in plan.snapshots
        ]

    @property
    def n_jobs(self) -> int:
        """Jobs of the run; a second phase counts with all that its budget allows."""
        view, total = self._view, 0
        for state in self.snapshots:
            n = state.planned.n_coalitions if self._estimator else len(state.coalitions)
            total += n + 1 if self._is_scoring else n * view.samples
            total += 0 if self._is_scoring else max(0, view.noise_repeats - view.samples)
        return total

    def groups(self) -> Iterator[Sequence[Job]]:
        """All first jobs, lazily, snapshot by snapshot."""
        for index, state in enumerate(self.snapshots):
            grand = self._grand(index)
            if self._is_scoring:
                state.waiting = 1
                yield [self._job(Address(index, grand, 0, False))]
                if self._reference(index) is not None:
                    yield from self._scores(index)
                continue
            addresses = list(self._addresses(index))
            state.waiting = len(addresses)
            yield from self._runs(addresses, first=Address(index, grand, 0, False))

    def accept(
        self, job: Job, generation: Generation, from_store: bool  # noqa: ARG002, FBT001
    ) -> Iterable[Sequence[Job]]:
        """Keeps a reply and says what follows from it."""
        address = cast("Address", job.tag)
        state = self.snapshots[address.snapshot]
        key = job.request.key(self._target)
        state.rows.append(ReplyRow(address.coalition, address.sample, key, generation))
        state.waiting -= 1
        if self._is_scoring and not address.is_score:
            state.base = generation.text
            return list(self._scores(address.snapshot)) if self._view.reference == "base" else []
        if state.waiting == 0 and self._estimator is not None and not state.refined:
            state.refined = True
            return self._second_phase(address.snapshot)
        return []

    @property
    def _is_scoring(self) -> bool:
        return self._view.needs == "continuation"

    def _grand(self, index: int) -> int:
        return (1 << len(self.snapshots[index].planned.players)) - 1

    def _reference(self, index: int) -> str | None:
        """The text to be scored, where it is known before the base generation."""
        state = self.snapshots[index]
        if self._view.reference == "target":
            return _target_of(state.planned)
        return state.base

    def _addresses(self, index: int) -> Iterator[Address]:
        grand = self._grand(index)
        for bits in self.snapshots[index].coalitions:
            n = self._view.samples
            if bits == grand:
                n = max(n, self._view.noise_repeats)
            for sample in range(n):
                yield Address(index, bits, sample, False)

    def _scores(self, index: int) -> Iterator[Sequence[Job]]:
        state = self.snapshots[index]
        addresses = [Address(index, bits, 0, True) for bits in state.coalitions]
        state.waiting += len(addresses)
        return self._runs(addresses, first=None)

    def _second_phase(self, index: int) -> Iterable[Sequence[Job]]:
        state = self.snapshots[index]
        planned, view = state.planned, self._view
        assert self._estimator is not None
        assert view.value is not None
        n = len(planned.players)
        scored = payoffs_of(planned, state.rows, view.value, view.reference or "base")
        new = self._estimator.refine(
            n, planned.n_coalitions, planned.seed, scored.coalitions, scored.payoffs
        )
        known = set(state.coalitions)
        bits = [b for b in _bits(new) if b not in known]
        state.coalitions = [*state.coalitions, *bits]
        addresses = [
            Address(index, b, sample, self._is_scoring)
            for b in bits
            for sample in range(1 if self._is_scoring else view.samples)
        ]
        state.waiting = len(addresses)
        return self._runs(addresses, first=None)

    def _runs(self, addresses: list[Address], first: Address | None) -> Iterator[Sequence[Job]]:
        """Jobs in runs that share a beginning; ``first`` goes ahead of all."""
        if first is not None:
            yield [self._job(first)]
        jobs = [self._job(a) for a in addresses if a != first]
        if not self._group:
            for job in jobs:
                yield [job]
            return
        jobs.sort(key=lambda job: [m.content for m in job.request.messages])
        for start in range(0, len(jobs), RUN):
            yield jobs[start : start + RUN]

    def _job(self, address: Address) -> Job:
        state = self.snapshots[address.snapshot]
        n = len(state.planned.players)
        present = [bool(address.coalition >> i & 1) for i in range(n)]
        messages = state.render(present)
        view = self._view
        if address.is_score:
            text = self._reference(address.snapshot)
            assert text is not None
            return Job(Request(messages, continuation=text), address, MODULE)
        options = {
            "max_tokens": view.max_tokens,
            "temperature": view.temperature,
            "seed": view.seed,
        }
        return Job(Request(messages, options, address.sample), address, MODULE)


@dataclass(frozen=True, slots=True)
class Generated:
    """What ``generate`` found out.

    Args:
        rows: Replies by snapshot id, sorted by coalition and repeat.
        stats: Counts and timings of this execution.
        identity: Which model answered.
    """

    rows: Mapping[str, list[ReplyRow]]
    stats: RunStats
    identity: Mapping[str, object]


def run(root: Path) -> None:
    """Asks for what the store lacks and writes all replies."""
    plan = partition_stage.read(root / artifacts.PARTITION)
    view = GenerateView.read(root)
    runtime = RuntimeView.read(root)
    log = root / artifacts.GENERATE_LOG
    path = store_path()
    folder = path.parent / "runs" / run_digest(plan, view)
    ledger = UsageLedger(folder)
    with GenerationStore(path) as store:
        generated = generate(plan, view, runtime, store, ledger)
    ledger.finish()
    artifacts.fresh_folder(log)
    for name in ("usage.csv", "usage.json"):
        artifacts.write_text(log / name, (folder / name).read_text(encoding="utf-8"))
    write(generated, artifacts.fresh_folder(root / artifacts.GENERATE))
    _write_log(generated, log)


def run_digest(plan: Plan, view: GenerateView) -> str:
    """What the calls of a run belong to: the plan's prompts and the settings of ``generate``."""
    return digest([[p.snapshot.digest for p in plan.snapshots], view.dump()])[:16]


def make_backend(view: GenerateView, runtime: RuntimeView) -> Backend:
    """The chosen backend."""
    return cast("Backend", view.backend.make(**runtime.backend))


def generate(
    plan: Plan,
    view: GenerateView,
    runtime: RuntimeView,
    store: GenerationStore,
    ledger: UsageLedger | None,
) -> Generated:
    """Replies to every coalition of the plan, from the store where it has them.

    Raises:
        SettingsError: The backend cannot do what the run needs; nothing was asked.
        BackendError: A call failed; everything finished is in the store.
    """
    backend = make_backend(view, runtime)
    options = RuntimeOptions(**cast("dict[str, int]", dict(runtime.options)))
    check_capabilities(backend, plan, view)
    reuse = backend.capabilities.prefix_reuse and options.group_by_prefix
    target = backend.target
    pool = Pool(plan, view, target, group_by_prefix=reuse)

    async def drive() -> RunStats:
        try:
            with progress_for(options.progress, "generate", pool.n_jobs) as progress:
                return await run_jobs(
                    backend,
                    store,
                    pool.groups(),
                    on_result=pool.accept,
                    options=options,
                    ledger=ledger,
                    progress=progress,
                )
        finally:
            await backend.close()

    stats = asyncio.run(drive())
    for state in pool.snapshots:
        state.rows.sort(key=ReplyRow.order)
    identity = {"backend": target.backend, "model": target.model, "identity": dict(target.identity)}
    return Generated({s.planned.id: s.rows for s in pool.snapshots}, stats, identity)


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
            _target_of(planned)
    if not can.empty_message:
        policy = cast("AbsencePolicy", view.absence.make())
        for planned in plan.snapshots:
            empty = policy.render(planned.snapshot, planned.players, [False] * len(planned.players))
            if any(not m.content.strip() for m in empty):
                raise SettingsError(
                    "absence.empty_message",
                    f"backend={name} takes no empty message, and {planned.id} without players is one",
                    mend="Set a text that stands for it: -S '++absence.empty_message=…'",
                )


def _target_of(planned: Planned) -> str:
    target = planned.snapshot.target
    if target is None:
        raise InputError(
            f"snapshot {planned.id}",
            "has no target text to be explained",
            mend='Add "target" to it, or set value.reference=base',
        )
    return target


def write(generated: Generated, folder: Path) -> None:
    """Writes ``generations/``: results only, no time and no count of what was paid now."""
    for snapshot_id, rows in generated.rows.items():
        name = file_slug(snapshot_id)
        artifacts.write_text(
            folder / "generations" / f"{name}.jsonl",
            artifacts.jsonl_text(_row_dict(row) for row in rows),
        )
    artifacts.write_text(folder / "model.json", artifacts.json_text(dict(generated.identity)))


def read_rows(folder: Path, snapshot_id: str) -> list[ReplyRow]:
    """The replies of one snapshot as ``write`` left them."""
    rows = artifacts.read_jsonl(folder / "generations" / f"{file_slug(snapshot_id)}.jsonl")
    return [_reply_row(row) for row in rows]


def _row_dict(row: ReplyRow) -> dict[str, object]:
    generation = row.generation
    out: dict[str, object] = {
        "coalition": f"{row.coalition:x}",
        "sample": row.sample,
        "key": row.key,
        "finish_reason": generation.finish_reason,
        "input_tokens": generation.usage.input_tokens,
        "output_tokens": generation.usage.output_tokens,
        "reasoning_tokens": generation.usage.reasoning_tokens,
        "model_version": generation.model_version,
    }
    if generation.token_logprobs is None:
        return {**out, "text": generation.text}
    return {**out, "token_logprobs": list(generation.token_logprobs)}


def _reply_row(row: Mapping[str, object]) -> ReplyRow:
    logprobs = cast("list[float] | None", row.get("token_logprobs"))
    generation = Generation(
        text=str(row.get("text", "")),
        finish_reason=str(row["finish_reason"]),
        token_logprobs=None if logprobs is None else tuple(logprobs),
        model_version=str(row["model_version"]),
    )
    return ReplyRow(
        int(str(row["coalition"]), 16), cast("int", row["sample"]), str(row["key"]), generation
    )


def _write_log(generated: Generated, log: Path) -> None:
    stats = asdict(generated.stats)
    artifacts.write_text(log / "generation.json", artifacts.json_text(stats))
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    lines = [f"{made} generate: {key} = {value}" for key, value in sorted(stats.items())]
    artifacts.write_text(log / "pipeline.log", "\n".join(lines) + "\n")


def _bits(coalitions: npt.NDArray[np.bool_]) -> list[int]:
    return [int(text, 16) for text in to_hex(coalitions)]

