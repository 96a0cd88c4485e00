"""What every absence policy promises, for any text and any coalition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum.attribution.absence import Delete, Neutral, Pad
from quorum.attribution.partitioners import Lines, Sentences, Tokens, Words
from quorum.attribution.snapshots import Snapshot
from quorum.records import Message

POLICIES = [Delete(), Pad(), Neutral(), Delete(empty_message="-"), Pad("")]
PARTITIONERS = [Tokens(), Words(), Lines(), Sentences()]
TEXTS = st.text(
    alphabet=st.one_of(
        st.sampled_from(" \t\n\r\u2028.,!?-aB1日ア\u0301\u200d\ufe0f👩🔬🇫🇷🏽שم"),
        st.characters(exclude_categories=["Cs"]),
    ),
    max_size=40,
)
ROLES = ("user",)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("partitioner", PARTITIONERS)
@given(texts=st.lists(TEXTS, min_size=1, max_size=2))
def test_the_whole_prompt_is_the_original_character_for_character(policy, partitioner, texts):
    snapshot = Snapshot("s", tuple(Message("user", text) for text in texts))
    players = partitioner.spans(snapshot, ROLES)
    assert policy.render(snapshot, players, [True] * len(players)) == snapshot.messages


@pytest.mark.parametrize("policy", POLICIES)
@given(text=TEXTS, data=st.data())
def test_every_coalition_renders_with_its_players_in_order_and_the_same_roles(policy, text, data):
    snapshot = Snapshot("s", (Message("system", " be nice "), Message("user", text)))
    players = Tokens().spans(snapshot, ROLES)
    flags = st.lists(st.booleans(), min_size=len(players), max_size=len(players))
    present = data.draw(flags)
    system, user = policy.prepare(snapshot, players)(present)
    assert (system, user.role) == (snapshot.messages[0], "user")
    at = 0
    for player, is_present in zip(players, present, strict=True):
        if is_present:
            piece = text[player.start : player.end]
            at = user.content.index(piece, at) + len(piece)


@given(text=TEXTS)
def test_delete_of_everything_leaves_only_characters_of_no_player(text):
    snapshot = Snapshot("s", (Message("user", text),))
    players = Tokens().spans(snapshot, ROLES)
    (message,) = Delete().render(snapshot, players, [False] * len(players))
    if players:
        rest = list(text)
        for player in reversed(players):
            del rest[player.start : player.end]
        assert [c for c in message.content if not c.isspace()] == [
            c for c in rest if not c.isspace()
        ]
