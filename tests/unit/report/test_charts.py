from __future__ import annotations

import pytest

from quorum.report.charts import (
    bar,
    bar_scale,
    curve_chart,
    decimal,
    digits_for,
    percent,
    ticks,
)
from quorum.report.document import Curve


@pytest.mark.parametrize(
    ("value", "digits", "signed", "text"),
    [
        (0.5, 2, True, "+0.50"),
        (-0.5, 2, True, "−0.50"),
        (-0.5, 2, False, "−0.50"),
        (-0.0001, 2, True, "0.00"),
        (0.0, 1, True, "0.0"),
        (1.5e12, 2, False, "1.500e+12"),
        (-1.5e-12, 8, True, "−1.500e-12"),
    ],
)
def test_numbers_have_fixed_decimals_and_no_signed_zero(
    value: float, digits: int, signed: bool, text: str
) -> None:
    assert decimal(value, digits, signed=signed) == text


@pytest.mark.parametrize(
    ("values", "digits"), [([0.5, -0.02], 4), ([12.0], 2), ([1e6], 0), ([], 3), ([None, 0.0], 3)]
)
def test_a_column_shows_four_figures_of_its_largest(
    values: list[float | None], digits: int
) -> None:
    assert digits_for(values) == digits


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (0.5, "50 %"), (0.001, "0.1 %"), (0.999, "99.9 %"), (1.0, "100 %")],
)
def test_a_small_share_is_not_rounded_away(share: float, text: str) -> None:
    assert percent(share) == text


def test_a_bar_runs_from_zero_to_its_value() -> None:
    # −1..1 with 2 % of 2 on both sides: [−1.04, 1.04] on 1000 units; 0.52 is three quarters.
    scale = bar_scale([1.0, -1.0], [None, None])
    assert bar(scale, 0.52, None) == {"zero": "500", "x": "500", "width": "250", "error": ""}
    assert bar(scale, -0.52, (-1.04, 0.0)) == {
        "zero": "500",
        "x": "250",
        "width": "250",
        "error": "M0 10H500M0 5V15M500 5V15",
    }


def test_all_values_zero_still_have_a_scale() -> None:
    assert bar(bar_scale([0.0], [None]), 0.0, None)["width"] == "0"


def test_ticks_are_round_numbers() -> None:
    assert ticks(0.0, 1.0) == pytest.approx([0.0, 0.5, 1.0])
    assert ticks(-0.3, 0.3) == pytest.approx([-0.2, 0.0, 0.2])


def test_a_curve_is_cut_where_a_point_is_missing() -> None:
    chart = curve_chart(Curve(((0, 1.0), (1, 0.5), (2, None), (3, 0.0)), 0.75, None))
    assert len(chart["lines"]) == 1
    assert len(chart["dots"]) == 3
    assert chart["gaps"].count("M") == 1


def test_a_flat_curve_and_an_empty_one_can_be_drawn() -> None:
    assert curve_chart(Curve(((0, 1.0), (1, 1.0)), 1.0, 1.0))["lines"]
    assert curve_chart(Curve(((0, None),), 0.0, None))["lines"] == []
