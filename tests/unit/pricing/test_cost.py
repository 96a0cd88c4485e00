from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from quorum.errors import InputError
from quorum.pricing.cost import bill, bill_by, cost, rates, total_usage, usd_text, worst_case
from quorum.pricing.history import UsageRow
from quorum.pricing.prices import Prices
from quorum.pricing.table import Price
from quorum.records import Usage

TABLE = Path(__file__).parents[3] / "data/prices/prices.csv"
PRICES = Prices.load(TABLE)
MINI = PRICES.require("openai", "gpt-5-mini")  # 0.25 in, 0.025 cached, 2 out


def row(key: str, **changed: object) -> UsageRow:
    values = {
        "time": "2026-11-29T18:25:44.333+00:00",
        "module": "ask",
        "backend": "openai",
        "model": "gpt-5-mini",
        "key": key,
        "finish_reason": "stop",
        "attempt": 1,
        "usage": Usage(1000, 800, 300, 250),
    }
    return UsageRow(**{**values, **changed})


def failed(key: str, reason: str, **changed: object) -> UsageRow:
    return row(key, finish_reason=reason, status="failed", usage=Usage(), **changed)


def test_case_95_cached_input_is_charged_once_and_at_its_own_rate():
    usage = Usage(input_tokens=1000, cached_input_tokens=800, output_tokens=300)
    # 200 x 0.25 + 800 x 0.025 + 300 x 2 = 670 per million
    assert cost(usage, MINI) == Decimal("0.000670")


def test_case_97_reasoning_is_part_of_the_output_and_not_charged_again():
    with_reasoning = Usage(1000, 800, 300, reasoning_tokens=250)
    assert cost(with_reasoning, MINI) == cost(Usage(1000, 800, 300), MINI) == Decimal("0.00067")


def test_case_98_thoughts_that_stand_apart_from_the_answer_are_added_to_the_output():
    usage = Usage.of_parts(plain_input=10, visible_output=50, reasoning=250)
    assert (usage.output_tokens, usage.reasoning_tokens) == (300, 250)
    flash = PRICES.require("google", "gemini-2.5-flash")
    assert cost(usage, flash) == Decimal("0.000753")  # 10 x 0.3 + 300 x 2.5 = 753


def test_parts_that_exclude_each_other_add_up_to_the_input():
    usage = Usage.of_parts(plain_input=100, cached_input=800, cache_write=60, visible_output=5)
    assert usage == Usage(960, 800, 5, 0, 60)
    haiku = PRICES.require("anthropic", "claude-haiku-4-5")
    # 100 x 1 + 800 x 0.1 + 60 x 1.25 + 5 x 5 = 280
    assert cost(usage, haiku) == Decimal("0.000280")


def test_case_100_a_model_without_a_price_costs_null_and_not_0():
    assert cost(Usage(1000, 0, 300), None) is None
    found = bill([row("a", model="my-finetune-1")], PRICES.find)
    assert (found.known_usd, found.status, found.n_unpriced) == (None, "unpriced", 1)
    assert found.usage.input_tokens == 1000


def test_one_unpriced_model_makes_the_sum_null_and_the_split_says_which():
    rows = [row("a"), row("b", model="my-finetune-1")]
    assert bill(rows, PRICES.find).known_usd is None
    split = bill_by(rows, "model", PRICES.find)
    assert split["gpt-5-mini"].known_usd == Decimal("0.00067")
    assert split["my-finetune-1"].known_usd is None


def test_case_106_reading_a_ledger_again_and_again_costs_once():
    rows = [row("a", mode="batch"), row("b", mode="batch")]
    bills = [bill(rows, PRICES.find).known_usd for _ in range(9)]
    # 2 x (200 x 0.125 + 800 x 0.0125 + 300 x 1) = 670
    assert set(bills) == {Decimal("0.00067")}


def test_case_107_a_batch_with_cached_input_has_batch_and_cached_batch_rates():
    usage = Usage(1000, 800, 300)
    # 200 x 0.125 + 800 x 0.0125 + 300 x 1 = 335
    assert cost(usage, MINI, "batch") == Decimal("0.000335")
    assert rates(MINI, "batch").notes == ()


def test_case_107_a_missing_batch_rate_is_the_standard_one_and_that_is_said():
    four = PRICES.require("openai", "gpt-4.1")  # 2, 0.5 cached, 8; batch 1 and 4, none for cached
    assert cost(Usage(1000, 800, 300), four, "batch") == Decimal("0.0018")  # 200 + 400 + 1200
    assert rates(four, "batch").notes == (
        "openai/gpt-4.1: no batch rate for cached input, so the standard rate counts",
    )
    bare = Price("p", "m", Decimal(1), Decimal(2))
    assert cost(Usage(1000, 0, 300), bare, "batch") == cost(Usage(1000, 0, 300), bare)
    assert len(rates(bare, "batch").notes) == 4  # cached, and three batch rates


def test_case_110_every_attempt_is_counted_and_known_and_possible_costs_stay_apart():
    rows = [
        row("a"),
        failed("b", "transient"),  # 500 after the tokens were generated: perhaps charged
        failed("c", "timeout"),
        failed("d", "permanent"),  # turned away at the door
        row("b", attempt=2),
    ]
    found = bill(rows, PRICES.find)
    assert (found.n_calls, found.n_possible) == (2, 2)
    assert found.known_usd == Decimal("0.00134")
    assert found.possible_usd == Decimal("0.00134")  # two at the mean of a reply


def test_a_failed_attempt_that_reported_its_tokens_is_a_known_cost():
    found = bill([row("a", status="failed", finish_reason="failed")], PRICES.find)
    assert (found.known_usd, found.possible_usd, found.n_possible) == (Decimal("0.00067"), 0, 0)


def test_a_possible_cost_without_a_reply_to_judge_by_is_null():
    found = bill([failed("a", "timeout")], PRICES.find)
    assert (found.known_usd, found.possible_usd) == (Decimal(0), None)


def test_a_model_without_a_price_is_unpriced_also_where_every_call_failed():
    found = bill([failed("a", "permanent", model="my-finetune-1")], PRICES.find)
    assert (found.known_usd, found.possible_usd, found.status) == (None, 0, "unpriced")


def test_a_local_model_costs_0_also_where_calls_failed():
    rows = [failed("a", "timeout"), row("b")]
    found = bill(rows, Price.local)
    assert (found.known_usd, found.possible_usd, found.status) == (0, 0, "priced")


def test_the_worked_example_costs_what_the_survey_of_peers_says():
    mini = PRICES.require("openai", "gpt-4o-mini")
    single = Usage(input_tokens=350 * 18_000, output_tokens=5 * 18_000)
    assert cost(single, mini) == Decimal("0.999")
    assert cost(single, mini, "batch") == Decimal("0.4995")
    together = Usage(input_tokens=2_600 * 300, output_tokens=420 * 300)
    assert cost(together, mini) == Decimal("0.1926")


def test_a_sum_of_many_small_costs_is_exact():
    price = Price("p", "m", Decimal("0.1"), Decimal("0.2"))
    one = cost(Usage(1, 0, 1), price)
    assert sum(one for _ in range(10_000)) == cost(Usage(10_000, 0, 10_000), price)


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        (Usage(10, 0, 5, 6), "more reasoning_tokens than output_tokens.*got 6; allowed at most 5"),
        (Usage(10, 11), "more tokens read from and written to the cache than input_tokens"),
        (Usage(10, 6, cache_write_tokens=5), "got 11; allowed at most 10"),
        (Usage(-1), "negative input_tokens"),
        (Usage(1, 0, -1), "negative output_tokens"),
    ],
)
def test_counts_that_contradict_each_other_are_an_error_priced_or_not(usage, message):
    for price in (MINI, None):
        with pytest.raises(InputError, match=message):
            cost(usage, price)
    with pytest.raises(InputError, match="usage of call abc: has"):
        total_usage([row("abc", usage=usage)])


def test_cost_hangs_on_reasoning_only_through_the_output():
    assert len({cost(Usage(9, 0, 7, n), MINI) for n in range(8)}) == 1


def test_an_unknown_mode_is_an_error():
    with pytest.raises(InputError, match="got 'flex'; allowed sync, batch"):
        cost(Usage(1), MINI, "flex")


def test_the_worst_case_has_no_cached_input_and_the_longest_reply():
    haiku = PRICES.require("anthropic", "claude-haiku-4-5")
    assert worst_case(1000, 128, haiku) == Decimal("0.00189")  # 1000 x 1.25 + 128 x 5
    assert worst_case(1000, 128, MINI) == Decimal("0.000506")
    for usage in (Usage(1000, 0, 128), Usage(1000, 900, 128), Usage(1000, 0, 128, 0, 1000)):
        assert cost(usage, haiku) <= worst_case(1000, 128, haiku)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Decimal("0.000670"), "0.00067"),
        (Decimal("1E-9"), "0.000000001"),
        (Decimal(3), "3.00"),
        (Decimal("0E-7"), "0.00"),
        (None, None),
    ],
)
def test_amounts_are_plain_text_without_an_exponent(amount, text):
    assert usd_text(amount) == text
