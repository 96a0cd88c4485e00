"""Reading payoffs as pairs, and the stratified mean."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.attribution import games
from quorum.attribution.coalitions import all_coalitions, from_hex
from quorum.attribution.estimators.pairs import read_pairs, stratified_mean
from quorum.errors import InputError


def test_pairs_hold_half_the_difference_of_a_coalition_and_its_complement() -> None:
    rows = from_hex(["0", "f", "1", "e"], 4)
    pairs = read_pairs(rows, np.array([1.0, 9.0, 3.0, 8.0]))
    assert (pairs.empty, pairs.grand, pairs.total) == (1.0, 9.0, 8.0)
    assert pairs.sides.tolist() == [[True, False, False, False]]
    assert pairs.odd.tolist() == [-2.5]  # (3 - 8)/2
    assert pairs.table is None


def test_a_full_table_is_recognised_in_any_order() -> None:
    rows = all_coalitions(3)[::-1]
    pairs = read_pairs(rows, np.arange(8.0)[::-1])
    assert pairs.table is not None
    assert pairs.table.tolist() == list(range(8))


@pytest.mark.parametrize("n", [4, 70])
def test_a_coalition_without_its_complement_is_counted_not_used(n: int) -> None:
    full = (1 << n) - 1
    rows = from_hex([format(k, "x") for k in (full, 3, 0, 1, full - 1)], n)
    pairs = read_pairs(rows, np.array([9.0, 5.0, 0.0, 2.0, 6.0]))
    assert pairs.n_unpaired == 1
    assert pairs.sides.sum() == 1
    assert pairs.odd.tolist() == [-2.0]


@pytest.mark.parametrize(
    ("texts", "payoffs"),
    [
        (["0", "1"], [0.0, 1.0]),  # no grand coalition
        (["7", "1"], [0.0, 1.0]),  # no empty one
        (["0", "7", "7"], [0.0, 1.0, 1.0]),
        (["0", "7"], [0.0, float("nan")]),
        (["0", "7"], [0.0, float("inf")]),
        (["0", "7"], [0.0, 1e200]),
        (["0", "7"], [0.0]),
    ],
)
def test_payoffs_that_cannot_be_used_are_refused(texts: list[str], payoffs: list[float]) -> None:
    with pytest.raises(InputError):
        read_pairs(from_hex(texts, 3), np.array(payoffs))


@pytest.mark.parametrize("residual", [True, False])
def test_the_stratified_mean_over_all_pairs_is_the_exact_value(residual: bool) -> None:
    game = games.random_unanimity(6, 20, 6, seed=2)
    pairs = read_pairs(all_coalitions(6), game.table())
    for estimand, truth in (("shapley", game.shapley), ("banzhaf", game.banzhaf)):
        mean = stratified_mean(pairs.sides, pairs.odd, pairs.total, estimand, residual=residual)
        np.testing.assert_allclose(mean.values, truth, atol=1e-12)
        assert mean.n_empty == 0
        np.testing.assert_array_equal(mean.variances, np.zeros(6))


def test_an_empty_cell_is_interpolated_between_the_players_sizes() -> None:
    # Additive game, 2u(S) = Σ±w: linear in the size on average, so singles alone are near.
    game = games.additive([1, 2, 3, 4])
    rows = from_hex(["0", "f", "1", "e", "2", "d", "4", "b", "8", "7"], 4)
    pairs = read_pairs(rows, game.payoff(rows))
    mean = stratified_mean(pairs.sides, pairs.odd, pairs.total, "shapley", residual=False)
    assert mean.n_empty == 4  # size 2 of each player
    # Player 0: size 1: 1-9 = -8; size 3: mean of 6, 4, 2 = 4; size 4: 10; size 2: (-8+4)/2 = -2.
    assert mean.values[0] == pytest.approx((-8 - 2 + 4 + 10) / 4)
    assert mean.variances is None


def test_the_variance_of_a_cell_shrinks_with_what_is_left_unsampled() -> None:
    # Four players, all singles (2u = 0) and 2 of the 3 pairs of size 2 (2u = 2): each cell (i, 2)
    # has 2 of its 3 coalitions, s² = 4 around 0, weight 1/4: (1/4)²·4/2·(1 - 2/3) = 1/24.
    sides = from_hex(["1", "2", "4", "8", "3", "5"], 4)
    odd = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
    mean = stratified_mean(sides, odd, 0.0, "shapley", residual=True)
    np.testing.assert_allclose(mean.variances, np.full(4, 1 / 24))
