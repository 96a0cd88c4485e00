from __future__ import annotations

import pytest

from quorum.report.charts import Scale
from quorum.report.reconstruction_charts import (
    cv_chart,
    forest,
    forest_scale,
    lines_chart,
    scatter,
    sparkline,
)
from quorum.report.reconstruction_records import CvPoint, Option, Paired, Question


def question(split: str, target: float | None, predicted: float) -> Question:
    option = Option("A", "Yes", target, 0.0, 0.5, 0.2, {"project": predicted})
    return Question("Q", "?", "", split, False, None, None, None, None, "", (option,))


def row(difference: float | None, low: float | None, high: float | None) -> Paired:
    return Paired("uniform", "test", "mse", difference, low, high, 3, "")


def test_a_point_on_the_diagonal_lies_on_the_diagonal() -> None:
    chart = scatter([question("test", 1.0, 1.0), question("train", 0.0, 0.0)], "project")
    # both axes run from −0.03 to 1.03: x on 50..328, y on 298..12; 1/1.06 of 278 is 262.3
    assert chart["test"] == "M320.1 20.1h0"
    assert chart["train"] == "M57.9 289.9h0"
    assert chart["error"] == "M320.1 289.9V155"
    assert chart["diagonal"] == "M50 298L328 12"
    assert (chart["n_train"], chart["n_test"]) == (1, 1)


def test_an_option_without_a_target_or_a_prediction_is_no_point() -> None:
    chart = scatter([question("test", None, 0.5)], "project")
    other = scatter([question("test", 0.5, 0.5)], "clip")
    assert (chart["n_test"], other["n_test"]) == (0, 0)
    assert chart["x_ticks"]


def test_a_line_is_cut_where_a_round_has_no_value() -> None:
    chart = lines_chart([("core", [(0, 0.5), (1, None), (2, 0.7), (3, 0.7)])])
    ((name, line, dots),) = chart["series"]  # type: ignore[misc,attr-defined]
    assert name == "core"
    assert line.count("M") == 2
    assert dots.count("h0") == 3


def test_one_round_and_none_can_be_drawn() -> None:
    assert lines_chart([("core", [(0, 0.5)])])["series"]
    assert lines_chart([("core", [(0, None)])])["series"] == []
    assert lines_chart([])["series"] == []
    assert sparkline([]) == ""
    assert sparkline([0.0, 1.0]) == "M1 19L99 1"


def test_lambda_zero_stands_left_of_the_others_on_a_logarithmic_axis() -> None:
    points = [CvPoint(lam, "none", 0.1, 0.01, lam == 0.01) for lam in (1.0, 0.01, 0.0)]
    chart = cv_chart(points)
    # places −3 (λ = 0), −2 and 0 on −3.25..0.25, which is 50..388
    assert [text for _, text in chart["x_ticks"]] == ["0", "1e−2", "1e−1", "1"]  # type: ignore[attr-defined]
    assert str(chart["chosen"]).startswith("M170.7 ")
    assert str(chart["error"]).count("M") == 3


def test_a_curve_without_lambda_or_error_is_empty() -> None:
    assert cv_chart([CvPoint(None, "pool", 0.1, None, True)])["series"] == []
    assert cv_chart([CvPoint(0.1, "pool", None, None, False)])["series"] == []
    assert cv_chart([CvPoint(0.0, "pool", 0.0, None, True)])["series"]


def test_differences_share_a_scale_that_holds_zero() -> None:
    scale = forest_scale([row(-1.0, -2.0, -0.5), row(None, None, None)])
    # −2..0 with 4 % of 2 on both sides: −2.08..0.08 on 0..1000
    assert forest(scale, row(-1.0, -2.0, -0.5)) == {
        "zero": "963",
        "dot": "M500 10h0",
        "error": "M37 10H731.5M37 6V14M731.5 6V14",
    }
    assert forest(scale, row(None, None, None))["dot"] == ""
    assert forest(scale, row(-1.0, None, None))["error"] == ""
    assert forest_scale([]) == Scale(-1.0, 1.0, 0.0, 1000.0)


@pytest.mark.parametrize(
    ("difference", "low", "high", "verdict"),
    [
        (-0.2, -0.3, -0.1, "closer"),
        (0.2, 0.1, 0.3, "further"),
        (-0.2, -0.3, 0.0, "unclear"),
        (-0.2, None, None, "unclear"),
        (None, None, None, "unknown"),
    ],
)
def test_only_an_interval_without_zero_decides(
    difference: float | None, low: float | None, high: float | None, verdict: str
) -> None:
    assert row(difference, low, high).verdict() == verdict
