"""Stage ``score``: replies become answers, answers become weights; no model is called.

Writes ``responses.csv`` (cleaned answers), ``weights.csv``, ``predictions.csv`` and
``diagnostics.json``. This is the first stage that reads a test target, and not even this one does
where ``split.test`` is ``sealed``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from quorum.config.reconstruction_views import ScoreView
from quorum.errors import BudgetError
from quorum.pipeline import artifacts
from quorum.pipeline.reconstruction import outcome
from quorum.pipeline.reconstruction.answers import Answers, answers_of
from quorum.pipeline.reconstruction.fitting import Fitted, fit_target
from quorum.pipeline.reconstruction.pool import Pool, read_pool
from quorum.pipeline.reconstruction.questions import (
    SPLIT,
    read_questions,
    read_targets,
)
from quorum.pipeline.reconstruction.replies import read_rows
from quorum.pipeline.reconstruction.weights import Sheet, make_sheet, read_anchor
from quorum.reconstruction.elicitation import Elicitation
from quorum.reconstruction.survey import Question, chosen_targets

RESPONSE_COLUMNS = (
    "persona_id",
    "question_id",
    "split",
    "status",
    "rule",
    "reason",
    "option_label",
    "share",
)
WEIGHT_COLUMNS = ("target", "persona_id", "mode", "weight", "text")
PREDICTION_COLUMNS = (
    "target",
    "question_id",
    "split",
    "option_label",
    "policy",
    "share",
    "predicted",
    "low",
    "high",
    "pool_mean",
)


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """What ``score`` found out.

    Args:
        questions: All questions that were asked.
        answers: Every persona's answer to every question.
        sheet: The answers after cleaning.
        fits: One a target.
        pool: Who was asked, and what ``generate`` tells about it.
        split: What ``partition`` tells about the split.
        asked_all: Whether everybody was asked the test questions.
        n_requests: Distinct requests that the answers rest on.
    """

    questions: Sequence[Question]
    answers: Answers
    sheet: Sheet
    fits: Sequence[Fitted]
    pool: Pool
    split: Mapping[str, object]
    asked_all: bool
    n_requests: int


def run(root: Path) -> None:
    """Scores the replies of a run."""
    view = ScoreView.read(root)
    scored = score(root, view)
    folder = artifacts.fresh_folder(root / artifacts.SCORE)
    write(scored, view, folder)


def score(root: Path, view: ScoreView) -> Scored:
    """Answers, cleaned; and a fit for every target."""
    partition = root / artifacts.PARTITION
    questions = read_questions(partition)
    split = artifacts.read_json(partition / SPLIT)
    train = read_targets(partition, "train")
    test = None if view.test == "sealed" else read_targets(partition, "test")
    refused = {**train.refused, **(test.refused if test is not None else {})}
    elicitation = cast("Elicitation", view.elicitation.make())
    replies = read_rows(root / artifacts.GENERATE)
    answers = answers_of(replies, questions, elicitation)
    pool = read_pool(root / artifacts.GENERATE)
    without_weight = _not_asked_test(answers, questions)
    if pool.facts["stop_reason"] == "cap":  # who was not asked all of it is left out
        answers = _without(answers, without_weight)
        without_weight = []
    sheet = make_sheet(
        answers,
        questions,
        view.weighting.cleaning,
        refused,
        str(split["by"]),
        without_weight=without_weight,
    )
    anchor = read_anchor(root, view.weighting)
    names = chosen_targets(train.shares, view.weighting.targets)
    fits = [
        fit_target(
            name,
            sheet,
            train.shares[name],
            None if test is None else test.shares.get(name, {}),
            anchor,
            view,
            asked_all=not without_weight,
        )
        for name in names
    ]
    keys = {row.key for rows in replies.values() for row in rows} - {""}  # people have none
    return Scored(
        questions=questions,
        answers=answers,
        sheet=sheet,
        fits=fits,
        pool=pool,
        split=split,
        asked_all=not without_weight,
        n_requests=len(keys) + len(cast("list[object]", pool.facts["learner"])),
    )


def _without(answers: Answers, personas: Sequence[str]) -> Answers:
    left = {persona: found for persona, found in answers.items() if persona not in set(personas)}
    if not left:
        raise BudgetError(
            "budget.on_cap=partial",
            "the cap was reached before anybody was asked the test questions",
            mend="Raise the cap and run the same command again: what is done is kept",
        )
    return left


def _not_asked_test(answers: Answers, questions: Sequence[Question]) -> list[str]:
    """Personas who were asked no test question at all: a first fit gave them no weight."""
    test = [q.id for q in questions if q.split == "test"]
    return [
        persona
        for persona, found in answers.items()
        if all(found[q].status == "not_asked" for q in test)
    ]


def write(scored: Scored, view: ScoreView, folder: Path) -> None:
    """Writes the tables and the diagnostics."""
    artifacts.write_text(
        folder / "responses.csv", artifacts.csv_text(RESPONSE_COLUMNS, _responses(scored))
    )
    artifacts.write_text(
        folder / "weights.csv", artifacts.csv_text(WEIGHT_COLUMNS, _weights(scored))
    )
    rows = [row for fitted in scored.fits for row in fitted.prediction_rows()]
    artifacts.write_text(folder / "predictions.csv", artifacts.csv_text(PREDICTION_COLUMNS, rows))
    found = outcome.diagnostics(scored, view)
    artifacts.write_text(folder / "diagnostics.json", artifacts.json_text(found))


def _responses(scored: Scored) -> list[dict[str, object]]:
    """An option a row where it has a share; a missing answer is one row with its reason."""
    rows: list[dict[str, object]] = []
    for persona, found in sorted(scored.answers.items()):
        for q in scored.questions:
            answer = found[q.id]
            head = {
                "persona_id": persona,
                "question_id": q.id,
                "split": q.split,
                "status": answer.status,
                "rule": answer.rule or None,
                "reason": answer.reason,
            }
            if answer.shares is None:
                rows.append({**head, "option_label": None, "share": None})
                continue
            rows += [
                {**head, "option_label": option.label, "share": share}
                for option, share in zip(q.options, answer.shares, strict=True)
                if share > 0
            ]
    return rows


def _weights(scored: Scored) -> list[dict[str, object]]:
    by_id = {p.id: p for p in scored.pool.personas}
    return [
        {
            "target": fitted.name,
            "persona_id": persona,
            "mode": by_id[persona].mode,
            "weight": float(weight),
            "text": scored.pool.text(by_id[persona]) or None,
        }
        for fitted in scored.fits
        for persona, weight in zip(scored.sheet.personas, fitted.weights, strict=True)
    ]
