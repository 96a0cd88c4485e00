"""Which questions are asked, and on which side of the split they stand: by seed and ids alone.

The order of the file changes nothing: blocks, draws and ties go by id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Literal

import numpy as np

from quorum.digests import digest
from quorum.errors import InputError, SettingsError
from quorum.reconstruction.survey import Question

Side = Literal["train", "test"]

_STEM_WORDS = 5  # words that two texts must begin with to be items of one grid
_STEM_SHARE = 0.4  # and the share that they are of the shorter text
_NGRAMS = (3, 5)  # characters


def blocks(questions: Sequence[Question]) -> dict[str, str]:
    """Question id → block of related questions: its topic, else the questions' common stem.

    Two questions without a topic are of one block where their texts begin with the same words:
    at least 5, and 40 % of the shorter text. A block's name is its topic, or ``~`` and the smallest
    id of its questions.
    """
    found = {q.id: q.topic for q in questions if q.topic is not None}
    loose = sorted((q.text.split(), q.id) for q in questions if q.topic is None)
    stems: list[list[str]] = []
    last: list[str] | None = None
    for words, id_ in loose:  # sorted, so that texts with the longest common stem are neighbours
        if last is not None and _is_same_stem(last, words):
            stems[-1].append(id_)
        else:
            stems.append([id_])
        last = words
    return found | {id_: f"~{min(ids)}" for ids in stems for id_ in ids}


def _is_same_stem(a: Sequence[str], b: Sequence[str]) -> bool:
    common = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    n = min(len(a), len(b)) if common is None else common
    return n >= _STEM_WORDS and n >= _STEM_SHARE * min(len(a), len(b))


def select_questions(
    questions: Sequence[Question],
    max_questions: int | None,
    seed: int,
    exclude: Sequence[str] = (),
) -> tuple[Question, ...]:
    """At most so many questions, spread over the blocks, in the order given.

    One question of each block in turn, blocks and questions in an order drawn by seed: a smaller
    selection is part of a larger one.

    Raises:
        SettingsError: ``exclude`` names no question, or leaves none.
    """
    ids = [q.id for q in questions]
    for id_ in exclude:
        if id_ not in ids:
            near = get_close_matches(id_, ids, n=1)
            raise SettingsError(
                "split.exclude", "no such question", got=id_,
                mend=f"Did you mean {near[0]}?" if near else "",
            )  # fmt: skip
    left = [q for q in questions if q.id not in set(exclude)]
    if not left or (max_questions is not None and max_questions < 1):
        raise SettingsError("split.max_questions", "leaves no question", got=max_questions)
    if max_questions is None or max_questions >= len(left):
        return tuple(left)
    chosen = set(_in_turns(blocks(left), seed)[:max_questions])
    return tuple(q for q in left if q.id in chosen)


def _in_turns(block_of: Mapping[str, str], seed: int) -> list[str]:
    """All ids: the first of each block, then the second of each, and so on."""
    members: dict[str, list[str]] = {}
    for id_, block in block_of.items():
        members.setdefault(block, []).append(id_)
    drawn = {block: sorted(ids, key=_draw(seed, "question")) for block, ids in members.items()}
    order = sorted(drawn, key=_draw(seed, "block"))
    longest = max(len(ids) for ids in drawn.values())
    return [drawn[b][turn] for turn in range(longest) for b in order if turn < len(drawn[b])]


def _draw(seed: int, what: str) -> Callable[[str], str]:
    """A sorting key that is random over ids and fixed for a seed."""
    return lambda name: digest([seed, what, name])


def split_questions(
    questions: Sequence[Question],
    by: Literal["block", "question"],
    train_share: float,
    seed: int,
) -> dict[str, Side]:
    """Question id → ``train`` or ``test``, in the order given.

    The file's own column wins. Else whole blocks (or single questions) are drawn so that the
    number of train questions is as near to ``train_share`` as their sizes allow.

    Raises:
        InputError: Only some questions have a side of their own, or one side would be empty.
        SettingsError: ``by`` or ``train_share`` cannot be.
    """
    if by not in ("block", "question"):
        raise SettingsError("split.by", "no such split", got=by, allowed="block | question")
    if not 0 < train_share < 1:
        raise SettingsError(
            "split.train_share", "out of range", got=train_share, allowed="between 0 and 1"
        )
    given: dict[str, Side] = {
        q.id: "train" if q.split == "train" else "test" for q in questions if q.split is not None
    }
    if given:
        return _checked(given, questions)
    block_of = blocks(questions) if by == "block" else {q.id: q.id for q in questions}
    train = _drawn_blocks(block_of, train_share, seed)
    return {q.id: "train" if block_of[q.id] in train else "test" for q in questions}


def _checked(given: dict[str, Side], questions: Sequence[Question]) -> dict[str, Side]:
    lacking = [q.id for q in questions if q.id not in given]
    if lacking:
        raise InputError(
            "column split", f"{len(lacking)} questions have no side, {len(given)} have one",
            got=lacking[0], mend="Fill the column for all questions, or for none",
        )  # fmt: skip
    if len(set(given.values())) < 2:
        raise InputError(
            "column split", "all questions stand on one side", got=next(iter(given.values()), ""),
            allowed="train and test", mend="Give each side a question",
        )  # fmt: skip
    return given


def _drawn_blocks(block_of: Mapping[str, str], train_share: float, seed: int) -> set[str]:
    """Blocks of the train side; a subset of the best reachable number of questions."""
    sizes: dict[str, int] = {}
    for block in block_of.values():
        sizes[block] = sizes.get(block, 0) + 1
    if len(sizes) < 2:
        raise InputError(
            "split.by", f"{len(block_of)} questions in {len(sizes)} block cannot be split",
            mend="Set split.by=question" if len(block_of) > 1 else "Add questions",
        )  # fmt: skip
    order = sorted(sizes, key=_draw(seed, "block"))
    n = len(block_of)
    # reach[i, s]: the first i blocks of the order have a subset of s questions.
    reach = np.zeros((len(order) + 1, n + 1), dtype=bool)
    reach[0, 0] = True
    for i, block in enumerate(order, start=1):
        reach[i] = reach[i - 1]
        reach[i, sizes[block] :] |= reach[i - 1, : n + 1 - sizes[block]]
    sums = np.flatnonzero(reach[-1, 1:n]) + 1
    # Of two sums equally near, the larger train side.
    left = int(min(sums, key=lambda s: (abs(s - train_share * n), -s)))
    train: set[str] = set()
    for i in range(len(order), 0, -1):
        block = order[i - 1]
        can_take = left >= sizes[block] and bool(reach[i - 1, left - sizes[block]])
        can_leave = bool(reach[i - 1, left])
        wants = int(digest([seed, "side", block])[:8], 16) / 16**8 < left / _open(order, sizes, i)
        if can_take and (wants or not can_leave):
            train.add(block)
            left -= sizes[block]
    return train


def _open(order: Sequence[str], sizes: Mapping[str, int], i: int) -> int:
    """Questions in the first i blocks of the order."""
    return sum(sizes[block] for block in order[:i])


def largest_similarity(
    questions: Sequence[Question], split: Mapping[str, str]
) -> tuple[float, str, str]:
    """The most similar pair across the split: cosine in [0, 1], train id, test id.

    Vectors are tf-idf weights of the texts' character 3- to 5-grams inside words, fitted on all
    questions. Of equal pairs, the smallest ids.

    Raises:
        InputError: A side is empty.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    ordered = sorted(questions, key=lambda q: q.id)
    sides = {s: [i for i, q in enumerate(ordered) if split[q.id] == s] for s in ("train", "test")}
    if not all(sides.values()):
        raise InputError("split", "a side has no question")
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=_NGRAMS)
    vectors = vectorizer.fit_transform([q.text for q in ordered])
    cosines = (vectors[sides["train"]] @ vectors[sides["test"]].T).toarray()
    best = int(np.argmax(np.round(cosines, 12)))  # the first one: rounding keeps ties ties
    row, column = divmod(best, cosines.shape[1])
    similarity = float(np.clip(cosines[row, column], 0.0, 1.0))
    return similarity, ordered[sides["train"][row]].id, ordered[sides["test"][column]].id
