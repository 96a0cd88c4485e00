"""From answers to ensemble weights: cleaning, one problem a target, and who has weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from quorum.config.reconstruction_views import Weighting
from quorum.errors import InputError
from quorum.pipeline.reconstruction.answers import Answers, answers_of, matrix
from quorum.pipeline.reconstruction.questions import Targets
from quorum.pipeline.reconstruction.replies import ReplyRow
from quorum.reconstruction.cleaning import Cleaned, CleaningPolicy, clean, shares_with_refusal
from quorum.reconstruction.elicitation import Elicitation
from quorum.reconstruction.ensembles.base import (
    Ensemble,
    FloatArray,
    IntArray,
    Problem,
    rows_of_questions,
)
from quorum.reconstruction.reading import read_survey
from quorum.reconstruction.split import blocks
from quorum.reconstruction.survey import POPULATION, Option, Question, Shares, chosen_targets

REFUSED_OPTION = Option("(refused)", "Refused to answer")


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """Answers without gaps, and whose they are.

    Args:
        questions: Those that were kept, in the order of the rows; with ``refusal_as_option`` each
            has one option more.
        personas: Ids of those who were kept, in the order of the columns.
        cleaned: The matrix and what was done to it.
        refused: Share of refusals by question; empty unless refusals are an option.
        block_of: Questions of one block stand or fall together.
    """

    questions: tuple[Question, ...]
    personas: tuple[str, ...]
    cleaned: Cleaned
    refused: Mapping[str, float]
    block_of: Mapping[str, str]

    def positions(self, known: Mapping[str, Shares], side: str) -> IntArray:
        """Positions of the questions of one side of the split that a target has shares for."""
        found = [i for i, q in enumerate(self.questions) if q.split == side and q.id in known]
        return np.array(found, np.int64)

    def rows(self, positions: IntArray) -> FloatArray:
        """The answers to these questions."""
        return self.cleaned.x[rows_of_questions(self.cleaned.sizes, positions)]

    def sizes(self, positions: IntArray) -> tuple[int, ...]:
        """Number of options of these questions."""
        return tuple(self.cleaned.sizes[q] for q in positions)

    def ids(self, positions: IntArray) -> tuple[str, ...]:
        """Ids of these questions."""
        return tuple(self.questions[q].id for q in positions)

    def blocks(self, positions: IntArray) -> tuple[str, ...]:
        """Block of each of these questions."""
        return tuple(self.block_of[name] for name in self.ids(positions))

    def shares(self, known: Mapping[str, Shares], positions: IntArray) -> FloatArray:
        """What a target says to these questions, refusals among them where they are an option."""
        found = np.concatenate([known[name].shares for name in self.ids(positions)])
        if not self.refused:
            return found
        sizes = [size - 1 for size in self.sizes(positions)]
        return shares_with_refusal(found, sizes, self.ids(positions), self.refused)


def blocks_of(questions: Sequence[Question], by: str) -> dict[str, str]:
    """Blocks that stand or fall together: as the questions were split, or single questions."""
    return blocks(questions) if by == "block" else {q.id: q.id for q in questions}


def make_sheet(
    answers: Answers,
    questions: Sequence[Question],
    cleaning: str,
    refused: Mapping[str, float],
    by: str,
    *,
    without_weight: Sequence[str] = (),
) -> Sheet:
    """The answers, cleaned by a policy.

    Args:
        answers: By persona and question.
        questions: All questions.
        cleaning: The policy.
        refused: Share of refusals by question, for ``refusal_as_option``.
        by: What the split kept together, ``block`` or ``question``.
        without_weight: Personas whose test answers were not asked, since they cannot have weight:
            any answer will do in their place.
    """
    personas = sorted(answers)
    x = matrix(answers, questions, personas)
    sizes = [len(q.options) for q in questions]
    for persona in without_weight:
        column = personas.index(persona)
        for row, size, q in zip(np.cumsum([0, *sizes[:-1]]), sizes, questions, strict=True):
            if q.split == "test":
                x[row : row + size, column] = 1.0 / size
    reasons = {
        (persona, question): answer.status if answer.status == "refused" else answer.reason or ""
        for persona, by_question in answers.items()
        for question, answer in by_question.items()
        if answer.shares is None
    }
    ids = [q.id for q in questions]
    cleaned = clean(x, sizes, ids, personas, cast("CleaningPolicy", cleaning), reasons)
    has_refusals = cleaning == "refusal_as_option"
    kept = [questions[i] for i in cleaned.kept_questions]
    return Sheet(
        questions=tuple(_with_refusal(q) for q in kept) if has_refusals else tuple(kept),
        personas=tuple(personas[i] for i in cleaned.kept_personas),
        cleaned=cleaned,
        refused=refused if has_refusals else {},
        block_of=blocks_of(questions, by),
    )


def _with_refusal(question: Question) -> Question:
    return Question(
        question.id,
        question.text,
        (*question.options, REFUSED_OPTION),
        question.topic,
        ordinal=False,
        split=question.split,
    )


def problem_of(
    sheet: Sheet, known: Mapping[str, Shares], anchor: Mapping[str, Shares] | None
) -> Problem:
    """Answers and shares of a target on the train questions.

    Raises:
        InputError: The target has shares for none of them.
    """
    train = sheet.positions(known, "train")
    if train.size == 0:
        raise InputError("split", "a target has shares for none of the train questions")
    return Problem(
        x=sheet.rows(train),
        y=sheet.shares(known, train),
        question_ids=sheet.ids(train),
        sizes=sheet.sizes(train),
        persona_ids=sheet.personas,
        anchor_file=None if anchor is None else sheet.shares(anchor, train),
        groups=sheet.blocks(train),
    )


def read_anchor(root: Path, weighting: Weighting) -> Mapping[str, Shares] | None:
    """Shares of an outside source by question, where the settings name one."""
    file = weighting.anchor_file
    if file is None:
        return None
    survey = read_survey((root / file.path).read_bytes(), file.path)
    return survey.targets[POPULATION]


def choose_active(
    replies: Mapping[str, Sequence[ReplyRow]],
    train: Sequence[Question],
    elicitation: Elicitation,
    weighting: Weighting,
    targets: Targets,
    by: str,
    seed: int,
) -> set[str]:
    """Ids of the personas whom the fits on the train questions give weight for any target."""
    answers = answers_of(replies, train, elicitation)
    sheet = make_sheet(answers, train, weighting.cleaning, targets.refused, by)
    ensemble = cast("Ensemble", weighting.ensemble.make())
    active: set[str] = set()
    for name in chosen_targets(targets.shares, weighting.targets):
        fit = ensemble.fit(problem_of(sheet, targets.shares[name], None), seed)
        active |= {p for p, w in zip(sheet.personas, fit.weights, strict=True) if w != 0}
    return active
