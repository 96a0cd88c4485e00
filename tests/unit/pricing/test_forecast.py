from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest

from quorum.digests import canonical_json
from quorum.errors import InputError
from quorum.pricing.cost import cost
from quorum.pricing.forecast import fit_history, forecast
from quorum.pricing.history import RunUsage
from quorum.pricing.structural import Features, structural_tokens
from quorum.pricing.table import Price
from quorum.records import Usage

PRICE = Price("p", "m", Decimal("0.25"), Decimal(2), Decimal("0.025"))
ASK = Features("ask", "p", "m", 1000, length=400.0)
NOTHING = fit_history([])


def run(name: str, inputs: float, outputs: float, **changed: object) -> RunUsage:
    """A run whose requests used so many tokens each."""
    values = {
        "module": "ask",
        "backend": "p",
        "model": "m",
        "mode": "sync",
        "n_requests": 500,
        "n_calls": 500,
        "n_failed": 0,
        "input_tokens": round(500 * inputs),
        "cached_input_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": round(500 * outputs),
        "reasoning_tokens": 0,
        "input_variation": 0.2,
        "output_variation": 0.5,
        "length": 400.0,
    }
    return RunUsage(name, **{**values, **changed})


def history(n: int, inputs: float = 150.0, outputs: float = 40.0, **changed: object):
    """Runs that differ by up to a tenth from what they are said to use."""
    factors = [1 + 0.1 * ((i * 7) % 11 - 5) / 5 for i in range(n)]
    return [run(f"r{i}", inputs * f, outputs * f, **changed) for i, f in enumerate(factors)]


def test_without_history_tokens_come_from_text_length_and_typical_replies():
    found = forecast(ASK, NOTHING, price=PRICE)
    assert found.input_tokens.base == pytest.approx(112_000)  # 400 / 4 + 12, a thousand times
    assert found.output_tokens.base == pytest.approx(131_898, abs=1)  # 80 e^0.5
    assert found.usd.base == cost(Usage(112_000, 0, 131_898), PRICE)
    assert found.usd.low < found.usd.base < found.usd.high
    assert (found.card["method"], found.card["n_runs"]) == ("prior", 0)
    assert found.card["fallback"].startswith("no earlier run of this kind of call")
    assert found.card["input"]["loro_coverage"] is None


def test_case_109_no_tokeniser_is_needed_and_the_margin_is_said():
    found = forecast(ASK, NOTHING)
    assert "characters / 4" in found.notes[0]
    assert "no tokeniser is downloaded" in found.notes[0]
    spread = found.input_tokens.high / found.input_tokens.base
    assert 1.3 < spread < 2.0  # a factor of 1.3 is one standard deviation
    assert found.usd is None


def test_a_short_limit_cuts_the_typical_reply():
    def tokens(limit):
        return structural_tokens(replace(ASK, max_tokens=limit))[1]

    assert tokens(16) == pytest.approx(16, rel=0.05)  # nearly every reply reaches it
    assert tokens(128) == pytest.approx(80, rel=0.05)
    assert tokens(10**9) == pytest.approx(tokens(None))
    assert tokens(0) == 0
    found = forecast(replace(ASK, max_tokens=16), NOTHING)
    assert found.output_tokens.high <= 16_000


def test_output_that_is_known_is_exact():
    for tokens in (0.0, 1.0):
        found = forecast(replace(ASK, output_tokens=tokens), NOTHING, price=PRICE)
        output = found.output_tokens
        assert output.low == output.base == output.high == 1000 * tokens


def test_few_runs_pull_the_structural_ratio_towards_theirs():
    bases = [
        forecast(ASK, fit_history([run(f"r{i}", 150, 40) for i in range(n)])).input_tokens.base
        for n in (0, 1, 2, 5)
    ]
    assert bases[0] == pytest.approx(112_000)
    assert bases[0] < bases[1] < bases[2] < bases[3] < 150_000
    assert bases[1] > 135_000  # one run of 500 calls says more than text length
    found = forecast(ASK, fit_history(history(3)))
    assert found.card["method"] == "shrunken_ratio"
    assert set(found.card["input"]["coefficients"]) == {"log_ratio"}


def test_with_more_runs_the_interval_narrows_and_the_card_says_how_good_it_was():
    few, many = (forecast(ASK, fit_history(history(n)), price=PRICE) for n in (2, 20))
    assert many.usd.high / many.usd.low < few.usd.high / few.usd.low
    card = many.card
    assert (card["method"], card["n_runs"], card["n_runs_of_model"]) == ("log_linear", 20, 20)
    assert 0 < card["input"]["loro_median_error"] < 0.1
    assert 0.8 <= card["input"]["loro_coverage"] <= 1
    assert (card["fallback"], card["extrapolates"]) == (None, False)


def test_slopes_are_learned_where_lengths_differ():
    # a template of 112 tokens, not 12: the ratio to length / 4 + 12 falls as prompts grow
    lengths = (100, 200, 400, 800, 1600, 3200)
    runs = [run(f"r{n}", n / 4 + 112, 40, length=float(n)) for n in lengths]
    for length in (150.0, 1200.0):
        found = forecast(replace(ASK, length=length), fit_history(runs))
        assert found.input_tokens.base == pytest.approx(1000 * (length / 4 + 112), rel=0.15)
    assert found.card["input"]["coefficients"]["log_length"] < -0.1


def test_a_length_beyond_all_runs_and_a_new_model_are_extrapolations():
    runs = fit_history(history(8))
    far = forecast(replace(ASK, length=4000.0), runs)
    assert far.card["extrapolation"] == ["length is outside of what earlier runs had"]
    new = forecast(replace(ASK, model="n"), runs)
    assert new.card["extrapolation"] == ["no earlier run of this model"]
    assert new.card["fallback"] == "no earlier run of this model: the ratio of other models"
    known = forecast(ASK, runs)
    assert new.input_tokens.high / new.input_tokens.low > (
        known.input_tokens.high / known.input_tokens.low
    )


def test_models_are_told_apart_and_kinds_of_call_do_not_mix():
    terse = history(6, outputs=10.0)
    wordy = history(6, outputs=100.0, model="n")
    other = history(6, outputs=5000.0, module="learn")
    runs = fit_history(terse + wordy + other)
    assert forecast(ASK, runs).output_tokens.base == pytest.approx(10_000, rel=0.1)
    found = forecast(replace(ASK, model="n"), runs)
    assert found.output_tokens.base == pytest.approx(100_000, rel=0.1)
    assert found.card["n_runs"] == 12


def test_cached_input_is_forecast_as_the_models_own_runs_had_it():
    runs = history(8, cached_input_tokens=500 * 60)
    cached = forecast(ASK, fit_history(runs), price=PRICE)
    plain = forecast(ASK, fit_history(history(8)), price=PRICE)
    other = forecast(replace(ASK, model="n"), fit_history(runs), price=PRICE)
    assert cached.usd.base < plain.usd.base
    assert cached.input_tokens.base == plain.input_tokens.base
    assert (
        other.usd.base
        == forecast(replace(ASK, model="n"), fit_history(history(8)), price=PRICE).usd.base
    )  # another model's cache is no promise


def test_a_batch_is_forecast_at_batch_rates_and_missing_ones_are_said():
    half = replace(PRICE, batch_input=Decimal("0.125"), batch_output=Decimal(1))
    runs = fit_history(history(8))
    sync, batch = (forecast(ASK, runs, price=half, mode=mode) for mode in ("sync", "batch"))
    assert batch.usd.base * 2 == sync.usd.base
    bare = forecast(ASK, runs, price=PRICE, mode="batch")
    assert bare.usd.base == sync.usd.base
    assert any("no batch rate for input" in note for note in bare.notes)


def test_case_104_a_reasoning_model_has_a_stated_allowance():
    thinking = replace(ASK, n_requests=12, is_reasoning=True)
    found = forecast(thinking, NOTHING, price=PRICE)
    visible = forecast(replace(thinking, is_reasoning=False), NOTHING, price=PRICE)
    assert found.card["reasoning_allowance"] == 4.0
    assert any("an allowance of 4 times" in note for note in found.notes)
    # what was met: the real cost 2.95 times that of the visible replies
    assert found.usd.low < visible.usd.base * Decimal("2.95") < found.usd.high


def test_case_104_after_20_pilot_calls_the_forecast_is_re_estimated():
    thinking = replace(ASK, is_reasoning=True)
    pilot = run(
        "pilot", 0, 0, n_requests=20, n_calls=20, input_tokens=20 * 110,
        output_tokens=20 * 900, reasoning_tokens=20 * 800, output_variation=0.3,
    )  # fmt: skip
    before = forecast(thinking, NOTHING, price=PRICE)
    after = forecast(thinking, NOTHING, price=PRICE, pilot=pilot)
    true = cost(Usage(110_000, 0, 900_000), PRICE)
    assert abs(after.usd.base / true - 1) < Decimal("0.1")
    assert after.usd.low < true < after.usd.high
    assert after.usd.high / after.usd.low < before.usd.high / before.usd.low / 2
    assert after.card["calibration"] == {"n_calls": 20, "run": "pilot"}
    assert after.card["reasoning_allowance"] is None
    assert "ask: re-estimated from 20 pilot calls" in after.notes


def test_a_model_that_is_said_to_reason_but_never_did_is_forecast_as_its_runs_were():
    runs = fit_history(history(8))
    assert forecast(replace(ASK, is_reasoning=True), runs) == forecast(ASK, runs)


def test_a_reasoning_model_without_runs_is_not_forecast_like_models_that_do_not_reason():
    runs = fit_history(history(8))
    plain = forecast(replace(ASK, model="n"), runs).output_tokens
    thinking = forecast(replace(ASK, model="n", is_reasoning=True), runs).output_tokens
    assert thinking.base > 2.5 * plain.base
    assert thinking.high / thinking.low > plain.high / plain.low


def test_failed_attempts_are_a_possible_cost_apart():
    runs = history(8, n_failed=50)  # one in ten requests
    found = forecast(ASK, fit_history(runs), price=PRICE)
    assert found.possible_usd == found.usd.base * Decimal("0.1")
    assert found.usd == forecast(ASK, fit_history(history(8)), price=PRICE).usd


def test_nothing_to_send_costs_nothing():
    found = forecast(replace(ASK, n_requests=0), fit_history(history(8)), price=PRICE)
    assert (found.usd.low, found.usd.base, found.usd.high) == (0, 0, 0)


def test_cost_grows_with_every_request():
    runs = fit_history(history(8))
    costs = [forecast(replace(ASK, n_requests=n), runs, price=PRICE).usd for n in (1, 10, 1000)]
    assert all(a.base < b.base and a.high < b.high for a, b in pairwise(costs))


def test_the_order_of_runs_changes_nothing_and_the_card_is_plain_json():
    runs = history(9)
    one, other = (forecast(ASK, fit_history(rows), price=PRICE) for rows in (runs, runs[::-1]))
    assert one == other
    assert canonical_json(one.card)


def test_a_wider_level_is_a_wider_interval():
    runs = fit_history(history(8))
    bands = [forecast(ASK, runs, level, price=PRICE).usd for level in (0.5, 0.8, 0.95)]
    assert bands[2].low < bands[1].low < bands[0].low < bands[0].base
    assert bands[0].base < bands[0].high < bands[1].high < bands[2].high
    assert len({band.base for band in bands}) == 1


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, float("nan")])
def test_a_level_outside_of_0_to_1_is_an_error(level):
    with pytest.raises(InputError, match="level: is no share"):
        forecast(ASK, NOTHING, level)


@pytest.mark.parametrize("changed", [{"n_requests": -1}, {"length": float("nan")}])
def test_features_out_of_range_are_an_error(changed):
    with pytest.raises(InputError, match="forecast of ask"):
        forecast(replace(ASK, **changed), NOTHING)


def test_the_structural_forecast_is_near_the_embedded_models_real_runs():
    # the default input: 245 requests of 20.9 characters, 34.8 input and 14.8 output tokens each;
    # its chat template adds a system message
    features = Features(
        "attribution", "embedded", "smollm2", 245, 20.94, max_tokens=16, template_tokens=30.0
    )
    found = forecast(features, NOTHING)
    tokens = found.input_tokens.base + found.output_tokens.base
    assert tokens == pytest.approx(8531 + 3621, rel=0.35)
    assert found.input_tokens.low < 8531 < found.input_tokens.high
