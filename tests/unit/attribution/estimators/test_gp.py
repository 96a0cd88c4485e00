"""The Gaussian process: its closed forms against brute force."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.attribution import games
from quorum.attribution.coalitions import (
    all_coalitions,
    banzhaf_from_table,
    shapley_from_table,
)
from quorum.attribution.estimators import control_variates
from quorum.attribution.estimators.complementary import Complementary
from quorum.attribution.estimators.gp import (
    FitFailedError,
    Hyper,
    _hyper,
    _Objective,
    _product_kernel,
    choose_hyper,
    fit_gp,
    value_functional,
)
from quorum.attribution.estimators.pairs import read_pairs


def kernel(s: np.ndarray, t: np.ndarray, hyper: Hyper) -> np.ndarray:
    """a·⟨s,t⟩/n + (1-a)·odd part of Π(1 + r s t) over its value at s = t, factor by factor."""
    n = s.shape[1]
    plus, minus = np.ones((len(s), len(t))), np.ones((len(s), len(t)))
    for i, r in enumerate(hyper.relevance):
        plus *= 1 + r * np.outer(s[:, i], t[:, i])
        minus *= 1 - r * np.outer(s[:, i], t[:, i])
    z = np.prod(1 + hyper.relevance) - np.prod(1 - hyper.relevance)
    return hyper.share * s @ t.T / n + (1 - hyper.share) * (plus - minus) / z


HYPER = Hyper(0.3, 0.1, np.array([0.05, 0.4, 0.9, 0.2, 0.6]))
SIGNS = 2.0 * all_coalitions(5) - 1.0


def test_the_hyperbolic_form_is_the_product_form() -> None:
    product, mirrored, coth = _product_kernel(SIGNS, SIGNS, np.arctanh(HYPER.relevance))
    form = HYPER.share * SIGNS @ SIGNS.T / 5 + (1 - HYPER.share) * product
    np.testing.assert_allclose(form, kernel(SIGNS, SIGNS, HYPER), atol=1e-12)
    np.testing.assert_allclose(np.diag(mirrored), coth, atol=1e-12)


@pytest.mark.parametrize(
    ("estimand", "from_table"), [("shapley", shapley_from_table), ("banzhaf", banzhaf_from_table)]
)
def test_values_of_the_kernel_are_those_of_its_table(estimand, from_table) -> None:
    rows, prior = value_functional(SIGNS, HYPER, estimand)
    table = kernel(SIGNS, SIGNS, HYPER)  # row: coalition s, column: centre t
    expected = np.array([from_table(column) for column in table.T])
    np.testing.assert_allclose(rows, expected, atol=1e-12)
    twice = np.array([from_table(rows[:, i])[i] for i in range(5)])
    np.testing.assert_allclose(prior, twice, atol=1e-12)


def test_values_stay_finite_for_many_players() -> None:
    n = 1000
    rng = np.random.default_rng(0)
    hyper = Hyper(0.5, 0.1, rng.uniform(0.001, 0.99, n))
    rows, prior = value_functional(np.sign(rng.normal(size=(3, n))), hyper, "shapley")
    assert np.isfinite(rows).all()
    assert (prior > 0).all()


def test_the_gradient_is_that_of_the_objective() -> None:
    rng = np.random.default_rng(1)
    objective = _Objective(SIGNS[16:], rng.normal(size=16))
    theta = np.concatenate([[0.3, -2.0], rng.normal(size=5)])
    _, gradient = objective(theta)
    for k in range(len(theta)):
        step = np.zeros(len(theta))
        step[k] = 1e-6
        slope = (objective(theta + step)[0] - objective(theta - step)[0]) / 2e-6
        assert gradient[k] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_players_who_matter_get_larger_relevance() -> None:
    game = games.sum_of_unanimity(8, [([0, 1], 2.0), ([2], 1.0), ([0, 1, 2], 1.5)])
    rows = Complementary().plan(8, 120, 0)
    pairs = read_pairs(rows, game.payoff(rows))
    u = np.concatenate([[pairs.total / 2], pairs.odd])
    signs = np.concatenate([np.ones((1, 8)), 2.0 * pairs.sides - 1])
    relevance = choose_hyper(signs, u / np.sqrt(np.mean(u**2))).relevance
    assert relevance[:3].min() > relevance[3:].max()


def test_the_posterior_goes_through_the_grand_coalition() -> None:
    game = games.random_unanimity(8, 20, 3, seed=0)
    rows = Complementary().plan(8, 60, 0)
    fit = fit_gp(read_pairs(rows, game.payoff(rows)), "shapley", seed=0)
    total = game.payoff(rows[:2]) @ [-1, 1]
    assert fit.values.sum() == pytest.approx(total, abs=1e-4)


def test_a_numeric_failure_falls_back_to_linear_and_says_so(monkeypatch) -> None:
    def fails(*_args: object) -> None:
        raise FitFailedError("the kernel matrix is not positive definite")

    monkeypatch.setattr(control_variates, "fit_gp", fails)
    game = games.quadratic(8)
    rows = Complementary().plan(8, 40, 0)
    found = Complementary().attribute(rows, game.payoff(rows), 40, 0)
    linear = Complementary(control_variate="linear").attribute(rows, game.payoff(rows), 40, 0)
    np.testing.assert_array_equal(found.values, linear.values)
    assert found.notes == (
        "control variate linear instead of gp: the kernel matrix is not positive definite",
    )


def test_above_1700_pairs_it_is_linear_and_says_so() -> None:
    game = games.random_unanimity(13, 20, 4, seed=0)
    rows = Complementary().plan(13, 3404, 0)  # 1,701 pairs
    found = Complementary().attribute(rows, game.payoff(rows), 3404, 0)
    assert found.notes == ("control variate linear instead of gp: 1,701 pairs are more than 1,700",)


def test_hyperparameters_stay_inside_their_ranges() -> None:
    hyper = _hyper(np.array([50.0, 50.0, -800.0, 800.0]))
    assert hyper.noise == pytest.approx(np.exp(3))
    assert 0 < hyper.relevance[0] < hyper.relevance[1] < 1
