"""Mixtures have true weights; a population has none."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.errors import SettingsError
from quorum.simulation.recovery import NO_TRUTH, by_name, recovery
from quorum.simulation.worlds import Mixture, Population, survey_world

SMALL = {"n_personas": 9, "n_questions": 7, "n_humans": 20}


def test_a_mixtures_shares_are_those_of_its_true_agents_exactly() -> None:
    world = survey_world(3, **SMALL, truth=Mixture(n_true=4))
    assert world.weights is not None
    assert (world.weights > 0).sum() == 4
    assert world.weights.sum() == pytest.approx(1, abs=1e-15)
    np.testing.assert_allclose(world.x @ world.weights, world.y, atol=1e-15)


def test_a_mixture_of_choices_is_one_too() -> None:
    world = survey_world(3, **SMALL, answers="choice", truth=Mixture(n_true=1))
    np.testing.assert_array_equal(np.unique(world.y), [0.0, 1.0])


def test_noise_moves_shares_and_leaves_them_shares() -> None:
    calm, noisy = (survey_world(3, **SMALL, truth=Mixture(4, noise)) for noise in (0.0, 0.05))
    assert 0.01 < np.std(noisy.y - calm.y) < 0.1
    assert noisy.y.min() >= 0
    sums = np.add.reduceat(noisy.y, np.cumsum([0, *noisy.sizes[:-1]]))
    np.testing.assert_allclose(sums, 1, atol=1e-12)
    np.testing.assert_array_equal(noisy.weights, calm.weights)


def test_a_mixture_draws_the_same_pool_as_a_population() -> None:
    people, mixture = (survey_world(3, **SMALL, truth=t) for t in (Population(), Mixture(2)))
    np.testing.assert_array_equal(people.x, mixture.x)
    assert people.weights is None
    assert not np.allclose(people.y, mixture.y)


def test_a_mixture_of_more_than_there_are_is_refused() -> None:
    with pytest.raises(SettingsError, match="got 10; allowed up to n_personas=9"):
        survey_world(3, **SMALL, truth=Mixture(n_true=10))


def test_recovery_by_hand() -> None:
    true = np.array([0.5, 0.5, 0.0, 0.0])
    fitted = np.array([0.25, 0.0, 0.75, 1e-9])  # the last is a crumb of rounding
    found = by_name(recovery(fitted, true))
    assert found["support_precision"].value == 0.5  # 1 of 2
    assert found["support_recall"].value == 0.5  # 1 of 2
    assert found["support_f1"].value == 0.5  # 2·1 / (2 + 2)
    assert found["weight_l1"].value == pytest.approx(1.5, abs=1e-8)
    # deviations (0, −.25, .5, −.25) and (.25, .25, −.25, −.25): −.125 / √(.375·.25)
    assert found["weight_correlation"].value == pytest.approx(-0.125 / 0.09375**0.5, abs=1e-8)


def test_an_empty_denominator_is_null_with_a_reason() -> None:
    found = by_name(recovery(np.zeros(3), np.array([1.0, 0.0, 0.0])))
    assert found["support_precision"].value is None
    assert found["support_precision"].reason == "no persona has weight"
    assert found["support_recall"].value == 0.0
    assert found["support_f1"].value == 0.0
    assert found["weight_correlation"].reason == "weights are all equal"
    equal = by_name(recovery(np.full(3, 1 / 3), np.array([1.0, 0.0, 0.0])))
    assert equal["weight_correlation"].value is None


def test_without_true_weights_everything_is_null() -> None:
    found = recovery(np.ones(3), None)
    assert {(metric.value, metric.reason) for metric in found} == {(None, NO_TRUTH)}
