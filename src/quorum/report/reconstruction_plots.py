"""Rows for DVC's plots of a reconstruction: entropies, predictions, the cross-validation curve."""

from __future__ import annotations

import math
from collections.abc import Mapping

from quorum.report.escape import visible_label
from quorum.report.reconstruction_document import read_diagnostics
from quorum.report.tables import Cell

ENTROPY_COLUMNS = ("round", "n_personas", "entropy")
MODE_ENTROPY_COLUMNS = ("round", "mode", "n", "entropy", "shrunken", "probability")
QUESTION_ENTROPY_COLUMNS = ("round", "question", "entropy")
PREDICTION_COLUMNS = (
    "target",
    "question",
    "option",
    "label",
    "split",
    "target_share",
    "low",
    "high",
    "pool_mean",
    "predicted",
)
CV_COLUMNS = ("target", "anchor", "lam", "log10_lam", "is_chosen", "low", "high", "mse")


def entropy_rows(diagnostics: Mapping[str, object]) -> list[dict[str, Cell]]:
    """A row a round of active generation, columns ENTROPY_COLUMNS: entropy 0..1 of all personas.

    Raises:
        InputError: The object is not the diagnostics of a reconstruction; so for all functions.
    """
    entropy = read_diagnostics(diagnostics).entropy
    rows = entropy.aggregate if entropy else ()
    return [dict(zip(ENTROPY_COLUMNS, row, strict=True)) for row in rows]


def mode_entropy_rows(diagnostics: Mapping[str, object]) -> list[dict[str, Cell]]:
    """A row a round and mode, columns MODE_ENTROPY_COLUMNS; null where the mode has no persona."""
    entropy = read_diagnostics(diagnostics).entropy
    rows = entropy.modes if entropy else ()
    return [dict(zip(MODE_ENTROPY_COLUMNS, row, strict=True)) for row in rows]


def question_entropy_rows(diagnostics: Mapping[str, object]) -> list[dict[str, Cell]]:
    """A row a round and question, columns QUESTION_ENTROPY_COLUMNS."""
    entropy = read_diagnostics(diagnostics).entropy
    rows = entropy.questions if entropy else ()
    return [dict(zip(QUESTION_ENTROPY_COLUMNS, row, strict=True)) for row in rows]


def prediction_rows(diagnostics: Mapping[str, object]) -> list[dict[str, Cell]]:
    """A row a target, question and option, columns PREDICTION_COLUMNS; shares 0..1.

    ``predicted`` is of the primary policy, ``low`` and ``high`` its interval; ``label`` (question,
    option label, beginning of the text) is unique within a target; a sealed target is null.
    """
    read = read_diagnostics(diagnostics)
    return [
        {
            "target": target.name,
            "question": question.id,
            "option": option.label,
            "label": f"{question.id} {option.label}: {visible_label(option.text, limit=24)}",
            "split": question.split,
            "target_share": option.target,
            "low": option.low,
            "high": option.high,
            "pool_mean": option.pool_mean,
            "predicted": option.predicted.get(read.policy),
        }
        for target in read.targets
        for question in target.questions
        for option in question.options
    ]


def cv_rows(diagnostics: Mapping[str, object]) -> list[dict[str, Cell]]:
    """A row a target, anchor and λ, columns CV_COLUMNS; ``low`` and ``high`` are MSE ∓ 1 SE.

    ``log10_lam`` is null at λ = 0.
    """
    return [
        {
            "target": target.name,
            "anchor": point.anchor,
            "lam": point.lam,
            "log10_lam": math.log10(point.lam) if point.lam else None,
            "is_chosen": int(point.is_chosen),
            "low": None if point.mse is None or point.se is None else point.mse - point.se,
            "high": None if point.mse is None or point.se is None else point.mse + point.se,
            "mse": point.mse,
        }
        for target in read_diagnostics(diagnostics).targets
        for point in target.cv
    ]
