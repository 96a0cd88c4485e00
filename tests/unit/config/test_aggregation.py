from __future__ import annotations

import pytest
import yaml

from quorum.config.aggregation import check_aggregation, plain, read_aggregation
from quorum.errors import SettingsError

LEAST = {"inputs": ["HEAD"], "metrics": ["mse"]}
CONTRAST = {"metric": "mse", "between": {"estimator": ["mc", "exact"]}, "paired_by": ["seed"]}


def test_two_keys_are_enough():
    spec = check_aggregation("spec.yaml", "spec", LEAST)
    assert (spec.title, spec.level, spec.digits) == ("spec", 0.9, 4)
    assert spec.statistics == ("n", "mean", "sd")
    assert spec.formats == ("csv", "md", "tex", "html")
    assert (spec.group_by, spec.across, spec.allow, spec.contrasts) == ((), (), (), ())


def test_n_stands_beside_every_statistic():
    spec = check_aggregation("spec.yaml", "spec", LEAST | {"statistics": ["mean", "ci"]})
    assert spec.statistics == ("n", "mean", "ci")


def test_inputs_are_names_patterns_folders_and_pinned_runs():
    inputs = ["HEAD", "exp-*", {"glob": "runs/*"}, {"run": "a", "revision": "c", "run_id": "i"}]
    spec = check_aggregation("spec.yaml", "spec", LEAST | {"inputs": inputs})
    assert [one.kind for one in spec.inputs] == ["run", "pattern", "folders", "run"]
    assert (spec.inputs[3].text, spec.inputs[3].revision, spec.inputs[3].run_id) == ("a", "c", "i")


def test_a_metric_is_labelled_by_its_name_and_keys():
    metrics = [{"name": "mse", "split": "test", "unit": "cell"}, {"name": "mse", "label": "all"}]
    spec = check_aggregation("spec.yaml", "spec", LEAST | {"metrics": metrics})
    assert [metric.label for metric in spec.metrics] == ["mse test cell", "all"]
    assert spec.metrics[0].where == {"split": "test", "unit": "cell"}


def test_a_resolved_specification_reads_as_the_one_it_came_from():
    spec = check_aggregation(
        "spec.yaml",
        "spec",
        LEAST
        | {
            "inputs": ["HEAD", {"glob": "runs/*"}, {"run": "a", "run_id": "i"}],
            "filters": {"estimator": ["mc", "exact"], "seed": 1},
            "contrasts": [CONTRAST],
            "allow": ["mixed_units"],
            "level": 0.95,
        },
    )
    assert check_aggregation("other.yaml", "other", plain(spec)) == spec


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"grup_by": []}, "s.yaml: grup_by: unknown key; .* Did you mean group_by?"),
        ({"inputs": []}, "s.yaml: inputs: is missing; allowed a list"),
        ({"inputs": "HEAD"}, r"s.yaml: inputs: must be a list, got 'HEAD'; allowed \[…\]"),
        ({"inputs": [3]}, r"s.yaml: inputs\[0\]: wrong value, got 3; allowed a run's name"),
        ({"inputs": [{"glob": "r/*", "x": 1}]}, r"s.yaml: inputs\[0\]: x: unknown key"),
        ({"inputs": [{"run_id": "x"}]}, r"s.yaml: inputs\[0\]: names no run"),
        ({"metrics": None}, "s.yaml: metrics: is missing"),
        ({"metrics": ["mse", "mse"]}, "s.yaml: metrics: two have the same label, got 'mse'"),
        ({"metrics": [{"split": "test"}]}, r"s.yaml: metrics\[0\]: has no name"),
        ({"metrics": [{"name": "mse", "splt": "x"}]}, "splt: unknown key; .*Did you mean split?"),
        ({"statistics": ["men"]}, r"statistics\[0\]: wrong value, got 'men'.*Did you mean mean?"),
        ({"statistics": ["sd", "sd"]}, "s.yaml: statistics: one stands twice"),
        ({"formats": []}, "s.yaml: formats: is empty; allowed a list of csv | md"),
        ({"level": 1.0}, "s.yaml: level: wrong value, got 1.0; allowed a number >= 0.5 and"),
        ({"digits": "four"}, "s.yaml: digits: wrong value, got 'four'; allowed a whole number"),
        ({"across": ["unit"]}, "across: unit is never averaged over .* put mixed_units into allow"),
        ({"across": ["study"]}, "put mixed_studies into allow"),
        ({"group_by": ["a b"]}, r"s.yaml: group_by\[0\]: is no key, got 'a b'"),
        ({"group_by": ["seed", "seed"]}, "s.yaml: group_by: one stands twice"),
        ({"filters": {"seed": []}}, "s.yaml: filters.seed: is empty"),
        ({"filters": ["seed"]}, "s.yaml: filters: wrong value"),
        ({"filters": {"seed": {"x": 1}}}, "s.yaml: filters.seed: wrong value"),
        ({"allow": ["mixed_unit"]}, r"allow\[0\]: wrong value.* Did you mean mixed_units?"),
        ({"contrasts": [{"metric": "mse"}]}, r"contrasts\[0\].between: is missing"),
        (
            {"contrasts": [CONTRAST | {"between": {"seed": [1]}}]},
            r"contrasts\[0\].between: wrong value, .* allowed {KEY: \[FIRST, SECOND\]}",
        ),
        (
            {"contrasts": [CONTRAST | {"between": {"seed": [1, 1]}}]},
            r"contrasts\[0\].between.seed: both sides are the same, got 1",
        ),
        (
            {"contrasts": [CONTRAST | {"paired_by": ["estimator"]}]},
            r"contrasts\[0\].paired_by: .* allowed keys other than estimator",
        ),
        ({"title": ""}, "s.yaml: title: wrong value"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(change, line):
    with pytest.raises(SettingsError, match=line) as raised:
        check_aggregation("s.yaml", "s", LEAST | change)
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"inputs: [a\n", "spec.yaml: is not YAML .line 2"),
        (b"- a\n- b\n", "spec.yaml: must hold key: value"),
        (b"metrics: \xff", "spec.yaml: is not UTF-8"),
        (b"title: ${oc.env:HOME}\n", "spec.yaml: must not hold"),
        (b"", "spec.yaml: inputs: is missing"),
        (b"inputs: [a]\ninputs: [b]\n", "spec.yaml: is not YAML"),
    ],
)
def test_a_file_that_is_no_specification_is_refused(content, line, tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=line):
        read_aggregation(path)


def test_a_missing_file_and_a_folder_are_told(tmp_path):
    with pytest.raises(SettingsError, match="no such file"):
        read_aggregation(tmp_path / "none.yaml")
    with pytest.raises(SettingsError, match="cannot be read"):
        read_aggregation(tmp_path)


def test_numbers_read_as_in_params(tmp_path):
    path = tmp_path / "spec.yaml"
    path.write_text(yaml.safe_dump(LEAST) + "filters: {pool.shrinkage: 1e-3, budget.fraction: 1.0}")
    assert read_aggregation(path).filters == {"pool.shrinkage": (0.001,), "budget.fraction": (1,)}
