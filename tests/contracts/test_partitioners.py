"""What every partitioner promises, for any text."""

from __future__ import annotations

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from quorum.attribution.partitioners import (
    Lines,
    Messages,
    Paragraphs,
    Regex,
    Sentences,
    Tokens,
    Turns,
    Words,
)
from quorum.attribution.snapshots import Snapshot
from quorum.records import Message

COVERING = [Tokens(), Words(), Sentences(), Lines(), Paragraphs(), Messages(), Turns()]
TEXTS = st.text(
    alphabet=st.one_of(
        st.sampled_from(" \t\n\r\u2028.,!?-:'aBQ1_日アｶﾞ。「」กัำ\u0301\u200d\u200b\ufe0f👩🔬🇫🇷🏽שم"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=60,
)
INVISIBLE = regex.compile(r"[\s\x1C-\x1F\p{Cf}\p{M}\p{GCB=Extend}\p{GCB=Prepend}]", regex.V1)


@pytest.mark.parametrize("partitioner", [*COVERING, Regex(r"\w+|\p{P}")])
@given(text=TEXTS)
def test_players_are_in_order_apart_and_hold_text(partitioner, text):
    snapshot = Snapshot("s", (Message("user", text), Message("system", text)))
    last = 0
    for span in partitioner.spans(snapshot, ("user",)):
        assert span.message == 0
        assert last <= span.start < span.end <= len(text)
        assert text[span.start : span.end].strip()
        last = span.end


@pytest.mark.parametrize("partitioner", COVERING)
@given(text=TEXTS)
def test_every_visible_character_belongs_to_a_player(partitioner, text):
    spans = partitioner.spans(Snapshot("s", (Message("user", text),)), ("user",))
    held = {i for s in spans for i in range(s.start, s.end)}
    for index, char in enumerate(text):
        assert index in held or INVISIBLE.match(char), (index, char)


@pytest.mark.parametrize("partitioner", [Tokens(), Words()])
@given(
    text=st.text(alphabet="ab1 日アก\u0e31👩\u200d🔬🇫🇷🏽\ufe0f\u20e3\u0301한שمé-,.'", max_size=40)
)
def test_a_grapheme_cluster_is_never_cut(partitioner, text):
    edges = {0, *(m.end() for m in regex.finditer(r"\X", text))}
    for span in partitioner.spans(Snapshot("s", (Message("user", text),)), ("user",)):
        assert span.end in edges, (text[span.start : span.end], span)


@pytest.mark.parametrize("partitioner", COVERING)
@pytest.mark.parametrize("content", ["", " \n\t", "\u200b"])
def test_nothing_visible_gives_no_player(partitioner, content):
    snapshot = Snapshot("s", (Message("user", content),))
    assert partitioner.spans(snapshot, ("user",)) == []
