"""Sweeps give the figures that the design states, through the code that sweeps run."""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
import pytest

from quorum.config.sweeps import read_axes
from quorum.pipeline.simulation import attribution, survey
from quorum.simulation.recovery import by_name
from quorum.simulation.sweep import simulations, world_parameters

N_WORLDS = 8
ENSEMBLES = {
    "lasso": {"use": "lasso", "folds": 5},
    "simplex": {"use": "simplex", "lam": 0.0, "anchors": ["none"]},
    "lasso_uniform": {"use": "lasso", "folds": 5, "anchors": ["uniform"]},
}
REAL = {  # the worlds of reconstruction.md
    "n_personas": 300,
    "n_train": 60,
    "n_test": 40,
    "n_humans": 2000,
    "answers": "probabilities",
    "truth": "population",
    "s": 2.0,
    "b": 0.5,
    "policy": "raw",
}
# Shares hang on no agent, so two of them will do; and a few people less.
WIDE = {**REAL, "n_personas": 2, "n_humans": 300, "truth": {"name": "population", "options": {}}}
FIGURES = {
    "uniform": 0.0545,
    "pool_mean": 0.0378,
    "lasso": 0.0183,
    "simplex": 0.0200,
    "lasso_uniform": 0.0148,
}
PLAIN = {"noise": 0.0, "estimand": "shapley", "budget": "all", "estimator": "complementary"}
ESTIMATORS = {
    "exact": "exact",
    "mc": "mc",
    "gp": "complementary",
    "linear": {"use": "complementary", "control_variate": "linear"},
    "none": {"use": "complementary", "control_variate": "none"},
    "neyman_cc": "neyman_cc",
    "regression": "regression",
}


def sweep(kind: str, fixed: dict[str, object], grid: dict[str, list[object]], replicates: int):
    section = {"name": "own", "kind": kind, "replicates": replicates, "fixed": fixed, "grid": grid}
    axes = read_axes({"sweep": section})
    return simulations(kind, axes.cells(), replicates, 0)


@cache
def errors() -> dict[str, np.ndarray]:
    """Test errors of each ensemble and baseline, a number a world."""
    found: dict[str, list[float]] = {}
    for s in sweep("survey", REAL, {"ensemble": list(ENSEMBLES.values())}, N_WORLDS):
        world = survey.draw(world_parameters("survey", s.parameters), s.world_seed)
        told = by_name(survey.simulate(s.parameters, world, s.seed, 0.9).metrics)
        options = s.parameters["ensemble"]["options"]
        name = s.parameters["ensemble"]["name"]
        name += "_uniform" if options["anchors"] == ["uniform"] else ""
        found.setdefault(name, []).append(told["test_mse"].value)
        if name == "lasso":
            for baseline in ("uniform", "pool_mean"):
                found.setdefault(baseline, []).append(told[f"test_mse_{baseline}"].value)
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize(("name", "figure"), FIGURES.items())
def test_errors_are_the_figures_within_three_standard_errors(name, figure):
    """The figure is a mean over eight worlds as well: its standard error is like ours."""
    own = errors()[name]
    assert len(own) == N_WORLDS
    standard_error = own.std(ddof=1) / N_WORLDS**0.5
    assert abs(own.mean() - figure) <= 3 * 2**0.5 * standard_error
    assert standard_error < 0.15 * figure, "an interval this wide would show nothing"


def test_uniform_is_the_figure_over_many_worlds():
    """One world's error has a standard deviation of .006: the mean of eight is known to .002."""
    found = []
    for seed in range(60):
        world = survey.draw(WIDE, seed)
        found.append(survey.record(world).facts["mse_uniform"])
    assert np.std(found, ddof=1) == pytest.approx(0.006, rel=0.3)
    assert abs(np.mean(found) - FIGURES["uniform"]) <= 3 * np.std(found, ddof=1) / N_WORLDS**0.5


def test_an_anchor_at_uniform_helps_the_lasso_in_almost_every_world():
    better = errors()["lasso_uniform"] < errors()["lasso"]
    assert better.sum() >= 7  # p = .035 if it made no difference
    assert (errors()["lasso"] < errors()["pool_mean"]).all()
    assert (errors()["pool_mean"] < errors()["uniform"]).sum() >= 7


GOLDEN = [
    ("additive", 3, [1, 2, 3], [1, 2, 3]),
    ("additive", 1, [1], [1]),
    ("glove", 3, [2 / 3, 1 / 6, 1 / 6], [3 / 4, 1 / 4, 1 / 4]),
    ("unanimity", 4, [1 / 2, 1 / 2, 0, 0], [1 / 2, 1 / 2, 0, 0]),
    ("majority", 3, [1 / 3] * 3, [comb(2, 1) / 4] * 3),
    ("constant", 4, [0] * 4, [0] * 4),
    ("quadratic", 8, 1.9 * np.arange(1, 9), 1.9 * np.arange(1, 9)),
]


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize(("game", "n", "shapley", "banzhaf"), GOLDEN)
def test_golden_games_are_exact_for_every_estimator_that_sees_all(game, n, shapley, banzhaf, name):
    for estimand, values in (("shapley", shapley), ("banzhaf", banzhaf)):
        if (name, estimand) == ("mc", "banzhaf"):
            continue  # it is refused before anything runs
        fixed = {**PLAIN, "game": game, "n_players": n, "estimand": estimand}
        (s,) = sweep("attribution", {**fixed, "estimator": ESTIMATORS[name]}, {}, 1)
        world = attribution.draw(world_parameters("attribution", s.parameters), s.world_seed)
        found = attribution.simulate(s.parameters, world, s.seed, 0.9)
        np.testing.assert_allclose(found.details["values"], values, atol=1e-12)
        told = by_name(found.metrics)
        assert told["max_error"].value < 1e-12
        assert told["coverage"].value == 1.0
        assert told["n_coalitions"].value == 2**n
        assert (told["nmse"].value is None) == (game == "constant")


def test_a_regression_is_exact_on_the_quadratic_game_from_2n_plus_2_coalitions():
    fixed = {**PLAIN, "game": "quadratic", "n_players": 8, "budget": 2, "estimator": "regression"}
    (s,) = sweep("attribution", fixed, {}, 1)
    world = attribution.draw(world_parameters("attribution", s.parameters), s.world_seed)
    told = by_name(attribution.simulate(s.parameters, world, s.seed, 0.9).metrics)
    assert told["n_coalitions"].value == 18
    assert told["max_error"].value < 1e-9


def test_an_echos_payoff_is_the_cosine_of_the_words_that_are_there():
    table = attribution.echo_table("ba ba ka")  # all weights alike would give √2/√3 … by hand:
    assert table[0] == 0.0
    assert table[-1] == 1.0
    # one corpus of 8 texts; ba stands in 6 of them, ka in 4: idf = ln(9/7) + 1, ln(9/5) + 1
    ba, ka = np.log(9 / 7) + 1, np.log(9 / 5) + 1
    norm = np.hypot(2 * ba, ka)
    np.testing.assert_allclose(table[[1, 2, 3]], 2 * ba / norm, atol=1e-12)  # ba; ba; ba ba
    assert table[4] == pytest.approx(ka / norm, abs=1e-12)
    assert table[5] == pytest.approx((2 * ba * ba + ka * ka) / norm / np.hypot(ba, ka), abs=1e-12)


def test_jitter_is_part_of_the_game_and_spares_the_whole():
    fixed = {**PLAIN, "game": "constant", "n_players": 6}
    (calm,), (noisy,) = (
        sweep("attribution", {**fixed, "noise": noise}, {}, 1) for noise in (0.0, 0.1)
    )
    tables = [attribution.draw(s.parameters, 5).table for s in (calm, noisy)]
    jitter = tables[1] - tables[0]
    assert jitter[-1] == 0.0
    assert 0.05 < jitter[:-1].std() < 0.15
    found = attribution.simulate(noisy.parameters, attribution.draw(noisy.parameters, 5), 1, 0.9)
    assert by_name(found.metrics)["max_error"].value < 1e-12  # every coalition is asked


@cache
def falling() -> dict[tuple[str, str], float]:
    """Mean error by estimator and budget, over four replicates of two games, calm and noisy."""
    names = [name for name in ESTIMATORS if name != "exact"]
    grid = {
        "game": ["textsim", {"use": "random_unanimity", "n_terms": 30, "max_size": 5}],
        "budget": ["3n", "12n", "all"],
        "estimator": [ESTIMATORS[name] for name in names],
        "noise": [0.0, 0.05],
    }
    found: dict[tuple[str, str], list[float]] = {}
    labels = {}
    for s in sweep("attribution", {**PLAIN, "game": "glove", "n_players": 8}, grid, 4):
        world = _world(s.world_seed, str(s.parameters["game"]), s)
        told = by_name(attribution.simulate(s.parameters, world, s.seed, 0.9).metrics)
        key = (s.varied["estimator"], s.varied["budget"])
        found.setdefault(key, []).append(told["nmse"].value)
        labels[s.varied["estimator"]] = None
    assert len(labels) == len(names)
    return {key: float(np.mean(values)) for key, values in found.items()}


_WORLDS: dict[tuple[int, str], attribution.PlayedGame] = {}


def _world(seed: int, game: str, s) -> attribution.PlayedGame:
    key = (seed, game)
    if key not in _WORLDS:
        _WORLDS[key] = attribution.draw(world_parameters("attribution", s.parameters), seed)
    return _WORLDS[key]


def test_the_error_of_every_estimator_falls_with_its_budget():
    found = falling()
    for name in {name for name, _ in found}:
        few, more, every = (found[name, budget] for budget in ("3n", "12n", "all"))
        assert every < 1e-20
        assert more < few, name
