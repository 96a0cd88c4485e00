"""What every estimator in the table of parts promises."""

from __future__ import annotations

import dataclasses
import sys
import types
from itertools import product
from typing import Literal, get_args, get_origin, get_type_hints

import numpy as np
import pytest

from quorum.attribution import games
from quorum.config.families import part_class, part_names
from quorum.errors import SettingsError


class KernelSHAP:
    """Stands in for shapiq's class of that name: random coalitions, then least squares."""

    def __init__(self, n: int, pairing_trick: bool = False, random_state: int | None = None):
        self.n, self.random_state = n, random_state

    def approximate(self, budget, game):
        rng = np.random.default_rng(self.random_state)
        rows = np.unique(rng.random((budget, self.n)) < 0.5, axis=0)
        payoffs = game(rows)
        weights = np.linalg.lstsq(rows.astype(float), payoffs, rcond=None)[0]
        return {(i,): float(weights[i]) for i in range(self.n)}


def variants(name: str) -> list[object]:
    """An estimator with every choice of its closed options and every estimand that it computes."""
    kind = part_class("estimator", name)
    hints = get_type_hints(kind)
    choices = {
        field.name: get_args(hints[field.name])
        for field in dataclasses.fields(kind)
        if get_origin(hints[field.name]) is Literal and field.name != "estimand"
    }
    made = []
    for estimand in kind.estimands:
        if name == "shapiq" and estimand != "shapley":
            continue  # the stand-in computes one
        made += [
            kind(estimand=estimand, **dict(zip(choices, picked, strict=True)))
            for picked in product(*choices.values())
        ]
    return made


ESTIMATORS = [one for name in part_names("estimator") for one in variants(name)]


@pytest.fixture(autouse=True)
def shapiq(monkeypatch: pytest.MonkeyPatch) -> None:
    package, classes = types.ModuleType("shapiq"), types.ModuleType("shapiq.approximator")
    classes.KernelSHAP = KernelSHAP
    monkeypatch.setitem(sys.modules, "shapiq", package)
    monkeypatch.setitem(sys.modules, "shapiq.approximator", classes)


@pytest.fixture(params=ESTIMATORS, ids=repr)
def estimator(request: pytest.FixtureRequest) -> object:
    return request.param


def key_set(rows: np.ndarray) -> set[bytes]:
    return {row.tobytes() for row in np.packbits(rows, axis=1)}


def is_exact(estimator: object) -> bool:
    return type(estimator).__name__ == "Exact"


def run(estimator, game: games.Game, budget: int, seed: int = 0):
    """Plan, payoffs, refinements until none is asked: the coalitions and their payoffs."""
    rows = estimator.plan(game.n, budget, seed)
    for _ in range(20):
        more = estimator.refine(game.n, budget, seed, rows, game.payoff(rows))
        if not len(more):
            return rows, game.payoff(rows)
        rows = np.concatenate([rows, more])
    raise AssertionError("it never stops asking")


GAME = games.random_unanimity(7, 20, 5, seed=3)


@pytest.mark.parametrize("budget", [16, 17, 35, 60, 127, 128])
def test_rows_are_distinct_and_within_the_budget(estimator, budget: int) -> None:
    if is_exact(estimator) and budget < 128:
        with pytest.raises(SettingsError):
            estimator.plan(7, budget, 0)
        return
    plan = estimator.plan(7, budget, 0)
    rows, _ = run(estimator, GAME, budget)
    assert plan.dtype == bool
    assert len(plan) <= len(rows) == len(key_set(rows)) <= budget
    assert (rows[: len(plan)] == plan).all()


def test_the_empty_and_grand_coalition_come_first(estimator) -> None:
    plan = estimator.plan(7, 128, 0)
    if is_exact(estimator):
        assert (plan @ (1 << np.arange(7)) == np.arange(128)).all()
    else:
        assert not plan[0].any()
        assert plan[1].all()


def test_the_same_seed_gives_the_same_plan_and_another_one_another(estimator) -> None:
    if is_exact(estimator):
        return
    assert (estimator.plan(12, 80, 5) == estimator.plan(12, 80, 5)).all()
    other = estimator.plan(12, 80, 6)
    first = estimator.plan(12, 80, 5)
    assert first.shape != other.shape or (first != other).any()


def test_a_larger_budget_keeps_what_a_smaller_one_asked_for(estimator) -> None:
    if is_exact(estimator) or type(estimator).__name__ == "Shapiq":
        return  # exact has one plan; shapiq's classes decide for themselves
    smaller: set[bytes] = set()
    for budget in (16, 31, 64, 100, 128):
        larger = key_set(estimator.plan(7, budget, 2))
        assert smaller <= larger
        smaller = larger


def test_the_order_of_rows_changes_no_bit(estimator) -> None:
    budget = 128 if is_exact(estimator) else 60
    rows, payoffs = run(estimator, GAME, budget)
    order = np.random.default_rng(0).permutation(len(rows))
    first = estimator.attribute(rows, payoffs, budget, 0)
    second = estimator.attribute(rows[order], payoffs[order], budget, 0)
    assert first.values.tobytes() == second.values.tobytes()
    assert (first.standard_errors is None) == (second.standard_errors is None)
    if first.standard_errors is not None:
        assert first.standard_errors.tobytes() == second.standard_errors.tobytes()
    assert first.notes == second.notes
    again = estimator.refine(7, budget, 0, rows[order], payoffs[order])
    assert again.shape == (0, 7)


def test_a_refinement_does_not_depend_on_the_order_of_rows(estimator) -> None:
    if not type(estimator).two_phase:
        return
    plan = estimator.plan(7, 90, 1)
    payoffs = GAME.payoff(plan)
    first = estimator.refine(7, 90, 1, plan, payoffs)
    second = estimator.refine(7, 90, 1, plan[::-1], payoffs[::-1])
    assert (first == second).all()


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_all_coalitions_give_the_exact_value_with_no_error(estimator, n: int) -> None:
    game = games.random_unanimity(n, 6, n, seed=n)
    rows, payoffs = run(estimator, game, 1 << n)
    assert len(rows) == 1 << n
    found = estimator.attribute(rows, payoffs, 1 << n, 0)
    truth = game.shapley if estimator.estimand == "shapley" else game.banzhaf
    np.testing.assert_allclose(found.values, truth, atol=1e-12)
    np.testing.assert_array_equal(found.standard_errors, np.zeros(n))


def test_standard_errors_are_numbers_or_null_with_a_reason(estimator) -> None:
    for budget in (128,) if is_exact(estimator) else (16, 24, 40, 100):
        rows, payoffs = run(estimator, GAME, budget)
        found = estimator.attribute(rows, payoffs, budget, 0)
        assert found.values.shape == (7,)
        assert np.isfinite(found.values).all()
        if found.standard_errors is None:
            assert found.se_reason
        else:
            assert not found.se_reason
            assert (found.standard_errors >= 0).all()


def test_an_estimand_it_does_not_compute_is_refused_at_once(estimator) -> None:
    kind = type(estimator)
    with pytest.raises(SettingsError, match="estimand"):
        kind(estimand="owen")
    if "banzhaf" not in kind.estimands:
        with pytest.raises(SettingsError, match="shapley"):
            kind(estimand="banzhaf")


def test_plan_fields_name_options(estimator) -> None:
    fields = {field.name for field in dataclasses.fields(estimator)}
    assert set(type(estimator).plan_fields) <= fields
    assert "estimand" in fields


def test_options_outside_plan_fields_change_no_plan(estimator) -> None:
    kind = type(estimator)
    if is_exact(estimator):
        return
    kept = {name: getattr(estimator, name) for name in kind.plan_fields}
    assert (kind(**kept).plan(7, 50, 4) == estimator.plan(7, 50, 4)).all()


def test_an_estimator_keeps_no_state(estimator) -> None:
    budget = 128 if is_exact(estimator) else 60
    rows, payoffs = run(estimator, GAME, budget)
    first = estimator.attribute(rows, payoffs, budget, 0)
    estimator.attribute(rows, payoffs[::-1].copy(), budget, 0)
    assert estimator.attribute(rows, payoffs, budget, 0).values.tobytes() == first.values.tobytes()
