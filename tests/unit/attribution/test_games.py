"""The games' closed forms, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.attribution import games


def test_tables_are_indexed_by_the_little_endian_bitmask() -> None:
    assert games.additive([1, 2, 4]).table().tolist() == list(range(8))


def test_glove_pays_for_a_left_and_a_right_one() -> None:
    assert games.glove().table().tolist() == [0, 0, 0, 1, 0, 1, 0, 1]


def test_majority_pays_for_more_than_half() -> None:
    assert games.majority(3).table().tolist() == [0, 0, 0, 1, 0, 1, 1, 1]


def test_quadratic_pays_the_sum_and_a_fifth_of_its_square_over_n() -> None:
    assert games.quadratic(2).table().tolist() == pytest.approx([0, 1.1, 2.4, 3.9])


def test_values_of_unanimity_terms_add_up() -> None:
    game = games.sum_of_unanimity(3, [([0, 1], 1.0), ([1], 2.0), ([0, 1, 2], 3.0)])
    np.testing.assert_allclose(game.shapley, [1.5, 3.5, 1.0])
    np.testing.assert_allclose(game.banzhaf, [0.5 + 0.75, 0.5 + 2 + 0.75, 0.75])


def test_a_random_game_is_the_same_for_the_same_seed() -> None:
    one, other = games.random_unanimity(6, 9, 4, seed=3), games.random_unanimity(6, 9, 4, seed=3)
    np.testing.assert_array_equal(one.table(), other.table())
