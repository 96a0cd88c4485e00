"""Who is asked what next: active generation over the train questions, then the test questions.

One pool of requests for the scheduler: the last reply of a round brings the next round. After each
round the checkpoint is written, so that a killed run goes on with the round that it was in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from quorum.errors import SettingsError
from quorum.pipeline.reconstruction.answers import answers_of
from quorum.pipeline.reconstruction.replies import BLANK, ReplyRow
from quorum.reconstruction.active import ActiveGeneration
from quorum.reconstruction.elicitation import Ask, Elicitation
from quorum.reconstruction.personas import Persona, persona_text
from quorum.reconstruction.survey import Question
from quorum.records import Generation, Request, Target
from quorum.runtime.scheduler import Job

ASK = "elicit"  # modules of the usage ledger
LEARN = "learn"

Replies = dict[str, list[ReplyRow]]
Groups = Iterable[Sequence[Job]]
ChooseActive = Callable[[Replies], set[str]]


@dataclass(frozen=True, slots=True)
class Script:
    """What is asked and how.

    Args:
        train: Questions that are asked in the loop.
        test: Questions that are asked after it.
        elicitation: How a question is asked and an answer read.
        seed: Of the option orders.
        round_size: Personas who are asked the test questions together.
        max_requests: Requests that the whole interview may take; None for no limit.
    """

    train: tuple[Question, ...]
    test: tuple[Question, ...]
    elicitation: Elicitation
    seed: int
    round_size: int
    max_requests: int | None = None

    def n_requests(self, n_personas: int, n_learned: int) -> int:
        """How many requests so many personas take, with the learner's and nobody's."""
        questions = (*self.train, *self.test)
        blank = self.asks(BLANK, None, questions) if self.elicitation.needs_blank else []
        return n_personas * len(self.asks("p0001", "", questions)) + n_learned + len(blank)

    def asks(self, persona: str, text: str | None, questions: Iterable[Question]) -> list[Ask]:
        """The requests to a persona, or without a text to nobody."""
        return [
            ask for q in questions for ask in self.elicitation.asks(text, q, persona, self.seed)
        ]


class Interview:
    """The whole conversation with the model, in the order in which it is decided.

    Args:
        active: Makes personas from answers to the train questions.
        script: What is asked and how.
        target: Which model answers.
        replies: What an earlier, killed run had completed, by persona.
        choose_active: Ids of the personas who are asked the test questions; None: everybody.
        on_round: Called after each round, to write the checkpoint.
    """

    def __init__(
        self,
        active: ActiveGeneration,
        script: Script,
        target: Target,
        replies: Replies,
        *,
        choose_active: ChooseActive | None = None,
        on_round: Callable[[Interview], None] | None = None,
    ) -> None:
        self.active = active
        self.replies = replies
        self._script = script
        self._target = target
        self._choose_active = choose_active
        self._on_round = on_round
        self._test_ids = {q.id for q in script.test}
        self._chosen: set[str] | None = None
        self._waiting = 0
        self._round: tuple[Persona, ...] = ()
        self._new: Replies = {}

    def start(self) -> Groups:
        """The first requests: of the first round, or of the round in which a run was killed."""
        return self._next()

    def accept(self, job: Job, generation: Generation, _from_store: object = None) -> Groups:
        """Takes a reply; the last one of a round brings the next round."""
        key = job.request.key(self._target)
        ask = job.tag
        self._waiting -= 1
        if isinstance(ask, Ask):
            row = ReplyRow(ask.persona_id, ask.question_id, ask.order, ask.draw, key, generation)
            self._new.setdefault(ask.persona_id, []).append(row)
        else:
            self.active.accept_learned(generation.text, key)
        if self._waiting:
            return ()
        self._complete()
        return self._next()

    def keys(self) -> set[str]:
        """Keys of all replies: kept from an earlier run, new, of a round cut off, the learner's."""
        rows = (
            row for known in (self.replies, self._new) for rows in known.values() for row in rows
        )
        return {row.key for row in rows} | {str(row["key"]) for row in self.active.learner_log}

    def _complete(self) -> None:
        """A round is complete: its answers go to active generation, the state to disk."""
        for persona, rows in self._new.items():
            self.replies.setdefault(persona, []).extend(sorted(rows, key=ReplyRow.place))
        if self._round:
            made = {p.id: self.replies[p.id] for p in self._round}
            answers = answers_of(made, self._script.train, self._script.elicitation)
            self.active.accept(
                {p: {q: a.shares for q, a in found.items()} for p, found in answers.items()}
            )
        self._round, self._new = (), {}
        if self._on_round is not None:
            self._on_round(self)

    def _next(self) -> Groups:
        request = self.active.learner_request()
        if request is not None:
            self._waiting = 1
            return [[Job(request, None, LEARN)]]
        self._round = self._affordable(self.active.next_round())
        asks = [
            ask
            for persona in self._round
            for ask in self._script.asks(persona.id, self._text(persona), self._script.train)
        ]
        asks = asks or self._test_asks() or self._blank_asks()
        self._waiting = len(asks)
        return grouped(asks)

    def _affordable(self, made: tuple[Persona, ...]) -> tuple[Persona, ...]:
        """The next round, or none where it would take more requests than there may be."""
        limit = self._script.max_requests
        if limit is None or not made:
            return made
        n_personas = len(self.active.personas) + len(made)
        needed = self._script.n_requests(n_personas, len(self.active.learner_log))
        if needed <= limit:
            return made
        if not self.active.personas:
            raise SettingsError(
                "pool.max_requests",
                f"the first round takes {needed}",
                got=limit,
                allowed=f"null, or {needed} and more",
                mend="Or lower pool.burn_in, elicitation.orders or split.max_questions",
            )
        self.active.stop("budget")
        return ()

    def _test_asks(self) -> list[Ask]:
        """Test questions for the next few personas who have not answered them."""
        pending = [p for p in self.active.personas if not self._has_test(p.id)]
        if pending and self._choose_active is not None:
            if self._chosen is None:
                self._chosen = self._choose_active(self.replies)
            pending = [p for p in pending if p.id in self._chosen]
        return [
            ask
            for persona in pending[: self._script.round_size]
            for ask in self._script.asks(persona.id, self._text(persona), self._script.test)
        ]

    def _blank_asks(self) -> list[Ask]:
        """Every question of nobody, in every order in which a persona may see it."""
        script = self._script
        if not script.elicitation.needs_blank or BLANK in self.replies:
            return []
        return script.asks(BLANK, None, (*script.train, *script.test))

    def _has_test(self, persona: str) -> bool:
        return any(row.question in self._test_ids for row in self.replies[persona])

    def _text(self, persona: Persona) -> str:
        return persona_text(persona, self.active.bank)


def grouped(asks: Iterable[Ask]) -> list[list[Job]]:
    """Jobs in runs that share the beginning of their prompt."""
    groups: dict[str, list[Job]] = {}
    for ask in asks:
        groups.setdefault(ask.group, []).append(Job(ask.request, ask, ASK))
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far an interview goes with the replies that are known.

    Args:
        n_found: Distinct requests with a reply, by module.
        missing: Those of the round that it stopped in which had none: key to request, by module.
    """

    n_found: Mapping[str, int]
    missing: Mapping[str, Mapping[str, Request]]


def replay(
    interview: Interview, find: Callable[[str], Generation | None], target: Target
) -> Replayed:
    """Goes through an interview as far as replies are known."""
    found: dict[str, set[str]] = {ASK: set(), LEARN: set()}
    missing: dict[str, dict[str, Request]] = {ASK: {}, LEARN: {}}
    jobs = [job for group in interview.start() for job in group]
    while jobs and not any(missing.values()):
        following: list[Job] = []
        replies = []
        for job in jobs:
            key = job.request.key(target)
            reply = find(key)
            replies.append(reply)
            if reply is None:
                missing[job.module][key] = job.request
            else:
                found[job.module].add(key)
        if not any(missing.values()):
            for job, reply in zip(jobs, replies, strict=True):
                assert reply is not None
                following = [j for group in interview.accept(job, reply) for j in group]
        jobs = following
    return Replayed({name: len(keys) for name, keys in found.items()}, missing)
