"""What may stand in one cell."""

from __future__ import annotations

import pytest

VALUES = {"a": 1.0, "b": 3.0}


def rows(**changes: object) -> list[dict[str, object]]:
    base = {
        "metric": "mse",
        "value": 0.5,
        "reason": None,
        "split": "test",
        "unit": "cell",
        "policy": "project",
        "source": "fit",
        "group": "population",
        "n_questions": 3,
        "coverage": 1.0,
        "seed": 0,
        "settings": "0" * 12,
    }
    return [base, base | {"value": 1.5} | changes]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"unit": "question"}, "would average over mixed units, got 'cell | question'"),
        ({"policy": "raw"}, "would average over mixed policies, got 'project | raw'"),
        (
            {"coverage": 0.5, "group": "women"},
            "would average over mixed coverage, got '0.5 | 1.0'",
        ),
        ({"split": "train"}, "would average over split, got 'test | train'"),
        ({"group": "women"}, "would average over group, got 'population | women'"),
        ({"source": "uniform"}, "would average over source, got 'fit | uniform'"),
    ],
)
def test_records_of_two_kinds_are_not_averaged(changes, line, make_run, aggregate):
    make_run("one", {}, rows=rows(**changes), study="reconstruction")
    code, folder, error = aggregate(metrics=["mse"])
    assert code == 3
    assert error.startswith(f"error: spec.yaml: all, mse: {line}")
    assert error.count("\n") == 1
    assert not folder.exists()


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        ({"unit": "question"}, {"allow": ["mixed_units"]}),
        ({"policy": "raw"}, {"allow": ["mixed_policies"]}),
        (
            {"coverage": 0.5, "group": "women"},
            {"allow": ["mixed_coverage"], "across": ["group"]},
        ),
        ({"split": "train"}, {"across": ["split"]}),
    ],
)
def test_what_is_allowed_is_averaged_and_stands_in_the_ledger(
    changes, more, make_run, aggregate, read
):
    make_run("one", {}, rows=rows(**changes), study="reconstruction")
    code, folder, error = aggregate(metrics=["mse"], **more)
    assert (code, error) == (0, "")
    (row,) = read(folder / "summary.csv")
    assert (row["n"], row["mean"]) == ("2", "1.0")
    outcomes = {row["outcome"] for row in read(folder / "validation.csv")}
    assert outcomes & {"allowed", "averaged"}


@pytest.mark.parametrize(
    ("settings", "record", "key"),
    [
        ({"seed": 1}, {}, "seed"),
        ({"budget": {"fraction": 0.2}}, {}, "budget.fraction"),
        ({"estimator": {"name": "mc", "estimand": "banzhaf"}}, {}, "estimator.estimand"),
        ({}, {"model": {"backend": "scripted", "model": "other", "identity": {}}}, "model"),
        ({}, {"snapshots": {"a": "1", "b": "other"}}, "input.content"),
    ],
)
def test_runs_that_differ_are_averaged_only_over_what_is_named(
    settings, record, key, make_run, aggregate
):
    make_run("one", VALUES)
    make_run("two", VALUES, settings=settings, record=record)
    code, folder, error = aggregate(across=["snapshot"])
    assert code == 3
    assert f"spec.yaml: all, error: would average over {key}, got" in error
    assert f"Group by {key}, filter on it, or put {key} into across" in error
    assert not folder.exists()
    code, folder, error = aggregate(across=["snapshot", key])
    assert (code, error) == (0, "")
    code, folder, error = aggregate(across=["snapshot"], group_by=["run"])
    assert (code, error) == (0, "")


def test_snapshots_are_averaged_only_where_that_is_said(make_run, aggregate):
    make_run("one", VALUES)
    code, _, error = aggregate()
    assert code == 3
    assert "would average over snapshot, got 'a | b'; allowed one snapshot in a cell" in error


def test_runs_that_differ_in_nothing_shown_are_repeats_of_a_run(make_run, aggregate):
    make_run("one", VALUES)
    make_run("two", VALUES)
    code, _, error = aggregate(across=["snapshot"])
    assert code == 3
    assert "would average over run, got 'runs/one | runs/two'" in error
    assert aggregate(across=["snapshot", "run"])[0] == 0


def test_a_key_in_across_covers_all_below_it(make_run, aggregate):
    make_run("one", VALUES)
    make_run("two", VALUES, settings={"estimator": {"name": "exact", "n": 3}})
    assert aggregate(across=["snapshot", "estimator"])[0] == 0


def test_what_only_describes_an_input_may_differ(make_run, aggregate):
    make_run("one", VALUES, settings={"input": {"title": "A"}, "seed": 0})
    make_run("two", VALUES, settings={"input": {"title": "B"}, "seed": 1})
    assert aggregate(across=["snapshot", "seed"])[0] == 0


def test_two_studies_are_not_averaged(make_run, aggregate):
    make_run("one", {"a": 1.0})
    make_run("two", {"a": 1.0}, study="reconstruction")
    code, _, error = aggregate()
    assert code == 3
    assert "would average over mixed studies, got 'attribution | reconstruction'" in error
    assert aggregate(allow=["mixed_studies"])[0] == 0
