from __future__ import annotations

import json
import math

import pytest

MC = {"name": "mc"}
EXACT = {"name": "exact"}
CONTRAST = {"metric": "error", "between": {"estimator": ["mc", "exact"]}, "paired_by": ["snapshot"]}
TABLE = {"group_by": ["estimator"], "across": ["snapshot"], "contrasts": [CONTRAST]}


@pytest.fixture
def pairs(make_run):
    """Three pairs, one pair without a value, one record of mc and two of exact without partner."""
    make_run("a", {"p": 1.0, "q": 2.0, "r": 4.0, "s": None, "t": 9.0}, settings={"estimator": MC})
    make_run(
        "b",
        {"p": 3.0, "q": 5.0, "r": 4.0, "s": 1.0, "u": 9.0, "v": 9.0},
        settings={"estimator": EXACT},
    )


def test_a_contrast_by_hand(pairs, aggregate, read):
    code, folder, error = aggregate(**TABLE)
    assert (code, error) == (0, "")
    (row,) = read(folder / "contrasts.csv")
    # differences -2, -3, 0: mean -5/3; squares around it 1/9 + 16/9 + 25/9 = 42/9, over 2
    sd = math.sqrt(42 / 9 / 2)
    assert row["metric"] == "error"
    assert row["contrast"] == "estimator: mc − exact"
    assert row["group"] == "all"
    assert row["n"] == "3"
    assert float(row["mean"]) == pytest.approx(-5 / 3, rel=1e-15)
    assert float(row["sd"]) == pytest.approx(sd, rel=1e-15)
    assert float(row["se"]) == pytest.approx(sd / math.sqrt(3), rel=1e-15)
    # 90 %, 2 degrees of freedom: t = 2.920
    half = (float(row["ci_high"]) - float(row["ci_low"])) / 2
    assert half / float(row["se"]) == pytest.approx(2.920, abs=5e-4)


def test_what_has_no_partner_or_no_value_is_counted(pairs, aggregate, read):
    _, folder, _ = aggregate(**TABLE)
    (row,) = read(folder / "contrasts.csv")
    assert (row["n_unpaired_first"], row["n_unpaired_second"], row["n_null"]) == ("1", "2", "1")
    (line,) = (f for f in read(folder / "validation.csv") if f["check"] == "pairs are complete")
    assert line["outcome"] == "left out"
    assert line["detail"] == (
        "contrasts[0]: all: pairs: 3; without a value: 1; records without a partner: "
        "1 of the first and 2 of the second side"
    )
    cells = json.loads((folder / "trace.json").read_text())["contrasts"]
    assert cells["E2"]["records"] == ["run1.0", "run1.1", "run1.2"]
    assert cells["E2"]["minus"] == ["run2.0", "run2.1", "run2.2"]
    assert cells["J2"]["records"] == ["run1.4"]
    assert cells["K2"]["records"] == ["run2.4", "run2.5"]
    assert (cells["L2"]["records"], cells["L2"]["minus"]) == (["run1.3"], ["run2.3"])


def test_a_contrast_has_a_row_a_group(make_run, aggregate, read):
    for fraction in (0.2, 0.1):
        for estimator, shift in ((MC, 0.0), (EXACT, 1.0)):
            make_run(
                f"{estimator['name']}-{fraction}",
                {"p": fraction + shift, "q": fraction},
                settings={"estimator": estimator, "budget": {"fraction": fraction}},
            )
    _, folder, error = aggregate(**TABLE | {"group_by": ["budget.fraction", "estimator"]})
    assert error == ""
    rows = read(folder / "contrasts.csv")
    assert [(row["group"], row["n"], row["mean"]) for row in rows] == [
        ("budget.fraction=0.1", "2", "-0.5"),
        ("budget.fraction=0.2", "2", "-0.5"),
    ]


def test_seeds_pair_runs(make_run, aggregate, read):
    for seed, (first, second) in enumerate([(1.0, 0.0), (5.0, 2.0)]):
        make_run(f"m{seed}", {"p": first}, settings={"estimator": MC, "seed": seed})
        make_run(f"e{seed}", {"p": second}, settings={"estimator": EXACT, "seed": seed})
    contrast = CONTRAST | {"paired_by": ["seed", "snapshot"]}
    _, folder, error = aggregate(group_by=["estimator"], across=["seed"], contrasts=[contrast])
    assert error == ""
    (row,) = read(folder / "contrasts.csv")
    assert (row["n"], row["mean"], row["sd"]) == ("2", "2.0", repr(math.sqrt(2)))


def test_one_pair_has_no_spread(make_run, aggregate, read):
    make_run("a", {"p": 1.0}, settings={"estimator": MC})
    make_run("b", {"p": 3.0}, settings={"estimator": EXACT})
    _, folder, _ = aggregate(**TABLE)
    (row,) = read(folder / "contrasts.csv")
    assert (row["n"], row["mean"], row["sd"], row["ci_low"]) == ("1", "-2.0", "", "")
    assert "F2, G2, H2, I2: one value has no spread" in (folder / "table.md").read_text()


def test_no_pair_is_null_with_a_reason(make_run, aggregate, read):
    make_run("a", {"p": 1.0}, settings={"estimator": MC})
    make_run("b", {"q": 3.0}, settings={"estimator": EXACT})
    _, folder, _ = aggregate(**TABLE)
    (row,) = read(folder / "contrasts.csv")
    assert (row["n"], row["mean"]) == ("0", "")
    assert "no pair has both values" in (folder / "table.md").read_text()


def test_pairs_that_are_not_unique_are_refused(make_run, aggregate):
    make_run("a", {"p": 1.0}, settings={"estimator": MC, "seed": 0})
    make_run("b", {"p": 1.0}, settings={"estimator": MC, "seed": 1})
    make_run("c", {"p": 3.0}, settings={"estimator": EXACT})
    code, folder, error = aggregate(**TABLE | {"across": ["snapshot", "seed"]})
    assert code == 3
    assert "run1.0 and run2.0 have the same snapshot=p, so pairs are not unique" in error
    assert "Put what tells them apart into paired_by: seed" in error
    assert not folder.exists()


def test_sides_that_differ_in_more_than_is_named_are_refused(make_run, aggregate):
    make_run("a", {"p": 1.0}, settings={"estimator": MC, "budget": {"fraction": 0.1}})
    make_run("b", {"p": 3.0}, settings={"estimator": EXACT, "budget": {"fraction": 0.2}})
    code, _, error = aggregate(**TABLE)
    assert code == 3
    assert "spec.yaml: contrasts[0]: all: would average over budget.fraction" in error


def test_a_side_that_no_record_has_is_told(make_run, aggregate):
    make_run("a", {"p": 1.0}, settings={"estimator": MC})
    code, _, error = aggregate(**TABLE)
    assert code == 2
    assert "no record of error has this value, got 'exact'; allowed mc" in error


def test_differences_beyond_floating_point_are_null(make_run, aggregate, read):
    make_run("a", {"p": 1.7e308}, settings={"estimator": MC})
    make_run("b", {"p": -1.7e308}, settings={"estimator": EXACT})
    _, folder, _ = aggregate(**TABLE)
    (row,) = read(folder / "contrasts.csv")
    assert (row["n"], row["mean"]) == ("1", "")
    assert "too large for a number" in (folder / "table.md").read_text()
