"""Deletion and insertion curves, on games small enough to follow by hand."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from quorum.attribution.faithfulness import curves

ALL_3 = np.array(list(itertools.product([False, True], repeat=3)))
WEIGHTS = np.array([1.0, 3.0, 2.0])


def payoffs_of(curve) -> list[float | None]:
    assert [p["k"] for p in curve["points"]] == list(range(len(curve["points"])))
    return [p["payoff"] for p in curve["points"]]


def test_additive_game_of_weights_1_3_2():
    result = curves(ALL_3, ALL_3 @ WEIGHTS, WEIGHTS)
    assert payoffs_of(result["deletion"]) == [6, 3, 1, 0]
    assert payoffs_of(result["insertion"]) == [0, 3, 5, 6]
    # trapezoids of width 1/3: (6+3)/2 + (3+1)/2 + (1+0)/2 = 7, (0+3)/2 + (3+5)/2 + (5+6)/2 = 11
    assert result["deletion"]["area"] == pytest.approx(7 / 3)
    assert result["insertion"]["area"] == pytest.approx(11 / 3)
    assert result["deletion"]["coverage"] == result["insertion"]["coverage"] == 1.0
    assert result["deletion"]["reason"] is None


def test_equal_values_go_in_the_order_of_players():
    result = curves(ALL_3, ALL_3 @ WEIGHTS, np.zeros(3))
    assert payoffs_of(result["deletion"]) == [6, 5, 2, 0]
    assert payoffs_of(result["insertion"]) == [0, 1, 4, 6]


def test_order_of_rows_does_not_matter():
    straight = curves(ALL_3, ALL_3 @ WEIGHTS, WEIGHTS)
    assert curves(ALL_3[::-1], (ALL_3 @ WEIGHTS)[::-1], WEIGHTS) == straight


def test_points_not_paid_for_are_null_and_too_few_give_no_area():
    rows = np.array([[0, 0, 0], [1, 1, 1], [0, 1, 0]], dtype=bool)
    result = curves(rows, rows @ WEIGHTS, WEIGHTS)
    assert payoffs_of(result["insertion"]) == [0, 3, None, 6]
    assert result["insertion"]["coverage"] == 0.75
    assert result["insertion"]["area"] is None
    assert result["insertion"]["reason"] == "3 of 4 points are paid for, under 80%"
    assert payoffs_of(result["deletion"]) == [6, None, None, 0]


def test_with_80_percent_the_area_goes_straight_across_the_gap():
    values = np.array([4.0, 3.0, 2.0, 1.0])
    rows = np.tri(5, 4, -1).astype(bool)  # 0000, 1000, 1100, 1110, 1111
    kept = rows[[0, 1, 3, 4]]
    result = curves(kept, np.array([0.0, 1.0, 3.0, 4.0]), values)["insertion"]
    assert payoffs_of(result) == [0, 1, None, 3, 4]
    assert result["coverage"] == 0.8
    assert result["area"] == pytest.approx(2.0)  # the line from 0 to 4


def test_an_unknown_end_gives_no_area():
    rows = np.tri(5, 4, -1).astype(bool)[:4]
    result = curves(rows, np.arange(4.0), np.array([4.0, 3.0, 2.0, 1.0]))["insertion"]
    assert result["coverage"] == 0.8
    assert result["area"] is None
    assert result["reason"] == "the payoff at an end of the curve is unknown"


def test_one_player_and_plain_json():
    rows = np.array([[False], [True]])
    result = curves(rows, np.array([0.5, 1.0]), np.array([0.5]))
    assert result["deletion"]["area"] == 0.75
    assert json.loads(json.dumps(result)) == result
