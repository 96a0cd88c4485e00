"""Stage ``partition``: a survey's questions are checked and split into train and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from quorum.config.reconstruction_views import PartitionView, SurveyFiles
from quorum.config.view import InputFile
from quorum.errors import InputError
from quorum.pipeline import artifacts
from quorum.pipeline.reconstruction.questions import (
    SPLIT,
    Targets,
    sides,
    write_questions,
    write_targets,
)
from quorum.reconstruction.joins import read_refused, with_groups
from quorum.reconstruction.reading import read_survey
from quorum.reconstruction.shares import ReadingRules
from quorum.reconstruction.split import largest_similarity, select_questions, split_questions
from quorum.reconstruction.survey import Question, Shares, Survey


@dataclass(frozen=True, slots=True)
class Prepared:
    """A survey, read and split.

    Args:
        questions: Those that are asked, each with its side of the split.
        targets: Target → question → shares, of all questions that are asked.
        refused: Share of refusals by question, where the survey tells.
        split: How the split was made, for ``split.json``.
    """

    questions: tuple[Question, ...]
    targets: Mapping[str, Mapping[str, Shares]]
    refused: Mapping[str, float]
    split: Mapping[str, object]


def run(root: Path) -> None:
    """Reads the chosen survey and writes questions, targets and split."""
    view = PartitionView.read(root)
    write(prepare(root, view), artifacts.fresh_folder(root / artifacts.PARTITION))


def prepare(root: Path, view: PartitionView) -> Prepared:
    """The chosen survey, its questions split.

    Raises:
        InputError: A file cannot be read.
        SettingsError: The split cannot be made.
    """
    survey, refused = read_files(root, view.files)
    rules = view.split
    chosen = select_questions(
        survey.questions, rules.max_questions, view.seed, exclude=rules.exclude
    )
    split = split_questions(chosen, cast("Any", rules.by), rules.train_share, view.seed)
    questions = tuple(replace(q, split=split[q.id]) for q in chosen)
    n_train = sum(q.split == "train" for q in questions)
    similarity, first, second = largest_similarity(questions, split)
    return Prepared(
        questions=questions,
        targets=survey.targets,
        refused=refused,
        split={
            "by": rules.by,
            "train_share": rules.train_share,
            "seed": view.seed,
            "n_questions_in_survey": len(survey.questions),
            "n_train": n_train,
            "n_test": len(questions) - n_train,
            "largest_similarity": similarity,
            "pair": [first, second],
            "notes": list(survey.notes),
        },
    )


def read_files(root: Path, files: SurveyFiles) -> tuple[Survey, dict[str, float]]:
    """The survey with the targets of its groups, and its shares of refusals."""
    rules = ReadingRules(**cast("dict[str, Any]", files.reading))
    survey = read_survey(_content(root, files.survey), files.survey.path, rules)
    if files.groups is not None:
        content = _content(root, files.groups)
        survey = with_groups(survey, content, files.groups.path, rules)
    refused: dict[str, float] = {}
    if files.refused is not None:
        refused = read_refused(_content(root, files.refused), files.refused.path, survey, rules)
    return survey, refused


def _content(root: Path, file: InputFile) -> bytes:
    try:
        return (root / file.path).read_bytes()
    except FileNotFoundError as error:
        raise InputError(file.path, "no such file", mend="git checkout, or dvc pull") from error


def write(prepared: Prepared, folder: Path) -> None:
    """Writes questions, targets of both sides, and how the split was made."""
    write_questions(folder, prepared.questions)
    targets = Targets(prepared.targets, prepared.refused)
    by_side = sides(prepared.questions)
    write_targets(folder, "train", by_side["train"], targets)
    write_targets(folder, "test", by_side["test"], targets)
    artifacts.write_text(folder / SPLIT, artifacts.json_text(dict(prepared.split)))
