"""What every value function promises, for any replies in any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.attribution.values.base import Reply
from quorum.attribution.values.chrf import Chrf
from quorum.attribution.values.embedding import EmbeddingCosine, EmbeddingEuclidean
from quorum.attribution.values.exact_match import ExactMatch
from quorum.attribution.values.logprob import LogProb
from quorum.attribution.values.tfidf import TfidfCosine
from quorum.attribution.values.word_weights import WordWeights

SIMILARITIES = [
    TfidfCosine(),
    TfidfCosine(corpus="reference"),
    EmbeddingCosine("char_ngrams"),
    EmbeddingEuclidean("char_ngrams"),
    ExactMatch(),
    ExactMatch(strip=False),
    Chrf(),
]
ALL = [*SIMILARITIES, WordWeights({"a": 0.1, "b": 0.7}, default_weight=0.3), LogProb()]
WORDS = st.lists(st.sampled_from(["a", "b", "Paris", "is", "日本", "👍", ".", "NA"]), max_size=8)
TEXTS = st.one_of(WORDS.map(" ".join), st.text(st.characters(exclude_categories=["Cs"])))


def reply(text: str) -> Reply:
    """A reply whose log-likelihood is some function of its text."""
    return Reply(text, tuple(-0.1 * (1 + ord(c) % 7) for c in text) or (-1.0,))


@pytest.mark.parametrize("value", ALL)
@given(texts=st.lists(TEXTS, min_size=1, max_size=12), reference=TEXTS, data=st.data())
def test_the_order_of_replies_changes_no_bit(value, texts, reference, data):
    order = data.draw(st.permutations(range(len(texts))))
    straight = value.payoffs([reply(t) for t in texts], reference)
    shuffled = value.payoffs([reply(texts[i]) for i in order], reference)
    assert straight.dtype == np.float64
    assert straight.shape == (len(texts),)
    assert np.isfinite(straight).all()
    assert shuffled.tobytes() == straight[list(order)].tobytes()


@pytest.mark.parametrize("value", SIMILARITIES)
@given(texts=st.lists(TEXTS, max_size=6), reference=TEXTS)
def test_the_reference_scores_1_exactly_and_nothing_more(value, texts, reference):
    scores = value.payoffs([reply(t) for t in [reference, *texts]], reference)
    assert scores[0] == 1.0
    assert scores.max() <= 1.0
    assert scores.min() >= 0.0


@pytest.mark.parametrize("value", SIMILARITIES)
def test_two_empty_texts_score_1_and_one_empty_0(value):
    assert value.payoffs([reply(""), reply("a")], "").tolist() == [1.0, 0.0]
    assert value.payoffs([reply(""), reply("a")], "a").tolist() == [0.0, 1.0]


@pytest.mark.parametrize("value", ALL)
def test_no_replies_give_no_payoffs(value):
    assert value.payoffs([], "a").shape == (0,)


@pytest.mark.parametrize("value", ALL)
def test_needs_says_what_is_asked_of_the_backend(value):
    assert value.needs == ("continuation" if isinstance(value, LogProb) else "text")
