"""The tf-idf cosine, against numbers worked out by hand and against scikit-learn's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from quorum.attribution.values.base import Reply
from quorum.attribution.values.tfidf import TfidfCosine


def payoffs(texts: list[str], reference: str, **options: object) -> list[float]:
    return TfidfCosine(**options).payoffs([Reply(t) for t in texts], reference).tolist()


def test_the_reference_alone_gives_idf_1_and_to_other_terms_ln2_plus_1():
    # (1, 1, 0)·(1, 0, 1 + ln 2) over √2 and √(1 + (1 + ln 2)²)
    expected = 1 / (math.sqrt(2) * math.sqrt(1 + (1 + math.log(2)) ** 2))
    assert payoffs(["a c"], "a b", corpus="reference") == [pytest.approx(expected, rel=1e-15)]


def test_with_the_reference_as_corpus_a_payoff_does_not_depend_on_other_replies():
    alone = payoffs(["red fish", "x y"], "red blue fish", corpus="reference")
    crowd = payoffs(["red fish", "x y", "blue", "aa zz red"], "red blue fish", corpus="reference")
    assert crowd[:2] == alone


def test_over_all_replies_it_is_scikit_learns_tfidf_with_our_terms():
    texts = ["the cat sat", "the cat", "the cat", "a dog sat sat", "dog", "the cat sat"]
    vectorizer = TfidfVectorizer(tokenizer=str.split, token_pattern=None)
    vectors = vectorizer.fit_transform(texts).toarray()
    assert payoffs(texts, "the cat sat") == pytest.approx(vectors @ vectors[0], abs=1e-14)


def test_a_reference_that_no_reply_is_counts_once():
    texts = ["the cat", "a dog"]
    vectorizer = TfidfVectorizer(tokenizer=str.split, token_pattern=None)
    vectors = vectorizer.fit_transform([*texts, "the dog"]).toarray()
    assert payoffs(texts, "the dog") == pytest.approx(vectors[:2] @ vectors[2], abs=1e-14)


def test_one_letter_words_are_terms():
    assert payoffs(["A", "B", "a."], "A") == [1.0, 0.0, 1.0]
    assert payoffs(["A", "a"], "A", lowercase=False) == [1.0, 0.0]


def test_refund_refuse_and_refusal_are_three_terms():
    assert payoffs(["refuse", "refusal", "refund"], "refund") == [0.0, 0.0, 1.0]


def test_emoji_and_symbols_are_terms_and_marks_where_there_is_nothing_else():
    assert payoffs(["👍🏽", "👍", "?", "!"], "👍") == [0.0, 1.0, 0.0, 0.0]
    assert payoffs(["?", "!"], "!") == [0.0, 1.0]


def test_empty_texts():
    assert payoffs(["", " ", "a"], "") == [1.0, 1.0, 0.0]
    assert payoffs(["", "a"], "a") == [0.0, 1.0]


def test_the_same_words_in_another_order_score_1():
    words = [f"w{i}" for i in range(40)]
    others = [f"w{i} x{i} y" for i in range(40)]
    scores = payoffs([" ".join(reversed(words)), *others], " ".join(words))
    assert scores[0] == 1.0
    assert max(scores[1:]) < 1


def test_replies_come_back_in_their_order():
    texts = ["c", "a b", "a", "c"]
    scores = np.array(payoffs(texts, "a b"))
    assert scores[0] == scores[3] == 0
    assert scores[1] == 1
    assert 0 < scores[2] < 1
