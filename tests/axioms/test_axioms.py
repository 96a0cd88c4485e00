"""The axioms that make a value fair, for every estimator that promises them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum.attribution import games
from quorum.attribution.estimators.complementary import Complementary
from quorum.attribution.estimators.exact import Exact
from quorum.attribution.estimators.mc import Mc
from quorum.attribution.estimators.neyman_cc import NeymanCc
from quorum.attribution.estimators.regression import Regression

EFFICIENT = [
    Mc(),
    Regression(),
    *(kind(control_variate=cv) for kind in (Complementary, NeymanCc) for cv in ("linear", "gp")),
]
UNSHIFTED = [Complementary(control_variate="none"), NeymanCc(control_variate="none")]
SAMPLED = EFFICIENT + UNSHIFTED
LINEAR_IN_PAYOFFS = [Mc(), Regression(), *UNSHIFTED[:1], Complementary(control_variate="linear")]
DEGREE_2 = [
    Mc(),
    Regression(),
    Complementary(control_variate="linear"),
    NeymanCc(control_variate="linear"),
]

ALL_GAMES = [
    games.additive([1, 2, 3]),
    games.additive([4.0]),
    games.glove(),
    games.unanimity(4, [0, 1]),
    games.majority(3),
    games.majority(7),
    games.constant(6, 7),
    games.quadratic(8),
    games.interaction(9),
    games.random_unanimity(8, 25, 8, seed=5),
    games.random_unanimity(10, 40, 3, seed=6),
]


def run(estimator, game: games.Game, budget: int, seed: int = 0):
    rows = estimator.plan(game.n, budget, seed)
    more = estimator.refine(game.n, budget, seed, rows, game.payoff(rows))
    rows = np.concatenate([rows, more])
    return estimator.attribute(rows, game.payoff(rows), budget, seed)


def budgets(n: int) -> list[int]:
    """From the floor to everything."""
    return sorted({min(b, 1 << n) for b in (2 * n + 2, 3 * n + 1, 6 * n, 1 << n)})


@pytest.mark.parametrize("game", ALL_GAMES, ids=lambda g: f"{g.name}-{g.n}")
@pytest.mark.parametrize("estimator", EFFICIENT, ids=repr)
def test_efficiency_values_add_up_to_what_there_is_to_share(estimator, game) -> None:
    ends = game.payoff(np.array([[False] * game.n, [True] * game.n]))
    scale = max(1.0, float(np.abs(game.table()).max()))
    for budget in budgets(game.n):
        found = run(estimator, game, budget)
        assert abs(found.values.sum() - (ends[1] - ends[0])) <= 1e-9 * scale


@pytest.mark.parametrize("game", ALL_GAMES, ids=lambda g: f"{g.name}-{g.n}")
@pytest.mark.parametrize("estimator", [*SAMPLED, Exact()], ids=repr)
def test_a_full_table_gives_the_exact_value_with_no_error(estimator, game) -> None:
    found = run(estimator, game, 1 << game.n)
    np.testing.assert_allclose(found.values, game.shapley, atol=1e-12 * max(1, game.n**3))
    np.testing.assert_array_equal(found.standard_errors, np.zeros(game.n))


@pytest.mark.parametrize("estimator", UNSHIFTED, ids=repr)
def test_without_a_control_variate_values_are_not_shifted(estimator) -> None:
    game = games.random_unanimity(10, 40, 3, seed=6)
    found = run(estimator, game, 50)
    total = game.payoff(np.ones((1, 10), bool))[0] - game.payoff(np.zeros((1, 10), bool))[0]
    assert abs(found.values.sum() - total) > 1e-6


@pytest.mark.parametrize("estimator", SAMPLED, ids=repr)
def test_a_constant_game_is_worth_nothing_to_anyone(estimator) -> None:
    for n in (1, 2, 5, 9):
        for budget in budgets(n):
            found = run(estimator, games.constant(n, 7), budget)
            np.testing.assert_array_equal(found.values, np.zeros(n))


@pytest.mark.parametrize("estimator", DEGREE_2, ids=repr)
@pytest.mark.parametrize(
    "game",
    [games.quadratic(8), games.additive(range(1, 10)), games.interaction(9)],
    ids=lambda g: g.name,
)
def test_games_of_degree_two_are_exact_from_2n_plus_2_calls(estimator, game) -> None:
    for budget in (2 * game.n + 2, 4 * game.n, 9 * game.n):
        found = run(estimator, game, budget)
        np.testing.assert_allclose(found.values, game.shapley, atol=1e-10 * game.n**2)


@pytest.mark.parametrize("kind", [Complementary, NeymanCc])
def test_the_gp_is_within_three_standard_errors_on_them(kind) -> None:
    for game in (games.quadratic(8), games.additive(range(1, 10)), games.interaction(9)):
        for budget in (2 * game.n + 2, 4 * game.n, 9 * game.n):
            found = run(kind(control_variate="gp"), game, budget)
            assert found.standard_errors is not None
            assert (np.abs(found.values - game.shapley) <= 3 * found.standard_errors).all()


def test_regression_gives_the_golden_quadratic_values_from_18_calls() -> None:
    found = run(Regression(), games.quadratic(8), 18)
    np.testing.assert_allclose(
        found.values, [1.9, 3.8, 5.7, 7.6, 9.5, 11.4, 13.3, 15.2], atol=1e-11
    )


def test_dummies_of_unanimity_get_exactly_nothing() -> None:
    assert run(Exact(), games.unanimity(4, [0, 1]), 16).values.tolist() == [0.5, 0.5, 0.0, 0.0]


@pytest.mark.parametrize("n", [2, 5, 8])
def test_dummy_players_get_nothing_from_permutations_at_any_budget(n: int) -> None:
    game = games.sum_of_unanimity(n + 1, [(range(n), 1.0), ([0], 2.0)])
    assert run(Mc(), game, 4 * n).values[n] == 0.0


def relabelled(rows: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The coalitions after player i has been renamed order[i]."""
    out = np.empty_like(rows)
    out[:, order] = rows
    return out


@pytest.mark.parametrize(
    "estimator", [e for e in SAMPLED if not isinstance(e, Mc | NeymanCc)], ids=repr
)
def test_symmetry_renaming_the_players_renames_their_values(estimator) -> None:
    game = games.random_unanimity(8, 25, 4, seed=5)
    rows = Complementary().plan(8, 70, 0)
    payoffs = game.payoff(rows)
    order = np.array([3, 1, 4, 0, 7, 6, 2, 5])
    first = estimator.attribute(rows, payoffs, 70, 0)
    second = estimator.attribute(relabelled(rows, order), payoffs, 70, 0)
    # L-BFGS sums in another order: the gp agrees to its tolerance, the others to round-off.
    tolerance = 1e-3 if getattr(estimator, "control_variate", "") == "gp" else 1e-11
    np.testing.assert_allclose(second.values[order], first.values, atol=tolerance)


@pytest.mark.parametrize("estimator", LINEAR_IN_PAYOFFS, ids=repr)
def test_additivity_values_of_a_sum_are_sums_of_values(estimator) -> None:
    one, other = games.random_unanimity(8, 25, 8, seed=1), games.quadratic(8)
    rows = estimator.plan(8, 60, 0)
    first, second = one.payoff(rows), other.payoff(rows)
    both = estimator.attribute(rows, 2 * first + 3 * second, 60, 0).values
    apart = 2 * estimator.attribute(rows, first, 60, 0).values
    apart = apart + 3 * estimator.attribute(rows, second, 60, 0).values
    np.testing.assert_allclose(both, apart, atol=1e-9)


@settings(max_examples=40)
@given(
    st.sampled_from(SAMPLED),
    st.integers(1, 9),
    st.floats(-1e3, 1e3),
    st.floats(0.01, 1e3),
    st.integers(0, 1000),
)
def test_a_payoff_in_other_units_gives_values_in_them(
    estimator, n: int, shift: float, factor: float, seed: int
) -> None:
    game = games.random_unanimity(n, 3 * n, n, seed=seed)
    budget = min(1 << n, 4 * n + 2)
    rows = estimator.plan(n, budget, seed)
    rows = np.concatenate([rows, estimator.refine(n, budget, seed, rows, game.payoff(rows))])
    plain = estimator.attribute(rows, game.payoff(rows), budget, seed).values
    moved = estimator.attribute(rows, shift + factor * game.payoff(rows), budget, seed).values
    # The gp's optimiser stops within its tolerance of the same point.
    slack = 2e-2 if getattr(estimator, "control_variate", "") == "gp" else 1e-8
    np.testing.assert_allclose(moved / factor, plain, atol=slack + 1e-9 * abs(shift) / factor)


def test_permutations_are_unbiased_at_a_budget_that_cuts_them_short() -> None:
    # 31 of 64 coalitions: walks overlap, so their number is random. 4,000 seeds; the mean must
    # lie within 4.5 standard errors of the truth for each of the six players.
    game = games.random_unanimity(6, 20, 6, seed=9)
    found = np.array([run(Mc(), game, 31, seed).values for seed in range(4000)])
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - game.shapley) <= 4.5 * error).all()


@pytest.mark.parametrize("estimator", UNSHIFTED + EFFICIENT[1:], ids=repr)
def test_more_calls_bring_the_estimate_nearer(estimator) -> None:
    game = games.random_unanimity(9, 40, 9, seed=2)
    errors = [
        np.mean(
            [np.mean((run(estimator, game, b, s).values - game.shapley) ** 2) for s in range(6)]
        )
        for b in (20, 90, 400)
    ]
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize("kind", [Complementary, NeymanCc, Regression])
def test_banzhaf_comes_from_the_same_coalitions(kind) -> None:
    game = games.random_unanimity(9, 40, 4, seed=4)
    options = (
        ({},) if kind is Regression else ({"control_variate": c} for c in ("none", "linear", "gp"))
    )
    for chosen in options:
        near = run(kind(estimand="banzhaf", **chosen), game, 300)
        far = run(kind(estimand="shapley", **chosen), game, 300)
        assert near.standard_errors is not None
        error = np.mean((near.values - game.banzhaf) ** 2)
        assert error < np.mean((far.values - game.banzhaf) ** 2)
        assert error < 0.05 * np.mean(game.banzhaf**2)
