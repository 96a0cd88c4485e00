"""Solvers, their check, cross-validation over questions, and the options of a fit."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from quorum.errors import InputError, MissingExtraError, RefusedError, SettingsError
from quorum.reconstruction.ensembles import highs as highs_module
from quorum.reconstruction.ensembles import system as system_module
from quorum.reconstruction.ensembles.base import Problem
from quorum.reconstruction.ensembles.newton import solve_newton
from quorum.reconstruction.ensembles.penalised import ElasticNet, Lasso, Penalised, Ridge
from quorum.reconstruction.ensembles.simple_average import SimpleAverage
from quorum.reconstruction.ensembles.simplex import Simplex
from quorum.reconstruction.ensembles.system import System, solve
from quorum.reconstruction.ensembles.validation import out_of_fold, question_folds
from quorum.simulation.worlds import survey_world

SIZES = (2, 3, 4, 2, 3, 4, 2, 3)
NONE = ("none",)


def problem(seed: int = 0, n: int = 40, groups: tuple[str, ...] | None = None) -> Problem:
    rng = np.random.default_rng(seed)
    x = np.vstack([rng.dirichlet(np.full(k, 0.3), size=n).T for k in SIZES])
    y = np.concatenate([rng.dirichlet(np.full(k, 2.0)) for k in SIZES])
    questions = tuple(f"q{i}" for i in range(len(SIZES)))
    return Problem(x, y, questions, SIZES, tuple(f"p{i:02d}" for i in range(n)), groups=groups)


def random_system(total: str, kappa: float, linear: float, seed: int = 0) -> System:
    rng = np.random.default_rng(seed)
    a, b = rng.random((12, 40)) / 3, rng.random(12) / 3
    return System(a, b, kappa, linear, total)


# two personas, one question: x = (1, 0) and (0, 1), shares (0.7, 0.3)
TWO = Problem(np.eye(2), np.array([0.7, 0.3]), ("q",), (2,), ("a", "b"))


@pytest.mark.parametrize(
    ("ensemble", "expected"),
    [
        (Lasso(lam=0.0), (0.7, 0.3)),
        # ½(0.7 − w)² + λw: w = 0.7 − λ
        (Lasso(lam=0.1), (0.6, 0.2)),
        # ½(0.7 − w)² + (λ/2)w²: w = 0.7 / (1 + λ)
        (Ridge(lam=0.25), (0.56, 0.24)),
        # ½(0.7 − w)² + λ(w/2 + w²/4): w = (0.7 − λ/2) / (1 + λ/2)
        (ElasticNet(lam=0.2), (0.6 / 1.1, 0.2 / 1.1)),
        # deviations from ½ shrink by 1/(1 + λ), as the sum stays 1
        (Simplex(lam=0.25, anchors=NONE), (0.5 + 0.2 / 1.25, 0.5 - 0.2 / 1.25)),
        (SimpleAverage(), (0.5, 0.5)),
        # around (½, ½): y − p⁰ = 0.2·(1, −1) and x_a − p⁰ = ½(1, −1): w_a = 0.4 − 2λ at α = 1
        (Lasso(lam=0.1, anchors=("uniform",)), (0.2, 0.0)),
        # with the reference b the target is 0.7·(1, −1): w_a = 0.7 − λ/2
        (Lasso(lam=0.1, reference="b"), (0.65, 0.35)),
    ],
    ids=str,
)
def test_two_personas_have_weights_computed_by_hand(
    ensemble: Penalised, expected: tuple[float, float]
) -> None:
    np.testing.assert_allclose(ensemble.fit(TWO, 0).weights, expected, atol=1e-12)


def test_the_unit_question_weighs_every_question_alike() -> None:
    # one persona; a question of 2 options, one of 4: means of squares count alike, not rows
    x = np.array([[1.0], [0], [1], [0], [0], [0]])
    y = np.array([0.5, 0.5, 0.1, 0.3, 0.3, 0.3])
    p = Problem(x, y, ("a", "b"), (2, 4), ("p",))
    # cell: w = mean of 0.5 and 0.1; question: (0.5/2 + 0.1/4) / (1/2 + 1/4)
    assert Lasso(lam=0.0).fit(p, 0).weights[0] == pytest.approx(0.3)
    weight = Lasso(lam=0.0, unit="question").fit(p, 0).weights[0]
    assert weight == pytest.approx(0.275 / 0.75)


@pytest.mark.parametrize("total", ["free", "one", "at_most_one"])
@pytest.mark.parametrize("kappa", [0.0, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("linear", [0.0, 1e-3])
def test_both_solvers_reach_the_same_objective(total: str, kappa: float, linear: float) -> None:
    if total != "free" and linear:
        linear = 0.0
    system = random_system(total, kappa, linear)
    ours, other = solve(system, "nnls", 1e-9), solve(system, "highs", 1e-9)
    assert ours.report.objective == pytest.approx(other.report.objective, rel=1e-8, abs=1e-12)
    assert other.report.solver == "highs"
    assert ours.report.solver == ("dual newton" if kappa else "scipy nnls")
    if kappa:
        np.testing.assert_allclose(ours.weights, other.weights, atol=1e-6)


@pytest.mark.parametrize("total", ["free", "one", "at_most_one"])
def test_newtons_method_agrees_with_scipys_on_ridge_rows(total: str) -> None:
    system = random_system(total, 1e-4, 0.0)
    newton = np.maximum(solve_newton(system, None).weights, 0)
    rows = system_module._scipy_nnls(system).weights
    assert system.gap(newton) < 1e-12
    np.testing.assert_allclose(newton, rows, atol=1e-9)


def test_a_warm_start_changes_no_result() -> None:
    system = random_system("at_most_one", 1e-3, 0.0)
    start = solve(random_system("at_most_one", 1e-2, 0.0), "nnls", 1e-9).start
    cold, warm = solve(system, "nnls", 1e-9), solve(system, "nnls", 1e-9, start)
    np.testing.assert_allclose(cold.weights, warm.weights, atol=1e-12)
    assert warm.report.iterations < cold.report.iterations


def test_more_rows_than_personas_are_reduced_without_a_difference() -> None:
    tall = problem(n=6)
    fit = Ridge(lam=1e-3).fit(tall, 0)
    rest = tall.y - tall.x @ fit.weights
    objective = rest @ rest / len(rest) + 1e-3 / 2 * fit.weights @ fit.weights
    assert fit.solver.objective == pytest.approx(objective, rel=1e-12)
    assert fit.solver.gap < 1e-12


def test_a_wrong_point_of_the_solver_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:  # case 65
    def wrong(a: np.ndarray, b: np.ndarray, maxiter: int) -> tuple[np.ndarray, float]:
        return np.full(a.shape[1], 1.0 / a.shape[1]), 0.0  # and claims a residual of 0

    monkeypatch.setattr(scipy.optimize, "nnls", wrong)
    with pytest.raises(RefusedError, match="stopped away from the optimum") as refused:
        Lasso(lam=0.0).fit(problem(), 0)
    assert "ensemble.solver=highs" in refused.value.mend


@pytest.mark.parametrize(("low", "is_refused"), [(-1e-11, False), (-1e-5, True)])
def test_tiny_negative_weights_are_clipped_and_recorded(  # case 64
    monkeypatch: pytest.MonkeyPatch, low: float, is_refused: bool
) -> None:
    true = system_module._scipy_nnls

    def conic(system: System) -> system_module.Raw:
        raw = true(system)
        weights = raw.weights.copy()
        weights[np.argmin(weights)] = low
        return replace(raw, weights=weights)

    monkeypatch.setattr(system_module, "_scipy_nnls", conic)
    part = Simplex(lam=0.0, anchors=NONE)
    if is_refused:
        with pytest.raises(RefusedError, match="no weights"):
            part.fit(problem(), 0)
        return
    fit = part.fit(problem(), 0)
    assert fit.weights.min() == 0
    assert fit.solver.clip == 1e-11
    assert fit.solver.raw_min == -1e-11
    assert fit.mass == pytest.approx(1, abs=1e-15)


def test_the_report_says_whether_the_weights_are_the_only_ones() -> None:
    p = problem(n=8)
    twice = Problem(
        np.column_stack([p.x, p.x]), p.y, p.question_ids, p.sizes, tuple(f"p{i}" for i in range(16))
    )
    simplex = Simplex(lam=0.0, anchors=NONE)
    assert simplex.fit(p, 0).solver.is_unique is True
    assert simplex.fit(twice, 0).solver.is_unique is not True
    assert Simplex(lam=1e-6, anchors=NONE).fit(twice, 0).solver.is_unique is True


def test_a_sum_short_of_one_is_reported_and_not_mended() -> None:  # case 73
    fit = Lasso(lam=0.05).fit(problem(), 0)
    assert fit.mass < 0.99
    assert fit.solver.raw_sum == pytest.approx(fit.mass)


def test_targets_at_zero_and_one_give_finite_weights() -> None:  # case 62
    x = np.array([[0.0, 0.0], [1.0, 1.0], [0.2, 0.9], [0.8, 0.1]])
    p = Problem(x, np.array([0.0, 1.0, 1.0, 0.0]), ("a", "b"), (2, 2), ("p", "q"))
    fit = Simplex(lam=1e-3, anchors=NONE).fit(p, 0)
    assert np.isfinite(fit.weights).all()
    assert fit.weights[1] > 0.9


def test_highs_without_its_package_names_the_install_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"\[highs\]"):
        highs_module.check_highs()
    with pytest.raises(MissingExtraError):
        Lasso(solver="highs").check_ready()
    Lasso().check_ready()


def test_highs_says_nothing_on_the_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    Lasso(lam=1e-3, solver="highs").fit(problem(), 0)
    assert capfd.readouterr().out == ""


def test_blocks_stay_together_and_folds_are_of_equal_size() -> None:
    p = problem(groups=("a", "a", "b", "b", "c", "c", "d", "d"))
    folds = question_folds(p, 2, seed=1)
    assert [len(held) for held in folds.held] == [4, 4]
    for held in folds.held:
        blocks = {p.groups[q] for q in held}
        assert len(blocks) == 2
    assert sorted(np.concatenate(folds.held)) == list(range(8))


def test_folds_go_by_ids_and_seed_and_not_by_position() -> None:
    p = problem()
    order = np.random.default_rng(0).permutation(8)
    other = p.of_questions(order)

    def together(which: Problem, seed: int) -> set[frozenset[str]]:
        return {
            frozenset(which.question_ids[q] for q in held)
            for held in question_folds(which, 3, seed).held
        }

    assert together(p, 0) == together(other, 0)
    assert any(together(p, 0) != together(p, seed) for seed in range(1, 5))


def test_one_block_only_falls_back_to_questions_and_says_so() -> None:
    p = problem(groups=("all",) * 8)
    assert question_folds(p, 4, 0).note
    assert Lasso(folds=4).fit(p, 0).notes


def test_cross_validation_needs_two_questions() -> None:
    with pytest.raises(InputError, match="two training questions"):
        Lasso().fit(TWO, 0)


def test_the_curve_holds_every_candidate_and_one_choice() -> None:
    fit = Simplex(folds=4).fit(problem(), 0)
    assert len(fit.curve) == 3 * 15  # anchors × penalties
    chosen = [row for row in fit.curve if row["chosen"]]
    assert len(chosen) == 1
    assert (chosen[0]["lam"], chosen[0]["anchor"]) == (fit.lam, fit.anchor)
    assert chosen[0]["mse"] == min(row["mse"] for row in fit.curve)


def test_one_standard_error_takes_a_larger_penalty_of_the_same_anchor() -> None:
    w = survey_world(0, n_personas=40, n_questions=20)
    p = Problem(w.x, w.y, w.question_ids, w.sizes, w.persona_ids)
    best, careful = Simplex(folds=4).fit(p, 0), Simplex(folds=4, one_se=True).fit(p, 0)
    assert careful.anchor == best.anchor
    assert careful.lam > best.lam
    row = next(r for r in best.curve if r["chosen"])
    allowed = next(r for r in careful.curve if r["chosen"])
    assert allowed["mse"] <= row["mse"] + row["se"]


def test_the_chosen_ensemble_fits_the_same_weights_without_a_choice() -> None:
    part = ElasticNet(folds=3, anchors=("none", "uniform"))
    fit = part.fit(problem(), 0)
    again = part.chosen(fit).fit(problem(), 1)
    assert again.curve == ()
    np.testing.assert_array_equal(again.weights, fit.weights)


def test_held_out_predictions_come_from_fits_without_their_question() -> None:
    p = problem()
    found, folds = out_of_fold(p, Ridge(lam=1e-2), 8, 0)
    changed = replace(p, y=np.concatenate([[0.9, 0.1], p.y[2:]]))
    other, _ = out_of_fold(changed, Ridge(lam=1e-2), 8, 0)
    assert len(folds.held) == 8
    np.testing.assert_array_equal(found[:2], other[:2])
    assert not np.array_equal(found[2:], other[2:])


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"lam": -1.0}, "ensemble.lam"),
        ({"lam": "auto"}, "ensemble.lam"),
        ({"lam": float("nan")}, "ensemble.lam"),
        ({"anchors": ()}, "ensemble.anchors"),
        ({"anchors": ("pool", "pool")}, "ensemble.anchors"),
        ({"anchors": ("mean",)}, "ensemble.anchors"),
        ({"unit": "row"}, "ensemble.unit"),
        ({"solver": "osqp"}, "ensemble.solver"),
        ({"folds": 1}, "ensemble.folds"),
        ({"tolerance": 0.0}, "ensemble.tolerance"),
        ({"mass_penalty": -1.0}, "ensemble.mass_penalty"),
        ({"l1_ratio": 0.0}, "ensemble.l1_ratio"),
        ({"reference": "p", "intercept": True}, "ensemble.reference"),
        ({"reference": "p", "mass_penalty": 1.0}, "ensemble.reference"),
        ({"reference": "p", "anchors": ("pool",)}, "ensemble.reference"),
    ],
)
def test_an_option_out_of_range_is_refused(options: dict[str, object], where: str) -> None:
    with pytest.raises(SettingsError, match=where):
        ElasticNet(**options)


def test_a_list_from_a_settings_file_serves_as_anchors() -> None:
    assert Simplex(anchors=["none", "pool"]).anchors == ("none", "pool")  # type: ignore[arg-type]


def test_an_unknown_reference_and_a_missing_anchor_file_are_named() -> None:
    with pytest.raises(InputError, match="no persona has this id, got 'zz'"):
        Lasso(lam=0.0, reference="zz").fit(problem(), 0)
    with pytest.raises(InputError, match="no file of shares"):
        Lasso(lam=0.0, anchors=("file",)).fit(problem(), 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.eye(3)}, "shapes do not fit"),
        ({"x": np.array([[0.5, 0], [0.4, 1]])}, "do not sum to 1"),
        ({"x": np.array([[np.nan, 0], [1, 1]])}, "no share"),
        ({"y": np.array([0.9, 0.3])}, "do not sum to 1"),
        ({"y": np.array([1.3, -0.3])}, "no share"),
        ({"persona_ids": ("a", "a")}, "an id stands twice, got 'a'"),
        ({"groups": ("g", "h")}, "not one block a question"),
        ({"anchor_file": np.ones(3)}, "anchor file"),
    ],
)
def test_a_problem_that_is_none_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(TWO, **changes)


ODD = {
    "one persona": (1, "own"),
    "all alike": (5, "own"),
    "the target is the pool mean": (20, "pool"),
    "the target is uniform": (20, "uniform"),
}


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize(
    "ensemble",
    [
        Lasso(folds=3, anchors=("none", "uniform", "pool")),
        Lasso(lam=1e-2, mass_penalty=1e6),
        Lasso(lam=1e-3, intercept=True),
        ElasticNet(lam=1e-12),
        Ridge(folds=3, anchors=("pool",), mass_penalty=1e6),
        Simplex(folds=3),
        Simplex(lam=0.0, anchors=("pool",)),
    ],
    ids=str,
)
def test_degenerate_pools_and_targets_give_finite_checked_weights(
    case: str, ensemble: Penalised
) -> None:
    n, target = ODD[case]
    p = problem(n=n)
    x = np.repeat(p.x[:, :1], n, axis=1) if case == "all alike" else p.x
    uniform = np.repeat([1 / k for k in SIZES], SIZES)
    y = {"own": p.y, "pool": x.mean(axis=1), "uniform": uniform}[target]
    found = ensemble.fit(replace(p, x=x, y=y), 0)
    assert np.isfinite(found.weights).all()
    assert found.solver.gap <= 1e-8
