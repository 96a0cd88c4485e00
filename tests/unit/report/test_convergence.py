from __future__ import annotations

from collections.abc import Callable

import pytest

from quorum.report.convergence import convergence_view
from quorum.report.document import read_attribution
from quorum.report.mean_curves import mean_curves_view
from quorum.report.plots import CONVERGENCE_COLUMNS, convergence_rows

Document = dict[str, object]
Make = Callable[..., Document]


def point(budget: int, values: object, errors: object = None, reason: object = None) -> Document:
    return {
        "budget": budget,
        "n_coalitions": None if values is None else budget,
        "values": values,
        "standard_errors": errors,
        "reason": reason,
    }


def view_of(source: Document) -> dict[str, object]:
    view = convergence_view(read_attribution(source))
    assert view is not None
    return view


def test_a_row_a_player_by_its_final_magnitude_and_a_column_a_budget(attribution: Make) -> None:
    source = attribution("x", "a b c")  # final values 0.4, −0.2, 0.1
    source["convergence"] = [
        point(8, [0.5, -0.1, 0.0], [0.2, 0.2, 0.2]),
        point(16, [0.4, -0.2, 0.1], [0.1, 0.1, 0.1]),
    ]
    view = view_of(source)
    assert view["heads"] == ["8", "16"]
    rows = view["rows"]
    assert [(row["number"], row["player"]) for row in rows] == [(1, "a"), (2, "b"), (3, "c")]
    assert rows[1]["cells"] == [("−0.1000", "± 0.2000"), ("−0.2000", "± 0.1000")]
    assert (view["n_rest"], view["reasons"], view["is_single"]) == (0, [], False)


def test_at_most_eight_lines_are_named_and_the_others_are_one_soft_path(attribution: Make) -> None:
    source = attribution("x", " ".join("abcdefghijkl"))
    values = [float(12 - k) for k in range(12)]
    source |= {"raw_values": values, "standard_errors": None}
    source["convergence"] = [point(26, values), point(52, values)]
    view = view_of(source)
    assert [row["player"] for row in view["rows"]] == list("abcdefgh")
    assert view["n_rest"] == 4
    chart = view["chart"]
    assert len(chart["lines"]) == len(chart["dots"]) == 8
    assert chart["others"].count("M") == 4
    assert chart["intervals"] == []


def test_a_budget_without_values_is_a_gap_with_its_reason(attribution: Make) -> None:
    view = view_of(attribution())  # the second of three budgets was not paid for
    chart, rows = view["chart"], view["rows"]
    assert chart["lines"] == ["", "", "", ""]  # single points are dots
    assert all(dots.count("M") == 2 for dots in chart["dots"])
    assert [cells[1] for cells in (row["cells"] for row in rows)] == [("n/a", "")] * 4
    assert view["reasons"] == ["No values with a budget of 20: it was not paid for."]


def test_the_axis_is_logarithmic_and_intervals_belong_to_the_final_values(
    attribution: Make,
) -> None:
    source = attribution("x", "a b")
    source["convergence"] = [point(b, [0.4, -0.2], [0.1, 0.1]) for b in (8, 16, 32)]
    chart = view_of(source)["chart"]
    places = [float(x) for x, _ in chart["x_ticks"]]
    assert [text for _, text in chart["x_ticks"]] == ["8", "16", "32"]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2)
    assert [number for number, _, _ in chart["intervals"]] == ["1", "2"]


def test_one_budget_is_a_table_without_a_chart(attribution: Make) -> None:
    source = attribution("x", "a b")
    source["convergence"] = [point(4, [0.4, -0.2], [0.0, 0.0])]
    view = view_of(source)
    assert view["chart"] is None
    assert view["is_single"] is True
    assert len(view["rows"]) == 2


def test_missing_errors_are_told_once_for_all_their_budgets(attribution: Make) -> None:
    source = attribution("x", "a b")
    source["convergence"] = [point(b, [0.4, -0.2], None, "too few pairs") for b in (6, 12)]
    view = view_of(source)
    assert view["reasons"] == ["No standard errors with a budget of 6, 12: too few pairs."]
    assert view["rows"][0]["cells"][0] == ("+0.4000", "")


def test_without_payoffs_only_the_reason_stands(attribution: Make) -> None:
    source = attribution("x", "a b")
    source |= {"raw_values": None, "values": None}
    source["convergence"] = [point(6, None, None, "a cap ended the run")]
    view = view_of(source)
    assert (view["chart"], view["rows"]) == (None, [])
    assert view["reasons"] == ["No values with a budget of 6: a cap ended the run."]


def test_an_object_without_convergence_has_no_view(attribution: Make) -> None:
    source = attribution()
    del source["convergence"]
    assert convergence_view(read_attribution(source)) is None


def test_a_plot_has_a_row_a_budget_and_player(attribution: Make) -> None:
    rows = convergence_rows([attribution("x", "a b")])
    assert tuple(rows[0]) == CONVERGENCE_COLUMNS
    assert [(row["budget"], row["label"], row["value"], row["se"]) for row in rows] == [
        (6, "0: a", 0.5, 0.1),
        (6, "1: b", -0.1, 0.1),
        (12, "0: a", None, None),
        (12, "1: b", None, None),
        (24, "0: a", 0.4 + 0.1 / 4, 0.1),
        (24, "1: b", -0.2 + 0.1 / 4, 0.1),
    ]


def curved(source: Document, payoffs: list[float | None], area: float | None) -> Document:
    points = [{"k": k, "payoff": payoff} for k, payoff in enumerate(payoffs)]
    curve = {"points": points, "coverage": 1.0, "area": area}
    return source | {"faithfulness": {"deletion": curve, "insertion": None}}


def test_the_mean_curve_goes_over_tenths_of_the_players(attribution: Make) -> None:
    # n = 2: 1, 0.5, 0 falls by 0.1 a tenth; n = 4 with a gap at 2: 1, 1, –, 0.5, 0
    first = curved(attribution("a", "a b"), [1.0, 0.5, 0.0], 0.5)
    second = curved(attribution("b", "a b c d"), [1.0, 1.0, None, 0.5, 0.0], 0.7)
    view = mean_curves_view([read_attribution(first), read_attribution(second)])
    assert view is not None
    (deletion,) = view["curves"]
    assert (deletion["n"], deletion["area"]) == ("2 of 2 snapshots", "0.6000")
    means = dict(deletion["points"])
    # at 50 %: (0.5 + 0.75)/2; at 90 %, place 3.6 of 4: (0.1 + 0.2)/2
    assert [means[k] for k in (0, 50, 90, 100)] == ["1.000", "0.625", "0.150", "0.000"]
    assert view["lacking"] == [
        "Insertion: 0 of 2 snapshots have a curve with an area, a mean needs two."
    ]


def test_a_single_snapshot_has_no_mean(attribution: Make) -> None:
    assert mean_curves_view([read_attribution(attribution())]) is None
