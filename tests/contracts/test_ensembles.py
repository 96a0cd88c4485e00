"""What every ensemble of the table keeps to."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.config.families import FAMILIES, make
from quorum.reconstruction.ensembles.base import Problem

NAMES = sorted(FAMILIES["ensemble"])
SIZES = (2, 3, 4, 2, 3, 2)
IDS = tuple(f"q{i}" for i in range(len(SIZES)))


def problem(seed: int = 5, n: int = 30) -> Problem:
    rng = np.random.default_rng(seed)
    x = np.vstack([rng.dirichlet(np.ones(size), n).T for size in SIZES])
    y = np.concatenate([rng.dirichlet(np.ones(size) * 4) for size in SIZES])
    return Problem(x, y, IDS, SIZES, tuple(f"p{i:02d}" for i in range(n)))


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_one_a_persona_and_none_is_negative(name):
    fit = make("ensemble", name, {}).fit(problem(), seed=0)
    assert fit.weights.shape == (30,)
    assert (fit.weights >= 0).all()
    assert np.isfinite(fit.predict(problem().x, SIZES)).all()
    assert fit.solver.gap <= max(fit.solver.tolerance, 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_is_the_same_twice_and_under_another_order(name):
    ensemble, given = make("ensemble", name, {}), problem()
    fit = ensemble.fit(given, seed=3)
    assert (ensemble.fit(given, seed=3).weights == fit.weights).all()
    order = np.random.default_rng(1).permutation(30)
    turned = ensemble.fit(given.of_personas(order), seed=3)
    assert turned.weights == pytest.approx(fit.weights[order], abs=1e-9)
    questions = np.array([3, 0, 5, 1, 4, 2])
    moved = ensemble.fit(given.of_questions(questions), seed=3)
    assert moved.weights == pytest.approx(fit.weights, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_what_was_chosen_by_cross_validation_can_be_given(name):
    ensemble = make("ensemble", name, {})
    fit = ensemble.fit(problem(), seed=0)
    again = ensemble.chosen(fit).fit(problem(), seed=9)
    assert again.weights == pytest.approx(fit.weights, abs=1e-9)
    assert (again.lam, again.anchor) == (fit.lam, fit.anchor)


@pytest.mark.parametrize("name", NAMES)
def test_inside_a_question_a_prediction_sums_to_the_mass_and_what_the_anchor_adds(name):
    fit = make("ensemble", name, {}).fit(problem(), seed=0)
    sums = np.add.reduceat(fit.predict(problem().x, SIZES), np.cumsum([0, *SIZES[:-1]]))
    expected = fit.mass + (1 - fit.mass if fit.anchor != "none" else 0)
    assert sums == pytest.approx(np.full(len(SIZES), expected), abs=1e-9)
