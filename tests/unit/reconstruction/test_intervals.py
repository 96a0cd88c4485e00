"""Conformal intervals: a quantile known on paper, coverage, and reconstruction in two steps."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace

import numpy as np
import pytest

from quorum.errors import InputError, SettingsError
from quorum.reconstruction.ensembles.base import Problem
from quorum.reconstruction.ensembles.penalised import Lasso
from quorum.reconstruction.ensembles.simple_average import SimpleAverage
from quorum.reconstruction.ensembles.simplex import Simplex
from quorum.reconstruction.intervals import calibrate, intervals, spread
from quorum.reconstruction.reconstruct import Reconstruction, evaluate, reconstruct
from quorum.simulation.worlds import survey_world

RIDGE = Simplex(lam=0.1, anchors=("none",))


def two(errors: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Questions of two options, predicted 50:50 and missed by these amounts."""
    y = np.column_stack([0.5 + errors, 0.5 - errors]).ravel()
    return y, np.full(len(y), 0.5), (2,) * len(errors)


def test_the_half_width_is_the_order_statistic_known_on_paper() -> None:
    # 19 questions, level 0.9: the 18th smallest of errors 0.01 … 0.19, as ⌈0.9 · 20⌉ = 18
    y, held, sizes = two(np.arange(1, 20) / 100)
    found = calibrate(y, held, sizes, np.ones(19, bool), 0.9)
    low, high = intervals(found, np.array([0.5]))
    assert high[0] - 0.5 == pytest.approx(0.18)
    assert 0.5 - low[0] == pytest.approx(0.18)
    assert found.coverage == pytest.approx(18 / 19)


def test_too_few_questions_give_the_whole_range_and_say_so() -> None:
    y, held, sizes = two(np.arange(1, 9) / 100)
    found = calibrate(y, held, sizes, np.ones(8, bool), 0.9)
    assert found.quantile is None
    assert found.reason == "8 questions are too few for the level 0.9: 9 are needed"
    low, high = intervals(found, np.array([0.3, 0.7]))
    assert (low.tolist(), high.tolist()) == ([0, 0], [1, 1])
    assert calibrate(*two(np.arange(1, 10) / 100), np.ones(9, bool), 0.9).quantile is not None


def test_intervals_stay_inside_the_shares_and_are_narrower_near_the_ends() -> None:
    y, held, sizes = two(np.arange(1, 20) / 100)
    found = calibrate(y, held, sizes, np.ones(19, bool), 0.9)
    low, high = intervals(found, np.array([0.02, 0.5, 0.98]))
    assert low[0] == 0
    assert high[2] == 1
    assert high[0] - 0.02 < high[1] - 0.5
    np.testing.assert_allclose(spread(np.array([-0.3, 0.5, 1.2])), [0.3, 0.5, 0.3])


def test_a_question_with_many_options_weighs_no_more_than_one_with_two() -> None:
    # 18 exact questions of 2 options and one of 5 that misses: 1 of 19 questions, not 5 of 41 rows
    y, held, _ = two(np.zeros(18))
    y = np.append(y, [0.6, 0.1, 0.1, 0.1, 0.1])
    held = np.append(held, np.full(5, 0.2))
    found = calibrate(y, held, (*(2,) * 18, 5), np.ones(19, bool), 0.9)
    assert found.quantile == 0


def test_questions_that_do_not_count_are_left_out() -> None:
    y, held, sizes = two(np.append(np.full(19, 0.01), 0.4))
    covered = np.append(np.ones(19, bool), [False])
    found = calibrate(y, held, sizes, covered, 0.9)
    assert found.n_questions == 19
    assert found.quantile == pytest.approx(0.02)


@pytest.mark.parametrize("level", [0.0, 1.0, float("nan")])
def test_a_level_out_of_range_is_refused(level: float) -> None:
    with pytest.raises(SettingsError, match="level: out of range"):
        calibrate(*two(np.zeros(19)), np.ones(19, bool), level)


def split(seed: int = 0, n_questions: int = 30) -> tuple[Problem, Problem]:
    w = survey_world(seed, n_personas=40, n_questions=n_questions)
    whole = Problem(w.x, w.y, w.question_ids, w.sizes, w.persona_ids)
    n_train = n_questions * 2 // 3
    return (
        whole.of_questions(np.arange(n_train)),
        whole.of_questions(np.arange(n_train, n_questions)),
    )


def found(**changes: object) -> tuple[Reconstruction, Problem]:
    train, test = split()
    arguments = {
        "problem_train": train,
        "x_test": test.x,
        "sizes_test": test.sizes,
        "question_ids_test": test.question_ids,
        "ensemble": RIDGE,
        "policies": ("raw", "project"),
        "level": 0.9,
        "seed": 3,
    } | changes
    return reconstruct(**arguments), test


def test_a_reconstruction_never_receives_test_targets() -> None:
    names = set(inspect.signature(reconstruct).parameters)
    assert not {name for name in names if name.startswith("y")}


def test_a_reconstruction_has_predictions_under_each_policy_and_baselines() -> None:
    result, test = found(ensemble=Lasso(lam=1e-3))
    assert list(result.test.policies) == ["raw", "project"]
    np.testing.assert_allclose(
        result.test.policies["raw"].values, test.x @ result.fit.weights, atol=1e-12
    )
    sums = np.add.reduceat(result.test.policies["project"].values, np.cumsum((0, *test.sizes[:-1])))
    np.testing.assert_allclose(sums, 1)
    np.testing.assert_allclose(result.test.baselines["pool_mean"], test.x.mean(axis=1))
    assert (result.test.low <= result.test.primary.values + 1e-12).all()


def test_an_evaluation_is_json_and_holds_what_a_report_needs() -> None:
    result, test = found()
    ids = (*result.train.question_ids, *test.question_ids)
    shown = evaluate(
        result,
        test.y,
        ordinal=dict.fromkeys(ids, True),
        n=dict.fromkeys(ids, 1000.0),
        n_resamples=200,
    )
    for rows in (shown.records, shown.paired, shown.misfit, shown.uncovered):
        json.dumps([dict(row) for row in rows], allow_nan=False)
    keys = {(r["metric"], r["split"], r["policy"], r["source"]) for r in shown.records}
    for split_name in ("train", "cv", "test"):
        assert ("mse", split_name, "raw", "fit") in keys
        assert ("mse", split_name, "project", "fit") in keys
    for source in ("uniform", "pool_mean", "equal_weights"):
        assert ("mse", "test", "raw", source) in keys
    assert ("mass", "train", "raw", "fit") in keys
    assert {(r["against"], r["split"]) for r in shown.paired} == {
        (a, s) for a in ("pool_mean", "uniform") for s in ("cv", "test")
    }
    assert 0 < shown.noise_floor < 0.25 / 1000
    assert shown.interval_coverage["reason"] is None
    mse = next(r for r in shown.records if r["split"] == "test" and r["source"] == "fit")
    expected = np.mean((result.test.primary.values - test.y) ** 2)
    assert mse["value"] == pytest.approx(expected)


def test_sealed_targets_leave_test_values_empty_with_the_reason() -> None:
    result, _ = found()
    shown = evaluate(result, None, n_resamples=50)
    test_rows = [r for r in shown.records if r["split"] == "test"]
    assert test_rows
    assert {(r["value"], r["reason"]) for r in test_rows} == {(None, "sealed")}
    assert {r["reason"] for r in shown.paired if r["split"] == "test"} == {"sealed"}
    assert shown.interval_coverage == {
        "train_cv": result.calibration.coverage,
        "test": None,
        "reason": "sealed",
    }
    assert any(r["split"] == "cv" and r["value"] is not None for r in shown.records)
    assert all(row["split"] == "train" for row in shown.uncovered)


def test_a_target_that_no_pool_can_meet_is_named_with_its_misfit() -> None:  # cases 70, 71
    train, test = split()
    x = train.x.copy()
    x[: train.sizes[0], :] = 0
    x[0] = 1  # everyone gives the first answer to the first question
    y = train.y.copy()
    y[: train.sizes[0]] = 0
    y[:2] = 0.5
    result, _ = found(problem_train=replace(train, x=x, y=y))
    shown = evaluate(result, test.y, n_resamples=50)
    name = train.question_ids[0]
    assert {"question": name, "max_error": pytest.approx(0.5)} in list(shown.misfit)
    assert {
        "question": name,
        "option": 1,
        "target": 0.5,
        "lost": 0.5,
        "split": "train",
    } in list(shown.uncovered)
    assert np.isfinite(result.fit.weights).all()
    worst = [row["max_error"] for row in shown.misfit]
    assert worst == sorted(worst, reverse=True)


def test_equal_weights_as_an_ensemble_are_the_baseline() -> None:
    result, test = found(ensemble=SimpleAverage())
    shown = evaluate(result, test.y, n_resamples=50)
    zero = next(r for r in shown.paired if (r["against"], r["split"]) == ("pool_mean", "test"))
    assert zero["difference"] == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": ()}, "no list of policies"),
        ({"policies": ("raw", "raw")}, "no list of policies"),
        ({"x_test": np.ones((3, 40))}, "shapes do not fit"),
        ({"question_ids_test": tuple(f"q{i:03d}" for i in range(1, 11))}, "train and test"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises((InputError, SettingsError), match=message):
        found(**changes)


def test_test_shares_must_fit_the_test_questions() -> None:
    result, test = found()
    with pytest.raises(InputError, match="not one share a row"):
        evaluate(result, test.y[:-1])
    with pytest.raises(InputError, match="do not sum to 1"):
        evaluate(result, np.full_like(test.y, 0.9))
