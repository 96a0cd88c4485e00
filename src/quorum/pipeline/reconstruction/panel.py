"""The respondents of a table answer: no pool is made, no model is asked, nothing is paid."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from quorum.backends.panel import Panel
from quorum.config.reconstruction_views import GenerateView
from quorum.pipeline.reconstruction.answers import answers_of
from quorum.pipeline.reconstruction.interview import Replies
from quorum.pipeline.reconstruction.questions import sides
from quorum.pipeline.reconstruction.replies import ReplyRow
from quorum.reconstruction.bank import Attribute, Bank
from quorum.reconstruction.elicitation import Elicitation
from quorum.reconstruction.personas import Persona
from quorum.reconstruction.respondents import Respondents, read_respondents
from quorum.reconstruction.survey import Question, Survey
from quorum.reconstruction.trajectories import Totals, Trajectories

MODE = "panel"
MIN_CELL = 10  # people: a smaller group of real people is never told


def ask_panel(
    root: Path, view: GenerateView, questions: Sequence[Question]
) -> tuple[Sequence[Persona], Replies, Bank, Trajectories, Mapping[str, object]]:
    """Personas, replies, bank, tables and facts of a panel, in one round.

    Raises:
        InputError: The table cannot be read.
    """
    elicitation = cast("Elicitation", view.elicitation.make())
    people = read_people(root, view, questions)
    panel = cast("Panel", view.backend.make()).seat(
        dict(zip(people.ids, people.answers, strict=True)), cast("Any", view.respondents).sha256
    )
    personas = [
        Persona(name, MODE, tuple((_slug(a), v) for a, v in sorted(attributes.items())))
        for name, attributes in zip(people.ids, people.attributes, strict=True)
    ]
    replies = {p.id: _replies(p.id, panel, elicitation, questions, view.seed) for p in personas}
    train = sides(questions)["train"]
    facts = {
        "backend": panel.target.backend,
        "model": panel.target.model,
        "identity": dict(panel.target.identity),
        "respondents": "panel",
        "stop_reason": "everybody",
        "learner": [],
    }
    return personas, replies, _bank(people), _tables(personas, replies, train, elicitation), facts


def read_people(root: Path, view: GenerateView, questions: Sequence[Question]) -> Respondents:
    """The people of the table, under ids of our own."""
    options = view.backend.options
    file = view.respondents
    assert file is not None
    return read_respondents(
        (root / file.path).read_bytes(),
        file.path,
        Survey(tuple(questions), {}, ()),
        id_column=str(options["id_column"]),
        attribute_columns=cast("Sequence[str]", options["attributes"]),
        refused=cast("Sequence[str]", options["refused"]),
    )


def _replies(
    person: str, panel: Panel, elicitation: Elicitation, questions: Sequence[Question], seed: int
) -> list[ReplyRow]:
    found = []
    for question in questions:
        # people were asked once: of several orders and draws the first one stands
        ask = elicitation.asks("", question, person, seed, respondent=person)[0]
        reply = panel.reply(ask.request)
        found.append(ReplyRow(person, question.id, ask.order, 0, "", reply))
    return found


def _bank(people: Respondents) -> Bank:
    """The attributes and values found."""
    values: dict[str, set[str]] = {}
    for attributes in people.attributes:
        for name, value in attributes.items():
            values.setdefault(name, set()).add(value)
    return Bank(
        tuple(
            Attribute(
                id=_slug(name),
                label=name,
                phrase=f"{name}: {{value}}",
                values=tuple(sorted(found)),
                group="core",
                source="the table of respondents",
            )
            for name, found in sorted(values.items())
        )
    )


def _slug(column: str) -> str:
    """A column's name as the id of an attribute."""
    return "a_" * (not column[:1].isalpha()) + re.sub(r"[^a-z0-9_]", "_", column.lower())


def _tables(
    personas: Sequence[Persona],
    replies: Replies,
    train: Sequence[Question],
    elicitation: Elicitation,
) -> Trajectories:
    """One round: entropies of everybody, and of each group of ten or more as a mode."""
    answers = {
        person: {q: answer.shares for q, answer in by_question.items()}
        for person, by_question in answers_of(replies, train, elicitation).items()
    }
    tables = Trajectories()
    everybody = Totals([q.id for q in train], [MODE])
    for person in personas:
        everybody.add(MODE, answers[person.id])
    tables.add_round(1, everybody, 0.0, {MODE: 1.0})
    tables.modes.clear()
    for mode, members in modes_of(personas).items():
        totals = Totals([q.id for q in train], [mode])
        for name in members:
            totals.add(mode, answers[name])
        (entropy,) = totals.mode_entropies().values()
        tables.modes.append(
            {
                "round": 1,
                "mode": mode,
                "n": len(members),
                "entropy": entropy,
                "shrunken": None,
                "probability": None,
            }
        )
    return tables


def modes_of(personas: Iterable[Persona]) -> dict[str, list[str]]:
    """Groups of ten or more people, ``attribute=value``: ids of their members."""
    members: dict[str, list[str]] = {}
    for person in personas:
        for attribute, value in person.attributes:
            members.setdefault(f"{attribute}={value}", []).append(person.id)
    return {mode: found for mode, found in sorted(members.items()) if len(found) >= MIN_CELL}
