"""A sweep's settings: one canonical form, and every cell checked before anything runs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from quorum.config.sweeps import MAX_SIMULATIONS, check_sweep, parts_used, read_axes
from quorum.errors import SettingsError
from quorum.simulation.sweep import cell_id

GAMES = {
    "n_players": 4,
    "noise": 0.0,
    "estimand": "shapley",
    "game": {"use": "random_unanimity", "n_terms": 12, "max_size": 3},
    "estimator": "regression",
    "budget": "3n",
}
SURVEY = {
    "n_personas": 12,
    "n_train": 6,
    "n_test": 4,
    "n_humans": 50,
    "answers": "choice",
    "truth": "population",
    "s": 2,
    "b": 0.5,
    "policy": "raw",
    "ensemble": "lasso",
}


def settings(kind: str, grid, fixed=None, replicates: int = 1) -> dict[str, object]:
    base = GAMES if kind == "attribution" else SURVEY
    section = {"name": "own", "kind": kind, "replicates": replicates, "grid": grid}
    return {"sweep": {**section, "fixed": {**base, **(fixed or {})}}}


def axes(grid=None, fixed=None, kind: str = "attribution"):
    return read_axes(settings(kind, grid or {}, fixed))


def test_a_choice_stands_in_full_however_it_was_written():
    short, long = "complementary", {"use": "complementary", "control_variate": "gp"}
    assert axes(fixed={"estimator": short}).fixed == axes(fixed={"estimator": long}).fixed
    assert axes(fixed={"estimator": short}).fixed["estimator"] == {
        "name": "complementary",
        "options": {"control_variate": "gp"},
    }


def test_a_whole_number_and_the_same_with_a_point_are_one_cell():
    one, two = axes(kind="survey", fixed={"s": 2}), axes(kind="survey", fixed={"s": 2.0})
    names = [cell_id("survey", found.cells()[0].parameters) for found in (one, two)]
    assert names[0] == names[1]


def test_the_grid_wins_over_what_is_fixed_and_null_takes_a_parameter_out():
    found = axes(grid={"budget": ["5n", "all"], "noise": None})
    assert [cell.parameters["budget"] for cell in found.cells()] == ["5n", "all"]
    assert {cell.parameters["noise"] for cell in found.cells()} == {0.0}
    assert "budget" not in found.fixed


def test_an_option_of_a_choice_can_vary_beside_the_choice():
    grid = {"ensemble": ["lasso", "simplex"], "ensemble.anchors": [["none"], ["uniform", "pool"]]}
    cells = axes(grid, kind="survey").cells()
    told = [(c.varied["ensemble"], c.varied["ensemble.anchors"]) for c in cells]
    assert told == [
        ("lasso", "none"),
        ("lasso", "uniform + pool"),
        ("simplex", "none"),
        ("simplex", "uniform + pool"),
    ]
    assert cells[3].parameters["ensemble"]["options"]["anchors"] == ["uniform", "pool"]


def test_labels_name_the_options_that_are_not_the_parts_own():
    grid = {"ensemble": ["simplex", {"use": "lasso", "lam": 0.01, "anchors": ["uniform"]}]}
    labels = [cell.varied["ensemble"] for cell in axes(grid, kind="survey").cells()]
    assert labels == ["simplex", "lasso (anchors uniform, lam 0.01)"]


def test_the_parts_of_a_sweep_are_those_that_its_cells_use():
    found = parts_used(axes(grid={"estimator": ["mc", "regression", {"use": "neyman_cc"}]}))
    assert [part["name"] for part in found] == ["mc", "neyman_cc", "regression"]
    assert {part["family"] for part in found} == {"estimator"}


def test_a_sweep_may_have_so_many_simulations_and_not_one_more():
    many = [k / 1000 for k in range(100)]
    fits = settings("attribution", {"noise": many}, replicates=MAX_SIMULATIONS // 100)
    assert read_axes(fits).replicates == MAX_SIMULATIONS // 100
    with pytest.raises(SettingsError, match="too many simulations, got 20100; allowed up to"):
        read_axes(settings("attribution", {"noise": many}, replicates=MAX_SIMULATIONS // 100 + 1))


TWICE = {
    "estimator": ["complementary", {"use": "complementary", "control_variate": "linear"}],
    "estimator.control_variate": ["linear"],
}
WRONG = [
    ("attribution", {"bugdet": ["3n"]}, {}, "sweep.grid.bugdet: unknown parameter"),
    ("attribution", {"bugdet": ["3n"]}, {}, "Did you mean budget?"),
    ("attribution", {"n_personas": [3]}, {}, "unknown parameter of kind=attribution"),
    ("survey", {}, {"n_players": 3}, "sweep.fixed.n_players: unknown parameter of kind=survey"),
    ("survey", {}, {"n_test": None}, "sweep.fixed.n_test: is missing"),
    ("attribution", {"n_players": [17]}, {}, "sweep.grid.n_players: wrong value, got 17"),
    ("attribution", {"n_players": []}, {}, "sweep.grid.n_players: has no value"),
    ("attribution", {"budget": ["3 n"]}, {}, "is no budget, got '3 n'"),
    ("attribution", {"budget": ["101%"]}, {}, "is no budget, got '101%'"),
    ("attribution", {"budget": ["3n", "3n"]}, {}, "sweep.grid.budget: a value stands twice"),
    ("attribution", {"estimator": ["complementry"]}, {}, "Did you mean complementary?"),
    ("attribution", {"estimator.control_variat": ["gp"]}, {"estimator": "neyman_cc"}, "variate?"),
    ("attribution", {"estimator.x.y": [1]}, {}, "unknown option"),
    ("attribution", {"estimator": [{"use": "mc", "control_variate": "gp"}]}, {}, "unknown option"),
    ("attribution", {"estimator": [{"use": "mc", "estimand": "shapley"}]}, {}, "of the sweep"),
    ("attribution", {"estimator": ["mc"]}, {"estimand": "banzhaf"}, "mc does not compute it"),
    ("attribution", {"estimator": ["exact"]}, {}, "exact needs every coalition, got '3n'"),
    ("attribution", {"game": ["glove"]}, {}, "got 4; allowed 3 with game=glove"),
    ("attribution", {"game": ["majority"]}, {}, "got 4; allowed odd numbers"),
    ("attribution", {"game": [{"use": "unanimity", "n_members": 5}]}, {}, "allowed 5 or more"),
    ("attribution", {"noise": [-1]}, {}, "sweep.grid.noise: wrong value, got -1"),
    ("attribution", TWICE, {}, "two cells are the same"),
    ("survey", {"truth": [{"use": "mixture", "n_true": 13}]}, {}, "more than there are personas"),
    ("survey", {"truth": ["mixtur"]}, {}, "Did you mean mixture?"),
    ("survey", {"ensemble.anchors": [["file"]]}, {}, "a world has no file of shares"),
    ("survey", {"ensemble.reference": ["p0013"]}, {}, "allowed p0001 to p0012"),
    ("survey", {"ensemble.lam": [-1]}, {}, "lam"),
    ("survey", {"s": ["sharp"]}, {}, "sweep.grid.s: wrong value, got 'sharp'"),
]


@pytest.mark.parametrize(("kind", "grid", "fixed", "expected"), WRONG)
def test_a_sweep_that_cannot_be_done_is_refused_in_one_line(kind, grid, fixed, expected):
    with pytest.raises(SettingsError) as caught:
        axes(grid, fixed, kind)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_estimator_can_plan_what_a_sweep_asks_of_it():
    grid = {"estimator": ["mc", "complementary", "neyman_cc", "regression"], "budget": [2, "100%"]}
    check_sweep(Path(), settings("attribution", grid))
    check_sweep(Path(), settings("attribution", {}, {"estimator": "exact", "budget": "all"}))


def test_shapiq_without_its_package_is_refused_with_the_line_that_mends_it():
    wanted = settings("attribution", {}, {"estimator": "shapiq", "budget": "all"})
    if find_spec("shapiq") is None:
        with pytest.raises(SettingsError, match=r"pip install -e '\.\[shapiq\]'"):
            check_sweep(Path(), wanted)
    else:
        check_sweep(Path(), wanted)
