"""From raw replies to answers, and from answers to a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from quorum.pipeline.reconstruction.replies import BLANK, ReplyRow
from quorum.reconstruction.elicitation import Answer, Elicitation, Reply
from quorum.reconstruction.ensembles.base import FloatArray
from quorum.reconstruction.survey import Question

Answers = dict[str, dict[str, Answer]]  # persona → question → answer


def answers_of(
    replies: Mapping[str, Iterable[ReplyRow]],
    questions: Sequence[Question],
    elicitation: Elicitation,
) -> Answers:
    """Every persona's answer to every question; the replies of nobody calibrate the others."""
    blank = _by_question(replies.get(BLANK, ()))
    found: Answers = {}
    for persona, rows in replies.items():
        if persona == BLANK:
            continue
        given = _by_question(rows)
        found[persona] = {
            q.id: elicitation.read(q, given.get(q.id, []), blank.get(q.id) if blank else None)
            for q in questions
        }
    return found


def matrix(
    answers: Mapping[str, Mapping[str, Answer]],
    questions: Sequence[Question],
    personas: Sequence[str],
) -> FloatArray:
    """Answers as rows (question, option) and columns personas; NaN where one is missing."""
    blocks = []
    for q in questions:
        block = np.full((len(q.options), len(personas)), np.nan)
        for column, persona in enumerate(personas):
            shares = answers[persona][q.id].shares
            if shares is not None:
                block[:, column] = shares
        blocks.append(block)
    return np.vstack(blocks)


def _by_question(rows: Iterable[ReplyRow]) -> dict[str, list[Reply]]:
    found: dict[str, list[Reply]] = {}
    for row in rows:
        found.setdefault(row.question, []).append(Reply(row.order, row.draw, row.generation))
    return found
