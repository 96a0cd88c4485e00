"""Values at smaller budgets, from payoffs that were paid for: nothing more is asked."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.attribution.coalitions import all_coalitions
from quorum.attribution.convergence import Point, budgets, convergence, unknown
from quorum.attribution.estimators.base import Estimate, OnePhase
from quorum.attribution.estimators.complementary import Complementary
from quorum.attribution.estimators.exact import Exact
from quorum.attribution.estimators.mc import Mc
from quorum.attribution.estimators.neyman_cc import NeymanCc
from quorum.attribution.estimators.regression import Regression
from quorum.attribution.games import interaction, quadratic
from quorum.errors import InputError, SettingsError

SEED = 7
LINEAR = [Complementary("shapley", "linear"), Regression(), NeymanCc("shapley", "linear")]


def asked(estimator, game, budget):
    """All coalitions that an estimator asks for, with their payoffs."""
    rows = estimator.plan(game.n, budget, SEED)
    while len(more := estimator.refine(game.n, budget, SEED, rows, game.payoff(rows))):
        rows = np.concatenate([rows, more])
    return rows, game.payoff(rows)


def points_of(estimator, game, budget):
    rows, payoffs = asked(estimator, game, budget)
    final = estimator.attribute(rows, payoffs, budget, SEED)
    return convergence(estimator, rows, payoffs, budget, SEED, final), final


@pytest.mark.parametrize(
    ("n", "budget", "expected"),
    [
        (5, 12, [12]),
        (5, 13, [12, 13]),
        (5, 32, [12, 24, 32]),
        (64, 512, [130, 260, 512]),
        (9, 8, [8]),
    ],
)
def test_budgets_double_from_2n_plus_2_up_to_the_plans_own(n, budget, expected):
    assert budgets(n, budget) == expected


def test_a_point_is_what_the_estimator_says_at_that_budget():
    game, estimator = quadratic(7), Mc()
    points, _ = points_of(estimator, game, 60)
    assert [point.budget for point in points] == [16, 32, 60]
    for point in points:
        rows = estimator.plan(7, point.budget, SEED)
        fresh = estimator.attribute(rows, game.payoff(rows), point.budget, SEED)
        assert point.n_coalitions == len(rows) <= point.budget
        assert point.values.tolist() == fresh.values.tolist()


@pytest.mark.parametrize("estimator", LINEAR)
def test_a_game_of_degree_2_has_come_to_rest_at_the_smallest_budget(estimator):
    # quadratic: φ_i = w_i·(1 + 0.2·W/n) with w = 1..6, W = 21: factor 1.7
    points, _ = points_of(estimator, quadratic(6), 40)
    assert [point.budget for point in points] == [14, 28, 40]
    for point in points:
        assert point.values == pytest.approx(1.7 * np.arange(1, 7))


def test_the_last_point_is_the_final_estimate_itself():
    points, final = points_of(Complementary(), quadratic(6), 40)
    assert points[-1].values is final.values
    assert points[-1].standard_errors is final.standard_errors
    assert points[-1].n_coalitions == 40


def test_rows_may_come_in_any_order():
    estimator = Complementary()
    rows, payoffs = asked(estimator, quadratic(6), 40)
    final = estimator.attribute(rows, payoffs, 40, SEED)
    straight = convergence(estimator, rows, payoffs, 40, SEED, final)
    turned = convergence(estimator, rows[::-1], payoffs[::-1], 40, SEED, final)
    assert [p.as_row() for p in turned] == [p.as_row() for p in straight]


def test_exact_takes_no_smaller_budget():
    points, _ = points_of(Exact(), quadratic(5), 32)
    assert [point.budget for point in points] == [32]


def test_a_second_phase_that_asks_for_other_pairs_leaves_its_budget_without_values():
    class Adaptive:
        """Asks, after ∅ and N, for as many coalitions as the budget has, counted from its end."""

        def plan(self, n, budget, seed):
            return np.array([[False] * n, [True] * n])

        def refine(self, n, budget, seed, coalitions, payoffs):
            inner = all_coalitions(n)[1:-1]
            return inner[-(budget - 2) :] if len(coalitions) == 2 and budget != 10 else inner[:0]

        def attribute(self, coalitions, payoffs, budget, seed):
            return Estimate(np.full(4, float(len(coalitions))), None, "made up")

    estimator = Adaptive()
    paid = np.concatenate([estimator.plan(4, 12, SEED), all_coalitions(4)[1:11]])
    final = Estimate(np.zeros(4), np.zeros(4))
    points = convergence(estimator, paid, np.arange(12.0), 12, SEED, final)
    assert [(p.budget, p.n_coalitions) for p in points] == [(10, 2), (12, 12)]
    assert points[0].reason == "made up"  # no second phase at 10: values, but no errors
    lacking = convergence(estimator, paid, np.arange(12.0), 21, SEED, final)
    assert lacking[1].as_row() == {
        "budget": 20,
        "n_coalitions": None,
        "values": None,
        "standard_errors": None,
        "reason": "this budget asks for coalitions that were not paid for",
    }


def test_neyman_goes_through_both_phases_at_each_budget():
    game, estimator = interaction(8), NeymanCc("shapley", "linear")
    points, _ = points_of(estimator, game, 200)  # not small: phase 2 follows the spread
    assert [point.budget for point in points] == [18, 36, 72, 144, 200]
    for point in points:
        rows, payoffs = asked(estimator, game, point.budget)
        fresh = estimator.attribute(rows, payoffs, point.budget, SEED)
        assert point.n_coalitions == len(rows)
        assert point.values.tolist() == fresh.values.tolist()


def test_a_replay_that_misses_a_coalition_says_so():
    class Replay(OnePhase):
        def plan(self, n, budget, seed):
            return all_coalitions(n)[:budget]

        def attribute(self, coalitions, payoffs, budget, seed):
            raise InputError("estimator.approximator", "it asks for more")

    rows = all_coalitions(3)
    points = convergence(Replay(), rows[:7], np.zeros(7), 9, SEED, Estimate(np.zeros(3), None, "x"))
    assert points[0].reason == "this budget asks for coalitions that were not paid for"
    points = convergence(Replay(), rows, np.zeros(8), 9, SEED, Estimate(np.zeros(3), None, "x"))
    assert (points[0].values, points[0].reason) == (None, "it asks for more")


def test_a_budget_that_an_estimator_refuses_is_left_out():
    class Dear(OnePhase):
        def plan(self, n, budget, seed):
            raise SettingsError("budget", "too small", got=budget)

    points = convergence(
        Dear(), all_coalitions(2), np.zeros(4), 50, SEED, Estimate(np.zeros(2), None)
    )
    assert [point.budget for point in points] == [50]


def test_without_payoffs_each_budget_says_why():
    points = unknown(5, 24, "a cap")
    assert points == [Point(12, None, None, None, "a cap"), Point(24, None, None, None, "a cap")]
    assert points[0].as_row()["reason"] == "a cap"
