"""Two phases: what the pilot holds, and where the rest goes."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.attribution import games
from quorum.attribution.estimators.complementary import Complementary
from quorum.attribution.estimators.design import class_capacity, class_sizes
from quorum.attribution.estimators.neyman_cc import NeymanCc, allocate, class_masses
from quorum.attribution.estimators.pairs import read_pairs


def class_counts(rows: np.ndarray) -> np.ndarray:
    n = rows.shape[1]
    sizes = rows[2::2].sum(axis=1)
    return np.bincount(np.minimum(sizes, n - sizes), minlength=n // 2 + 1)[1:]


def test_phase_1_is_the_first_half_of_complementarys_plan() -> None:
    whole = Complementary().plan(10, 202, 3)  # 100 pairs
    assert (NeymanCc().plan(10, 202, 3) == whole[:102]).all()


def test_phase_1_never_has_fewer_pairs_than_players() -> None:
    assert len(NeymanCc().plan(10, 30, 0)) == 2 + 2 * 10


def test_phase_2_spends_the_rest_to_the_last_pair_and_repeats_nothing() -> None:
    game = games.random_unanimity(10, 40, 5, seed=0)
    for budget in (200, 303, 600, 1000):
        plan = NeymanCc().plan(10, budget, 0)
        more = NeymanCc().refine(10, budget, 0, plan, game.payoff(plan))
        rows = np.concatenate([plan, more])
        assert len(rows) == budget - budget % 2
        assert len(np.unique(rows, axis=0)) == len(rows)
        capacities = np.array([class_capacity(10, s) for s in class_sizes(10)])
        assert (class_counts(rows) <= capacities).all()


def test_under_20n_and_5_percent_phase_2_goes_on_with_the_plan_and_says_so() -> None:
    game = games.random_unanimity(12, 40, 5, seed=0)
    plan = NeymanCc().plan(12, 100, 0)  # 20n = 240, 5 % of 4096 = 204.8
    more = NeymanCc().refine(12, 100, 0, plan, game.payoff(plan))
    rows = np.concatenate([plan, more])
    assert (rows == Complementary().plan(12, 100, 0)).all()
    found = NeymanCc().attribute(rows, game.payoff(rows), 100, 0)
    assert found.notes == (
        "phase 2 was uniform: the budget is under min(20n, 5 % of 2^n) coalitions",
    )
    plain = Complementary().attribute(rows, game.payoff(rows), 100, 0)
    np.testing.assert_array_equal(found.values, plain.values)


@pytest.mark.parametrize(
    ("n", "budget", "is_uniform"),
    [(14, 279, True), (14, 280, False), (10, 51, True), (10, 52, False)],  # 20·14; 5 % of 1,024
)
def test_phase_2_is_uniform_below_the_smaller_of_20n_and_5_percent(
    n: int, budget: int, is_uniform: bool
) -> None:
    game = games.random_unanimity(n, 20, 5, seed=0)
    rows = Complementary().plan(n, budget, 0)
    found = NeymanCc(control_variate="linear").attribute(rows, game.payoff(rows), budget, 0)
    assert bool(found.notes) is is_uniform


def test_pairs_go_where_the_game_jumps() -> None:
    # Payoff 1 from five of ten players on: 2u is 1 for sizes 6 to 9 and 0 for size 5, plus a
    # random sign on classes 4 and 6 that only larger samples can average out.
    rng = np.random.default_rng(0)
    jumps = {}

    def payoff(rows: np.ndarray) -> np.ndarray:
        keys = [int(k) for k in rows @ (1 << np.arange(10))]
        sizes = rows.sum(axis=1)
        return np.array(
            [
                jumps.setdefault(k, rng.normal()) if s in (4, 6) else 0.0
                for k, s in zip(keys, sizes, strict=True)
            ]
        )

    estimator = NeymanCc(control_variate="none")
    plan = estimator.plan(10, 300, 0)
    more = estimator.refine(10, 300, 0, plan, payoff(plan))
    gained = class_counts(np.concatenate([plan[:2], more]))
    assert gained.argmax() == 3  # class 4
    assert gained[3] > gained.sum() / 2


def test_allocation_is_proportional_where_nothing_limits_it() -> None:
    extra = allocate(np.array([1.0, 2.0, 3.0]), np.zeros(3, np.int64), [100, 100, 100], 60)
    assert extra.tolist() == [10, 20, 30]


def test_allocation_caps_a_class_and_gives_its_share_to_the_others() -> None:
    extra = allocate(np.array([1.0, 1.0, 4.0]), np.zeros(3, np.int64), [100, 100, 10], 60)
    assert extra.tolist() == [25, 25, 10]


def test_allocation_counts_what_the_pilot_has_and_takes_nothing_back() -> None:
    extra = allocate(np.array([1.0, 1.0, 1.0]), np.array([40, 5, 5]), [100, 100, 100], 70)
    assert extra.tolist() == [0, 10, 10]


@pytest.mark.parametrize("masses", [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
def test_allocation_spends_everything_even_where_there_is_no_variance(masses: list[float]) -> None:
    extra = allocate(np.array(masses), np.array([2, 2, 2]), [10, 10, 10], 25)
    assert extra.sum() == 19
    assert (extra >= 0).all()
    assert (extra <= 8).all()


@pytest.mark.parametrize("n", [9, 10])
def test_masses_follow_the_formula_on_equal_variances(n: int) -> None:
    # Noise of variance 1: 2u has variance 2, masses are √(n·2·(1/j + 1/(n-j))), √2 where j = n/2.
    rows = Complementary().plan(n, 400, 0)
    pairs = read_pairs(rows, np.random.default_rng(0).normal(size=400))
    sizes = np.arange(1, n // 2 + 1)
    expected = np.sqrt(2 * n * (1 / sizes + 1 / (n - sizes)))
    if n == 10:
        expected[-1] = np.sqrt(2)
    np.testing.assert_allclose(class_masses(pairs, "none", 0), expected, rtol=0.2)
