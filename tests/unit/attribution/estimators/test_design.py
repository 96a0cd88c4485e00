"""The paired, nested plan."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum.attribution.estimators.design import (
    class_capacity,
    class_sequence,
    draw_class,
    n_pairs_for,
    paired_plan,
    unrank,
)


def distinct(rows: np.ndarray) -> int:
    return len({row.tobytes() for row in np.packbits(rows, axis=1)})


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8])
def test_the_full_budget_is_every_coalition(n: int) -> None:
    plan = paired_plan(n, n_pairs_for(n, 1 << n), seed=0)
    assert len(plan) == distinct(plan) == 1 << n


def test_the_empty_and_grand_coalition_come_first_and_complements_side_by_side() -> None:
    plan = paired_plan(9, 40, seed=3)
    assert not plan[0].any()
    assert plan[1].all()
    assert (plan[2::2] == ~plan[3::2]).all()


@pytest.mark.parametrize("n", [4, 12, 60, 1000])
def test_the_first_n_pairs_are_the_sizes_1_and_n_minus_1(n: int) -> None:
    plan = paired_plan(n, n, seed=0)
    assert sorted(plan[2::2].argmax(axis=1).tolist()) == list(range(n))
    assert (plan[2::2].sum(axis=1) == 1).all()


def test_after_them_each_size_gains_pairs_at_the_same_rate() -> None:
    # n = 9: classes 2, 3, 4 cover two sizes each; 60 more pairs are 20 each, give or take one.
    counts = np.bincount(class_sequence(9, 9 + 60, seed=1), minlength=5)
    assert counts[1] == 9
    assert counts[2:].sum() == 60
    assert (abs(counts[2:] - 20) <= 1).all()


def test_the_middle_class_of_an_even_number_gains_half_as_many() -> None:
    # n = 10: classes 2, 3, 4 at rate 2 and class 5 at rate 1: 70 more pairs are 20, 20, 20, 10.
    counts = np.bincount(class_sequence(10, 10 + 70, seed=1), minlength=6)
    assert (abs(counts[2:] - np.array([20, 20, 20, 10])) <= 1).all()


def test_a_class_that_fits_is_enumerated_and_the_rest_goes_on() -> None:
    counts = np.bincount(class_sequence(8, 100, seed=0), minlength=5)
    assert counts[1:3].tolist() == [8, 28]  # C(8,1), C(8,2)
    assert counts[3] <= 56
    assert counts[4] <= 35
    assert counts.sum() == 100


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 14), st.integers(2, 300), st.integers(2, 300), st.integers(0, 99))
def test_plans_are_nested_in_the_budget(n: int, one: int, other: int, seed: int) -> None:
    small, large = sorted((n_pairs_for(n, one), n_pairs_for(n, other)))
    first, second = paired_plan(n, small, seed), paired_plan(n, large, seed)
    assert (second[: len(first)] == first).all()
    assert distinct(second) == len(second)


@pytest.mark.parametrize(("n", "n_pairs"), [(40, 3000), (60, 1500), (1000, 1600)])
def test_large_classes_are_neither_enumerated_nor_repeated(n: int, n_pairs: int) -> None:
    large = paired_plan(n, n_pairs, seed=0)
    small = paired_plan(n, n_pairs - 700, seed=0)
    assert distinct(large) == 2 * n_pairs + 2
    assert (large[: len(small)] == small).all()


def test_another_seed_is_another_plan_of_the_same_sizes_at_the_start() -> None:
    one, other = paired_plan(12, 30, seed=0), paired_plan(12, 30, seed=1)
    assert (one != other).any()


@pytest.mark.parametrize(
    ("n", "budget", "n_pairs"),
    [(5, 12, 5), (5, 13, 5), (5, 32, 15), (5, 99, 15), (1, 2, 0), (1, 9, 0), (2, 4, 1), (9, 2, 0)],
)
def test_an_odd_call_is_left_rather_than_half_a_pair_bought(
    n: int, budget: int, n_pairs: int
) -> None:
    assert n_pairs_for(n, budget) == n_pairs


@pytest.mark.parametrize(("n", "size"), [(6, 2), (6, 3), (7, 3), (9, 1)])
def test_ranks_name_each_pair_of_a_class_once(n: int, size: int) -> None:
    capacity = class_capacity(n, size)
    sides = unrank(np.arange(capacity), n, size)
    assert (sides.sum(axis=1) == size).all()
    assert distinct(np.concatenate([sides, ~sides])) == 2 * capacity


def test_a_class_is_drawn_evenly() -> None:
    # 2,000 seeds, one pair each of the 10 of class 2 of 5: 200 expected, sd = √(2000·.1·.9) = 13.4.
    keys = [int(draw_class(5, 2, 0, 1, s)[0] @ (1 << np.arange(5))) for s in range(2000)]
    _, counts = np.unique(keys, return_counts=True)
    assert len(counts) == math.comb(5, 2)
    assert (abs(counts - 200) < 5 * 13.4).all()


def test_a_large_class_is_drawn_evenly_over_players() -> None:
    # Class 20 of 40, sides without player 39: the others stand in 20/39 of them, sd ≈ 0.5/√2000.
    shares = draw_class(40, 20, 0, 2000, seed=5).mean(axis=0)
    assert shares[39] == 0
    assert (abs(shares[:39] - 20 / 39) < 5 * 0.5 / math.sqrt(2000)).all()


def test_later_pairs_of_a_class_do_not_depend_on_where_one_starts() -> None:
    for n, size in ((12, 4), (40, 20)):
        whole = draw_class(n, size, 0, 50, seed=2)
        assert (draw_class(n, size, 20, 50, seed=2) == whole[20:]).all()
        assert draw_class(n, size, 20, 20, seed=2).shape == (0, n)
