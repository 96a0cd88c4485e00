"""What must hold for every ensemble: identities with values known on paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quorum.reconstruction.ensembles.base import Problem, row_weights, uniform_shares
from quorum.reconstruction.ensembles.penalised import ElasticNet, Lasso, Penalised, Ridge
from quorum.reconstruction.ensembles.simple_average import SimpleAverage
from quorum.reconstruction.ensembles.simplex import Simplex
from quorum.reconstruction.metrics import Label, metric_records
from quorum.reconstruction.reconstruct import evaluate, reconstruct

SIZES = (2, 3, 4, 5, 2, 3, 4, 3)
N = 30
FREE = {"lasso": Lasso(lam=1e-3), "elastic_net": ElasticNet(lam=1e-2), "ridge": Ridge(lam=1e-2)}
BOUND = {
    "simplex": Simplex(lam=0.0, anchors=("none",)),
    "simplex_ridge": Simplex(lam=1e-2, anchors=("none",)),
}
ALL = {**FREE, **BOUND, "simple_average": SimpleAverage()}


def problem(seed: int = 0, n: int = N, sizes: tuple[int, ...] = SIZES) -> Problem:
    rng = np.random.default_rng(seed)
    x = np.vstack([rng.dirichlet(np.full(k, 0.4), size=n).T for k in sizes])
    y = np.concatenate([rng.dirichlet(np.full(k, 2.0)) for k in sizes])
    questions = tuple(f"q{i}" for i in range(len(sizes)))
    return Problem(x, y, questions, sizes, tuple(f"p{i:02d}" for i in range(n)))


def sums(values: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    return np.array([part.sum() for part in np.split(values, np.cumsum(sizes)[:-1])])


@pytest.mark.parametrize("name", ALL)
def test_a_questions_prediction_sums_to_the_mass(name: str) -> None:
    p = problem()
    fit = ALL[name].fit(p, 0)
    np.testing.assert_allclose(sums(fit.predict(p.x, p.sizes), p.sizes), fit.mass, atol=1e-12)


@pytest.mark.parametrize("name", FREE)
def test_an_intercept_adds_itself_once_an_option(name: str) -> None:
    p = problem()
    fit = replace(FREE[name], intercept=True).fit(p, 0)
    expected = fit.mass + np.array(p.sizes) * fit.intercept
    np.testing.assert_allclose(sums(fit.predict(p.x, p.sizes), p.sizes), expected, atol=1e-12)
    rest = p.y - fit.predict(p.x, p.sizes)
    assert abs(rest.mean()) < 1e-12  # an unpenalised constant leaves no mean error


@pytest.mark.parametrize("anchor", ["uniform", "pool", "file"])
def test_an_anchored_prediction_with_mass_up_to_one_is_a_distribution(anchor: str) -> None:
    p = problem()
    p = replace(p, anchor_file=problem(9).y)
    fit = Simplex(lam=1e-2, anchors=(anchor,)).fit(p, 0)
    predicted = fit.predict(p.x, p.sizes, p.anchor_file)
    assert fit.mass <= 1 + 1e-12
    assert predicted.min() >= -1e-12
    np.testing.assert_allclose(sums(predicted, p.sizes), 1, atol=1e-12)


def test_a_heavy_mass_penalty_is_simplex_least_squares() -> None:
    p = problem()
    heavy = Lasso(lam=0.0, mass_penalty=1e7).fit(p, 0)
    simplex = BOUND["simplex"].fit(p, 0)
    np.testing.assert_allclose(heavy.weights, simplex.weights, atol=1e-6)


def test_where_the_mass_is_one_the_absolute_penalty_changes_nothing() -> None:
    p = problem()
    without, with_penalty = (
        ElasticNet(lam=lam, l1_ratio=1.0, mass_penalty=1e7).fit(p, 0) for lam in (0.0, 0.5)
    )
    np.testing.assert_allclose(without.weights, with_penalty.weights, atol=1e-6)


@pytest.mark.parametrize("anchor", ["none", "uniform", "pool"])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
@pytest.mark.parametrize("mu", [0.0, 0.01])
def test_from_lambda_max_on_all_weights_are_zero(anchor: str, alpha: float, mu: float) -> None:
    p = problem()
    p0 = {
        "none": np.zeros(len(p.y)),
        "uniform": uniform_shares(p.sizes),
        "pool": p.x.mean(axis=1),
    }[anchor]
    rho = row_weights(p.sizes, "cell")
    slopes = ((p.x - p0[:, None]) * (rho * (p.y - p0))[:, None]).sum(axis=0)
    lam_max = (2 * slopes.max() + 2 * mu) / alpha
    part = ElasticNet(lam=lam_max * (1 + 1e-9), l1_ratio=alpha, anchors=(anchor,), mass_penalty=mu)
    fit = part.fit(p, 0)
    assert fit.mass == 0
    np.testing.assert_array_equal(fit.predict(p.x, p.sizes), p0)
    assert replace(part, lam=lam_max * 0.99).fit(p, 0).mass > 0


@pytest.mark.parametrize("name", ["lasso", "simplex"])
def test_a_duplicated_persona_changes_no_prediction_without_a_ridge(name: str) -> None:
    p = problem()
    twice = Problem(
        np.column_stack([p.x, p.x[:, 3]]), p.y, p.question_ids, p.sizes, (*p.persona_ids, "copy")
    )
    one, two = ALL[name].fit(p, 0), ALL[name].fit(twice, 0)
    np.testing.assert_allclose(one.predict(p.x, p.sizes), two.predict(twice.x, p.sizes), atol=1e-9)


@pytest.mark.parametrize("name", ["elastic_net", "ridge", "simplex_ridge"])
def test_with_a_ridge_copies_of_a_persona_get_equal_weights(name: str) -> None:
    p = problem()
    k = int(np.argmax(ALL[name].fit(p, 0).weights))
    twice = Problem(
        np.column_stack([p.x, p.x[:, k]]), p.y, p.question_ids, p.sizes, (*p.persona_ids, "copy")
    )
    weights = ALL[name].fit(twice, 0).weights
    assert weights[k] > 0
    assert weights[k] == pytest.approx(weights[-1], rel=1e-9)


@pytest.mark.parametrize("name", [*FREE, "simplex_ridge", "cv"])
def test_the_order_of_personas_and_questions_changes_no_bit(name: str) -> None:
    p = problem()
    ensemble = Simplex(folds=4) if name == "cv" else ALL[name]
    rng = np.random.default_rng(5)
    personas, questions = rng.permutation(N), rng.permutation(len(SIZES))
    other = p.of_questions(questions).of_personas(personas)
    one, two = ensemble.fit(p, 0), ensemble.fit(other, 0)
    np.testing.assert_array_equal(two.weights, one.weights[personas])
    assert [dict(row) for row in one.curve] == [dict(row) for row in two.curve]


def test_the_order_of_options_changes_no_metric() -> None:
    p = problem()
    rng = np.random.default_rng(6)
    starts = np.cumsum((0, *SIZES[:-1]))
    rows = np.concatenate([s + rng.permutation(k) for s, k in zip(starts, SIZES, strict=True)])
    other = Problem(p.x[rows], p.y[rows], p.question_ids, p.sizes, p.persona_ids)
    values = []
    for own in (p, other):
        train, test = own.of_questions(np.arange(6)), own.of_questions(np.arange(6, 8))
        found = reconstruct(
            train, test.x, test.sizes, test.question_ids, Simplex(folds=3), ("raw",), 0.5, 1
        )
        shown = evaluate(found, test.y)
        values.append([r["value"] for r in shown.records if r["value"] is not None])
        values[-1] += [r["low"] for r in shown.paired]
    np.testing.assert_allclose(values[0], values[1], atol=1e-7)


@pytest.mark.parametrize("unit", ["cell", "question"])
@pytest.mark.parametrize(
    "ensemble",
    [
        Lasso(lam=0.0),
        ElasticNet(lam=0.0),
        Ridge(lam=0.0),
        Lasso(lam=0.0, anchors=("uniform",)),
        Lasso(lam=0.0, reference="p03"),
        Lasso(lam=0.0, intercept=True),
        Simplex(lam=0.0, anchors=("none",)),
        Simplex(lam=0.0, anchors=("pool",)),
    ],
    ids=str,
)
def test_a_planted_population_is_found_without_noise(ensemble: Penalised, unit: str) -> None:
    p = problem()
    planted = np.zeros(N)
    planted[[3, 8, 20]] = 0.5, 0.3, 0.2
    p = replace(p, y=p.x @ planted)
    fit = replace(ensemble, unit=unit).fit(p, 0)
    assert np.mean((fit.predict(p.x, p.sizes) - p.y) ** 2) < 1e-10


def test_a_reference_respondent_makes_the_mass_exactly_one() -> None:
    p = problem()
    fit = Lasso(lam=1e-3, reference="p03").fit(p, 0)
    assert fit.mass == pytest.approx(1, abs=1e-15)
    assert fit.reference == "p03"
    assert np.delete(fit.weights, 3).min() >= 0


def test_the_metrics_of_a_perfect_prediction_are_known() -> None:
    p = problem()
    from quorum.reconstruction.policies import apply_policy

    records = metric_records(
        p.y,
        apply_policy("raw", p.y, p.sizes),
        p.sizes,
        np.ones(len(p.sizes), bool),
        Label("test", "raw", "population", 0),
    )
    values = {(r["metric"], r["unit"]): r["value"] for r in records}
    perfect = {"skill": 1.0, "modal_accuracy": 1.0}
    for (metric, _), value in values.items():
        assert value == pytest.approx(perfect.get(metric, 0.0), abs=1e-9)
