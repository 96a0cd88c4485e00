from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.digests import text_digest
from quorum.records import Generation, Message, Request, Target, Usage

TARGET = Target("scripted", "m", {"weights": "ab"})
REQUEST = Request((Message("user", "hi"),), {"temperature": 0.0, "max_tokens": 4, "seed": 0})


def test_the_canonical_text_holds_all_that_can_change_an_answer():
    assert json.loads(REQUEST.canonical(TARGET)) == {
        "backend": "scripted",
        "model": "m",
        "identity": {"weights": "ab"},
        "messages": [["user", "hi"]],
        "options": {"temperature": 0.0, "max_tokens": 4, "seed": 0},
        "sample": 0,
        "continuation": None,
        "choices": [],
    }
    assert REQUEST.key(TARGET) == text_digest(REQUEST.canonical(TARGET))


def test_a_key_stays_what_it_is_from_release_to_release():
    # Were it another one, every reply that was ever paid for would be paid for again.
    assert REQUEST.key(TARGET) == (
        "428572cefebbe785b03cd8794cda69f5818c4670abc4ebcb600357d07ec10a4e"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"messages": (Message("system", "hi"),)},
        {"messages": (Message("user", "hi "),)},
        {"messages": (Message("user", "hi"), Message("user", ""))},
        {"messages": (Message("user", "h"), Message("user", "i"))},
        {"options": {"temperature": 0.0, "max_tokens": 5, "seed": 0}},
        {"options": {"temperature": 0.0, "max_tokens": 4}},
        {"sample": 1},
        {"continuation": ""},
        {"continuation": "yes"},
        {"choices": ("A", "B")},
    ],
)
def test_whatever_is_sent_is_part_of_the_key(change):
    assert dataclasses.replace(REQUEST, **change).key(TARGET) != REQUEST.key(TARGET)


@pytest.mark.parametrize(
    "change",
    [{"backend": "other"}, {"model": "n"}, {"identity": {}}, {"identity": {"weights": "cd"}}],
)
def test_whoever_answers_is_part_of_the_key(change):
    assert REQUEST.key(dataclasses.replace(TARGET, **change)) != REQUEST.key(TARGET)


@given(st.permutations(list(REQUEST.options.items())))
def test_the_order_of_options_is_no_part_of_the_key(items):
    assert dataclasses.replace(REQUEST, options=dict(items)).key(TARGET) == REQUEST.key(TARGET)


def test_choices_count_in_their_order():
    one, two = (dataclasses.replace(REQUEST, choices=c) for c in (("A", "B"), ("B", "A")))
    assert one.key(TARGET) != two.key(TARGET)


def test_records_are_values():
    assert Message("user", "a") == Message("user", "a")
    assert len({Message("user", "a"), Message("user", "a")}) == 1
    assert Generation("a") == Generation("a", "stop", Usage())
    for record, name in ((REQUEST, "sample"), (Generation("a"), "text"), (Usage(), "input_tokens")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, name, 1)
