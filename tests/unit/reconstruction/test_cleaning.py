"""Gaps in the answers are treated by one stated policy, and every one of them is counted."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.errors import InputError, RefusedError, SettingsError
from quorum.reconstruction.cleaning import clean, shares_with_refusal

NAN = float("nan")
QUESTIONS, PEOPLE, SIZES = ("q1", "q2"), ("p1", "p2", "p3"), (2, 3)
# p1 skipped q2, p3 refused q1 (case 74)
ANSWERS = np.array(
    [
        [1.0, 0.0, NAN],
        [0.0, 1.0, NAN],
        [NAN, 0.5, 0.1],
        [NAN, 0.5, 0.3],
        [NAN, 0.0, 0.6],
    ]
)
REASONS = {("p3", "q1"): "refused", ("p1", "q2"): "unparsed"}
BOTH = ({"reason": "refused", "n": 1}, {"reason": "unparsed", "n": 1})


def test_a_gap_is_filled_with_the_mean_of_those_who_answered() -> None:
    found = clean(ANSWERS, SIZES, QUESTIONS, PEOPLE, "impute_pool", REASONS)
    np.testing.assert_allclose(found.x[:2, 2], [0.5, 0.5])
    np.testing.assert_allclose(found.x[2:, 0], [0.3, 0.4, 0.3])
    assert found.n_imputed == 2
    assert found.counts == BOTH


def test_only_complete_personas_stay() -> None:
    found = clean(ANSWERS, SIZES, QUESTIONS, PEOPLE, "drop_respondent", REASONS)
    assert found.kept_personas.tolist() == [1]
    np.testing.assert_array_equal(found.x[:, 0], ANSWERS[:, 1])
    assert found.counts == BOTH


def test_only_questions_that_all_answered_stay() -> None:
    answers = np.vstack([ANSWERS, [[0.2, 0.3, 0.4], [0.8, 0.7, 0.6]]])
    found = clean(answers, (2, 3, 2), ("q1", "q2", "q3"), PEOPLE, "drop_question")
    assert found.kept_questions.tolist() == [2]
    assert found.sizes == (2,)
    assert found.counts == ({"reason": "missing", "n": 2},)


def test_a_refusal_becomes_an_option_and_another_gap_does_not() -> None:
    found = clean(ANSWERS, SIZES, QUESTIONS, PEOPLE, "refusal_as_option", REASONS)
    assert found.sizes == (3, 4)
    np.testing.assert_array_equal(found.x[:3, 2], [0, 0, 1])
    np.testing.assert_array_equal(found.x[2, :2], [0, 0])
    np.testing.assert_allclose(found.x[3:, 0], [0.3, 0.4, 0.3, 0.0])  # unparsed: the mean
    assert found.n_imputed == 1


def test_the_populations_shares_get_the_same_option() -> None:  # case 59
    y = np.array([0.565217, 0.434783])
    found = shares_with_refusal(y, (2,), ("q1",), {"q1": 0.08})
    np.testing.assert_allclose(found, [0.52, 0.40, 0.08], atol=1e-6)
    with pytest.raises(InputError, match="question q1: refusal_as_option needs the share"):
        shares_with_refusal(y, (2,), ("q1",), {})


def test_strict_names_the_first_gap_and_their_number() -> None:
    with pytest.raises(RefusedError, match="persona p3, question q1: one of 2 answers"):
        clean(ANSWERS, SIZES, QUESTIONS, PEOPLE, "strict", REASONS)
    found = clean(ANSWERS[:, 1:2], SIZES, QUESTIONS, ("p2",), "strict")
    assert found.counts == ()


@pytest.mark.parametrize("policy", ["impute_pool", "refusal_as_option", "drop_respondent"])
def test_a_silent_persona_and_a_question_without_answers_are_left_out_and_counted(
    policy: str,
) -> None:
    answers = ANSWERS.copy()
    answers[:, 2] = NAN  # p3 says nothing
    answers[2:] = NAN  # nobody answers q2
    found = clean(answers, SIZES, QUESTIONS, PEOPLE, policy)  # type: ignore[arg-type]
    assert found.kept_personas.tolist() == [0, 1]
    assert found.kept_questions.tolist() == [0]
    assert {"reason": "persona_without_answers", "n": 1} in found.counts
    assert {"reason": "question_without_answers", "n": 1} in found.counts
    assert np.isfinite(found.x).all()


def test_columns_sum_to_one_after_every_policy() -> None:
    for policy in ("impute_pool", "drop_respondent", "refusal_as_option"):
        found = clean(ANSWERS, SIZES, QUESTIONS, PEOPLE, policy, REASONS)  # type: ignore[arg-type]
        starts = np.cumsum((0, *found.sizes[:-1]))
        np.testing.assert_allclose(np.add.reduceat(found.x, starts, axis=0), 1)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([0.5, NAN, 0.2, 0.3, 0.5], "persona p9, question q1: no distribution"),
        ([0.5, 0.4, 0.2, 0.3, 0.5], "persona p9, question q1: no distribution"),
        ([1.0, 0.0, -0.2, 0.7, 0.5], "persona p9, question q2: no distribution"),
        ([NAN] * 5, "no persona is left"),
    ],
)
def test_what_is_neither_an_answer_nor_none_is_refused(column: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        clean(np.array(column)[:, None], SIZES, QUESTIONS, ("p9",), "impute_pool")


def test_nothing_left_and_an_unknown_policy_are_named() -> None:
    with pytest.raises(InputError, match="drop_question: no question is left"):
        clean(ANSWERS, SIZES, QUESTIONS, PEOPLE, "drop_question")
    with pytest.raises(SettingsError, match="unknown name, got 'guess'"):
        clean(ANSWERS, SIZES, QUESTIONS, PEOPLE, "guess")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="shapes do not fit"):
        clean(ANSWERS[:4], SIZES, QUESTIONS, PEOPLE, "strict")
