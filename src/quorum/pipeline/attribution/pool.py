"""The pool of a run: what is asked of the model first, and what follows from an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from quorum.attribution.absence import AbsencePolicy, Renderer
from quorum.attribution.coalitions import BoolArray, to_hex
from quorum.attribution.estimators.base import Estimator
from quorum.config.attribution_views import GenerateView
from quorum.errors import InputError
from quorum.pipeline.attribution.payoffs import payoffs_of
from quorum.pipeline.attribution.plan import Plan, Planned
from quorum.pipeline.attribution.replies import ReplyRow
from quorum.records import Generation, Request, Target
from quorum.runtime.scheduler import Job

RUN = 16  # jobs with a common beginning that one lane works through in a row


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
    rows: list[ReplyRow] = field(default_factory=list)
    base: str | None = None


class Pool:
    """The jobs of all snapshots: what is asked first, and what follows from an answer.

    Base generations come first for each snapshot. A value function that scores a given text asks
    for it as soon as that snapshot's base generation is there; a further phase starts as soon as
    that snapshot's last one is complete: no snapshot waits for another one.
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
                scores = self._scores(index) if self._reference(index) is not None else ()
                state.waiting += 1
                yield [self._job(Address(index, grand, 0, False))]
                yield from scores
                continue
            addresses = list(self._addresses(index))
            state.waiting = len(addresses)
            yield from self._runs(addresses, first=Address(index, grand, 0, False))

    def accept(
        self,
        job: Job,
        generation: Generation,
        from_store: bool,  # noqa: ARG002, FBT001
    ) -> Iterable[Sequence[Job]]:
        """Keeps a reply and says what follows from it."""
        address = cast("Address", job.tag)
        state = self.snapshots[address.snapshot]
        key = job.request.key(self._target)
        state.rows.append(ReplyRow(address.coalition, address.sample, key, generation))
        state.waiting -= 1
        if self._is_scoring and not address.is_score:
            state.base = generation.text
            if self._view.reference == "base":  # an empty text has no likelihood to ask for
                return list(self._scores(address.snapshot)) if state.base else []
        if state.waiting == 0 and self._estimator is not None:
            return self._next_phase(address.snapshot)
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
            return target_text(state.planned)
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

    def _next_phase(self, index: int) -> Iterable[Sequence[Job]]:
        """What the payoffs of a complete phase ask for; nothing where the estimator has enough."""
        state = self.snapshots[index]
        planned, view = state.planned, self._view
        assert self._estimator is not None
        assert view.value is not None
        n = len(planned.players)
        rows = sorted(state.rows, key=ReplyRow.order)  # they came in any order
        scored = payoffs_of(planned, rows, view.value, view.reference or "base")
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
            return Job(Request(messages, continuation=text), address, "log-likelihood")
        module = "base generation" if self._is_scoring else "generate"
        return Job(Request(messages, view.decoding, address.sample), address, module)


def target_text(planned: Planned) -> str:
    """The text to be explained, where the settings name the snapshot's own.

    Raises:
        InputError: The snapshot has none.
    """
    target = planned.snapshot.target
    if target is None:
        raise InputError(
            f"snapshot {planned.id}",
            "has no target text to be explained",
            mend='Add "target" to it, or set value.reference=base',
        )
    return target


def _bits(coalitions: BoolArray) -> list[int]:
    return [int(text, 16) for text in to_hex(coalitions)]
