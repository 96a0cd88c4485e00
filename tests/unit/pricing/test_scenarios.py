from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from quorum.pricing.forecast import Band, fit_history, forecast
from quorum.pricing.scenarios import (
    SCENARIOS,
    STATUSES,
    Part,
    largest_within,
    scenarios,
    status,
    what_fits,
)
from quorum.pricing.structural import Features
from quorum.pricing.table import Price

PRICE = Price(
    "p", "m", Decimal("0.25"), Decimal(2), batch_input=Decimal("0.125"), batch_output=Decimal(1)
)
ASK = Part(Features("ask", "p", "m", 1000, 400.0, 128), n_in_store=400)
LEARN = Part(Features("learn", "p", "m", 10, 4000.0, 512))
NOTHING = fit_history([])
BAND = Band(Decimal(1), Decimal(2), Decimal(3))


def test_a_run_is_forecast_whole_and_as_it_remains_at_once_and_in_batches():
    found = {row.name: row for row in scenarios([ASK, LEARN], NOTHING, PRICE)}
    assert tuple(found) == tuple(SCENARIOS)
    assert [found[name].totals.n_requests for name in found] == [1010, 1010, 610, 610]
    whole, remaining = found["whole"].totals, found["remaining"].totals
    assert remaining.usd.base < whole.usd.base
    assert abs(found["whole_batch"].totals.usd.base * 2 - whole.usd.base) < Decimal("1e-6")
    one = forecast(replace(ASK.features, n_requests=600), NOTHING, price=PRICE)
    assert found["remaining"].parts[0] == one


def test_totals_are_the_sums_of_the_rows():
    (whole,) = scenarios([ASK, LEARN], NOTHING, PRICE, names=["whole"])
    for end in ("low", "base", "high"):
        rows = [getattr(part.usd, end) for part in whole.parts]
        assert getattr(whole.totals.usd, end) == sum(rows)
        tokens = [getattr(part.output_tokens, end) for part in whole.parts]
        assert getattr(whole.totals.output_tokens, end) == pytest.approx(sum(tokens))


def test_without_a_price_tokens_are_forecast_and_cost_is_null():
    (whole,) = scenarios([ASK, LEARN], NOTHING, None, names=["whole"])
    assert (whole.totals.usd, whole.totals.possible_usd) == (None, None)
    assert whole.totals.input_tokens.base > 0


@pytest.mark.parametrize(
    ("usd", "cap", "spent", "expected"),
    [
        (BAND, Decimal(3), Decimal(0), "within"),
        (BAND, Decimal("2.99"), Decimal(0), "at_risk"),
        (BAND, Decimal(3), Decimal("0.01"), "at_risk"),
        (BAND, Decimal(2), Decimal(0), "at_risk"),
        (BAND, Decimal("1.99"), Decimal(0), "exceeds"),
        (BAND, Decimal(3), Decimal(2), "exceeds"),
        (BAND, None, Decimal(0), "no_cap"),
        (None, Decimal(3), Decimal(0), "unpriced"),
        (None, None, Decimal(0), "unpriced"),
    ],
)
def test_the_status_compares_the_band_with_what_is_left_of_the_cap(usd, cap, spent, expected):
    assert status(usd, cap, spent) == expected
    assert expected in STATUSES


def test_what_fits_is_the_most_whose_high_forecast_is_within_the_cap():
    part = replace(ASK, n_in_store=0)
    (whole,) = scenarios([part], NOTHING, PRICE, names=["whole"])
    cap = whole.totals.usd.high / 2
    n = what_fits([part], NOTHING, PRICE, cap)
    assert 400 < n < 600

    def high(count):
        features = replace(part.features, n_requests=count)
        return forecast(features, NOTHING, price=PRICE).usd.high

    assert high(n) <= cap < high(n + 1)
    assert what_fits([part], NOTHING, PRICE, whole.totals.usd.high) == 1000
    assert what_fits([part], NOTHING, PRICE, cap, spent_usd=cap) == 0


def test_what_fits_counts_what_the_store_has_as_paid():
    assert what_fits([ASK], NOTHING, PRICE, Decimal(1000)) == 600
    assert what_fits([replace(ASK, n_in_store=1000)], NOTHING, PRICE, Decimal(0)) == 0


@pytest.mark.parametrize(("cap", "n"), [(0, 0), (1, 0), (2, 1), (3, 1), (199, 99), (200, 100)])
def test_the_largest_count_within_a_cap_is_found_exactly(cap, n):
    assert largest_within(Decimal(cap), 100, lambda count: Decimal(2 * count)) == n
