"""The linear fit, its errors, and what is said when too little was observed."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.attribution import games
from quorum.attribution.coalitions import from_hex
from quorum.attribution.estimators import control_variates
from quorum.attribution.estimators.complementary import Complementary
from quorum.attribution.estimators.control_variates import fit_linear
from quorum.attribution.estimators.pairs import read_pairs
from quorum.attribution.estimators.regression import Regression


def brute_force_kernel_regression(rows: np.ndarray, payoffs: np.ndarray) -> np.ndarray:
    """Minimises Σ w (v(S) - v(∅) - Σ_{i∈S} φ_i)² under Σφ = v(N) - v(∅) by its KKT system."""
    n = rows.shape[1]
    x, v = rows[2:].astype(float), payoffs[2:]
    sizes = x.sum(axis=1).astype(int)
    counts = np.bincount(sizes, minlength=n + 1)
    w = (n - 1) / (sizes * (n - sizes) * counts[sizes])
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = 2 * (x * w[:, None]).T @ x
    system[n, :n] = system[:n, n] = 1
    right = np.append(2 * (x * w[:, None]).T @ (v - payoffs[0]), payoffs[1] - payoffs[0])
    return np.linalg.solve(system, right)[:n]


@pytest.mark.parametrize(("n", "budget"), [(5, 24), (6, 40), (8, 60)])
def test_the_fit_on_pairs_is_the_kernel_regression_on_coalitions(n: int, budget: int) -> None:
    game = games.random_unanimity(n, 20, n, seed=1)
    rows = Complementary().plan(n, budget, 0)
    payoffs = game.payoff(rows)
    fit = fit_linear(read_pairs(rows, payoffs), "shapley")
    np.testing.assert_allclose(fit.values, brute_force_kernel_regression(rows, payoffs), atol=1e-10)
    assert fit.is_determined


def test_many_players_are_fitted_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    game = games.random_unanimity(12, 30, 4, seed=1)
    for budget in (12, 60):  # fewer and more pairs than players
        rows = Complementary().plan(12, budget, 0)
        pairs = read_pairs(rows, game.payoff(rows))
        by_svd = fit_linear(pairs, "shapley")
        monkeypatch.setattr(control_variates, "MAX_SVD", 0)
        by_gram = fit_linear(pairs, "shapley")
        monkeypatch.undo()
        np.testing.assert_allclose(by_gram.values, by_svd.values, atol=1e-9)
        assert by_gram.is_determined == by_svd.is_determined == (budget == 60)


def test_the_banzhaf_fit_weighs_every_coalition_alike() -> None:
    game = games.random_unanimity(5, 20, 5, seed=1)
    rows = Complementary().plan(5, 24, 0)
    pairs = read_pairs(rows, game.payoff(rows))
    signs = np.concatenate([2.0 * pairs.sides - 1, np.ones((1, 5))])
    target = np.append(2 * pairs.odd, pairs.total)
    sizes = pairs.sides.sum(axis=1)
    small = np.minimum(sizes, 5 - sizes)
    weight = np.append(np.where(small == 1, 5 / (small == 1).sum(), 10 / (small == 2).sum()), 1)
    gram = (signs * weight[:, None]).T @ signs
    expected = np.linalg.solve(gram, (signs * weight[:, None]).T @ target)
    np.testing.assert_allclose(fit_linear(pairs, "banzhaf").values, expected, atol=1e-10)


def test_leave_one_out_residuals_are_those_of_fits_without_the_pair() -> None:
    game = games.random_unanimity(5, 20, 5, seed=1)
    rows = Complementary().plan(5, 26, 0)
    pairs = read_pairs(rows, game.payoff(rows))
    fit = fit_linear(pairs, "shapley")
    root = np.sqrt(control_variates._pair_weights(pairs, "shapley"))
    signs = 2.0 * pairs.sides - 1
    centre = signs.mean(axis=1)
    design = (signs - centre[:, None]) * root[:, None]
    goal = (2 * pairs.odd - centre * pairs.total) * root
    for k in range(len(goal)):
        keep = np.arange(len(goal)) != k
        beta = np.linalg.lstsq(design[keep], goal[keep], rcond=None)[0]
        error = (goal[k] - design[k] @ beta) / root[k] / 2
        assert fit.leave_one_out[k] == pytest.approx(error, abs=1e-10)


def test_what_the_model_leaves_over_is_credited_cell_by_cell() -> None:
    game = games.random_unanimity(5, 20, 5, seed=3)
    rows = Complementary().plan(5, 26, 1)
    payoffs = game.payoff(rows)
    phi = brute_force_kernel_regression(rows, payoffs)
    known = {tuple(row): v for row, v in zip(rows.tolist(), payoffs, strict=True)}
    values = phi.copy()
    for i in range(5):
        for size in range(1, 5):
            left = [
                known[row] - known[tuple(not x for x in row)] - (2 * np.array(row) - 1) @ phi
                for row in known
                if row[i] and sum(row) == size
            ]
            values[i] += np.mean(left) / 5 if left else 0.0
    values += (payoffs[1] - payoffs[0] - values.sum()) / 5
    found = Complementary(control_variate="linear").attribute(rows, payoffs, 26, 1)
    np.testing.assert_allclose(found.values, values, atol=1e-10)


def test_more_than_400_players_are_fitted_linearly_and_it_is_said() -> None:
    game = games.random_unanimity(401, 50, 3, seed=0)
    rows = Complementary().plan(401, 100, 0)
    found = Complementary().attribute(rows, game.payoff(rows), 100, 0)
    assert found.notes[0] == "control variate linear instead of gp: 401 players are more than 400"


def test_too_few_pairs_share_out_equally_what_they_leave_open_and_say_so() -> None:
    rows = from_hex(["0", "f", "1", "e"], 4)
    payoffs = games.additive([1, 2, 3, 4]).payoff(rows)
    for estimator in (Regression(), Complementary(control_variate="linear")):
        found = estimator.attribute(rows, payoffs, 4, 0)
        np.testing.assert_allclose(found.values, [1, 3, 3, 3], atol=1e-12)
        assert found.notes == (
            "1 pairs do not determine 4 values: what they leave open is shared out equally",
        )
        assert found.standard_errors is None


def test_from_2n_plus_2_calls_alone_no_spread_is_claimed() -> None:
    game = games.random_unanimity(9, 30, 9, seed=0)
    rows = Complementary().plan(9, 20, 0)
    for estimator in (
        Regression(),
        Complementary(control_variate="linear"),
        Complementary(control_variate="none"),
    ):
        found = estimator.attribute(rows, game.payoff(rows), 20, 0)
        assert found.standard_errors is None
        assert "no spread was observed" in found.se_reason


def test_coalitions_without_their_complement_are_said_to_be_unused() -> None:
    game = games.quadratic(8)
    rows = Complementary().plan(8, 40, 0)[:-1]
    found = Regression().attribute(rows, game.payoff(rows), 40, 0)
    assert found.notes == ("1 coalitions without their complement are not used",)
    np.testing.assert_allclose(found.values, game.shapley, atol=1e-11)


def test_without_a_model_interpolated_cells_are_counted_aloud() -> None:
    game = games.random_unanimity(10, 30, 9, seed=0)
    rows = Complementary().plan(10, 50, 0)
    found = Complementary(control_variate="none").attribute(rows, game.payoff(rows), 50, 0)
    assert len(found.notes) == 1
    assert "cells hold no pair: they are interpolated" in found.notes[0]


@pytest.mark.parametrize(
    "estimator",
    [*(Complementary(control_variate=name) for name in ("none", "linear", "gp")), Regression()],
    ids=repr,
)
def test_standard_errors_are_about_the_size_of_the_error(estimator) -> None:
    # 40 games of ten players, 150 of 1,024 coalitions: 400 errors over their standard errors.
    ratios = []
    for seed in range(40):
        game = games.random_unanimity(10, 40, 5, seed=seed)
        rows = estimator.plan(10, 150, seed)
        found = estimator.attribute(rows, game.payoff(rows), 150, seed)
        ratios.append((found.values - game.shapley) / found.standard_errors)
    covered = float((np.abs(np.concatenate(ratios)) <= 1.645).mean())
    assert 0.82 <= covered <= 1.0
    assert 0.4 <= float(np.sqrt(np.mean(np.concatenate(ratios) ** 2))) <= 1.3


@pytest.mark.parametrize("n", [60, 171, 172, 1000])
def test_many_players_give_finite_values(n: int) -> None:
    game = games.random_unanimity(n, n, 3, seed=0)
    rows = Complementary().plan(n, 300, 0)
    payoffs = game.payoff(rows)
    for estimator in (
        Complementary(),
        Complementary(control_variate="linear"),
        Complementary(control_variate="none"),
        Complementary(estimand="banzhaf", control_variate="linear"),
        Regression(),
        Regression(estimand="banzhaf"),
    ):
        found = estimator.attribute(rows, payoffs, 300, 0)
        assert np.isfinite(found.values).all()
        if estimator.estimand == "shapley" and estimator != Complementary(control_variate="none"):
            assert found.values.sum() == pytest.approx(payoffs[1] - payoffs[0], abs=1e-9 * n)
