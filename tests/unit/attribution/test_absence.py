"""How a prompt reads when players are absent."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from quorum.attribution.absence import Delete, Neutral, Pad
from quorum.attribution.partitioners import Regex, Tokens, Words
from quorum.attribution.snapshots import Snapshot
from quorum.digests import text_digest
from quorum.records import Message, Request, Target


def rendered(policy, text: str, present: str, partitioner=None) -> str:
    snapshot = Snapshot("s", (Message("user", text),))
    players = (partitioner or Words()).spans(snapshot, ("user",))
    (message,) = policy.render(snapshot, players, [c == "1" for c in present])
    return message.content


@pytest.mark.parametrize(
    ("text", "present", "left"),
    [
        ("a b c", "101", "a c"),
        ("a b c", "011", "b c"),
        ("a b c", "110", "a b"),
        ("a b c", "010", "b"),
        ("a b c", "000", ""),
        ("a  b c", "101", "a  c"),  # the longer white space stays
        ("a b\nc d", "1011", "a\nc d"),  # a line break is stronger than a space
        ("a\n\nb\n\nc", "101", "a\n\nc"),
        ("a\r\nb c", "101", "a\r\nc"),
        ("  a b\n", "01", "  b\n"),  # the edges of the message stay
        ("  a b\n", "10", "  a\n"),
        ("  a b\n", "00", ""),  # white space alone becomes the empty text
    ],
)
def test_delete_drops_the_span_and_the_white_space_left_doubled(text, present, left):
    assert rendered(Delete(), text, present) == left


def test_delete_leaves_no_space_where_a_mark_goes():
    assert rendered(Delete(), "Hi, you!", "1011", Tokens()) == "Hi you!"
    assert rendered(Delete(), "Hi, you!", "1110", Tokens()) == "Hi, you"
    assert rendered(Delete(), "x-ray", "101", Tokens()) == "xray"


def test_delete_keeps_protected_text_between_players():
    numbers = Regex(r"\d")
    assert rendered(Delete(), "say 1 and 2 or 3 now", "000", numbers) == "say and or now"
    assert rendered(Delete(), "say 1 and 2 or 3 now", "010", numbers) == "say and 2 or now"
    assert rendered(Delete(), "1 and 2", "00", numbers) == "and"


def test_pad_puts_the_placeholder_and_keeps_white_space():
    assert rendered(Pad(), "a  b,\nc", "010", Words()) == "[MASK]  b,\n[MASK]"
    assert rendered(Pad("X"), "a b", "00") == "X X"


def test_a_literal_mask_in_the_text_stays_what_it_is():
    assert rendered(Pad(), "fill [MASK] in", "011") == "[MASK] [MASK] in"
    assert rendered(Pad(), "fill [MASK] in", "111") == "fill [MASK] in"


def test_neutral_fills_the_width_of_the_span():
    assert rendered(Neutral(), "one three 日本", "0010", Words()) == "___ _____ 日_"
    assert rendered(Neutral("·"), "one", "0") == "···"


def test_empty_message_stands_for_a_message_of_which_nothing_is_left():
    assert rendered(Delete(empty_message="…"), " a b ", "00") == "…"
    assert rendered(Delete(empty_message="…"), "a b", "01") == "b"
    assert rendered(Pad("", empty_message="…"), "ab", "0") == "…"


def test_repeated_words_give_7_prompts_not_64():
    snapshot = Snapshot("s", (Message("user", "a a a a a a"),))
    render = Delete().prepare(snapshot, Tokens().spans(snapshot, ("user",)))
    masks = itertools.product((False, True), repeat=6)
    assert len({render(mask) for mask in masks}) == 7


def test_two_placeholders_are_two_requests():
    snapshot = Snapshot("s", (Message("user", "x y"),))
    players = Tokens().spans(snapshot, ("user",))
    keys = [
        Request(Pad(letter).render(snapshot, players, [True, False])).key(Target("b", "m"))
        for letter in "AB"
    ]
    assert keys[0] != keys[1]
    assert text_digest("A") not in keys


def test_other_messages_stay_untouched_and_flags_reach_the_right_message():
    snapshot = Snapshot(
        "s", (Message("user", "a b"), Message("assistant", " c  d "), Message("user", "e f"))
    )
    players = Tokens().spans(snapshot, ("user",))
    out = Delete().render(snapshot, players, [True, False, False, True])
    assert out == (Message("user", "a"), Message("assistant", " c  d "), Message("user", "f"))


def test_a_numpy_row_renders_like_a_list_and_a_wrong_length_is_refused():
    snapshot = Snapshot("s", (Message("user", "a b c"),))
    render = Pad().prepare(snapshot, Tokens().spans(snapshot, ("user",)))
    assert render(np.array([True, False, True])) == render([True, False, True])
    with pytest.raises(ValueError, match="2 flags for 3 players"):
        render([True, False])


def test_joins_that_are_not_remembered_read_the_same():
    words = [f"w{i}" for i in range(300)]
    present = [i % 3 == 0 for i in range(300)]
    expected = " ".join(w for w, p in zip(words, present, strict=True) if p)
    flags = "".join("1" if p else "0" for p in present)
    assert rendered(Delete(), " ".join(words), flags) == expected
