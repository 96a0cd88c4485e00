"""chrF, against numbers worked out by hand."""

from __future__ import annotations

import pytest

from quorum.attribution.values.base import Reply
from quorum.attribution.values.chrf import Chrf


def payoff(text: str, reference: str, **options: object) -> float:
    return float(Chrf(**options).payoffs([Reply(text)], reference)[0])


def test_precision_and_recall_are_averages_over_orders():
    # n=1: 2/3, n=2: 1/2, n=3: 0/1; both averages 7/18
    assert payoff("abd", "abc") == pytest.approx(7 / 18, rel=1e-15)


def test_beta_2_weighs_recall_4_times():
    # P = (2/4 + 1/3)/2 = 5/12, R = 1; 5P/(4P + 1) = 25/32
    assert payoff("abab", "ab") == pytest.approx(25 / 32, rel=1e-15)
    assert payoff("abab", "ab", beta=1.0) == pytest.approx(2 * 5 / 12 / (17 / 12), rel=1e-15)


def test_white_space_counts_only_when_told():
    assert payoff("a b", "ab") == 1.0
    assert payoff("a b", "ab", whitespace=True) < 1.0


def test_ends_of_the_scale():
    assert payoff("A", "A") == 1.0
    assert payoff("A", "B") == 0.0
    assert payoff("", "") == 1.0
    assert payoff("", "a") == payoff("a", "") == 0.0


def test_order_1_compares_letters():
    assert payoff("ba", "ab", order=1) == 1.0
