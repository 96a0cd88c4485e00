"""Coalition matrices, budgets and exact values of tables."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum.attribution import games
from quorum.attribution.coalitions import (
    all_coalitions,
    banzhaf_from_table,
    budget_for,
    canonical_order,
    from_hex,
    log_banzhaf_weights,
    log_shapley_weights,
    shapley_from_table,
    to_hex,
)
from quorum.errors import InputError, SettingsError


def test_hex_counts_player_0_as_the_lowest_bit_and_has_no_padding() -> None:
    rows = np.array([[0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 1, 0], [1, 1, 1, 1, 1]], bool)
    assert to_hex(rows) == ["0", "1", "a", "1f"]


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 200), st.integers(0, 2**32 - 1))
def test_hex_comes_back_as_the_same_coalitions(n: int, seed: int) -> None:
    rows = np.random.default_rng(seed).random((4, n)) < 0.5
    assert (from_hex(to_hex(rows), n) == rows).all()


def test_hex_of_no_coalitions_is_an_empty_matrix() -> None:
    assert from_hex([], 7).shape == (0, 7)


@pytest.mark.parametrize("text", ["8", "-1", "xyz", ""])
def test_hex_that_names_no_coalition_of_three_players_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        from_hex([text], 3)


def test_all_coalitions_ascend_with_player_0_as_the_lowest_bit() -> None:
    assert to_hex(all_coalitions(4)) == [format(mask, "x") for mask in range(16)]


@pytest.mark.parametrize("n", [5, 62, 63, 100])
def test_canonical_order_does_not_depend_on_row_order(n: int) -> None:
    rng = np.random.default_rng(n)
    rows = np.unique(rng.random((30, n)) < 0.5, axis=0)
    shuffled = rows[rng.permutation(len(rows))]
    assert (rows[canonical_order(rows)] == shuffled[canonical_order(shuffled)]).all()


@pytest.mark.parametrize(
    ("n", "fraction", "cap", "per_player", "wanted", "binding"),
    [
        (10, 0.1, 10**6, None, 103, "fraction"),  # ⌈102.4⌉
        (10, "0.1", 10**6, None, 103, "fraction"),
        (10, Fraction(1, 8), 10**6, None, 128, "fraction"),
        (10, 0.01, 10**6, None, 22, "floor"),  # ⌈10.24⌉ < 2n+2
        (10, 1, 10**6, None, 1024, "all"),
        (10, 1.0, 1024, None, 1024, "all"),
        (10, 1.0, 1000, None, 1000, "max_coalitions"),
        (10, 0.5, 100, None, 100, "max_coalitions"),
        (10, 0.5, 10**6, 5, 52, "calls_per_player"),  # 5·10 + 2
        (10, 0.5, 10**6, 1, 22, "floor"),
        (10, 0.5, 10**6, 500, 1024, "all"),
        (1, 0.1, 100, None, 2, "all"),
        (2, 0.1, 100, None, 4, "all"),
        (3, 0.1, 100, None, 8, "all"),  # 2n+2 = 8 = 2^3
        (60, 0.1, 2000, None, 2000, "max_coalitions"),
        (1024, 0.5, 4096, None, 4096, "max_coalitions"),
        (5000, 1e-9, 20000, None, 20000, "max_coalitions"),
        (5000, 1e-9, 2000, None, 2000, "max_coalitions"),
    ],
)
def test_budget(
    n: int,
    fraction: float | str | Fraction,
    cap: int,
    per_player: int | None,
    wanted: int,
    binding: str,
) -> None:
    budget = budget_for(n, fraction, cap, per_player)
    assert (budget.n_coalitions, budget.binding) == (wanted, binding)


def test_a_fraction_is_taken_as_written_not_as_its_nearest_float() -> None:
    # 0.7 as a float is below 7/10, and 0.1+0.2 above 3/10: 10^3 coalitions would be off by one.
    n_all = 1 << 60
    assert budget_for(60, 0.7, n_all).n_coalitions == -(-7 * n_all // 10)


@pytest.mark.parametrize(
    ("n", "fraction", "cap", "per_player"),
    [(0, 0.5, 100, None), (3, 0, 100, None), (3, 1.5, 100, None), (3, 1, 1, None), (3, 1, 9, 0)],
)
def test_a_budget_that_makes_no_sense_is_refused(
    n: int, fraction: float, cap: int, per_player: int | None
) -> None:
    with pytest.raises(SettingsError):
        budget_for(n, fraction, cap, per_player)


GAMES = [
    games.additive([1, 2, 3]),
    games.additive([5.0]),
    games.glove(),
    games.unanimity(4, [0, 1]),
    games.majority(3),
    games.majority(7),
    games.constant(5, 7),
    games.quadratic(8),
    games.interaction(7),
    games.random_unanimity(9, 30, 9, seed=1),
]


@pytest.mark.parametrize("game", GAMES, ids=lambda g: f"{g.name}-{g.n}")
def test_tables_give_the_closed_form_values(game: games.Game) -> None:
    table = game.table()
    np.testing.assert_allclose(shapley_from_table(table), game.shapley, atol=1e-12)
    np.testing.assert_allclose(banzhaf_from_table(table), game.banzhaf, atol=1e-12)


def test_golden_values() -> None:
    np.testing.assert_allclose(shapley_from_table(games.glove().table()), [2 / 3, 1 / 6, 1 / 6])
    np.testing.assert_allclose(banzhaf_from_table(games.glove().table()), [3 / 4, 1 / 4, 1 / 4])
    np.testing.assert_allclose(banzhaf_from_table(games.majority(3).table()), [0.5, 0.5, 0.5])
    np.testing.assert_allclose(
        shapley_from_table(games.quadratic(8).table()),
        [1.9, 3.8, 5.7, 7.6, 9.5, 11.4, 13.3, 15.2],
    )


def test_dummies_of_unanimity_get_exactly_nothing() -> None:
    values = shapley_from_table(games.unanimity(4, [0, 1]).table())
    assert values.tolist() == [0.5, 0.5, 0.0, 0.0]


def test_shapley_values_are_the_mean_over_all_orders() -> None:
    table = np.random.default_rng(0).normal(size=8)
    expected = np.zeros(3)
    for order in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
        mask = 0
        for player in order:
            expected[player] += (table[mask | 1 << player] - table[mask]) / 6
            mask |= 1 << player
    np.testing.assert_allclose(shapley_from_table(table), expected, atol=1e-14)


@pytest.mark.parametrize("length", [0, 1, 3, 6])
def test_a_table_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(InputError):
        shapley_from_table(np.zeros(length))


def test_a_table_past_memory_is_refused() -> None:
    with pytest.raises(SettingsError):
        all_coalitions(60)


@pytest.mark.parametrize("n", [1, 2, 8, 171, 172, 1000])
def test_weights_are_finite_positive_and_add_up(n: int) -> None:
    shapley = np.exp(log_shapley_weights(n))
    banzhaf = np.exp(log_banzhaf_weights(n))
    assert np.isfinite(shapley).all()
    assert (shapley > 0).all()
    assert (banzhaf > 0).all()
    # Over all coalitions without a player the weights sum to one; size s has C(n-1, s) of them.
    logs = [math.log(math.comb(n - 1, s)) for s in range(n)]
    assert np.exp(log_shapley_weights(n) + logs).sum() == pytest.approx(1, rel=1e-9)
    assert banzhaf.sum() == pytest.approx(1, rel=1e-9)
