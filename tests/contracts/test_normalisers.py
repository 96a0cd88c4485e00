"""What every normaliser promises, for any values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from quorum.attribution.normalisers import AbsSum, Identity, MinMax, PowerShift

SCALED = [AbsSum(), PowerShift(), PowerShift(power=0.5), MinMax()]
VALUES = arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e6, 1e6))


@pytest.mark.parametrize("normaliser", [Identity(), *SCALED])
@given(values=VALUES)
def test_the_input_stays_and_the_order_of_players_too(normaliser, values):
    before = values.copy()
    result, reason = normaliser.normalise(values)
    assert values.tobytes() == before.tobytes()
    assert (result is None) == bool(reason)
    if result is not None:
        assert not np.shares_memory(result, values)
        order = np.argsort(values, kind="stable")
        assert (np.diff(result[order]) >= 0).all()


@pytest.mark.parametrize("normaliser", SCALED)
@given(values=VALUES)
def test_absolute_values_sum_to_1(normaliser, values):
    result, _ = normaliser.normalise(values)
    if result is not None:
        assert np.abs(result).sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("normaliser", SCALED)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_give_none(normaliser, bad):
    assert normaliser.normalise(np.array([1.0, bad])) == (None, "a value is not finite")
