"""One target: its fit, its predictions, and how near they come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from quorum.config.reconstruction_views import ScoreView
from quorum.errors import InputError
from quorum.pipeline.reconstruction.weights import Sheet, problem_of
from quorum.reconstruction.ensembles.base import Ensemble, FloatArray
from quorum.reconstruction.metrics import question_metrics
from quorum.reconstruction.policies import PolicyName
from quorum.reconstruction.reconstruct import (
    Evaluation,
    Reconstruction,
    Rows,
    evaluate,
    reconstruct,
)
from quorum.reconstruction.survey import Question, Shares

POOL_BASELINES = ("pool_mean", "equal_weights")
NOT_EVERYBODY = "test questions were asked of personas with weight only"
Row = dict[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A target's fit with all that was made of it.

    Args:
        name: The target.
        found: Weights and predictions, made without test targets.
        evaluation: What compares them with shares.
        y_test: Shares of the test questions; None while sealed.
        questions: By id.
        known: Shares (with their n) of the target by question; test questions only if open.
        asked_all: Whether everybody was asked the test questions.
    """

    name: str
    found: Reconstruction
    evaluation: Evaluation
    y_test: FloatArray | None
    questions: Mapping[str, Question]
    known: Mapping[str, Shares]
    asked_all: bool

    @property
    def weights(self) -> FloatArray:
        """Ensemble weights, in the order of the sheet's personas."""
        return self.found.fit.weights

    def sides(self) -> list[tuple[str, Rows, FloatArray | None]]:
        """Train and test: predictions, and shares where they may be read."""
        return [
            ("train", self.found.train, self.found.y_train),
            ("test", self.found.test, self.y_test),
        ]

    def records(self) -> list[Row]:
        """Metric records; a baseline that needs everybody's answers is null without them."""
        return [self._checked(dict(record)) for record in self.evaluation.records]

    def paired(self) -> list[Row]:
        """Paired differences to the baselines."""
        rows = []
        for record in self.evaluation.paired:
            row = dict(record)
            if row["split"] == "test" and row["against"] == "pool_mean" and not self.asked_all:
                row |= {"difference": None, "low": None, "high": None, "reason": NOT_EVERYBODY}
            rows.append(row)
        return rows

    def _checked(self, record: Row) -> Row:
        needs_all = record["split"] == "test" and record["source"] in POOL_BASELINES
        if needs_all and not self.asked_all and record["value"] is not None:
            return {**record, "value": None, "reason": NOT_EVERYBODY}
        return record

    def prediction_rows(self) -> list[Row]:
        """A row a question, option and policy."""
        rows: list[Row] = []
        for split, side, y in self.sides():
            for question, start in zip(side.question_ids, _starts(side), strict=True):
                for k, option in enumerate(self.questions[question].options):
                    row = start + k
                    for n, (policy, prediction) in enumerate(side.policies.items()):
                        rows.append(
                            {
                                "target": self.name,
                                "question_id": question,
                                "split": split,
                                "option_label": option.label,
                                "policy": policy,
                                "share": None if y is None else float(y[row]),
                                "predicted": float(prediction.values[row]),
                                "low": float(side.low[row]) if n == 0 else None,
                                "high": float(side.high[row]) if n == 0 else None,
                                "pool_mean": self._pool_mean(split, side, row),
                            }
                        )
        return rows

    def question_rows(self) -> list[Row]:
        """A row a question, with its options: what the pages show."""
        rows: list[Row] = []
        for split, side, y in self.sides():
            numbers = None if y is None else question_metrics(y, side.primary.values, side.sizes)
            for k, (name, start) in enumerate(zip(side.question_ids, _starts(side), strict=True)):
                question, shares = self.questions[name], self.known.get(name)
                told: Row = {"mse": None, "total_variation": None, "is_modal_right": None}
                if numbers is not None:
                    told = {
                        "mse": float(numbers.mse[k]),
                        "total_variation": float(numbers.total_variation[k]),
                        "is_modal_right": bool(numbers.modal[k] == 1.0),
                    }
                rows.append(
                    {
                        "id": name,
                        "text": question.text,
                        "topic": question.topic or "",
                        "split": split,
                        "ordinal": question.ordinal,
                        "n": None if shares is None else shares.n,
                        **told,
                        "reason": "sealed" if numbers is None else None,
                        "options": [
                            self._option(split, side, y, question, start, j)
                            for j in range(len(question.options))
                        ],
                    }
                )
        return rows

    def _option(
        self, split: str, side: Rows, y: FloatArray | None, question: Question, start: int, j: int
    ) -> Row:
        row = start + j
        return {
            "label": question.options[j].label,
            "text": question.options[j].text,
            "target": None if y is None else float(y[row]),
            "low": float(side.low[row]),
            "high": float(side.high[row]),
            "pool_mean": self._pool_mean(split, side, row),
            "predicted": {name: float(p.values[row]) for name, p in side.policies.items()},
        }

    def _pool_mean(self, split: str, side: Rows, row: int) -> float | None:
        if split == "test" and not self.asked_all:
            return None
        return float(side.baselines["pool_mean"][row])


def _starts(side: Rows) -> list[int]:
    return [int(start) for start in np.cumsum([0, *side.sizes[:-1]])]


def fit_target(
    name: str,
    sheet: Sheet,
    train: Mapping[str, Shares],
    test: Mapping[str, Shares] | None,
    anchor: Mapping[str, Shares] | None,
    view: ScoreView,
    *,
    asked_all: bool,
) -> Fitted:
    """Weights for a target, and how near their predictions come.

    Args:
        name: The target.
        sheet: Answers without gaps.
        train: The target's shares of train questions.
        test: Of test questions; None while sealed: predictions are made for all of them.
        anchor: Shares of an outside source, where the settings name one.
        view: Settings of ``score``.
        asked_all: Whether everybody was asked the test questions.

    Raises:
        InputError: The target has shares for no question of one side.
    """
    problem = problem_of(sheet, train, anchor)
    if test is None:
        asked = [i for i, q in enumerate(sheet.questions) if q.split == "test"]
        positions = np.array(asked, np.int64)
    else:
        positions = sheet.positions(test, "test")
    if positions.size == 0:
        raise InputError(f"target {name}", "has shares for none of the test questions")
    found = reconstruct(
        problem,
        sheet.rows(positions),
        sheet.sizes(positions),
        sheet.ids(positions),
        cast("Ensemble", view.weighting.ensemble.make()),
        cast("tuple[PolicyName, ...]", view.policies),
        view.level,
        view.seed,
        anchor_file_test=None if anchor is None else sheet.shares(anchor, positions),
    )
    y_test = None if test is None else sheet.shares(test, positions)
    questions = {q.id: q for q in sheet.questions}
    known = {**train, **(test or {})}
    evaluation = evaluate(
        found,
        y_test,
        target=name,
        ordinal={q.id: q.ordinal for q in sheet.questions},
        n={q: shares.n for q, shares in known.items()},
        test_blocks=sheet.blocks(positions),
    )
    return Fitted(name, found, evaluation, y_test, questions, known, asked_all)
