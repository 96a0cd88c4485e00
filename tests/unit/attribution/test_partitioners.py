"""Where each partitioner cuts, what is protected, and what happens above the limit."""

from __future__ import annotations

import pytest

from quorum.attribution.partitioners import (
    Lines,
    Messages,
    Paragraphs,
    Regex,
    Sentences,
    Spans,
    Tokens,
    Turns,
    Words,
    partition,
    partition_all,
)  # fmt: skip
from quorum.attribution.segmentation import terms_of, tokens_of
from quorum.attribution.snapshots import Snapshot, Span
from quorum.errors import InputError, SettingsError
from quorum.records import Message

KINDS = {"tokens": Tokens, "sentences": Sentences, "paragraphs": Paragraphs, "spans": Spans}


def make(spec):
    return KINDS[spec["name"]]()


def user(text: str, name: str = "s") -> Snapshot:
    return Snapshot(name, (Message("user", text),))


def pieces(partitioner, text: str) -> list[str]:
    return [text[s.start : s.end] for s in partitioner.spans(user(text), ("user",))]


def cut(snapshots, max_players=64, overflow="error", name="tokens", roles=("user",)):
    return partition_all(snapshots, {"name": name}, roles, max_players, overflow, make)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("What's this?", ["What's", "this", "?"]),
        ("A, B!", ["A", ",", "B", "!"]),
        ("pi is 3.14, not 1,000.", ["pi", "is", "3.14", ",", "not", "1,000", "."]),
        ("well-known snake_case x=1", ["well", "-", "known", "snake_case", "x", "=", "1"]),
        ("  a\t\tb \r\n c  ", ["a", "b", "c"]),
        ("東京は晴れ。", ["東", "京", "は", "晴", "れ", "。"]),
        ("コンピュータで", ["コンピュータ", "で"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("ما هي عاصمة مصر؟", ["ما", "هي", "عاصمة", "مصر", "؟"]),
        ("שלום צה״ל", ["שלום", "צה״ל"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("e\u0301te\u0301 été", ["e\u0301te\u0301", "été"]),
        ("नमस्ते।", ["नमस्ते", "।"]),
        ("👩‍🔬👍🏽🇫🇷🇩🇪1️⃣2️⃣❤️ok", ["👩‍🔬", "👍🏽", "🇫🇷", "🇩🇪", "1️⃣", "2️⃣", "❤️", "ok"]),
        ("🏴󠁧󠁢󠁥󠁮󠁧󠁿!", ["🏴󠁧󠁢󠁥󠁮󠁧󠁿", "!"]),
        ("x\u200by \u200e", ["x", "y"]),
        ("1\u20e3\u0e31x", ["1\u20e3\u0e31", "x"]),
        ("[MASK]", ["[", "MASK", "]"]),
    ],
)
def test_tokens_are_words_and_marks_in_any_script(text, tokens):
    assert pieces(Tokens(), text) == tokens


def test_terms_are_tokens_without_marks_unless_there_is_nothing_else():
    assert terms_of("A, b + 😀!") == ["A", "b", "+", "😀"]
    assert terms_of("?!") == ["?", "!"]
    assert terms_of(" ") == []
    assert tokens_of("refund refuse refusal") == ["refund", "refuse", "refusal"]


def test_words_keep_the_marks_that_cling_to_them():
    assert pieces(Words(), "Well-known, (really)  yes!") == ["Well-known,", "(really)", "yes!"]
    assert pieces(Words(), "「はい」と") == ["「は", "い」", "と"]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ('He said "No." Then left.', ['He said "No."', "Then left."]),
        ("See e.g. Dr. Who. It costs 3.5 euro.", ["See e.g. Dr. Who.", "It costs 3.5 euro."]),
        ("1. First\n2. Second", ["1. First", "2. Second"]),
        ("a line\nthat goes on\nBut not here", ["a line\nthat goes on", "But not here"]),
        ("para one\n\nand two", ["para one", "and two"]),
        ("今日は。明日も！", ["今日は。", "明日も！"]),
        ("Wait… what? Yes", ["Wait… what?", "Yes"]),
        ("no stop at all", ["no stop at all"]),
    ],
)
def test_sentences_end_at_stops_and_at_line_breaks(text, sentences):
    assert pieces(Sentences(), text) == sentences


def test_lines_and_paragraphs_know_every_kind_of_line_break():
    text = " a \r\nb\u2028c\n \n\t\r\nd\n"
    assert pieces(Lines(), text) == ["a", "b", "c", "d"]
    assert pieces(Paragraphs(), text) == ["a \r\nb\u2028c", "d"]


def test_a_message_is_one_player_without_the_white_space_at_its_ends():
    snapshot = Snapshot(
        "s", (Message("system", "S"), Message("user", " a b\n"), Message("assistant", "c"))
    )
    assert Messages().spans(snapshot, ("user", "assistant")) == [Span(1, 1, 4), Span(2, 0, 1)]


def test_turns_split_a_transcript_at_its_labels():
    assert pieces(Turns(), "Intro\nQ: up\nA: down: no\nq: x") == [
        "Intro", "Q: up", "A: down: no", "q: x",
    ]  # fmt: skip
    assert pieces(Turns(), "no labels: here") == ["no labels: here"]
    assert pieces(Turns(labels=("Mia", "C++")), "Mia: a\nC++: b") == ["Mia: a", "C++: b"]
    assert pieces(Turns(labels=()), "Q: a\nA: b") == ["Q: a\nA: b"]


def test_regex_gives_a_player_a_match_or_its_player_group():
    assert pieces(Regex(r"\p{Lu}\w+"), "Anna and Ben") == ["Anna", "Ben"]
    assert pieces(Regex(r"x=(?P<player>\d+)"), "x=1 y=2 x=3") == ["1", "3"]
    assert pieces(Regex(r"\s*"), "a b") == []


def test_a_bad_pattern_is_refused():
    with pytest.raises(SettingsError, match=r"partition.pattern: not a regular expression"):
        pieces(Regex("("), "a")


def test_spans_of_a_protected_message_are_refused():
    snapshot = Snapshot("s", (Message("system", "ab"),), (Span(0, 0, 2),))
    assert Spans().spans(snapshot, ("system",)) == [Span(0, 0, 2)]
    with pytest.raises(InputError, match="protected system message"):
        Spans().spans(snapshot, ("user",))
    with pytest.raises(InputError, match="'s': has no spans"):
        Spans().spans(user("ab"), ("user",))


def test_protected_share_counts_visible_characters_that_no_player_holds():
    snapshot = Snapshot("s", (Message("system", "abc d e"), Message("user", "f, ghi")))
    (part,) = cut([snapshot])
    assert part.protected_share == pytest.approx(5 / 10)  # abcde of abcde, f,ghi
    (whole,) = cut([snapshot], roles=("system", "user"))
    assert whole.protected_share == 0


def test_one_error_names_every_snapshot_over_the_limit_and_what_would_fit():
    snapshots = [user("a b. C d.", "p"), user("a", "q"), user("a b c d e f", "r")]
    with pytest.raises(SettingsError) as caught:
        cut(snapshots, max_players=2)
    message = str(caught.value)
    assert "2 of 3 snapshots have more players than 2" in message
    assert "'p' has 6 (tokens; sentences would give 2)" in message
    assert "'r' has 6 (tokens; sentences would give 1)" in message
    assert "'q'" not in message


def test_coarsen_takes_the_first_partitioner_that_fits_and_records_it():
    snapshots = [user("a b. C d.", "p"), user("Aa. Bb. Cc.\n\nD", "q"), user("a", "r")]
    parts = cut(snapshots, max_players=2, overflow="coarsen")
    assert [p.partitioner for p in parts] == ["sentences", "paragraphs", "tokens"]
    assert [p.coarsened_from for p in parts] == ["tokens", "tokens", None]
    assert [len(p.players) for p in parts] == [2, 2, 1]


def test_coarsen_that_cannot_fit_is_an_error():
    with pytest.raises(SettingsError, match="nothing coarser fits"):
        cut([user("a\n\nb\n\nc")], max_players=2, overflow="coarsen")


def test_skip_leaves_the_snapshot_out_with_its_reason():
    part = partition(user("a b c"), {"name": "tokens"}, ("user",), 2, "skip", make)
    assert part.players == ()
    assert part.skipped == "3 players are over partition.max_players = 2"


def test_a_snapshots_own_partition_and_roles_go_first():
    own = {"name": "sentences", "roles": ["assistant"]}
    snapshot = Snapshot(
        "s", (Message("user", "a b"), Message("assistant", "No. Do.")), partition=own
    )
    (part,) = cut([snapshot])
    assert part.players == (Span(1, 0, 3), Span(1, 4, 7))
    assert part.partitioner == "sentences"


@pytest.mark.parametrize("text", ["\u200b", "x"])
def test_nothing_to_explain_names_the_snapshot(text):
    snapshot = Snapshot("empty", (Message("user" if text != "x" else "system", text),))
    with pytest.raises(InputError, match="'empty': nothing to explain"):
        cut([snapshot])


@pytest.mark.parametrize(
    "spans", [[Span(0, 0, 2), Span(0, 1, 3)], [Span(0, 2, 3), Span(0, 0, 1)], [Span(0, 0, 4)],
              [Span(1, 0, 1)], [Span(0, 1, 1)], [Span(0, -1, 1)]],
)  # fmt: skip
def test_a_partitioner_that_gives_unusable_spans_is_refused(spans):
    class Bad:
        def spans(self, snapshot, roles):
            return spans

    with pytest.raises(SettingsError, match="bad gave a span"):
        partition(user("abc"), {"name": "bad"}, ("user",), 9, "error", lambda spec: Bad())
