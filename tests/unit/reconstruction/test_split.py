"""Which questions are asked and on which side they stand: by seed and ids, never by position."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from quorum.errors import InputError, SettingsError
from quorum.reconstruction.reading import read_survey
from quorum.reconstruction.split import (
    blocks,
    largest_similarity,
    select_questions,
    split_questions,
)
from quorum.reconstruction.survey import Option, Question

SURVEYS = Path(__file__).parents[3] / "data" / "surveys"
VOTERS = read_survey((SURVEYS / "us2020_voters.csv").read_bytes(), "us2020_voters.csv").questions
OPTIONS = (Option("A", "Yes"), Option("B", "No"))


def question(id_, topic=None, text=None, split=None):
    return Question(id_, text or f"Text of {id_}", OPTIONS, topic=topic, split=split)


def of_sizes(*sizes):
    return [question(f"q{i}_{j}", topic=f"t{i}") for i, n in enumerate(sizes) for j in range(n)]


def shuffled(questions, seed=0):
    return random.Random(seed).sample(questions, len(questions))


def train(split):
    return {id_ for id_, side in split.items() if side == "train"}


# -- blocks ----------------------------------------------------------------------------------------


def test_a_block_is_a_topic():
    assert blocks([question("b", "x"), question("a", "x"), question("c", "y")]) == {
        "b": "x", "a": "x", "c": "y",
    }  # fmt: skip


def test_without_topics_a_block_is_a_common_stem():
    stem = "How much do you trust the following institution?"
    questions = [
        question("b", text=f"{stem} The police"),
        question("x", text="How old are you?"),
        question("a", text=f"{stem} The courts"),
        question("y", text="How much do you earn?"),
    ]
    assert blocks(questions) == {"a": "~a", "b": "~a", "x": "~x", "y": "~y"}
    assert blocks(shuffled(questions)) == blocks(questions)


def test_a_short_beginning_of_long_texts_is_no_stem():
    tail = " and what would you say about it if somebody asked you in the street at night"
    a, b = (question(i, text=f"In general, do you think {i}{tail}") for i in "ab")
    assert len(set(blocks([a, b]).values())) == 2


def test_blocks_by_stem_agree_with_the_topics_of_the_voters_grids():
    """Without their topics, items of one grid are still found to be one block."""
    bare = [Question(q.id, q.text, q.options) for q in VOTERS]
    found = blocks(bare)
    for grid in ("Q2_", "Q3_", "Q4_", "Q8_", "Q9_", "Q17_", "Q18_", "Q27_"):
        assert len({found[q.id] for q in bare if q.id.startswith(grid)}) == 1, grid


# -- selection -------------------------------------------------------------------------------------


def test_a_selection_is_spread_over_the_blocks():
    chosen = select_questions(of_sizes(10, 10, 10), 6, seed=0)
    assert Counter(q.topic for q in chosen) == {"t0": 2, "t1": 2, "t2": 2}
    chosen = select_questions(VOTERS, 14, seed=3)
    assert len({q.topic for q in chosen}) == 14


def test_a_small_block_gives_what_it_has():
    chosen = select_questions(of_sizes(1, 10), 5, seed=0)
    assert Counter(q.topic for q in chosen) == {"t0": 1, "t1": 4}


@pytest.mark.parametrize("seed", range(5))
def test_a_selection_is_by_ids_and_nested(seed):
    small, large = (select_questions(VOTERS, n, seed) for n in (10, 30))
    assert {q.id for q in small} < {q.id for q in large}
    moved = select_questions(shuffled(VOTERS, seed), 10, seed)
    assert {q.id for q in moved} == {q.id for q in small}
    assert [q.id for q in small] == [q.id for q in VOTERS if q in small]


def test_seeds_select_different_questions():
    assert len({select_questions(VOTERS, 10, seed) for seed in range(10)}) == 10


def test_all_questions_are_selected_where_there_is_no_limit_or_a_larger_one():
    assert select_questions(VOTERS, None, 0) == VOTERS
    assert select_questions(VOTERS, 78, 0) == select_questions(VOTERS, 1000, 0) == VOTERS


def test_excluded_questions_are_not_selected():
    chosen = select_questions(VOTERS, None, 0, exclude=["Q30", "Q23"])
    assert {q.id for q in VOTERS} - {q.id for q in chosen} == {"Q30", "Q23"}


def test_an_excluded_question_that_is_not_there_is_an_error():
    with pytest.raises(SettingsError, match=r"no such question, got 'Q2_11'\. Did you mean Q2_1"):
        select_questions(VOTERS, None, 0, exclude=["Q2_11"])


@pytest.mark.parametrize("more", [{"max_questions": 0}, {"exclude": ["a"], "max_questions": 1}])
def test_an_empty_selection_is_an_error(more):
    with pytest.raises(SettingsError, match="max_questions: leaves no question"):
        select_questions([question("a")], seed=0, **more)


# -- split -----------------------------------------------------------------------------------------


def test_blocks_stay_whole_and_the_share_is_as_near_as_can_be():
    questions = of_sizes(5, 4, 3, 2, 1)  # 15 questions; 9 = 60 % can be reached
    for seed in range(20):
        split = split_questions(questions, "block", 0.6, seed)
        assert len(train(split)) == 9
        sides = {(q.topic, split[q.id]) for q in questions}
        assert len(sides) == 5


def test_a_share_that_cannot_be_reached_is_approached():
    split = split_questions(of_sizes(10, 1), "block", 0.6, 0)
    assert len(train(split)) == 10  # 10 of 11 is nearer to 6.6 than 1 is
    split = split_questions(of_sizes(4, 4), "block", 0.5, 0)
    assert len(train(split)) == 4


def test_of_two_sums_equally_near_train_takes_the_larger():
    assert len(train(split_questions(of_sizes(2, 4), "block", 0.5, 0))) == 4


def test_single_questions_are_split_to_the_nearest_whole_number():
    split = split_questions(VOTERS, "question", 0.6, 0)
    assert len(train(split)) == 47  # 0.6 · 78 = 46.8


@pytest.mark.parametrize("by", ["block", "question"])
@pytest.mark.parametrize("seed", range(5))
def test_a_split_is_by_ids_and_not_by_position(by, seed):
    split = split_questions(VOTERS, by, 0.6, seed)
    assert list(split) == [q.id for q in VOTERS]
    assert split_questions(shuffled(VOTERS, seed), by, 0.6, seed) == split
    assert set(split.values()) == {"train", "test"}


@pytest.mark.parametrize("by", ["block", "question"])
def test_over_seeds_every_question_is_trained_on_about_as_often_as_the_share(by):
    """200 seeds, share 0.6: binomial standard deviation .035; blocks by their sizes vary more."""
    often = Counter()
    for seed in range(200):
        often.update(train(split_questions(VOTERS, by, 0.6, seed)))
    shares = [often[q.id] / 200 for q in VOTERS]
    assert 0.4 < min(shares) < max(shares) < 0.8
    assert sum(shares) / 78 == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_no_side_is_ever_empty(share):
    for seed in range(5):
        assert set(split_questions(of_sizes(3, 3), "block", share, seed).values()) == {
            "train", "test",
        }  # fmt: skip


def test_the_files_own_split_wins():
    questions = [question("a", split="test"), question("b", split="train")]
    assert split_questions(questions, "block", 0.9, 0) == {"a": "test", "b": "train"}


def test_a_split_of_some_questions_only_is_an_error():
    with pytest.raises(InputError, match="1 questions have no side, 1 have one, got 'b'"):
        split_questions([question("a", split="test"), question("b")], "block", 0.6, 0)


def test_a_split_with_an_empty_side_is_an_error():
    same = [question("a", split="test"), question("b", split="test")]
    with pytest.raises(InputError, match="all questions stand on one side, got 'test'"):
        split_questions(same, "block", 0.6, 0)


def test_one_block_cannot_be_split():
    with pytest.raises(InputError, match=r"2 questions in 1 block .*Set split\.by=question"):
        split_questions(of_sizes(2), "block", 0.6, 0)
    assert len(train(split_questions(of_sizes(2), "question", 0.6, 0))) == 1
    with pytest.raises(InputError, match=r"1 questions in 1 block cannot be split\. Add questions"):
        split_questions(of_sizes(1), "question", 0.6, 0)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_a_share_out_of_range_is_an_error(share):
    with pytest.raises(SettingsError, match=r"split\.train_share: out of range"):
        split_questions(VOTERS, "block", share, 0)


def test_an_unknown_way_to_split_is_an_error():
    with pytest.raises(SettingsError, match=r"no such split, got 'topic'; allowed block"):
        split_questions(VOTERS, "topic", 0.6, 0)


# -- similarity ------------------------------------------------------------------------------------


def test_the_most_similar_pair_across_the_split_is_found():
    questions = [
        question("a", text="Do you cycle to work?"),
        question("b", text="What do you eat for lunch?"),
        question("c", text="Do you cycle to your work?"),
    ]
    similarity, train_id, test_id = largest_similarity(
        questions, {"a": "train", "b": "train", "c": "test"}
    )
    assert (train_id, test_id) == ("a", "c")
    assert 0.5 < similarity < 1


def test_equal_texts_have_similarity_1_and_ties_go_by_id():
    questions = [question(i, text="Do you cycle?") for i in "dcba"]
    split = {"a": "test", "b": "train", "c": "train", "d": "test"}
    similarity, *pair = largest_similarity(questions, split)
    assert similarity == pytest.approx(1)
    assert pair == ["b", "a"]


def test_texts_without_anything_in_common_have_similarity_0():
    questions = [question("a", text="xyz"), question("b", text="uvw")]
    assert largest_similarity(questions, {"a": "train", "b": "test"})[0] == 0


def test_the_similarity_does_not_depend_on_the_order():
    split = split_questions(VOTERS, "question", 0.6, 1)
    assert largest_similarity(shuffled(VOTERS), split) == largest_similarity(VOTERS, split)


def test_a_split_by_block_is_less_similar_than_one_by_question():
    def mean(by):
        found = [
            largest_similarity(VOTERS, split_questions(VOTERS, by, 0.6, seed))[0]
            for seed in range(5)
        ]
        return sum(found) / 5

    assert mean("block") < mean("question")


def test_an_empty_side_has_no_similarity():
    with pytest.raises(InputError, match="a side has no question"):
        largest_similarity([question("a")], {"a": "train"})
