"""Synthetic worlds have the magnitudes of real surveys, and the advised fit is good in them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from quorum.errors import SettingsError
from quorum.reconstruction.ensembles.base import Problem
from quorum.reconstruction.ensembles.penalised import ElasticNet, Lasso, Ridge
from quorum.reconstruction.ensembles.simple_average import SimpleAverage
from quorum.reconstruction.ensembles.simplex import Simplex
from quorum.reconstruction.reconstruct import evaluate, reconstruct
from quorum.simulation.worlds import survey_world

N_WORLDS, N_TRAIN = 8, 60
UNIFORM = ("uniform",)
FIVE = {
    "lasso": Lasso(folds=5),
    "elastic_net": ElasticNet(folds=5),
    "ridge": Ridge(folds=5),
    "simple_average": SimpleAverage(),
    "simplex": Simplex(lam=0.0, anchors=("none",)),
    "lasso_uniform": Lasso(folds=5, anchors=UNIFORM),
    "elastic_net_uniform": ElasticNet(folds=5, anchors=UNIFORM),
    "ridge_uniform": Ridge(folds=5, anchors=UNIFORM),
}


def split(seed: int) -> tuple[Problem, Problem]:
    world = survey_world(seed)
    whole = Problem(world.x, world.y, world.question_ids, world.sizes, world.persona_ids)
    return whole.of_questions(np.arange(N_TRAIN)), whole.of_questions(np.arange(N_TRAIN, 100))


@cache
def measured() -> dict[str, float]:
    """Mean test error of each fit and baseline, and the coverage of the default's intervals."""
    found: dict[str, list[float]] = {}
    for seed in range(N_WORLDS):
        train, test = split(seed)
        default = reconstruct(
            train, test.x, test.sizes, test.question_ids, Simplex(), ("raw",), 0.9, seed
        )
        shown = evaluate(default, test.y, n_resamples=10)
        found.setdefault("coverage", []).append(shown.interval_coverage["test"])
        for record in shown.records:
            if (record["metric"], record["split"], record["unit"]) == ("mse", "test", "cell"):
                name = "default" if record["source"] == "fit" else str(record["source"])
                found.setdefault(name, []).append(record["value"])
        for name, ensemble in FIVE.items():
            predicted = ensemble.fit(train, seed).predict(test.x, test.sizes)
            found.setdefault(name, []).append(float(np.mean((predicted - test.y) ** 2)))
    return {name: float(np.mean(values)) for name, values in found.items()}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("uniform", 0.0545),
        ("pool_mean", 0.0378),
        ("lasso", 0.0183),
        ("simplex", 0.0200),
        ("lasso_uniform", 0.0148),
    ],
)
def test_errors_have_the_magnitudes_of_real_surveys(name: str, expected: float) -> None:
    """Worlds differ by a sixth from one to the next, eight of them by 6 %: two of these."""
    assert measured()[name] == pytest.approx(expected, rel=0.125)


@pytest.mark.parametrize("kind", ["lasso", "elastic_net", "ridge"])
def test_an_anchor_at_uniform_takes_a_sixth_off_the_lassos_error(kind: str) -> None:
    assert measured()[f"{kind}_uniform"] <= 0.85 * measured()["lasso"]


def test_the_default_is_within_a_twentieth_of_the_best() -> None:
    best = min(measured()[name] for name in FIVE)
    assert measured()["default"] <= 1.05 * best


def test_intervals_cover_about_what_they_say() -> None:
    assert 0.85 <= measured()["coverage"] <= 0.95


def test_the_simple_average_is_the_pool_mean() -> None:
    assert measured()["simple_average"] == pytest.approx(measured()["pool_mean"], abs=1e-15)


def test_a_world_is_its_seed() -> None:
    one, two, other = survey_world(3), survey_world(3), survey_world(4)
    np.testing.assert_array_equal(one.x, two.x)
    assert one.x.shape != other.x.shape or not np.array_equal(one.x, other.x)


def test_a_longer_survey_begins_with_the_shorter_one() -> None:
    short, long = survey_world(1, n_questions=5), survey_world(1, n_questions=9)
    np.testing.assert_array_equal(long.x[: len(short.y)], short.x)


def test_every_column_is_an_answer() -> None:
    for answers in ("probabilities", "choice"):
        world = survey_world(2, n_personas=20, n_questions=10, answers=answers)
        whole = Problem(world.x, world.y, world.question_ids, world.sizes, world.persona_ids)
        assert whole.x.shape == (sum(world.sizes), 20)
    assert set(np.unique(world.x)) == {0.0, 1.0}  # a choice is one option


def test_unbiased_agents_with_human_sharpness_are_nearer_to_people() -> None:
    def error(**knobs: float) -> float:
        worlds = [survey_world(seed, n_personas=100, **knobs) for seed in range(4)]
        return float(np.mean([np.mean((w.x.mean(axis=1) - w.y) ** 2) for w in worlds]))

    assert error(s=1.0, b=0.0) < 0.5 * error()


@pytest.mark.parametrize(
    "wrong", [{"n_personas": 0}, {"s": -1.0}, {"b": float("nan")}, {"answers": "essay"}]
)
def test_a_world_out_of_range_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=f"world.{next(iter(wrong))}"):
        survey_world(0, **wrong)
