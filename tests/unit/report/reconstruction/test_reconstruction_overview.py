from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from quorum.report.reconstruction import reconstruction_pages

Document = dict[str, Any]
Make = Callable[..., Document]


def table_of(source: Document) -> str:
    page = reconstruction_pages(source, {})["report.html"]
    return re.findall(r'<table class="overview.*?</table>', page, re.DOTALL)[0]


def cells_of(table: str, row: int) -> list[str]:
    body = table.partition("<tbody>")[2].split("<tr>")[1:]
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", body[row])
    return [" ".join(re.sub(r"<svg.*?</svg>|<[^>]+>", " ", cell).split()) for cell in cells]


def heads_of(table: str) -> list[str]:
    found = re.findall(r"<th[^>]*>(.*?)</th>", table.partition("<tbody>")[0])
    return [" ".join(re.sub(r"<[^>]+>", " ", head).split()) for head in found]


def test_every_column_names_its_unit(diagnostics: Make) -> None:
    assert heads_of(table_of(diagnostics())) == [
        "Target",
        "Against pool mean difference of MSE",
        "Against uniform difference of MSE",
        "cv_mse squared share",
        "test_mse squared share",
        "Equal weights squared share",
        "Pool mean squared share",
        "Uniform squared share",
        "Total variation share",
        "Modal accuracy % of questions",
        "In 90 % interval % of test options",
        "Active weights above 0",
        "Effective size Kish",
        "Mass sum of weights",
    ]


def test_a_row_holds_differences_with_intervals_errors_and_what_the_fit_rests_on(
    diagnostics: Make,
) -> None:
    source = diagnostics()
    target = source["targets"][0]
    base = {"unit": "cell", "policy": "project", "reason": None, "n_questions": 5}
    base |= {"coverage": 1.0, "group": None, "seed": 0, "split": "test", "metric": "mse"}
    sizes = {"fit": 0.0148, "equal_weights": 0.0379, "pool_mean": 0.0378, "uniform": 0.0545}
    target["records"] = [base | {"source": name, "value": size} for name, size in sizes.items()]
    target["records"] += [base | {"split": "cv", "source": "fit", "value": 0.0151}]
    for metric, value in (("total_variation", 0.11), ("modal_accuracy", 0.8)):
        more = {"metric": metric, "unit": "question", "source": "fit", "value": value}
        target["records"].append(base | more)
    row = {"split": "test", "metric": "mse", "n_blocks": 3, "reason": None}
    target["paired"] = [
        row | {"against": "pool_mean", "difference": -0.023, "low": -0.03, "high": -0.01},
        row | {"against": "uniform", "difference": -0.0397, "low": None, "high": None},
    ]
    # the fixture: 7 of 8 test rows inside, 41 active, Kish 23.4, mass 0.87
    assert cells_of(table_of(source), 0) == [
        "population",
        "−0.0230 [−0.0300, −0.0100] closer",
        "−0.0397 no clear difference",
        *("0.0151", "0.0148", "0.0379", "0.0378", "0.0545"),
        *("0.110", "80 %", "88 %", "41", "23.4", "0.870"),
    ]


def test_what_is_missing_has_its_reason_below_the_table(diagnostics: Make) -> None:
    source = diagnostics(is_sealed=True)
    cells = cells_of(table_of(source), 0)
    assert cells[1] == "n/a: sealed"
    assert cells[4] == cells[10] == "n/a [1]"
    assert "[1] not available:" in reconstruction_pages(source, {})["report.html"]


@pytest.mark.parametrize(
    ("targets", "is_sortable"), [(("population",), False), (("population", "party=A"), True)]
)
def test_there_is_a_row_a_target_and_several_can_be_sorted(
    diagnostics: Make, targets: tuple[str, ...], is_sortable: bool
) -> None:
    table = table_of(diagnostics(targets=targets))
    assert table.count('<tr><th scope="row">') == len(targets)
    assert ("sortable" in table) is is_sortable
    assert table.count("data-v=") == len(targets) * 13
