from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorum.report import reconstruction_plots as plots
from quorum.report.tables import csv_text

Make = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("rows", "columns", "count"),
    [
        (plots.entropy_rows, plots.ENTROPY_COLUMNS, 12),
        (plots.mode_entropy_rows, plots.MODE_ENTROPY_COLUMNS, 12 * 6),
        (plots.question_entropy_rows, plots.QUESTION_ENTROPY_COLUMNS, 12 * 8),
        (plots.cv_rows, plots.CV_COLUMNS, 2 * 18),
        # 12 questions of 4, 3, 2 and 5 options in turn, two targets
        (plots.prediction_rows, plots.PREDICTION_COLUMNS, 2 * 3 * (4 + 3 + 2 + 5)),
    ],
)
def test_rows_have_their_columns(
    diagnostics: Make, rows: Any, columns: tuple[str, ...], count: int
) -> None:
    found = rows(diagnostics(targets=("population", "party=Democrat")))
    assert len(found) == count
    assert csv_text(columns, found).count("\n") == count + 1


def test_recorded_people_have_no_entropies(diagnostics: Make) -> None:
    source = diagnostics(respondents="panel")
    assert plots.entropy_rows(source) == []
    assert plots.mode_entropy_rows(source) == []
    assert plots.question_entropy_rows(source) == []


def test_a_prediction_is_of_the_primary_policy_with_its_interval(diagnostics: Make) -> None:
    source = diagnostics()
    option = source["targets"][0]["questions"][0]["options"][0]
    first = plots.prediction_rows(source)[0]
    assert first["label"] == "Q1 A: Very important"
    assert first["predicted"] == option["predicted"]["project"]
    assert (first["low"], first["high"]) == (option["low"], option["high"])
    assert first["target_share"] == option["target"]


def test_a_sealed_target_is_empty(diagnostics: Make) -> None:
    rows = plots.prediction_rows(diagnostics(is_sealed=True))
    assert {row["target_share"] for row in rows if row["split"] == "test"} == {None}


def test_the_curve_has_its_standard_error_and_no_logarithm_of_zero(diagnostics: Make) -> None:
    rows = plots.cv_rows(diagnostics())
    zero, second = rows[0], rows[1]
    assert (zero["lam"], zero["log10_lam"]) == (0.0, None)
    assert second["log10_lam"] == -4
    assert second["low"] == pytest.approx(second["mse"] - 0.002)
    assert second["high"] == pytest.approx(second["mse"] + 0.002)
    assert [row["lam"] for row in rows if row["is_chosen"]] == [0.01]
