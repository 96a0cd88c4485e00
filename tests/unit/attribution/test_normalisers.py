"""Normalisers, on numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from quorum.attribution.normalisers import AbsSum, Identity, MinMax, PowerShift

X = np.array([1.0, -1.0, 2.0])


@pytest.mark.parametrize(
    ("normaliser", "expected"),
    [
        (Identity(), [1, -1, 2]),
        (AbsSum(), [1 / 4, -1 / 4, 2 / 4]),
        (PowerShift(), [2 / 5, 0, 3 / 5]),
        (PowerShift(power=2.0), [4 / 13, 0, 9 / 13]),
        (MinMax(), [2 / 5, 0, 3 / 5]),
    ],
)
def test_formulas(normaliser, expected):
    values, reason = normaliser.normalise(X)
    assert values == pytest.approx(expected, rel=1e-15)
    assert reason == ""


@pytest.mark.parametrize("values", [[0.0, 0.0], [-0.0], []])
def test_abs_sum_of_zeros_is_none_with_a_reason(values):
    result, reason = AbsSum().normalise(np.array(values))
    assert result is None
    assert reason == "all values are 0, so the sum of their absolute values is 0"


@pytest.mark.parametrize("normaliser", [PowerShift(), PowerShift(power=3.0), MinMax()])
@pytest.mark.parametrize("values", [[7.0, 7.0], [3.0], []])
def test_a_shift_of_equal_values_is_none_with_a_reason(normaliser, values):
    result, reason = normaliser.normalise(np.array(values))
    assert result is None
    assert reason == "all values are equal, so they have no range"


def test_large_powers_and_values_do_not_overflow():
    values, _ = PowerShift(power=400.0).normalise(np.array([0.0, 5e5, 1e6]))
    assert values == pytest.approx([0, 0, 1])
    values, _ = AbsSum().normalise(np.array([1e308, -1e308]))
    assert values == pytest.approx([0.5, -0.5])
