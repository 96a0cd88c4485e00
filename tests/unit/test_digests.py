from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.digests import canonical_json, digest, text_digest

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)  # fmt: skip


def test_keys_are_sorted_and_nothing_is_spelt_in_two_ways():
    assert canonical_json({"b": [1, 2.5, None, True], "a": "é"}) == (
        '{"a":"é","b":[1,2.5,null,true]}'
    )


def test_a_digest_is_sha_256_of_the_text_in_utf_8():
    assert digest({"a": "é"}) == hashlib.sha256('{"a":"é"}'.encode()).hexdigest()
    assert text_digest("é") == hashlib.sha256("é".encode()).hexdigest()
    assert text_digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@given(JSON)
def test_a_value_comes_back_and_has_one_digest(value):
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text
    assert digest(json.loads(text)) == digest(value)


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_the_order_of_keys_does_not_count_but_that_of_a_list_does(value):
    turned = dict(reversed(value.items()))
    assert digest(turned) == digest(value)
    items = [*value.items()]
    assert digest(items) != digest(items[::-1])


def test_a_number_that_is_none_has_no_digest():
    for number in (float("nan"), float("inf"), -float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            digest([number])


def test_half_a_character_has_a_digest_of_its_own():
    assert text_digest("\ud800") != text_digest("\ud801")
    assert digest("\ud800") != digest("?")
