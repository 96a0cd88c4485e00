"""Questions and targets between the stages.

``partition`` writes ``questions.csv`` (texts, options and side of the split), ``split.json``, and
``targets_train.csv`` and ``targets_test.csv``. What comes before ``score`` reads no test target.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from quorum.pipeline import artifacts
from quorum.reconstruction.survey import Option, Question, Shares

Side = Literal["train", "test"]
QUESTIONS = "questions.csv"
SPLIT = "split.json"
QUESTION_COLUMNS = (
    "question_id",
    "topic",
    "ordinal",
    "split",
    "question_text",
    "option_label",
    "option_text",
)
TARGET_COLUMNS = ("target", "question_id", "option_label", "share", "n", "n_source")
REFUSED_COLUMNS = ("question_id", "share")


@dataclass(frozen=True, slots=True)
class Targets:
    """Shares on one side of the split: target → question → shares; refusals by question."""

    shares: Mapping[str, Mapping[str, Shares]]
    refused: Mapping[str, float]


def sides(questions: Iterable[Question]) -> dict[str, list[Question]]:
    """Questions by side of the split."""
    found: dict[str, list[Question]] = {"train": [], "test": []}
    for question in questions:
        assert question.split is not None
        found[question.split].append(question)
    return found


def split_of(folder: Path) -> str:
    """What the split kept together: ``block`` or ``question``."""
    return str(artifacts.read_json(folder / SPLIT)["by"])


def write_questions(folder: Path, questions: Iterable[Question]) -> None:
    """Writes questions with their side of the split, an option a row."""
    rows = [
        {
            "question_id": q.id,
            "topic": q.topic,
            "ordinal": int(q.ordinal),
            "split": q.split,
            "question_text": q.text,
            "option_label": option.label,
            "option_text": option.text,
        }
        for q in questions
        for option in q.options
    ]
    artifacts.write_text(folder / QUESTIONS, artifacts.csv_text(QUESTION_COLUMNS, rows))


def read_questions(folder: Path) -> tuple[Question, ...]:
    """The questions as ``write_questions`` left them."""
    rows: dict[str, list[dict[str, str]]] = {}
    for row in artifacts.read_csv(folder / QUESTIONS):
        rows.setdefault(row["question_id"], []).append(row)
    return tuple(
        Question(
            id=name,
            text=found[0]["question_text"],
            options=tuple(Option(row["option_label"], row["option_text"]) for row in found),
            topic=found[0]["topic"] or None,
            ordinal=found[0]["ordinal"] == "1",
            split=found[0]["split"],
        )
        for name, found in rows.items()
    )


def write_targets(
    folder: Path, side: Side, questions: Iterable[Question], targets: Targets
) -> None:
    """Writes what the questions of one side of the split are to match."""
    questions = list(questions)
    rows = [
        {
            "target": target,
            "question_id": q.id,
            "option_label": option.label,
            "share": share,
            "n": shares.n,
            "n_source": shares.n_source,
        }
        for target, by_question in sorted(targets.shares.items())
        for q in questions
        if (shares := by_question.get(q.id)) is not None
        for option, share in zip(q.options, shares.shares, strict=True)
    ]
    refused = [
        {"question_id": q.id, "share": targets.refused[q.id]}
        for q in questions
        if q.id in targets.refused
    ]
    artifacts.write_text(folder / f"targets_{side}.csv", artifacts.csv_text(TARGET_COLUMNS, rows))
    artifacts.write_text(
        folder / f"refused_{side}.csv", artifacts.csv_text(REFUSED_COLUMNS, refused)
    )


def read_targets(folder: Path, side: Side) -> Targets:
    """The targets of one side of the split."""
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in artifacts.read_csv(folder / f"targets_{side}.csv"):
        rows.setdefault((row["target"], row["question_id"]), []).append(row)
    shares: dict[str, dict[str, Shares]] = {}
    for (target, question), found in rows.items():
        shares.setdefault(target, {})[question] = Shares(
            shares=tuple(float(row["share"]) for row in found),
            n=float(found[0]["n"]) if found[0]["n"] else None,
            n_source=found[0]["n_source"] or None,
        )
    refused = artifacts.read_csv(folder / f"refused_{side}.csv")
    return Targets(shares, {row["question_id"]: float(row["share"]) for row in refused})
