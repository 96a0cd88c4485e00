"""1,016 real respondents as a pool: fits on 54 questions predict 23 others as well as measured.

Mean squared error over options, five splits. These people are the population, so the numbers are
kinder than those of a model's answers; what carries over is the order of the methods.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from quorum.reconstruction.ensembles.base import Problem
from quorum.reconstruction.ensembles.simple_average import SimpleAverage
from quorum.reconstruction.ensembles.simplex import Simplex

SURVEYS = Path(__file__).resolve().parents[2] / "data" / "surveys"
N_SPLITS, N_TRAIN = 5, 54
RIDGE = Simplex(lam=2e-2, anchors=("none",))  # λ(1 − α)/2 = 1e-2
POPULATION, REPUBLICANS = "population", "party=Republican"


def rows(name: str) -> list[dict[str, str]]:
    with (SURVEYS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@cache
def survey() -> tuple[list[str], np.ndarray, list[int], dict[str, np.ndarray]]:
    """Questions, the complete respondents' answers, sizes, shares by target; without Q30."""
    population = rows("us2020_voters.csv")
    options: dict[str, list[str]] = {}
    for row in population:
        options.setdefault(row["question_id"], []).append(row["option_label"])
    people = rows("us2020_voters_respondents.csv")
    complete = [p for p in people if all(p[q] in labels for q, labels in options.items())]
    assert len(complete) == 1016
    questions = [q for q in options if q != "Q30"]
    cells = [(q, o) for q in questions for o in options[q]]
    x = np.array([[float(p[q] == o) for p in complete] for q, o in cells])
    shares = {POPULATION: {(r["question_id"], r["option_label"]): r["share"] for r in population}}
    for row in rows("us2020_voters_by_group.csv"):
        target = shares.setdefault(f"{row['group_by']}={row['group']}", {})
        target[row["question_id"], row["option_label"]] = row["share"]
    targets = {
        name: np.array([float(shares[name][cell]) for cell in cells])
        for name in (POPULATION, REPUBLICANS)
    }
    return questions, x, [len(options[q]) for q in questions], targets


def problem(target: str) -> Problem:
    questions, x, sizes, targets = survey()
    people = tuple(f"r{i:04d}" for i in range(x.shape[1]))
    return Problem(x, targets[target], tuple(questions), tuple(sizes), people)


def held_out_error(
    target: str, ensemble: Simplex | SimpleAverage, n_splits: int = N_SPLITS
) -> float:
    whole = problem(target)
    errors = []
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(len(whole.sizes))
        train, test = whole.of_questions(order[:N_TRAIN]), whole.of_questions(order[N_TRAIN:])
        fit = ensemble.fit(train, 0)
        errors.append(np.mean((fit.predict(test.x, test.sizes) - test.y) ** 2))
    return float(np.mean(errors))


@pytest.mark.parametrize(
    ("target", "ensemble", "expected"),
    [
        (POPULATION, SimpleAverage(), 0.00050),
        (POPULATION, RIDGE, 0.00011),
        (REPUBLICANS, SimpleAverage(), 0.01153),
        (REPUBLICANS, RIDGE, 0.00034),
    ],
)
def test_the_error_on_held_out_questions_is_the_measured_one(
    target: str, ensemble: Simplex | SimpleAverage, expected: float
) -> None:
    assert round(held_out_error(target, ensemble), 5) == pytest.approx(expected, abs=1.01e-5)


def test_without_a_ridge_a_vertex_overfits() -> None:
    sparse = held_out_error(REPUBLICANS, Simplex(lam=0.0, anchors=("none",)), n_splits=2)
    assert sparse > 4 * held_out_error(REPUBLICANS, RIDGE, n_splits=2)  # measured: .0022 and .00034


def test_the_default_finds_about_as_good_a_penalty_by_itself() -> None:
    default = held_out_error(REPUBLICANS, Simplex(folds=5), n_splits=2)
    assert default <= 1.15 * held_out_error(REPUBLICANS, RIDGE, n_splits=2)
