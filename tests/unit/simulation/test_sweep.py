"""Cells, seeds and statistics of a sweep."""

from __future__ import annotations

import pytest

from quorum.simulation.games import n_coalitions
from quorum.simulation.statistics import NO_SPREAD, statistics
from quorum.simulation.sweep import expand, simulations
from quorum.simulation.texts import drawn_text, word

FIXED = {"game": {"name": "g", "options": {"k": 1}}, "n_players": 4, "noise": 0.0, "budget": 8}


def values(*found: object) -> list[dict[str, object]]:
    return [{"label": str(value), "value": value} for value in found]


def grid(**more: object) -> list:
    cells = list(expand(FIXED, {"n_players": values(3, 4), **more}))
    return simulations("attribution", cells, 2, 0)


def test_a_grid_is_every_combination_in_the_order_of_names_and_values() -> None:
    cells = list(expand(FIXED, {"noise": values(0.1, 0.2), "budget": values(9, 8)}))
    told = [(cell.parameters["budget"], cell.parameters["noise"]) for cell in cells]
    assert told == [(9, 0.1), (9, 0.2), (8, 0.1), (8, 0.2)]
    assert cells[0].varied == {"budget": "9", "noise": "0.1"}


def test_a_grid_without_a_parameter_is_one_cell() -> None:
    (cell,) = expand(FIXED, {})
    assert cell.parameters == FIXED
    assert cell.varied == {}


def test_an_option_goes_into_its_choice() -> None:
    first, second = expand(FIXED, {"game.k": values(2, 3)})
    assert first.parameters["game"] == {"name": "g", "options": {"k": 2}}
    assert second.parameters["game"]["options"] == {"k": 3}
    assert FIXED["game"]["options"] == {"k": 1}


def test_more_values_and_replicates_change_no_simulation_that_there_is() -> None:
    few = {s.id: s for s in grid()}
    cells = list(expand(FIXED, {"n_players": values(5, 4, 3)}))
    many = {s.id: s for s in simulations("attribution", cells, 5, 0)}
    assert len(few) == 4
    assert {name: many[name] for name in few} == few


def test_what_is_done_in_a_world_does_not_change_the_world() -> None:
    found = grid(budget=values(8, 16))
    worlds = {(s.parameters["n_players"], s.replicate): set() for s in found}
    for s in found:
        worlds[s.parameters["n_players"], s.replicate].add(s.world_seed)
    assert all(len(seeds) == 1 for seeds in worlds.values())
    assert len({s.world_seed for s in found}) == 4
    assert len({s.seed for s in found}) == 8


def test_the_base_seed_and_the_kind_are_part_of_every_seed() -> None:
    cells = list(expand(FIXED, {}))
    seeds = {simulations("attribution", cells, 1, base)[0].world_seed for base in range(3)}
    assert len(seeds) == 3


def test_statistics_by_hand() -> None:
    found = statistics([3.0, 1.0, None, 2.0], [None, None, "empty", None], 0.9)
    assert (found.mean, found.n, found.n_null, found.reason) == (2.0, 3, 1, None)
    assert found.sd == pytest.approx(1.0)  # √(2 / 2)
    assert found.se == pytest.approx(1 / 3**0.5)
    assert found.high - 2 == pytest.approx(2.919986 / 3**0.5, rel=1e-6)  # t(.95; 2)


def test_one_value_has_no_spread_and_none_has_a_reason() -> None:
    one = statistics([4.0], [None], 0.9)
    assert (one.mean, one.sd, one.se, one.low, one.n) == (4.0, None, None, None, 1)
    assert one.reason == NO_SPREAD
    none = statistics([None, None], ["b", "a"], 0.9)
    assert (none.mean, none.n, none.n_null, none.reason) == (None, 0, 2, "a; b")


def test_the_order_of_replicates_changes_no_bit() -> None:
    numbers = [0.1, 0.7, 1e9, 0.2, 3e-7]
    one = statistics(numbers, [None] * 5, 0.9)
    assert statistics(numbers[::-1], [None] * 5, 0.9) == one


@pytest.mark.parametrize(
    ("budget", "n", "expected"),
    [
        (100, 8, 100),
        (3, 8, 18),  # never below 2n + 2
        ("5n", 8, 40),
        ("10%", 8, 26),  # ⌈25.6⌉
        ("12.5%", 8, 32),
        ("all", 8, 256),
        ("100n", 4, 16),  # never above 2^n
        (5, 1, 2),
    ],
)
def test_a_budget_in_coalitions(budget: int | str, n: int, expected: int) -> None:
    assert n_coalitions(budget, n) == expected


def test_drawn_texts_are_words_of_a_vocabulary_the_first_ones_most_often() -> None:
    text = drawn_text(5, 2000, 30).split(" ")
    known = [word(rank) for rank in range(30)]
    assert len(set(known)) == 30
    assert set(text) <= set(known)
    assert text.count(known[0]) > 2 * text.count(known[3]) > 0
    assert drawn_text(5, 9, 30) == drawn_text(5, 9, 30) != drawn_text(6, 9, 30)


def test_words_of_a_large_vocabulary_are_all_different() -> None:
    assert len({word(rank) for rank in range(1000)}) == 1000
