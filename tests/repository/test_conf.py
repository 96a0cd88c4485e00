"""conf/ holds every option of every part, with the defaults that the parts have."""

from __future__ import annotations

import dataclasses
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from quorum.config.compose import compose, read_params
from quorum.config.families import FAMILIES, option_fields, part_class
from quorum.config.schema import GROUPS, STUDIES
from quorum.config.stages import views
from quorum.errors import MissingExtraError
from quorum.runtime.options import RuntimeOptions

PROJECT = Path(__file__).parents[2]
CONF = PROJECT / "conf"
OPTIONS = sorted(
    (path.parent.name, path.stem) for path in CONF.glob("*/*.yaml") if path.parent.name in GROUPS
)
PARTS = [(family, name) for family, table in FAMILIES.items() for name in sorted(table)]

# Options that need a package which is not always there, and what does without.
EXTRAS = {
    ("value", name): {"package": "wordllama", "instead": {"embedder": "char_ngrams"}}
    for name in ("embedding_cosine", "embedding_euclidean")
}


SURVEYS = {("input", "us2020"), ("input", "ipip25"), ("backend", "panel")}
SURVEY_GROUPS = set(STUDIES["reconstruction"]) - set(STUDIES["attribution"])
SWEEP_GROUPS = set(STUDIES["simulation"]) - set(STUDIES["attribution"])


def section(group: str, name: str) -> dict[str, object]:
    """What a file of conf/ says about its group."""
    text = (CONF / group / f"{name}.yaml").read_text(encoding="utf-8")
    loaded = yaml.safe_load(text)
    return loaded[group] if "@package _global_" in text else loaded


def plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_every_option_composes_and_is_valid_alone(group, name):
    extra = EXTRAS.get((group, name), {})
    if extra and find_spec(str(extra["package"])) is None:
        with pytest.raises(MissingExtraError, match="pip install"):
            compose(PROJECT, {group: name})
        settings = compose(PROJECT, {group: {"use": name, **extra["instead"]}})
    else:
        study = {} if group == "study" else {"study": "reconstruction"}
        needs_survey = (group, name) in SURVEYS or group in SURVEY_GROUPS
        if group in SWEEP_GROUPS:
            study, needs_survey = {"study": "simulation"}, True
        settings = compose(PROJECT, {group: name, **(study if needs_survey else {})})
    chosen = settings[group]
    assert chosen.get("name", name) == name
    study = settings["study"]["name"]
    assert [view.study for view in views(PROJECT, settings)] == [study] * 6


@pytest.mark.parametrize(("family", "name"), PARTS)
def test_every_part_has_its_file_with_the_parts_own_defaults(family, name):
    found = section(family, name)
    assert found["name"] == name
    for key, option in option_fields(part_class(family, name)).items():
        if option.default is not dataclasses.MISSING:
            default = option.default
        elif option.default_factory is not dataclasses.MISSING:
            default = option.default_factory()
        else:
            assert key in found, f"{key} must be given"
            continue
        if key in found:
            assert found[key] == plain(default), key
        else:  # options of rehearsals, and the backend's own model, stand at their defaults
            assert family == "backend", key


def test_every_file_of_a_family_has_its_part_and_every_folder_its_group():
    assert {path.name for path in CONF.iterdir() if path.is_dir()} == set(GROUPS)
    files = {(group, name) for group, name in OPTIONS if GROUPS[group][0] is not None}
    assert set(PARTS) <= files, "files of one's own may choose a part once more"


def test_the_runtime_defaults_are_the_runtimes_own():
    defaults = {f.name: f.default for f in dataclasses.fields(RuntimeOptions)}
    assert section("runtime", "default") == defaults


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.yaml")), ids=lambda p: p.stem)
def test_files_read_no_environment_and_name_no_class(path):
    text = path.read_text(encoding="utf-8")
    assert "oc.env" not in text
    assert "_target_" not in text
    assert text.endswith("\n")


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.yaml")), ids=lambda p: p.stem)
def test_numbers_and_words_mean_the_same_to_every_reader_of_yaml(path):
    """YAML 1.1 and 1.2 read yes, on, 017, 12:30 and 1e3 in two ways."""
    for token in yaml.scan(path.read_text(encoding="utf-8")):
        if isinstance(token, yaml.ScalarToken) and token.plain:
            assert token.value.lower() not in ("yes", "no", "on", "off", "y", "n")
            assert not (token.value[:1] == "0" and token.value[1:].isdigit())
            assert not (":" in token.value and token.value.replace(":", "").isdigit())


def test_params_holds_at_most_a_dozen_knobs_and_they_are_the_defaults():
    params = read_params(PROJECT / "params.yaml")
    leaves = [
        leaf
        for value in params.values()
        for leaf in (value if isinstance(value, dict) else [value])
    ]
    assert len(leaves) <= 12
    assert compose(PROJECT) == compose(PROJECT, {})


def test_every_knob_says_in_a_comment_what_it_is():
    lines = (PROJECT / "params.yaml").read_text(encoding="utf-8").splitlines()
    silent = [x for x in lines if ":" in x and "#" not in x and not x.endswith(":")]
    assert silent == ["seed: 0"]


# What a change of settings touches: files of data/settings/ that differ from those of the defaults.
# aggregate.json tells the whole run's settings, so all but the way it is carried out is in it.
SURVEY = [
    ({"value": "chrf"}, {"score"}),
    ({"value": {"use": "tfidf_cosine", "lowercase": False}}, {"score"}),
    ({"value": {"use": "tfidf_cosine", "reference": "target"}}, {"score"}),
    ({"value": "logprob"}, {"score", "generate", "budget"}),
    ({"normaliser": "abs_sum"}, set()),
    ({"estimator": {"use": "complementary", "estimand": "banzhaf"}}, set()),
    ({"estimator": {"use": "complementary", "control_variate": "linear"}}, set()),
    ({"estimator": "mc"}, {"partition"}),
    ({"estimator": "neyman_cc"}, {"partition", "generate", "budget"}),
    ({"budget": {"fraction": 0.2}}, {"partition"}),
    ({"budget": {"max_coalitions": 64}}, {"partition"}),
    ({"partition": "words"}, {"partition"}),
    ({"partition": {"use": "tokens", "roles": ["system", "user"]}}, {"partition"}),
    ({"input": "gallery", "partition": "sentences"}, {"partition"}),
    ({"absence": "pad"}, {"partition", "generate", "budget"}),
    ({"seed": 1}, {"partition", "generate", "budget"}),
    ({"generation": {"max_tokens": 8}}, {"generate", "budget"}),
    ({"generation": {"noise_repeats": 3}}, {"generate", "budget"}),
    ({"backend": {"use": "embedded", "n_ctx": 512}}, {"generate", "budget"}),
    ({"model": "smollm2-135m-instruct-q4_1"}, {"generate", "budget"}),
    (
        {"backend": {"use": "scripted", "rules": [{"reply": "x"}]}},
        {"generate", "budget", "runtime"},
    ),
    ({"report": {"level": 0.95}}, set()),
]


def changed(before: dict[str, object], after: dict[str, object]) -> set[str]:
    pairs = zip(
        views(PROJECT, compose(PROJECT, before)),
        views(PROJECT, compose(PROJECT, after)),
        strict=True,
    )
    return {a.FILE.removesuffix(".json") for a, b in pairs if a.dump() != b.dump()}


@pytest.mark.parametrize(
    ("params", "expected"), SURVEY, ids=lambda x: str(x) if isinstance(x, dict) else ""
)
def test_a_setting_reaches_only_the_stages_that_need_it(params, expected):
    assert changed({}, params) == {*expected, "aggregate"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"runtime": {"max_inflight": 2, "calls": "forbid"}}),
        ({}, {"backend": {"use": "embedded", "engines": 1}}),
        ({"backend": "scripted"}, {"backend": {"use": "scripted", "latency_s": 0.5, "lanes": 3}}),
        (
            {"backend": "scripted"},
            {
                "backend": {
                    "use": "scripted",
                    "call_log": "calls",
                    "crash_after": 7,
                    "fail": [{"error": "transient"}],
                }
            },
        ),
    ],
)
def test_how_a_run_is_carried_out_reaches_no_result(before, after):
    assert changed(before, after) == {"runtime"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {"value": "chrf"}, {"generate", "budget", "score"}),
        (
            {},
            {"value": {"use": "tfidf_cosine", "reference": "target"}},
            {"generate", "budget", "score"},
        ),
        ({}, {"estimator": {"estimand": "banzhaf"}}, set()),
        ({}, {"estimator": {"control_variate": "none"}}, {"partition", "generate", "budget"}),
        ({}, {"normaliser": "abs_sum"}, set()),
    ],
    ids=lambda x: str(x) if isinstance(x, dict) else "",
)
def test_a_second_phase_follows_payoffs_so_their_settings_reach_generate(before, after, expected):
    def with_two_phases(params: dict[str, object]) -> dict[str, object]:
        return {**params, "estimator": {"use": "neyman_cc", **params.get("estimator", {})}}

    found = changed(with_two_phases(before), with_two_phases(after))
    assert found == {*expected, "aggregate"}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"sweep": "estimators"}, ["partition", "generate", "score", "budget"]),
        ({"sweep": {"use": "survey", "replicates": 2}}, ["partition"]),
        ({"sweep": {"use": "survey", "grid": {"s": [1, 2]}}}, ["partition"]),
        ({"sweep": {"use": "survey", "grid": {"ensemble": ["ridge"]}}}, ["partition", "score"]),
        ({"seed": 1}, ["partition"]),
        ({"report": {"level": 0.95}}, ["score"]),
    ],
    ids=str,
)
def test_a_setting_of_a_sweep_reaches_only_the_stages_that_need_it(params, expected):
    base = {"study": "simulation"}
    assert changed(base, {**base, **params}) == {*expected, "aggregate"}


@pytest.mark.parametrize(
    "params",
    [
        {"runtime": {"executor": "processes", "workers": 3}},
        {"backend": "scripted"},
        {"input": "gallery"},
        {"value": "chrf"},
        {"pool": "quick"},
        {"budget": {"max_usd": 5}},
    ],
    ids=str,
)
def test_neither_models_nor_inputs_nor_workers_reach_a_sweep(params):
    base = {"study": "simulation"}
    assert changed(base, {**base, **params}) <= {"runtime"}
