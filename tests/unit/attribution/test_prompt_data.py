"""The prompts that come with the project can be read, cut, and paid for."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorum.attribution.partitioners import (
    Lines,
    Messages,
    Paragraphs,
    Partitioner,
    Regex,
    Sentences,
    Spans,
    Tokens,
    Turns,
    Words,
    partition_all,
)
from quorum.attribution.snapshots import read_snapshots

PROMPTS = Path(__file__).parents[3] / "data" / "prompts"
KINDS = {
    kind.__name__.lower(): kind
    for kind in (Lines, Messages, Paragraphs, Regex, Sentences, Spans, Tokens, Turns, Words)
}


def make(spec: dict[str, str]) -> Partitioner:
    options = {key: value for key, value in spec.items() if key != "name"}
    return KINDS[spec["name"]](**options)


def n_players(file: str) -> dict[str, int]:
    snapshots = read_snapshots((PROMPTS / file).read_bytes(), file)
    parts = partition_all(snapshots, {"name": "tokens"}, ("user",), 64, "error", make)
    return {s.id: len(p.players) for s, p in zip(snapshots, parts, strict=True)}


def n_coalitions(n: int) -> int:
    """clamp(⌈2ⁿ/10⌉, 2n + 2, 2ⁿ): the budget at fraction 0.1."""
    return min(max(-(-(2**n) // 10), 2 * n + 2), 2**n)


def test_default_prompts_have_8_to_10_players_and_need_at_most_259_requests():
    counts = n_players("default.jsonl")
    assert sorted(counts.values()) == [8, 8, 9, 9, 10]
    assert sum(map(n_coalitions, counts.values())) == 26 + 26 + 52 + 52 + 103


def test_gallery_prompts_are_of_many_kinds_and_stay_small():
    counts = n_players("gallery.jsonl")
    assert len(counts) == 15
    assert all(4 <= n <= 10 for n in counts.values()), counts
    assert sum(map(n_coalitions, counts.values())) == 337  # 10 + 6·12 + 3·14 + 2·16 + 26 + 52 + 103


@pytest.mark.parametrize("file", ["default.jsonl", "gallery.jsonl"])
def test_prompts_are_short_enough_for_a_small_context(file):
    for snapshot in read_snapshots((PROMPTS / file).read_bytes(), file):
        assert sum(len(m.content) for m in snapshot.messages) < 400
