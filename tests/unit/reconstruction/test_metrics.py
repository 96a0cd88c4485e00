"""Metrics with values computed by hand, and None with a reason where there is none."""

from __future__ import annotations

import json

import numpy as np
import pytest

from quorum.reconstruction.metrics import (
    COLUMNS,
    Label,
    Record,
    metric_records,
    noise_floor,
    paired_difference,
    question_metrics,
    sealed_records,
)
from quorum.reconstruction.policies import Prediction, apply_policy

LABEL = Label("test", "raw", "population", 7)
SIZES = (2, 4)
Y = np.array([1.0, 0.0, 0.4, 0.3, 0.2, 0.1])
P = np.array([0.5, 0.5, 0.1, 0.2, 0.3, 0.4])


def values(records: list[Record]) -> dict[tuple[str, str], object]:
    return {(str(r["metric"]), str(r["unit"])): r["value"] for r in records}


def records(
    y: np.ndarray = Y, p: np.ndarray = P, sizes: tuple[int, ...] = SIZES, policy: str = "raw"
) -> list[Record]:
    ordinal = np.array([False, *[True] * (len(sizes) - 1)])
    return metric_records(y, apply_policy(policy, p, sizes), sizes, ordinal, LABEL)  # type: ignore[arg-type]


def test_every_metric_has_the_value_computed_by_hand() -> None:
    found = values(records())
    # squares: 0.25 0.25 | 0.09 0.01 0.01 0.09
    assert found["mse", "cell"] == pytest.approx(0.7 / 6)
    assert found["mse", "question"] == pytest.approx((0.25 + 0.05) / 2)
    assert found["rmse", "cell"] == pytest.approx((0.7 / 6) ** 0.5)
    assert found["mae", "cell"] == pytest.approx(1.8 / 6)  # 0.5 0.5 | 0.3 0.1 0.1 0.3
    assert found["mae", "question"] == pytest.approx((0.5 + 0.2) / 2)
    assert found["total_variation", "question"] == pytest.approx((0.5 + 0.4) / 2)
    # cumulated differences of the second: 0.3, 0.4, 0.3, over three steps
    assert found["earth_movers", "question"] == pytest.approx(1.0 / 3)
    # the first predicts a tie: half right; the second is wrong
    assert found["modal_accuracy", "question"] == pytest.approx(0.25)
    # uniform: 0.25 0.25 | 0.0225 0.0025 0.0025 0.0225
    assert found["skill", "cell"] == pytest.approx(1 - 0.7 / 0.55)
    # the first is one bit too wide, the second a permutation
    assert found["entropy_gap", "question"] == pytest.approx(0.5)


def test_jensen_shannon_is_in_bits_and_finite_with_zeros() -> None:  # case 62
    apart = question_metrics(np.array([1.0, 0.0]), np.array([0.0, 1.0]), (2,))
    assert apart.jensen_shannon[0] == pytest.approx(1.0)
    half = question_metrics(np.array([1.0, 0.0]), np.array([0.5, 0.5]), (2,))
    # H(¾, ¼) − ½·1 = 0.8113 − 0.5
    assert half.jensen_shannon[0] == pytest.approx(0.311278, abs=1e-6)


def test_what_needs_a_distribution_has_no_value_without_one_and_says_why() -> None:
    found = {r["metric"]: r for r in records(p=P * 0.5)}
    for metric in ("jensen_shannon", "earth_movers", "entropy_gap"):
        assert found[metric]["value"] is None
        assert found[metric]["reason"] == "no prediction is a distribution"
        assert found[metric]["coverage"] == 0
    assert found["total_variation"]["value"] is not None


def test_without_scales_there_is_no_earth_movers_distance() -> None:
    found = metric_records(Y, apply_policy("raw", P, SIZES), SIZES, np.zeros(2, bool), LABEL)
    record = next(r for r in found if r["metric"] == "earth_movers")
    assert (record["value"], record["reason"]) == (None, "no ordinal question")


def test_a_population_that_is_uniform_has_no_skill_to_show() -> None:
    found = records(np.array([0.5, 0.5]), np.array([0.4, 0.6]), (2,))
    skill = next(r for r in found if r["metric"] == "skill")
    assert skill["value"] is None
    assert skill["reason"] == "equal shares predict without error"


def test_coverage_counts_what_a_policy_left_out() -> None:
    found = records(p=np.array([0.5, 0.6, *P[2:]]), policy="drop")
    mse = next(r for r in found if r["metric"] == "mse" and r["unit"] == "cell")
    assert (mse["n_questions"], mse["coverage"]) == (1, 0.5)
    assert mse["value"] == pytest.approx(0.05)
    nothing = records(p=np.zeros(6), policy="renormalise")
    assert {r["value"] for r in nothing} == {None}
    assert all(r["reason"] for r in nothing)


def test_records_have_one_shape_and_are_json() -> None:
    for shown in (records(), sealed_records(SIZES, LABEL)):
        assert all(tuple(r) == COLUMNS for r in shown)
        json.dumps(shown, allow_nan=False)
    names = [(r["metric"], r["unit"]) for r in records()]
    assert names == [(r["metric"], r["unit"]) for r in sealed_records(SIZES, LABEL)]
    assert {r["reason"] for r in sealed_records(SIZES, LABEL)} == {"sealed"}


def paired(blocks: tuple[str, ...], order: list[int] | None = None) -> Record:
    rng = np.random.default_rng(0)
    y, p, base = (rng.dirichlet((1, 1), size=len(blocks)) for _ in range(3))
    p = (y + p) / 2  # nearer than the baseline
    order = order or list(range(len(blocks)))
    return paired_difference(
        y[order].ravel(),
        Prediction(p[order].ravel(), np.ones(len(blocks), bool)),
        base[order].ravel(),
        (2,) * len(blocks),
        [blocks[i] for i in order],
        against="pool_mean",
        split="test",
        level=0.9,
        seed=1,
    )


def test_a_paired_difference_is_the_difference_of_the_errors_with_an_interval_around_it() -> None:
    found = paired(tuple("abcdefghijklmnopqrst"))
    assert found["low"] < found["difference"] < found["high"] < 0
    assert found["n_blocks"] == 20


def test_questions_of_one_block_are_drawn_together() -> None:
    def width(record: Record) -> float:
        return float(record["high"]) - float(record["low"])  # type: ignore[arg-type]

    alone = paired(tuple("abcdefghijklmnopqrst"))
    blocked = paired(tuple("aaaaabbbbbcccccddddd"))
    assert blocked["difference"] == pytest.approx(alone["difference"], abs=1e-12)
    assert blocked["n_blocks"] == 4
    assert width(alone) > 0
    assert width(blocked) > 0


def test_the_order_of_questions_changes_no_paired_difference() -> None:
    blocks = tuple("aabbccddee")
    one, two = paired(blocks), paired(blocks, [9, 3, 1, 0, 2, 8, 7, 6, 4, 5])
    for key in ("difference", "low", "high"):
        assert one[key] == pytest.approx(two[key], abs=1e-12)


def test_one_block_has_a_difference_and_no_interval() -> None:
    found = paired(("a", "a"))
    assert found["difference"] is not None
    assert (found["low"], found["reason"]) == (None, "one block has no spread")


def test_the_noise_floor_is_the_variance_of_a_share() -> None:
    y = np.array([0.5, 0.5, 0.9, 0.1])
    # 0.25/100 twice, 0.09/900 twice
    assert noise_floor(y, (2, 2), (100, 900)) == (pytest.approx(0.0013), None)
    floor, reason = noise_floor(y, (2, 2), (100, None))
    assert floor == pytest.approx(0.0025)
    assert reason == "1 questions have no number of answers"
    assert noise_floor(y, (2, 2), (None, None))[0] is None
