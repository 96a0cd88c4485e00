"""Which masked generations the pages show: a bounded choice by a stated rule."""

from __future__ import annotations

import json

from quorum.pipeline.attribution.masked import as_rows, choose, from_rows
from quorum.pipeline.attribution.replies import ReplyRow
from quorum.records import Generation


def replies_to(payoffs, sample=0):
    return [
        ReplyRow(bits, sample, f"k{bits}", Generation(f"reply {bits}", "stop")) for bits in payoffs
    ]


def chosen(payoffs, n):
    shown, n_masked = choose(payoffs, replies_to(payoffs), n)
    return [(one.rule, int(one.coalition, 16)) for one in shown], n_masked


def test_neither_the_whole_nor_the_empty_prompt_is_a_masked_one():
    # players 0..2: 7 is everybody, 6 lacks player 0, 5 lacks 1, 3 lacks 2, 1 is player 0 alone
    found, n_masked = chosen({0: 0.0, 1: 0.5, 3: 0.9, 5: 0.2, 6: 0.4, 7: 1.0}, 3)
    assert found == [("without_one", 5), ("without_one", 6), ("without_one", 3), ("lowest", 1)]
    assert n_masked == 4


def test_one_absent_first_then_the_lowest_and_the_highest_of_the_others():
    # five players, all 32 coalitions, payoff = number: 5 without one, 25 others, 24 places
    found, n_masked = chosen({bits: float(bits) for bits in range(32)}, 5)
    assert n_masked == 30
    assert [bits for rule, bits in found if rule == "without_one"] == [15, 23, 27, 29, 30]
    others = [bits for bits in range(1, 31) if bits.bit_count() < 4]
    assert [bits for rule, bits in found if rule == "lowest"] == others[:10]
    assert [bits for rule, bits in found if rule == "highest"] == others[-9:]
    assert len(found) == 24


def test_of_many_players_at_most_16_stand_absent_alone_and_8_others_follow():
    n = 40
    grand = (1 << n) - 1
    payoffs = {0: 0.0, grand: 1.0}
    payoffs |= {grand ^ (1 << k): 1.0 - k / 100 for k in range(n)}  # player 39 costs most
    payoffs |= {1 << k: k / 100 for k in range(n)}
    found, n_masked = chosen(payoffs, n)
    assert n_masked == 80
    alone = [bits for rule, bits in found if rule == "without_one"]
    assert alone == [grand ^ (1 << k) for k in range(39, 23, -1)]
    assert [bits for rule, bits in found if rule == "lowest"] == [1 << k for k in range(4)]
    assert [bits for rule, bits in found if rule == "highest"] == [1 << k for k in range(36, 40)]


def test_equal_payoffs_go_by_the_coalitions_number():
    found, _ = chosen({6: 0.5, 3: 0.5, 5: 0.5, 0: 0.0, 7: 1.0}, 3)
    assert [bits for _, bits in found] == [3, 5, 6]


def test_replies_without_text_are_not_shown_and_of_repeats_the_first_is():
    payoffs = {0: 0.0, 5: 0.25, 6: 0.5, 7: 1.0}
    rows = [*replies_to({5: 0}, sample=1), *replies_to({0: 0, 5: 0, 7: 0})]  # 6: scored, no text
    shown, n_masked = choose(payoffs, rows, 3)
    assert [(one.coalition, one.generation, one.payoff) for one in shown] == [
        ("5", "reply 5", 0.25)
    ]
    assert n_masked == 1


def test_the_choice_survives_its_way_through_a_file():
    payoffs = {0: 0.0, 3: 0.1, 7: 1.0}
    shown, _ = choose(payoffs, replies_to(payoffs), 3)
    assert from_rows(json.loads(json.dumps(as_rows(shown)))) == shown
