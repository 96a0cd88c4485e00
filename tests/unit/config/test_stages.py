"""Who needs to know what: which settings file changes with which setting, for every setting."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from quorum.config.attribution_views import PartitionView
from quorum.config.parts import settings_digest
from quorum.config.schema import STUDIES, check
from quorum.config.stages import views

PLAN = {"partition.json"}
CALLS = {"generate.json", "budget.json"}
RESULT = {"aggregate.json"}  # it tells the settings of a run, so that every result changes it
RUNTIME = {"runtime.json"}

# group.key → another value, and the files that change with it (RESULT comes on top)
COMMON = {
    "input.name": ("other", set()),
    "input.path": ("data/prompts/gallery.jsonl", PLAN),
    "input.title": ("other", set()),
    "input.licence": ("other", set()),
    "input.attribution": ("other", set()),
    "input.citation": ("other", set()),
    "partition.roles": (["user", "system"], PLAN),
    "partition.max_players": (65, PLAN),
    "partition.overflow": ("skip", PLAN),
    "absence.empty_message": ("-", PLAN | CALLS),
    "normaliser.power": (2.0, set()),
    "generation.max_tokens": (9, CALLS),
    "generation.temperature": (0.5, CALLS),
    "generation.noise_repeats": (3, CALLS),
    "budget.fraction": (0.2, PLAN),
    "budget.max_coalitions": (100, PLAN),
    "budget.calls_per_player": (4, PLAN),
    "report.level": (0.8, set()),
    "seed": (1, PLAN | CALLS),
}
ONE_PHASE = {
    "estimator.estimand": ("banzhaf", set()),
    "estimator.control_variate": ("none", set()),
    "value.reference": ("target", {"score.json"}),
    "value.corpus": ("reference", {"score.json"}),
    "value.lowercase": (False, {"score.json"}),
}
TWO_PHASES = {
    "estimator.estimand": ("banzhaf", set()),
    "estimator.control_variate": ("none", PLAN | CALLS),
    "value.reference": ("target", {"score.json"} | CALLS),
    "value.corpus": ("reference", {"score.json"} | CALLS),
    "value.lowercase": (False, {"score.json"} | CALLS),
}
LIKELIHOOD = {
    "estimator.estimand": ("banzhaf", set()),
    "value.reference": ("target", {"score.json"} | CALLS),
}
PATTERN = {
    "partition.pattern": (r"\w+", PLAN),
    "absence.placeholder": ("…", PLAN | CALLS),
    "value.order": (3, {"score.json"}),
    "value.beta": (1.0, {"score.json"}),
    "value.whitespace": (True, {"score.json"}),
}
EMBEDDED = {"backend.n_ctx": (512, CALLS), "model": (None, set())}
SCRIPTED = {"backend.rules": ([{"reply": "x"}], CALLS), "model": ("other", CALLS)}
RUNTIME_OPTIONS = {
    "runtime.max_inflight": 2,
    "runtime.max_attempts": 2,
    "runtime.retry_after_ceiling_s": 2.0,
    "runtime.backoff_base_s": 2.0,
    "runtime.backoff_ceiling_s": 2.0,
    "runtime.timeout_s": 2.0,
    "runtime.max_requests_per_s": 2.0,
    "runtime.calls": "forbid",
    "runtime.group_by_prefix": False,
    "runtime.progress": "off",
    "runtime.resume": "elsewhere",
    "runtime.batch_poll_s": 2.0,
    "runtime.max_requests_per_min": 2,
    "runtime.max_tokens_per_min": 2,
    "runtime.max_input_tokens_per_min": 2,
    "runtime.max_output_tokens_per_min": 2,
    "runtime.executor": "processes",
    "runtime.workers": 2,
    "runtime.dask_address": "tcp://localhost:8786",
    "backend.engines": 2,
}
CAPS = {
    "budget.max_usd": 2.0,
    "budget.max_calls": 2,
    "budget.max_tokens": 2,
    "budget.account": "ours",
    "budget.pilot": 2,
}
NAMES = {"name", "study.name", "input.kind", "generation.samples", "budget.on_cap"}  # see below

SETTINGS = {
    "complementary": (
        {"estimator": "complementary", "normaliser": "power_shift"},
        COMMON | ONE_PHASE | EMBEDDED,
    ),
    "neyman_cc": (
        {"estimator": "neyman_cc", "backend": "scripted", "normaliser": "power_shift"},
        COMMON | TWO_PHASES | SCRIPTED,
    ),
    "likelihood": (
        {"estimator": "exact", "value": "logprob", "normaliser": "power_shift"},
        COMMON | LIKELIHOOD | EMBEDDED,
    ),
    "regex": (
        {"partition": "regex", "absence": "pad", "value": "chrf", "normaliser": "power_shift"},
        COMMON | PATTERN | {k: ONE_PHASE[k] for k in ONE_PHASE if k[:5] == "estim"}
        | {"value.reference": ONE_PHASE["value.reference"]} | EMBEDDED,
    ),
}  # fmt: skip


@pytest.fixture
def root(tmp_path):
    """Two data sets whose snapshots have targets."""
    folder = tmp_path / "data/prompts"
    folder.mkdir(parents=True)
    row = {"messages": [{"role": "user", "content": "one two"}], "target": "yes"}
    (folder / "default.jsonl").write_text(json.dumps(row) + "\n")
    (folder / "gallery.jsonl").write_text(json.dumps({**row, "id": "a"}) + "\n")
    return tmp_path


def leaves(settings):
    """Settings of the study; those of other studies are checked at the end."""
    for group in STUDIES[settings["study"]["name"]]:
        value = settings[group]
        if isinstance(value, dict):
            yield from (f"{group}.{key}" for key in value)
        else:
            yield group


def with_leaf(settings, leaf, value):
    changed = deepcopy(settings)
    group, _, key = leaf.partition(".")
    if key:
        changed[group][key] = value
    else:
        changed[group] = value
    return check(changed)


def changed_files(root, settings, changed):
    before = {v.FILE: v.dump() for v in views(root, settings)}
    after = {v.FILE: v.dump() for v in views(root, changed)}
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting_changes_the_files_of_the_stages_that_need_it_and_no_other(
    case, root, make_settings
):
    options, table = SETTINGS[case]
    settings = make_settings(**options)
    for leaf, (value, files) in table.items():
        changed = with_leaf(settings, leaf, value)
        expected = files | RESULT if changed != settings else set()
        assert changed_files(root, settings, changed) == expected, leaf


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting_that_changes_no_result_changes_runtime_json_alone(case, root, make_settings):
    settings = make_settings(**SETTINGS[case][0])
    for leaf, value in RUNTIME_OPTIONS.items():
        if leaf in set(leaves(settings)):
            changed = with_leaf(settings, leaf, value)
            assert changed_files(root, settings, changed) == RUNTIME, leaf


def test_a_cap_changes_the_forecast_and_no_result(root, make_settings):
    settings = make_settings()
    for leaf, value in CAPS.items():
        changed = with_leaf(settings, leaf, value)
        assert changed_files(root, settings, changed) == RUNTIME | {"budget.json"}, leaf
        assert settings_digest(changed) == settings_digest(settings)


@pytest.mark.parametrize("case", SETTINGS)
def test_no_setting_is_without_a_row_here(case, make_settings):
    options, table = SETTINGS[case]
    for leaf in leaves(make_settings(**options)):
        known = leaf in table or leaf in RUNTIME_OPTIONS or leaf in NAMES or leaf in CAPS
        assert known or leaf.endswith(".name"), leaf


@pytest.mark.parametrize("case", SETTINGS)
def test_the_settings_digest_changes_with_every_result_and_with_nothing_else(case, make_settings):
    options, table = SETTINGS[case]
    settings = make_settings(**options)
    digest = settings_digest(settings)
    seen = {digest}
    for leaf, (value, _) in table.items():
        changed = with_leaf(settings, leaf, value)
        if leaf.startswith("report.") or changed == settings:
            assert settings_digest(changed) == digest, leaf
        else:
            assert settings_digest(changed) not in seen, leaf
            seen.add(settings_digest(changed))
    for leaf, value in RUNTIME_OPTIONS.items():
        if leaf in set(leaves(settings)):
            assert settings_digest(with_leaf(settings, leaf, value)) == digest, leaf


def test_repeats_are_asked_for_and_nothing_else(root, make_settings):
    warm = with_leaf(make_settings(), "generation.temperature", 1.0)
    more = with_leaf(warm, "generation.samples", 4)
    assert changed_files(root, warm, more) == CALLS | RESULT
    assert settings_digest(more) != settings_digest(warm)


@pytest.mark.parametrize(
    ("group", "options"),
    [
        ("normaliser", ["identity", "abs_sum", "power_shift", "min_max"]),
        ("value", ["tfidf_cosine", "chrf", "exact_match", "word_weights", "logprob"]),
        ("estimator", ["exact", "mc", "complementary", "neyman_cc", "regression"]),
        ("absence", ["delete", "pad", "neutral"]),
        ("partition", ["tokens", "words", "sentences", "lines", "paragraphs", "messages"]),
        ("backend", ["embedded", "scripted"]),
    ],
)
def test_another_part_is_another_digest(group, options, make_settings):
    digests = {settings_digest(make_settings(**{group: option})) for option in options}
    assert len(digests) == len(options)


def test_a_likelihood_or_a_second_phase_is_all_that_generate_knows_of_values(root, make_settings):
    def generate(**options):
        return {v.FILE: json.loads(v.dump()) for v in views(root, make_settings(**options))}[
            "generate.json"
        ]

    plain = generate(estimator="complementary", value="chrf")
    assert (plain["needs"], plain["reference"], plain["value"], plain["estimator"]) == (
        "text", None, None, None,
    )  # fmt: skip
    scored = generate(estimator="complementary", value="logprob")
    assert (scored["needs"], scored["reference"], scored["value"], scored["estimator"]) == (
        "continuation", "base", None, None,
    )  # fmt: skip
    two = generate(estimator="neyman_cc", value="chrf")
    assert (two["needs"], two["reference"], two["value"]["name"]) == ("text", "base", "chrf")
    assert two["estimator"]["options"] == {"control_variate": "gp"}


def test_a_view_reads_back_what_it_wrote(root, make_settings):
    for view in views(root, make_settings(estimator="neyman_cc", partition="regex")):
        assert type(view).parse(json.loads(view.dump())).dump() == view.dump()
        (root / "data/settings").mkdir(exist_ok=True)
        (root / "data/settings" / view.FILE).write_text(view.dump(), encoding="utf-8")
        assert type(view).read(root).dump() == view.dump()
    assert len(list((root / "data/settings").iterdir())) == 6
    part = PartitionView.read(root)
    assert part.roles == ("user",)
    assert part.partitioner.make().pattern == r"\S+"


def test_only_the_chosen_file_is_read(root, make_settings):
    before = {v.FILE: v.dump() for v in views(root, make_settings())}
    (root / "data/prompts/gallery.jsonl").write_text("no JSON at all")
    assert {v.FILE: v.dump() for v in views(root, make_settings())} == before
    with (root / "data/prompts/default.jsonl").open("a") as file:
        file.write("\n")
    after = {v.FILE: v.dump() for v in views(root, make_settings())}
    assert {name for name in before if before[name] != after[name]} == PLAN


SURVEY_SETTINGS = {
    "split.train_share": 0.5,
    "split.max_questions": 5,
    "target.groups": ["party"],
    "pool.size": 7,
    "elicitation.orders": 1,
    "ensemble.one_se": True,
    "cleaning.name": "strict",
    "sweep.replicates": 3,
}


def test_a_setting_of_another_study_reaches_no_file(root, make_settings):
    settings = make_settings()
    for leaf, value in SURVEY_SETTINGS.items():
        changed = with_leaf(settings, leaf, value)
        assert changed != settings
        assert changed_files(root, settings, changed) == set(), leaf
        assert settings_digest(changed) == settings_digest(settings)


def test_where_a_run_may_end_at_its_cap_another_cap_runs_it_again(root, make_settings):
    partial = with_leaf(make_settings(), "budget.on_cap", "partial")
    assert changed_files(root, make_settings(), partial) == CALLS | RUNTIME
    raised = with_leaf(partial, "budget.max_usd", 7.0)
    assert changed_files(root, partial, raised) == CALLS | RUNTIME
    assert settings_digest(raised) == settings_digest(make_settings())
