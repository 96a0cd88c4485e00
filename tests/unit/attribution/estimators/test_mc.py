"""Antithetic walks."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.attribution import games
from quorum.attribution.estimators.mc import Mc
from quorum.attribution.estimators.pairs import student_factor
from quorum.errors import InputError, SettingsError


def test_a_walk_and_its_reverse_are_exact_for_games_of_degree_two() -> None:
    rows = Mc().plan(9, 18, 0)  # one pair of walks: 2 + 2·8
    assert len(rows) == 18
    game = games.interaction(9)
    found = Mc().attribute(rows, game.payoff(rows), 18, 0)
    np.testing.assert_allclose(found.values, game.shapley, atol=1e-12)
    assert found.standard_errors is None
    assert "fewer than two" in found.se_reason


def test_where_not_even_a_pair_fits_a_single_walk_is_taken() -> None:
    rows = Mc().plan(9, 12, 0)
    assert len(rows) == 10  # ∅, N and 8 inner prefixes
    found = Mc().attribute(rows, games.additive(range(9)).payoff(rows), 12, 0)
    np.testing.assert_allclose(found.values, range(9), atol=1e-12)


def test_a_budget_below_one_walk_is_refused_before_any_call() -> None:
    with pytest.raises(SettingsError, match="10 or more"):
        Mc().plan(9, 9, 0)


def test_coalitions_of_another_plan_are_refused() -> None:
    rows = np.array([[False] * 5, [True] * 5])
    with pytest.raises(InputError, match="not planned by mc"):
        Mc().attribute(rows, np.array([0.0, 1.0]), 12, 0)


def test_nearly_all_coalitions_end_the_plan_without_endless_drawing() -> None:
    rows = Mc().plan(6, 63, 0)
    assert 50 <= len(rows) <= 63


def test_standard_errors_come_from_pairs_of_walks() -> None:
    game = games.random_unanimity(8, 30, 8, seed=0)
    values, errors = [], []
    for seed in range(300):
        rows = Mc().plan(8, 100, seed)
        found = Mc().attribute(rows, game.payoff(rows), 100, seed)
        values.append(found.values)
        errors.append(found.standard_errors)
    spread = np.std(values, axis=0, ddof=1)
    claimed = np.sqrt(np.mean(np.square(errors), axis=0))
    np.testing.assert_allclose(claimed, spread * student_factor(6), rtol=0.3)  # 7 pairs of walks


def test_exact_estimator_refuses_a_partial_table() -> None:
    from quorum.attribution.estimators.exact import Exact

    rows = Mc().plan(5, 20, 0)
    with pytest.raises(InputError, match="every coalition"):
        Exact().attribute(rows, np.zeros(len(rows)), 20, 0)
