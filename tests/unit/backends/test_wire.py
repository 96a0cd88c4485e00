"""What providers count and list, read by numbers known on paper."""

from __future__ import annotations

import json
import math

import pytest

from quorum.backends import wire
from quorum.backends.base import ObservedLimits
from quorum.errors import BackendError
from quorum.reconstruction.learner import SCHEMA
from quorum.records import Generation, Message, Request, Usage
from quorum.runtime.codec import pack_generation, unpack_generation

ASK = Request((Message("user", "How often do you cycle?"),))


def logs(**probs: float) -> list[tuple[str, float]]:
    return [(token, math.log(p)) for token, p in probs.items()]


def test_case_31_a_letter_with_and_without_a_space_is_one_option():
    top = [("A", -1.2), (" A", -0.9), ("B", -1.5), ("The", -3.0)]
    found = wire.choice_probs(top, ("A", "B"))
    a, b = math.exp(-1.2) + math.exp(-0.9), math.exp(-1.5)  # 0.301 + 0.407, 0.223
    assert found.probs == pytest.approx((a / (a + b), b / (a + b)))
    assert found.mass == pytest.approx(a + b)  # the rest, 0.069 and less, is outside
    assert found.bound is None


def test_case_32_an_option_outside_the_list_is_censored_and_not_simply_0():
    found = wire.choice_probs(logs(A=0.5, B=0.3, C=0.1), ("A", "B", "C", "D", "E"))
    assert found.probs == pytest.approx((5 / 9, 3 / 9, 1 / 9, 0, 0))
    assert found.mass == pytest.approx(0.9)
    assert found.bound == pytest.approx(0.1 / (0.9 + 0.1))  # as likely as the least listed


def test_case_32_the_bound_is_kept_in_the_store():
    reply = Generation("", "scored", choice_probs=(1.0, 0.0), choice_mass=0.9, choice_bound=0.1)
    assert unpack_generation(pack_generation(reply)) == reply
    assert b"choice_bound" not in pack_generation(Generation("a"))


def test_a_list_without_any_option_has_no_probabilities_and_no_mass():
    found = wire.choice_probs(logs(The=0.9, I=0.1), ("A", "B"))
    assert (found.probs, found.mass) == (None, 0.0)


@pytest.mark.parametrize(
    ("token", "is_a"),
    [
        ("A", True),
        (" A", True),
        ("▁A", True),
        ("ĠA", True),
        ("\nA", True),
        ("a", False),
        ("A.", False),
        ("An", False),
        ("À", False),
    ],
)
def test_tokens_that_are_the_letter_and_tokens_that_are_not(token, is_a):
    found = wire.choice_probs([(token, -0.1), ("B", -3.0)], ("A", "B"))
    assert (found.probs[0] > 0) is is_a


def test_probabilities_survive_rounded_and_endless_log_probabilities():
    found = wire.choice_probs([("A", 1e-7), ("B", -math.inf), ("C", -9999.0)], ("A", "B", "C"))
    assert found.probs == (1.0, 0.0, 0.0)
    assert found.mass == 1.0


def test_the_drawn_token_counts_where_the_list_leaves_it_out():
    row = {"token": "B", "logprob": -4.0, "top_logprobs": [{"token": "A", "logprob": -0.1}]}
    assert wire.first_tokens([row]) == [("A", -0.1), ("B", -4.0)]
    row = {"token": "A", "logprob": -0.1, "top_logprobs": [{"token": "A", "logprob": -0.1}]}
    assert wire.first_tokens([row]) == [("A", -0.1)]


@pytest.mark.parametrize("content", [None, [], {}, "x", [{}], [{"token": "A", "logprob": None}]])
def test_lists_that_hold_nothing(content):
    assert wire.first_tokens(content) is None


def chat_usage(prompt: int, completion: int, total: int | None = None, **details: int):
    into = {k: v for k, v in details.items() if k in ("cached_tokens", "cache_write_tokens")}
    out = {k: v for k, v in details.items() if k == "reasoning_tokens"}
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion if total is None else total,
        "prompt_tokens_details": into or None,
        "completion_tokens_details": out or None,
    }


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(chat_usage(350, 5), Usage(350, 0, 5, 0), id="plain"),
        pytest.param(
            chat_usage(1000, 300, cached_tokens=800), Usage(1000, 800, 300, 0), id="case 95"
        ),
        pytest.param(
            chat_usage(40, 300, reasoning_tokens=250), Usage(40, 0, 300, 250), id="case 97"
        ),
        pytest.param(
            chat_usage(40, 50, 340, reasoning_tokens=250),
            Usage(40, 0, 300, 250),
            id="case 98: thoughts apart, told by more reasoning than output",
        ),
        pytest.param(
            chat_usage(40, 50, 110, reasoning_tokens=20),
            Usage(40, 0, 70, 20),
            id="case 98: thoughts apart, told by the total",
        ),
        pytest.param(
            chat_usage(40, 50, 340), Usage(40, 0, 300, 250), id="case 98: thoughts not named"
        ),
        pytest.param(
            chat_usage(1000, 3, cached_tokens=700, cache_write_tokens=200),
            Usage(1000, 700, 3, 0, 200),
            id="written to the cache",
        ),
        pytest.param(
            chat_usage(10, 3, cached_tokens=50, cache_write_tokens=9),
            Usage(10, 10, 3, 0, 0),
            id="more cached than there was",
        ),
        pytest.param(
            {
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
                "output_tokens": 7,
                "output_tokens_details": {"reasoning_tokens": 5},
                "total_tokens": 16,
            },
            Usage(9, 4, 7, 5, 1),
            id="responses",
        ),
        pytest.param({"prompt_tokens": 4, "completion_tokens": -1}, Usage(4), id="nonsense"),
        pytest.param({"prompt_tokens": 4.0, "completion_tokens": 2.0}, Usage(4, 0, 2), id="floats"),
    ],
)
def test_every_token_of_openai_is_in_one_place(usage, expected):
    found = wire.openai_usage(usage)
    assert found == expected
    assert found.cached_input_tokens + found.cache_write_tokens <= found.input_tokens
    assert found.reasoning_tokens <= found.output_tokens


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param({"input_tokens": 10, "output_tokens": 2}, Usage(10, 0, 2), id="plain"),
        pytest.param(
            {
                "input_tokens": 50,
                "cache_read_input_tokens": 800,
                "cache_creation_input_tokens": 150,
                "output_tokens": 300,
                "output_tokens_details": {"thinking_tokens": 250},
            },
            Usage(1000, 800, 300, 250, 150),
            id="case 95: input excludes what was cached and written",
        ),
        pytest.param(
            {"input_tokens": 5, "cache_read_input_tokens": None, "output_tokens": 2},
            Usage(5, 0, 2),
            id="nulls",
        ),
    ],
)
def test_every_token_of_anthropic_is_in_one_place(usage, expected):
    assert wire.anthropic_usage(usage) == expected


@pytest.mark.parametrize("nothing", [None, {}, "x", []])
def test_a_server_that_counts_nothing_is_not_counted_as_0(nothing):
    assert wire.openai_usage(nothing) is None
    assert wire.anthropic_usage(nothing) is None
    # 23 characters: 6 tokens; 5 characters: 2
    assert wire.estimated_usage(ASK, "Often") == Usage(input_tokens=6, output_tokens=2)


def test_case_80_repeats_are_draws_of_their_own_and_the_same_again():
    seeds = [wire.seed_of(Request(ASK.messages, {"seed": 7}, sample=i)) for i in range(5)]
    assert len(set(seeds)) == 5
    assert seeds == [wire.seed_of(Request(ASK.messages, {"seed": 7}, sample=i)) for i in range(5)]
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert wire.seed_of(ASK) is None


def test_limits_of_both_providers():
    openai = {"x-ratelimit-limit-requests": "500", "x-ratelimit-limit-tokens": "200000"}
    assert wire.read_limits(openai) == ObservedLimits(500, 200_000)
    anthropic = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-tokens-limit": "48000",
        "anthropic-ratelimit-input-tokens-limit": "40000",
        "anthropic-ratelimit-output-tokens-limit": "8000",
    }
    assert wire.read_limits(anthropic) == ObservedLimits(50, 48_000, 40_000, 8_000)
    for bad in ({}, {"x-ratelimit-limit-requests": "many"}, {"x-ratelimit-limit-tokens": "-1"}):
        assert wire.read_limits(bad) is None


def test_the_learners_schema_is_strict_for_openai_and_known_words_for_anthropic():
    assert wire.is_strict(SCHEMA)
    text = json.dumps(wire.without_limits(SCHEMA))
    assert "maxLength" not in text
    assert "minLength" not in text
    assert "maxItems" not in text
    assert '"minItems": 1' in text  # 2 is more than Anthropic knows, 1 is not
    assert '"minItems": 2' not in text
    assert wire.is_strict(wire.without_limits(SCHEMA))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": {}}, "required": [], "additionalProperties": False},
        {"type": "array", "items": {"type": "object", "properties": {}}},
        {"anyOf": [{"type": "object", "additionalProperties": True}]},
    ],
)
def test_schemas_that_are_not_closed_are_not_strict(schema):
    assert not wire.is_strict(schema)


def test_names_of_properties_are_no_keywords():
    schema = {"type": "object", "properties": {"minimum": {"type": "number", "minimum": 0}}}
    kept = wire.without_limits(schema)
    assert kept == {"type": "object", "properties": {"minimum": {"type": "number"}}}
    assert wire.without_limits({"enum": [{"minimum": 1}]}) == {"enum": [{"minimum": 1}]}


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_a_schema_that_is_none_is_refused_before_anything_is_sent(text):
    with pytest.raises(BackendError, match="schema"):
        wire.schema_of(Request(ASK.messages, {"schema": text}), "backend x")
