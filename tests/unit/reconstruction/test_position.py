from __future__ import annotations

import json
import random

import pytest

from quorum.reconstruction.position import Shown, position_audit


def test_a_model_that_always_says_a_is_found_out():
    """All mass on position 1, in the order and in its reversal: the place is all that counts."""
    answers = [
        Shown("p1", "q1", (0, 1), (1.0, 0.0)),
        Shown("p1", "q1", (1, 0), (1.0, 0.0)),
    ]
    audit = position_audit(answers)
    assert audit["positions"] == [
        {"n_options": 2, "position": 1, "n": 2, "mean": 1.0, "expected": 0.5},
        {"n_options": 2, "position": 2, "n": 2, "mean": 0.0, "expected": 0.5},
    ]
    assert audit["reversal"] == {"mean": 1.0, "n_pairs": 1}
    assert audit["variance"] == {"position": 1.0, "content": 0.0}


def test_a_model_that_reads_the_options_has_no_position_bias():
    answers = [
        Shown("p1", "q1", (0, 1, 2), (0.7, 0.2, 0.1)),
        Shown("p1", "q1", (2, 1, 0), (0.1, 0.2, 0.7)),
    ]
    audit = position_audit(answers)
    assert audit["reversal"]["mean"] == pytest.approx(0.0)
    assert audit["variance"]["content"] == pytest.approx(1.0)
    # position means .4, .2, .4 against 1/3: 2 (1/15)² 2 + 2 (2/15)² = .0533; all .4133
    assert audit["variance"]["position"] == pytest.approx(0.05333333 / 0.41333333, abs=1e-6)


def test_rotations_are_compared_with_one_another_but_are_no_reversal():
    answers = [
        Shown("p1", "q1", (0, 1, 2), (0.5, 0.3, 0.2)),
        Shown("p1", "q1", (1, 2, 0), (0.5, 0.3, 0.2)),
    ]
    audit = position_audit(answers)
    assert audit["reversal"]["mean"] is None
    assert audit["reversal"]["reason"] == "no question was asked in an order and in its reversal"
    # in the question's order (.5, .3, .2) and (.2, .5, .3): half of .3 + .2 + .1
    assert audit["any_order"] == {"mean": pytest.approx(0.3), "n_pairs": 1}


def test_what_cannot_be_said_is_none_with_its_reason():
    audit = position_audit([])
    assert audit["n_answers"] == 0
    assert audit["variance"] == {
        "position": None,
        "content": None,
        "reason": "there is no answer",
    }
    uniform = position_audit([Shown("p1", "q1", (0, 1), (0.5, 0.5))])
    assert uniform["variance"]["reason"] == "every answer is uniform"
    assert uniform["any_order"]["reason"] == "no question was asked in two orders"


def test_the_order_of_the_answers_changes_no_bit_and_the_audit_is_json():
    rng = random.Random(1)
    answers = []
    for persona in range(5):
        for question in range(4):
            for order in ((0, 1, 2), (2, 1, 0)):
                raw = [rng.random() for _ in order]
                probabilities = tuple(r / sum(raw) for r in raw)
                answers.append(Shown(f"p{persona}", f"q{question}", order, probabilities))
    audit = position_audit(answers)
    assert json.dumps(position_audit(rng.sample(answers, len(answers)))) == json.dumps(audit)
    json.dumps(audit, allow_nan=False)
