from __future__ import annotations

import shutil

import pytest

from quorum.config.compose import compose, read_params, read_value
from quorum.config.parts import settings_digest
from quorum.config.stages import views
from quorum.errors import SettingsError


@pytest.fixture
def root(tmp_path, project_root):
    for name in ("conf", "data/prompts"):
        shutil.copytree(project_root / name, tmp_path / name)
    return tmp_path


def test_a_text_under_a_groups_name_chooses_its_option(root):
    settings = compose(root, {"backend": "scripted", "value": "chrf"})
    assert settings["backend"] == {"name": "scripted", "rules": []}
    assert settings["value"]["name"] == "chrf"
    assert settings["generation"]["max_tokens"] == 128


def test_the_embedded_backend_brings_its_own_length_of_replies_and_a_knob_goes_before_it(root):
    assert compose(root, {"backend": "embedded"})["generation"]["max_tokens"] == 16
    changed = compose(root, {"backend": "embedded", "generation": {"max_tokens": 4}})
    assert changed["generation"]["max_tokens"] == 4
    assert changed["generation"]["temperature"] == 0.0


def test_a_mapping_changes_single_settings_and_use_names_the_option(root):
    settings = compose(root, {"value": {"use": "chrf", "beta": 1}, "budget": {"fraction": 0.5}})
    assert settings["value"] == {
        "name": "chrf", "reference": "base", "order": 6, "beta": 1.0, "whitespace": False,
    }  # fmt: skip
    assert settings["budget"] == {**compose(root, {})["budget"], "fraction": 0.5}


def test_null_inherits_what_conf_says(root):
    nothing = {"model": None, "budget": {"fraction": None}, "value": None, "seed": None}
    assert compose(root, nothing) == compose(root, {})
    assert compose(root, {"value": {"use": None}}) == compose(root, {})


def test_a_list_is_replaced_and_not_joined(root):
    settings = compose(root, {"partition": {"use": "tokens", "roles": ["assistant"]}})
    assert settings["partition"]["roles"] == ["assistant"]


def test_the_model_knob_goes_before_the_backends_own_model(root):
    params = {"backend": {"use": "scripted", "model": "inner"}, "model": "outer"}
    by_file = {view.FILE: view for view in views(root, compose(root, params))}
    assert by_file["generate.json"].backend.options["model"] == "outer"
    assert by_file["aggregate.json"].manifest.backend["options"]["model"] == "outer"
    inner = compose(root, {**params, "model": None})
    assert {v.FILE: v for v in views(root, inner)}["generate.json"].backend.options["model"] == (
        "inner"
    )


def test_two_compositions_in_one_process_know_nothing_of_each_other(root):
    first = compose(root, {"value": "chrf", "seed": 3})
    assert compose(root, {}) == compose(root, {})
    assert compose(root, {"value": "chrf", "seed": 3}) == first


def test_what_conf_says_holds_where_params_says_nothing(root):
    path = root / "conf/budget/default.yaml"
    path.write_text(path.read_text().replace("fraction: 0.1", "fraction: 1e-3"))
    assert compose(root, {})["budget"]["fraction"] == 0.001


def test_a_reference_within_conf_is_followed(root):
    path = root / "conf/budget/default.yaml"
    path.write_text(path.read_text().replace("fraction: 0.1", "fraction: ${report.level}"))
    assert compose(root, {})["budget"]["fraction"] == 0.9


def test_an_option_of_ones_own_is_a_file(root):
    (root / "conf/value/mine.yaml").write_text(
        "name: chrf\nreference: base\norder: 2\nbeta: 1\nwhitespace: true\n"
    )
    assert compose(root, {"value": "mine"})["value"]["order"] == 2


def test_the_order_of_params_changes_nothing(root):
    params = {"seed": 2, "value": "chrf", "budget": {"fraction": 0.5, "max_coalitions": 9}}
    turned = {
        "budget": {"max_coalitions": 9, "fraction": 0.5}, "value": "chrf", "seed": 2,
    }  # fmt: skip
    assert [v.dump() for v in views(root, compose(root, params))] == [
        v.dump() for v in views(root, compose(root, turned))
    ]


@pytest.mark.parametrize("number", ["1", "1.0", "1e0", "0.1e1", "+1"])
def test_one_number_written_in_many_ways_is_one_digest(root, number):
    params = "generation: {{temperature: {0}, samples: {0}}}\nseed: {0}\n"
    (root / "params.yaml").write_text(params.format(number))
    settings = compose(root)
    plain = compose(root, {"generation": {"temperature": 1, "samples": 1}, "seed": 1})
    assert settings_digest(settings) == settings_digest(plain)
    assert [v.dump() for v in views(root, settings)] == [v.dump() for v in views(root, plain)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E3", 1000.0),
        ("-0.5", -0.5),
        ("yes", True),
        ("null", None),
        ("", None),
        ("'1e-3'", "1e-3"),
        ("0x10", 16),
        ("1e-3x", "1e-3x"),
        ("[1e-3, a]", [0.001, "a"]),
        ("{text: 1e-3}", {"text": 0.001}),
    ],
)
def test_a_value_reads_alike_on_the_command_line_and_in_params(tmp_path, text, value):
    (tmp_path / "params.yaml").write_text(f"seed: {text}\n")
    assert read_value(text) == value
    assert read_params(tmp_path / "params.yaml") == {"seed": value}


def test_a_value_is_one_value():
    with pytest.raises(SettingsError, match=r"^-S: the value is not YAML, got 'a: 1'$"):
        read_value("a: 1")
    with pytest.raises(SettingsError, match=r"^-S: is more than one value, got '1\\nseed: 2'$"):
        read_value("1\nseed: 2")


def test_an_empty_params_file_is_all_defaults(root):
    for text in ("", "# nothing\n", "\n", "{}\n"):
        (root / "params.yaml").write_text(text)
        assert read_params(root / "params.yaml") == {}
    assert compose(root) == compose(root, {})


def test_changes_without_a_name_are_refused_since_the_name_may_be_lost(root):
    with pytest.raises(SettingsError) as caught:
        compose(root, {"estimator": {"control_variate": "linear"}})
    assert str(caught.value) == (
        "estimator: changes need the name of what they change, got {'control_variate': 'linear'}; "
        "allowed {use: NAME, control_variate: …}"
    )
