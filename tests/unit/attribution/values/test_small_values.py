"""Exact match, word weights, and the log-likelihood of the reference text."""

from __future__ import annotations

import math

import pytest

from quorum.attribution.values.base import Reply
from quorum.attribution.values.exact_match import ExactMatch
from quorum.attribution.values.logprob import LogProb
from quorum.attribution.values.word_weights import WordWeights
from quorum.errors import BackendError


def replies(*texts: str) -> list[Reply]:
    return [Reply(text) for text in texts]


def test_exact_match_is_1_or_0():
    texts = replies("B", " B\n", "b", "")
    assert ExactMatch().payoffs(texts, "B").tolist() == [1, 1, 0, 0]
    assert ExactMatch(strip=False).payoffs(texts, "B").tolist() == [1, 0, 0, 0]
    assert ExactMatch(ignore_case=True).payoffs(texts, "B").tolist() == [1, 1, 1, 0]


def test_word_weights_add_up_each_word_as_often_as_it_occurs():
    value = WordWeights({"a": 1.0, "b": 2.0, "c": 3.0})
    assert value.payoffs(replies("a b c", "a, c!", "b b", "", "A"), "").tolist() == [6, 4, 4, 0, 0]
    assert WordWeights({"a": 0.5}, default_weight=1.0).payoffs(replies("a b"), "").tolist() == [1.5]


def test_word_weights_know_refund_from_refuse_and_refusal():
    value = WordWeights({"refund": 1.0, "refuse": 2.0, "refusal": 4.0})
    assert value.payoffs(replies("refusal refund", "refuse"), "").tolist() == [5, 2]


def test_logprob_is_the_mean_over_tokens():
    given = [Reply("", (-1.0, -2.0)), Reply("", (-0.5,))]
    assert LogProb().payoffs(given, "x").tolist() == [-1.5, -0.5]


@pytest.mark.parametrize(
    ("logprobs", "reason"),
    [
        (None, "the backend gave no log-likelihoods"),
        ((), "has no token"),
        ((-1.0, -math.inf), "not finite, got -inf"),
        ((math.nan,), "not finite, got nan"),
    ],
)
def test_nothing_stands_in_for_a_missing_log_likelihood(logprobs, reason):
    with pytest.raises(BackendError, match=reason):
        LogProb().payoffs([Reply("text", logprobs)], "text")
