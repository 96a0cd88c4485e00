from __future__ import annotations

import math
import random

import pytest

from quorum.reconstruction.entropy import (
    aim_probabilities,
    mean_answer,
    mean_entropy,
    mode_probabilities,
    normalised_entropy,
    question_entropy,
    shrunken_entropies,
)


def test_a_consensus_has_entropy_0_a_uniform_answer_1_and_nobody_none():
    assert question_entropy([(1.0, 0.0, 0.0)] * 5) == 0.0
    assert question_entropy([(1 / 3, 1 / 3, 1 / 3)]) == pytest.approx(1.0, abs=1e-15)
    assert question_entropy([]) is None
    assert mean_answer([]) is None
    assert mean_entropy([]) is None
    assert mean_entropy([None, None]) is None


def test_opposite_personas_are_as_uniform_as_undecided_ones():
    assert question_entropy([(1.0, 0.0), (0.0, 1.0)]) == 1.0
    assert question_entropy([(0.5, 0.5)]) == 1.0


def test_an_entropy_by_hand():
    # H(3/4, 1/4) / log 2 = 2 - 3/4 log2(3) = 0.811278
    assert normalised_entropy((0.75, 0.25)) == pytest.approx(0.8112781244591328, abs=1e-12)
    assert mean_entropy([1.0, None, 0.5]) == 0.75  # the question without an answer has no part


def test_entropy_stays_in_0_to_1_and_the_order_of_answers_changes_no_bit():
    rng = random.Random(0)
    for _ in range(200):
        n = rng.randint(2, 6)
        answers = []
        for _ in range(rng.randint(1, 30)):
            raw = [rng.random() ** 3 for _ in range(n)]
            answers.append(tuple(r / sum(raw) for r in raw))
        h = question_entropy(answers)
        assert 0.0 <= h <= 1.0
        assert question_entropy(rng.sample(answers, len(answers))) == h


def test_a_mode_of_few_personas_is_drawn_towards_the_mean_of_all():
    # grand mean (1 * 1.0 + 9 * 0.5) / 10 = 0.55; a: (1 * 1 + 1 * 0.55) / 2; b: (4.5 + 0.55) / 10
    found = shrunken_entropies({"a": 1.0, "b": 0.5, "c": None}, {"a": 1, "b": 9, "c": 0}, 1.0)
    assert found == {
        "a": pytest.approx(0.775),
        "b": pytest.approx(0.505),
        "c": pytest.approx(0.55),
    }
    assert shrunken_entropies({"a": 1.0}, {"a": 1}, 0.0) == {"a": 1.0}
    assert shrunken_entropies({"a": None}, {"a": 2}, 5.0) == {"a": None}


def test_modes_are_drawn_by_a_softmax_with_a_floor():
    # softmax(log 3, 0) = (3/4, 1/4); with a floor of 0.2 / 2 each: 0.1 + 0.8 * p
    found = mode_probabilities({"a": 0.1 * math.log(3), "b": 0.0}, 0.1, 0.2)
    assert found == {"a": pytest.approx(0.7), "b": pytest.approx(0.3)}
    assert mode_probabilities({"a": None, "b": None}, 0.1, 0.0) == {"a": 0.5, "b": 0.5}
    assert mode_probabilities({"a": 0.4, "b": None}, 0.1, 0.0) == {"a": 0.5, "b": 0.5}
    extreme = mode_probabilities({"a": 1.0, "b": 0.0}, 1e-6, 0.0)
    assert extreme == {"a": 1.0, "b": 0.0}


def test_flat_questions_are_aimed_at_more_often():
    assert aim_probabilities({"q1": 0.25, "q2": 0.75}) == {"q1": 0.75, "q2": 0.25}
    assert aim_probabilities({"q1": None, "q2": 0.5}) == pytest.approx({"q1": 2 / 3, "q2": 1 / 3})
    assert aim_probabilities({"q1": 1.0, "q2": 1.0}) == {"q1": 0.5, "q2": 0.5}
