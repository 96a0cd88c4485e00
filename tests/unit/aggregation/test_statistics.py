from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.pipeline.aggregation.statistics import NAMES, columns, statistics

EIGHT = (2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0)


def values_of(values, level=0.9, n_runs=1):
    return {name: number.value for name, number in statistics(values, n_runs, level).items()}


def test_eight_numbers_by_hand():
    found = values_of(EIGHT, n_runs=2)
    # deviations from 5: -3 -1 -1 -1 0 0 2 4, squares 9+1+1+1+0+0+4+16 = 32, 32 / (8 - 1)
    assert found["sd"] == pytest.approx(math.sqrt(32 / 7), rel=1e-15)
    assert found["se"] == pytest.approx(math.sqrt(32 / 7 / 8), rel=1e-15)
    assert {k: found[k] for k in ("n", "n_runs", "mean", "median", "min", "max")} == {
        "n": 8,
        "n_runs": 2,
        "mean": 5.0,
        "median": 4.5,
        "min": 2.0,
        "max": 9.0,
    }


@pytest.mark.parametrize(
    ("n", "level", "quantile"),  # two-sided quantiles as tables print them, to three places
    [(2, 0.9, 6.314), (3, 0.95, 4.303), (5, 0.95, 2.776), (8, 0.9, 1.895), (11, 0.99, 3.169)],
)
def test_the_interval_is_that_of_a_table_of_the_t_distribution(n, level, quantile):
    found = values_of([float(i * i) for i in range(n)], level)
    assert (found["ci_high"] - found["mean"]) / found["se"] == pytest.approx(quantile, abs=5e-4)
    assert found["mean"] - found["ci_low"] == pytest.approx(found["ci_high"] - found["mean"])


def test_one_value_has_a_mean_and_no_spread():
    found = statistics([3.0], 1, 0.9)
    assert found["mean"].value == found["median"].value == 3.0
    for name in ("sd", "se", "ci_low", "ci_high"):
        assert (found[name].value, found[name].reason) == (None, "one value has no spread")


def test_no_value_gives_counts_and_a_reason():
    found = statistics([], 0, 0.9)
    assert (found["n"].value, found["n_runs"].value) == (0, 0)
    for name in NAMES[2:]:
        assert (found[name].value, found[name].reason) == (None, "no record has a value")


def test_equal_values_have_no_spread_but_a_number_for_it():
    found = values_of([0.1, 0.1, 0.1])
    assert (found["mean"], found["sd"], found["ci_low"]) == (pytest.approx(0.1), 0.0, 0.1)


def test_what_leaves_floating_point_is_null_with_a_reason():
    found = statistics([1.7e308, 1.7e308, -1.7e308], 1, 0.9)
    assert (found["sd"].value, found["sd"].reason) == (None, "too large for a number")
    assert found["max"].value == 1.7e308


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8))
def test_no_number_is_ever_nan_or_infinite(values):
    for number in statistics(values, 1, 0.9).values():
        assert (number.value is None) == (number.reason is not None)
        assert number.value is None or math.isfinite(number.value)


def test_an_interval_has_two_columns():
    assert columns(["n", "ci", "mean"]) == ["n", "ci_low", "ci_high", "mean"]
