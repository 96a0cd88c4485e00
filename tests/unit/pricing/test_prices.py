from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from quorum.errors import BudgetError, InputError, MissingExtraError
from quorum.pricing.cost import cost, rates
from quorum.pricing.genai import GenaiPrices
from quorum.pricing.prices import Prices, plain
from quorum.pricing.table import COLUMNS, RATES, Price, parse_table
from quorum.records import Usage

TABLE = Path(__file__).parents[3] / "data/prices/prices.csv"
TODAY = date(2026, 11, 29)
HEAD = "provider,model,input,output\n"


@pytest.fixture(scope="module")
def genai() -> GenaiPrices:
    return GenaiPrices(TODAY)


def user(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_row_of_our_table_has_rates_source_and_date():
    rows = Prices.load(TABLE).sources[0].rows
    assert TABLE.read_text(encoding="utf-8").splitlines()[0] == ",".join(COLUMNS)
    for price in rows.values():
        assert price.source.startswith("https://")
        assert price.as_of is not None
        assert None not in (price.cached_input, price.batch_input, price.batch_output)
        assert price.batch_input * 2 == price.input
        assert price.batch_output * 2 == price.output


def test_our_table_says_what_genai_prices_says(genai):
    for (provider, model), price in Prices.load(TABLE).sources[0].rows.items():
        other = genai.find(provider, model)
        if other is None:  # a dated name that no rule states in full, or a tiered price
            assert model != price.model or model == "claude-sonnet-4-5"
            continue
        for name in RATES:
            ours, theirs = getattr(price, name), getattr(other, name)
            assert ours == theirs or (model, name) == ("gemini-2.5-flash", "batch_cached_input")


def test_case_101_a_name_is_matched_exactly_or_by_a_stated_alias():
    prices = Prices.load(TABLE)
    found = prices.find("openai", "gpt-5-mini-2025-08-07")
    assert (found.model, found.matched) == ("gpt-5-mini", "gpt-5-mini-2025-08-07")
    assert "gpt-5-mini (gpt-5-mini-2025-08-07)" in found.describe()
    for name in ("gpt-5-mini-2026-01-01", "gpt-5", "GPT-5-mini", "gpt-5-min", "gpt-5-mini "):
        assert (prices.find("openai", name) is None) == (name != "gpt-5")
    assert prices.find("azure", "gpt-5-mini") is None


def test_case_101_genai_prices_gives_no_price_by_the_beginning_of_a_name(genai):
    assert genai.find("cohere", "command-a").input == Decimal("2.5")
    assert genai.find("cohere", "command-a-plus-2027") is None
    assert genai.find("openai", "gpt-5-nano").input == Decimal("0.05")
    assert genai.find("openai", "gpt-5-nano-next") is None  # the package: as gpt-5-nano


def test_genai_prices_have_a_batch_rate_only_where_it_is_stated(genai):
    stated = genai.find("openai", "gpt-5-mini")
    assert (stated.batch_input, stated.batch_output) == (Decimal("0.125"), Decimal(1))
    bare = genai.find("cohere", "command-a")
    assert bare.batch_input is None
    usage = Usage(1000, 0, 100)
    assert cost(usage, bare, "batch") == cost(usage, bare)
    assert "no batch rate for input" in " ".join(rates(bare, "batch").notes)
    assert GenaiPrices(date(2026, 10, 13)).find("openai", "gpt-5-mini").batch_input is None


def test_genai_prices_that_hang_on_more_than_tokens_are_no_price(genai):
    assert genai.find("anthropic", "claude-sonnet-4-5") is None  # tiers above 200k tokens
    assert genai.find("perplexity", "sonar") is None  # charged by the request besides
    assert genai.find("nobody", "gpt-5-mini") is None


def test_genai_prices_fill_what_neither_table_knows_and_say_so(tmp_path):
    mine = user(tmp_path, HEAD + "openai,gpt-4o,9,9\n")
    prices = Prices.load(TABLE, mine, use_genai_prices=True, today=TODAY)
    assert prices.find("openai", "gpt-4o").source == str(mine)
    assert prices.find("openai", "gpt-5-mini").source.startswith("https://")
    assert prices.find("openai", "gpt-3.5-turbo").source.startswith("genai-prices ")
    assert prices.find("openai", "my-finetune-1") is None


def test_genai_prices_that_are_not_installed_are_one_line_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    monkeypatch.setitem(sys.modules, "genai_prices.data", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'quorum\[genai-prices\]'"):
        Prices.load(TABLE, use_genai_prices=True)


def test_case_100_a_model_without_a_price_can_have_no_cap_in_usd():
    with pytest.raises(
        BudgetError, match=r"got 'gpt-5-mini-x'.*Give a row in prices\.file"
    ) as error:
        Prices.load(TABLE).require("openai", "gpt-5-mini-x")
    assert error.value.exit_code == 4
    assert "gpt-5-mini has one, which is another model" in str(error.value)


@pytest.mark.parametrize("rate", ["250000", "1000.01", "0.00000025"])
def test_case_103_a_rate_that_looks_like_a_slip_of_the_unit_needs_a_confirmation(tmp_path, rate):
    mine = user(tmp_path, HEAD + f"openai,gpt-4o,{rate},9\n")
    with pytest.raises(InputError, match=r"line 2: has an unlikely input.*not per token") as error:
        Prices.load(TABLE, mine)
    assert "prices.confirmed=true" in str(error.value)
    prices = Prices.load(TABLE, mine, confirmed=True)
    assert prices.find("openai", "gpt-4o").input == Decimal(rate)


def test_a_users_row_replaces_the_whole_row_and_only_that_model(tmp_path):
    prices = Prices.load(TABLE, user(tmp_path, HEAD + "openai,gpt-5-mini,0,0\nme,m,1,2\n"))
    free = prices.find("openai", "gpt-5-mini")
    assert (free.input, free.cached_input, free.batch_input) == (0, None, None)
    assert cost(Usage(1000, 800, 10), free) == 0
    assert prices.find("openai", "gpt-5").input == Decimal("1.25")
    assert prices.find("me", "m").output == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("provider,model,input\n", "lacks the column output"),
        ("provider,model,input,outptu\n", "unknown column, got 'outptu'.*Did you mean output?"),
        ("provider,model,input,output,output\n", "names a column twice"),
        ("", "lacks the column provider"),
        (HEAD + "p,m,1\n", "line 2: has more or fewer cells"),
        (HEAD + "p,m,1,2,3\n", "line 2: has more or fewer cells"),
        (HEAD + "p,m,,2\n", "line 2: has no input. Unknown is not 0"),
        (HEAD + "p,,1,2\n", "line 2: has no model"),
        (HEAD + "p,m,-1,2\n", "line 2: has no price in input, got '-1'"),
        (HEAD + "p,m,nan,2\n", "line 2: has no price in input, got 'nan'"),
        (HEAD + "p,m,Infinity,2\n", "line 2: has no price in input"),
        (HEAD + "p,m,1$,2\n", "line 2: has no price in input, got '1\\$'"),
        (HEAD + "p,m,1,2\np,m,1,2\n", "line 3: prices a model that an earlier line prices"),
        (HEAD + '"p,m,1,2\n', "is not a CSV table"),
        ("provider,model,aliases,input,output\np,m,n,1,2\np,n,,1,2\n", "line 3: prices a model"),
        ("provider,model,input,output,currency\np,m,1,2,EUR\n", "caps do not count in, got 'EUR'"),
        ("provider,model,input,output,as_of\np,m,1,2,1.11.2026\n", "no date in as_of"),
    ],
)
def test_a_table_that_cannot_be_used_is_one_line_with_its_place(text, message):
    with pytest.raises(InputError, match=message):
        parse_table(text, "mine.csv")


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot be read as a price table"):
        Prices.load(tmp_path / "none.csv")


def test_a_byte_order_mark_and_spaces_do_no_harm(tmp_path):
    mine = user(tmp_path, "\ufeffprovider,model,input,output\np , m, 1 ,2\n")
    assert Prices.load(None, mine).find("p", "m").input == 1


def test_an_old_price_and_one_without_a_date_are_said():
    price = Price("p", "m", Decimal(1), Decimal(1), as_of=date(2026, 8, 1))
    assert price.warnings(date(2026, 10, 30)) == ()  # 90 days
    assert price.warnings(date(2026, 10, 31)) == ("the price of p/m is 91 days old",)
    assert Price("p", "m", Decimal(1), Decimal(1)).warnings(TODAY) == (
        "the price of p/m has no date",
    )
    assert Price.local("embedded", "m").warnings(TODAY) == ()


def test_a_local_model_has_price_0_with_source_local():
    price = Price.local("embedded", "smollm")
    assert cost(Usage(10_000, 0, 10_000), price) == 0
    assert plain(price)["source"] == "local"


def test_the_cards_of_prices_are_text_and_null_and_name_what_was_matched():
    cards = Prices.load(TABLE).cards([("openai", "gpt-4.1"), ("openai", "nothing")])
    assert cards[0]["input"] == "2"
    assert cards[0]["batch_cached_input"] is None
    assert (cards[0]["matched"], cards[0]["as_of"]) == ("gpt-4.1", "2026-10-14")
    assert cards[1] == {"provider": "openai", "model": "nothing", "status": "unpriced"}
