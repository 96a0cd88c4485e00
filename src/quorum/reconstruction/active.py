"""Active generation: personas are made in rounds, where the pool agrees too much.

The loop is a value: what it does next is a function of its rules, its seed and what it was told,
so a run restored from its state goes on as if it had never been interrupted. The caller asks the
models::

    while True:
        if request := loop.learner_request():
            loop.accept_learned(text_of(request), key_of(request))
        personas = loop.next_round()
        if not personas:
            break  # loop.stop_reason says why
        loop.accept(answers_of(personas))
        save(loop.state())

Source: Prompts to Proxies (arXiv 2509.11311), stage 1. Deviations: mode entropies are shrunken
before they compete, and the attributes of modes ``survey`` and ``question`` exist from the start,
derived from topics and options; the learner adds to them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from quorum.errors import SettingsError
from quorum.reconstruction.bank import Attribute, Bank, Pair
from quorum.reconstruction.derived import question_attributes, topic_attributes
from quorum.reconstruction.entropy import (
    aim_probabilities,
    mode_probabilities,
    shrunken_entropies,
)
from quorum.reconstruction.learner import learner_request, parse_learned
from quorum.reconstruction.personas import Draft, Persona, choose, draw_persona
from quorum.reconstruction.survey import Question
from quorum.reconstruction.trajectories import Row, Totals, Trajectories
from quorum.records import Request

Mode = Literal["core", "thematic", "theoretical", "survey", "question", "mixed"]
MODES: tuple[Mode, ...] = ("core", "thematic", "theoretical", "survey", "question", "mixed")
Answers = Mapping[str, Mapping[str, tuple[float, ...] | None]]


@dataclass(frozen=True, slots=True)
class PoolRules:
    """How personas are made.

    Args:
        size: Personas in the pool.
        modes: Modes that take part.
        attributes: Attributes a persona.
        burn_in: Personas a mode before the modes compete.
        round_size: Personas a round after that.
        exploration: ε, share of the draws of a mode that ignore what was learned.
        temperature: τ of the choice between modes, in units of entropy; higher is more even.
        shrinkage: Personas that a mode's entropy is drawn towards the mean of all by.
        learn_every: Rounds between two requests of the learner; 0 for none.
        learn_questions: Flattest questions that a request is about.
        plateau_rounds: Rounds without a rise of the aggregate entropy that end it; 0 for never.
        plateau_tolerance: A rise that counts, in units of entropy.
    """

    size: int = 120
    modes: tuple[Mode, ...] = MODES
    attributes: int = 4
    burn_in: int = 2
    round_size: int = 12
    exploration: float = 0.2
    temperature: float = 0.05
    shrinkage: float = 10.0
    learn_every: int = 4
    learn_questions: int = 3
    plateau_rounds: int = 0
    plateau_tolerance: float = 0.002


class ActiveGeneration:
    """The loop's state and its next step.

    Args:
        questions: Training questions; no others are ever seen here.
        bank: Given attributes.
        rules: How personas are made.
        seed: Seed of the pool.
        is_structured: Whether the backend binds the learner's reply to a schema.

    Attributes:
        rules: How personas are made.
        personas: Made and answered, in the order of their ids.
        answers: By persona id: question id → shares, None where missing.
        bank: Given, derived and learned attributes.
        learner_log: One row a reply of the learner: round, questions, key, n_accepted, rejected.
        tables: Trajectories of entropies and what each mode came to.

    Raises:
        SettingsError: The bank has attributes for none of the modes.
    """

    def __init__(
        self,
        questions: Sequence[Question],
        bank: Bank,
        rules: PoolRules,
        seed: int,
        *,
        is_structured: bool = False,
    ) -> None:
        self._questions = {q.id: q for q in sorted(questions, key=lambda q: q.id)}
        self.rules = rules
        self._seed = seed
        self._is_structured = is_structured
        self._patches = question_attributes(questions)
        self._aims = {q: [a] for q, a in self._patches.items()}
        derived = (*topic_attributes(questions), *self._patches.values())
        self.bank = bank.with_attributes(derived)
        groups = {attribute.group for attribute in self.bank.attributes}
        self._modes = tuple(m for m in MODES if m in rules.modes and m in {*groups, "mixed"})
        if not self._modes:
            raise SettingsError("pool.modes", "the bank has attributes for none", got=rules.modes)
        self.personas: list[Persona] = []
        self.answers: dict[str, dict[str, tuple[float, ...] | None]] = {}
        self.learner_log: list[Row] = []
        self._learned: list[tuple[Attribute, tuple[str, ...]]] = []
        self._round_sizes: list[int] = []
        self._taken: set[frozenset[Pair]] = set()
        self._totals = Totals(self._questions, self._modes)
        self.tables = Trajectories()
        self._pending: tuple[Persona, ...] | None = None
        self._stopped: str | None = None

    # The next step

    @property
    def n_rounds(self) -> int:
        """Rounds that were answered."""
        return len(self._round_sizes)

    @property
    def stop_reason(self) -> str | None:
        """Why no round follows: size, plateau, exhausted, or what ``stop`` was told; else None."""
        if self._stopped is not None:
            return self._stopped
        if len(self.personas) >= self.rules.size:
            return "size"
        return "plateau" if self._is_flat() else None

    def stop(self, reason: str) -> None:
        """Ends the loop from outside (``budget``); personas not yet answered are dropped."""
        self._stopped = reason
        self._pending = None

    def next_round(self) -> tuple[Persona, ...]:
        """The personas to ask next; the same until they are accepted; empty at the end."""
        if self.stop_reason is not None:
            return ()
        if self._pending is None:
            self._pending = self._make_round()
            if not self._pending:
                self._stopped, self._pending = "exhausted", None
                return ()
        return self._pending

    def accept(self, answers: Answers) -> None:
        """Takes the answers to ``next_round``: shares over the options, None where missing.

        A question that a persona's mapping does not name counts as missing.
        """
        made = self.next_round()
        assert set(answers) == {persona.id for persona in made}
        self._take(made, answers)

    def learner_request(self) -> Request | None:
        """What to ask a model for before the next round; None where nothing is due.

        Due every ``learn_every`` rounds, once; the loop goes on as well where it is not asked.
        """
        flattest = self._learner_questions()
        if not flattest:
            return None
        return learner_request(
            [self._questions[q] for q in flattest],
            [attribute.label for attribute, _ in self._learned],
            is_structured=self._is_structured,
            seed=self._seed,
            round_number=self.n_rounds,
        )

    def accept_learned(self, text: str, key: str) -> None:
        """Takes the learner's reply; valid attributes join the bank with their provenance.

        Args:
            text: The reply as it came.
            key: The key of its request in the store.
        """
        flattest = self._learner_questions()
        assert flattest
        named = " ".join(flattest)
        source = f"learner: round {self.n_rounds}, questions {named}, request {key[:16]}"
        learned = parse_learned(text, self.bank.attributes, source)
        self._add_learned(learned.attributes, flattest)
        self.learner_log.append(
            {
                "round": self.n_rounds,
                "questions": list(flattest),
                "key": key,
                "n_accepted": len(learned.attributes),
                "rejected": list(learned.rejected),
            }
        )
        self._pending = None

    @property
    def learned_bank(self) -> Bank:
        """What the learner has added."""
        return Bank(tuple(attribute for attribute, _ in self._learned))

    # State

    def state(self) -> dict[str, object]:
        """All that the loop was told, as JSON-able values."""
        return {
            "personas": [persona.as_json() for persona in self.personas],
            "round_sizes": list(self._round_sizes),
            "answers": {
                p: {q: None if a is None else list(a) for q, a in by_question.items()}
                for p, by_question in self.answers.items()
            },
            "learned": [_learned_json(a, questions) for a, questions in self._learned],
            "learner_log": [dict(row) for row in self.learner_log],
            "stopped": self._stopped,
        }

    def restore(self, state: Mapping[str, object]) -> None:
        """Brings a fresh loop to a state that ``state`` gave; all that follows is the same."""
        assert not self.personas
        personas = [Persona.from_json(p) for p in cast("list[Row]", state["personas"])]
        saved = cast("dict[str, dict[str, list[float] | None]]", state["answers"])
        answers = {
            p: {q: None if a is None else tuple(a) for q, a in by_question.items()}
            for p, by_question in saved.items()
        }
        start = 0
        for size in cast("list[int]", state["round_sizes"]):
            made = tuple(personas[start : start + size])
            self._take(made, {persona.id: answers[persona.id] for persona in made})
            start += size
        for row in cast("list[Row]", state["learned"]):
            self._add_learned((_learned_attribute(row),), cast("list[str]", row["questions"]))
        self.learner_log = [dict(row) for row in cast("list[Row]", state["learner_log"])]
        self._stopped = cast("str | None", state["stopped"])

    # How it is done

    def _make_round(self) -> tuple[Persona, ...]:
        room = self.rules.size - len(self.personas)
        if not self._round_sizes:
            modes: list[Mode] = [*self._modes] * self.rules.burn_in
        else:
            chances = self._mode_chances()
            modes = [
                cast("Mode", choose(chances, self._seed, "mode", self.n_rounds, slot))
                for slot in range(self.rules.round_size)
            ]
        made: list[Persona] = []
        taken = set(self._taken)
        for mode in modes[:room]:
            persona_id = f"p{len(self.personas) + len(made) + 1:04d}"
            persona = self._draw(persona_id, mode, taken)
            if persona is not None:
                made.append(persona)
                taken.add(frozenset(persona.attributes))
        return tuple(made)

    def _draw(
        self, persona_id: str, mode: Mode, taken: Collection[frozenset[Pair]]
    ) -> Persona | None:
        """A persona of the mode; where the mode is used up, of the first other one that is not."""
        others = (m for m in ("mixed", *self._modes) if m in self._modes)
        for tried in dict.fromkeys((mode, *others)):
            draft = self._draft(persona_id, tried)
            persona = draw_persona(draft, self.bank, self.rules.attributes, self._seed, taken)
            if persona is not None:
                return persona
        return None

    def _draft(self, persona_id: str, mode: Mode) -> Draft:
        attributes = self.bank.attributes
        if mode == "mixed":
            return Draft(persona_id, mode, attributes)
        if mode != "question":
            return Draft(persona_id, mode, [a for a in attributes if a.group == mode])
        chances = aim_probabilities(self._totals.question_entropies())
        aim = choose(chances, self._seed, "aim", persona_id)
        core = [a for a in attributes if a.group == "core"]
        avoided = self._commonest(aim)
        return Draft(persona_id, mode, core, self._aims[aim], avoided, aimed_at=aim)

    def _commonest(self, question: str) -> tuple[str, ...]:
        """The text of the option that the pool gives most often: what a patch must not say."""
        mean = self._totals.mean_answer(question)
        if mean is None:
            return ()
        options = self._questions[question].options
        return (min(zip(mean, options, strict=True), key=lambda m: (-m[0], m[1].label))[1].text,)

    def _mode_chances(self) -> dict[str, float]:
        entropies = self._totals.mode_entropies()
        shrunken = shrunken_entropies(entropies, self._totals.n_personas, self.rules.shrinkage)
        return mode_probabilities(shrunken, self.rules.temperature, self.rules.exploration)

    def _take(self, made: Sequence[Persona], answers: Answers) -> None:
        for persona in made:
            given = answers[persona.id]
            kept = {q: given.get(q) for q in self._questions}
            self.personas.append(persona)
            self.answers[persona.id] = kept
            self._taken.add(frozenset(persona.attributes))
            self._totals.add(persona.mode, kept)
        self._round_sizes.append(len(made))
        self._pending = None
        self.tables.add_round(
            self.n_rounds, self._totals, self.rules.shrinkage, self._mode_chances()
        )

    def _is_flat(self) -> bool:
        """Whether the last rounds have brought no rise of the aggregate entropy that counts."""
        n = self.rules.plateau_rounds
        entropies = [row["entropy"] for row in self.tables.aggregate]
        if n == 0 or len(entropies) <= n:
            return False
        known = [cast("float", e) if e is not None else 0.0 for e in entropies]
        return max(known[-n:]) - max(known[:-n]) < self.rules.plateau_tolerance

    def _learner_questions(self) -> tuple[str, ...]:
        """The flattest questions where a request is due, else none; ties go by id."""
        every = self.rules.learn_every
        is_due = every > 0 and self.n_rounds > 0 and self.n_rounds % every == 0
        if (
            not is_due
            or self.stop_reason
            or self.n_rounds in {r["round"] for r in self.learner_log}
        ):
            return ()
        known = {q: h for q, h in self._totals.question_entropies().items() if h is not None}
        ranked = sorted(known, key=lambda q: (known[q], q))
        return tuple(ranked[: self.rules.learn_questions])

    def _add_learned(self, attributes: Sequence[Attribute], questions: Sequence[str]) -> None:
        self.bank = self.bank.with_attributes(attributes)
        for attribute in attributes:
            self._learned.append((attribute, tuple(questions)))
            for question in questions:
                self._aims[question].append(attribute)


def _learned_json(attribute: Attribute, questions: Sequence[str]) -> Row:
    return {
        "id": attribute.id,
        "label": attribute.label,
        "phrase": attribute.phrase,
        "values": list(attribute.values),
        "source": attribute.source,
        "questions": list(questions),
    }


def _learned_attribute(row: Mapping[str, object]) -> Attribute:
    return Attribute(
        id=str(row["id"]),
        label=str(row["label"]),
        phrase=str(row["phrase"]),
        values=tuple(cast("list[str]", row["values"])),
        group="question",
        source=str(row["source"]),
    )
