"""Cleaning: what happens where a persona gave no answer, by one stated policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from quorum.errors import InputError, RefusedError, SettingsError
from quorum.reconstruction.ensembles.base import (
    SUM_TOLERANCE,
    FloatArray,
    IntArray,
    rows_of_questions,
    starts_of,
)

CleaningPolicy = Literal[
    "impute_pool", "drop_respondent", "drop_question", "refusal_as_option", "strict"
]
POLICIES: tuple[CleaningPolicy, ...] = (
    "impute_pool",
    "drop_respondent",
    "drop_question",
    "refusal_as_option",
    "strict",
)
REFUSED = "refused"  # the reason that refusal_as_option looks for
MISSING = "missing"  # the reason where none was given
NO_ANSWERS = "persona_without_answers"  # a persona that answered nothing is left out
NO_ANSWERERS = "question_without_answers"  # a question that nobody answered is left out


@dataclass(frozen=True, slots=True, eq=False)
class Cleaned:
    """Answers without gaps.

    Args:
        x: Shape (R', N'); columns sum to 1 inside a question.
        sizes: Options of each question kept; one more each with ``refusal_as_option``.
        kept_questions: Positions in what came in.
        kept_personas: Positions in what came in.
        n_imputed: Answers filled with the pool's mean.
        counts: Answers lacking by reason, personas and questions left out; {reason, n}, sorted.
        policy: Which one.
    """

    x: FloatArray
    sizes: tuple[int, ...]
    kept_questions: IntArray
    kept_personas: IntArray
    n_imputed: int
    counts: tuple[Mapping[str, object], ...]
    policy: CleaningPolicy


def clean(
    answers: FloatArray,
    sizes: Sequence[int],
    question_ids: Sequence[str],
    persona_ids: Sequence[str],
    policy: CleaningPolicy,
    reasons: Mapping[tuple[str, str], str] | None = None,
) -> Cleaned:
    """Answers of all questions without gaps; call it once, before questions are split.

    ``impute_pool`` fills a gap with the mean answer of those who answered; ``drop_respondent``
    keeps complete personas; ``drop_question`` keeps questions that all answered;
    ``refusal_as_option`` adds an option "refused" to every question, fills other gaps with the
    mean; ``strict`` refuses any gap. A persona without any answer, and (but for strict) a question
    without any, are left out and counted.

    Args:
        answers: Shape (R, N); NaN in all options of a question where there is no answer.
        sizes: Number of options of each question.
        question_ids: One a question.
        persona_ids: One a persona.
        policy: See above.
        reasons: (persona id, question id) → why an answer lacks; ``refused`` counts as a refusal.

    Raises:
        InputError: Shapes do not fit, an answer has gaps inside a question or does not sum to 1,
            or nothing is left.
        RefusedError: ``strict`` and an answer lacks.
        SettingsError: No such policy.
    """
    if policy not in POLICIES:
        allowed = ", ".join(POLICIES)
        raise SettingsError("cleaning", "unknown name", got=policy, allowed=allowed)
    is_missing = _missing(answers, sizes, question_ids, persona_ids)
    why = [
        [_reason(reasons, p, q) if is_missing[j, i] else "" for i, p in enumerate(persona_ids)]
        for j, q in enumerate(question_ids)
    ]
    counts = Counter(reason for row in why for reason in row if reason)
    if policy == "strict" and counts:
        question, persona = np.argwhere(is_missing)[0]
        raise RefusedError(
            f"cleaning=strict: persona {persona_ids[persona]}, question {question_ids[question]}",
            f"one of {int(is_missing.sum())} answers that lack",
            got=why[question][persona],
            mend="Choose another cleaning",
        )
    is_refusal = np.array(why, dtype=object).reshape(is_missing.shape) == REFUSED
    has_answer = ~is_missing | (is_refusal if policy == "refusal_as_option" else False)
    questions, personas = _kept(has_answer, policy)
    for reason, n in (
        (NO_ANSWERS, int((~has_answer.any(axis=0)).sum())),
        (NO_ANSWERERS, int((~has_answer.any(axis=1)).sum()) if policy != "drop_question" else 0),
    ):
        if n:
            counts[reason] = n
    rows = rows_of_questions(tuple(sizes), questions)
    x, kept_sizes = answers[np.ix_(rows, personas)], tuple(sizes[q] for q in questions)
    if policy == "refusal_as_option":
        x, kept_sizes = _with_refusals(x, kept_sizes, is_refusal[np.ix_(questions, personas)])
    x, n_imputed = _imputed(x, kept_sizes)
    listed = tuple({"reason": reason, "n": counts[reason]} for reason in sorted(counts))
    return Cleaned(x, kept_sizes, questions, personas, n_imputed, listed, policy)


def shares_with_refusal(
    y: FloatArray, sizes: Sequence[int], question_ids: Sequence[str], refused: Mapping[str, float]
) -> FloatArray:
    """The population's shares with one more option a question: (1 − r) y, then r.

    Args:
        y: Shares among those who answered, shape (R,).
        sizes: Options of each question, without the refusal.
        question_ids: One a question.
        refused: Share r of everybody who refused, by question id.

    Raises:
        InputError: A question's share of refusals lacks or is outside [0, 1].
    """
    pieces = []
    for name, start, size in zip(question_ids, starts_of(tuple(sizes)), sizes, strict=True):
        share = refused.get(name)
        if share is None or not 0 <= share <= 1:
            raise InputError(
                f"survey: question {name}",
                "refusal_as_option needs the share of refusals",
                got="nothing" if share is None else share,
                allowed="0 to 1",
            )
        pieces += [y[start : start + size] * (1.0 - share), np.array([share])]
    return np.concatenate(pieces)


def _reason(reasons: Mapping[tuple[str, str], str] | None, persona: str, question: str) -> str:
    return (reasons or {}).get((persona, question)) or MISSING


def _missing(
    answers: FloatArray, sizes: Sequence[int], questions: Sequence[str], personas: Sequence[str]
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Whether an answer lacks, shape (Q, N); refuses what is neither an answer nor none."""
    shape = (sum(sizes), len(personas))
    if answers.shape != shape or len(sizes) != len(questions) or 0 in shape:
        raise InputError("responses", "shapes do not fit", got=answers.shape, allowed=f"{shape}")
    starts = starts_of(tuple(sizes))
    n_gaps = np.add.reduceat(np.isnan(answers).astype(int), starts, axis=0)
    sums = np.add.reduceat(answers, starts, axis=0)
    is_missing = n_gaps == np.array(sizes)[:, None]
    is_low = np.minimum.reduceat(answers, starts, axis=0) < 0
    is_bad = ~is_missing & ((n_gaps > 0) | ~(np.abs(sums - 1.0) <= SUM_TOLERANCE) | is_low)
    if is_bad.any():
        question, persona = np.argwhere(is_bad)[0]
        raise InputError(
            f"responses: persona {personas[persona]}, question {questions[question]}",
            "no distribution over the options",
            got=answers[starts[question] : starts[question] + sizes[question], persona].tolist(),
            allowed="shares with sum 1, or none at all",
        )
    return np.asarray(is_missing, np.bool_)


def _kept(
    has_answer: np.ndarray[tuple[int, int], np.dtype[np.bool_]], policy: CleaningPolicy
) -> tuple[IntArray, IntArray]:
    """Positions of the questions and personas that stay."""
    personas = np.nonzero(has_answer.any(axis=0))[0]
    questions = np.nonzero(has_answer.any(axis=1))[0]
    if policy == "drop_respondent":
        personas = np.nonzero(has_answer[questions].all(axis=0))[0]
    if policy == "drop_question":
        questions = np.nonzero(has_answer[:, personas].all(axis=1))[0]
    for what, kept in (("persona", personas), ("question", questions)):
        if kept.size == 0:
            raise InputError(
                f"cleaning={policy}",
                f"no {what} is left",
                mend="Look at the reasons in the replies, or choose cleaning=impute_pool",
            )
    return questions.astype(np.int64), personas.astype(np.int64)


def _with_refusals(
    x: FloatArray,
    sizes: tuple[int, ...],
    is_refusal: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
) -> tuple[FloatArray, tuple[int, ...]]:
    pieces = []
    for q, (start, size) in enumerate(zip(starts_of(sizes), sizes, strict=True)):
        answers = x[start : start + size]
        refusal = np.where(np.isnan(answers[0]), np.nan, 0.0)
        answers = np.where(is_refusal[q], 0.0, answers)
        pieces += [answers, np.where(is_refusal[q], 1.0, refusal)[None]]
    return np.vstack(pieces), tuple(size + 1 for size in sizes)


def _imputed(x: FloatArray, sizes: tuple[int, ...]) -> tuple[FloatArray, int]:
    gaps = np.isnan(x)
    if not gaps.any():
        return x, 0
    means = np.nanmean(x, axis=1)
    n = int(gaps[starts_of(sizes)].sum())
    return np.where(gaps, means[:, None], x), n
