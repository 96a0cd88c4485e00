from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quorum.errors import InputError
from quorum.report.reconstruction_document import read_diagnostics

Document = dict[str, Any]
Make = Callable[..., Document]


def put(source: Document, path: str, value: object) -> Document:
    """The document with a value at ``a.0.b``; the value ``...`` takes the entry away."""
    *way, last = path.split(".")
    place: Any = source
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    key = int(last) if last.isdigit() else last
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return source


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("schema", 2, "diagnostics.schema: is not known here, got 2"),
        (
            "study",
            "attribution",
            "diagnostics.study: is not known here, got 'attribution'; allowed reconstruction",
        ),
        (
            "respondents",
            "people",
            "diagnostics.respondents: is not known here, got 'people'; allowed model, panel",
        ),
        (
            "label",
            ...,
            "diagnostics: label is missing. Write diagnostics.json again with score",
        ),
        (
            "label",
            None,
            "diagnostics: label is null. Write diagnostics.json again with score",
        ),
        ("level", 90, "diagnostics.level: must lie between 0 and 1, got 90.0"),
        ("targets", [], "diagnostics.targets: is empty; allowed one target or more"),
        ("targets", "population", "diagnostics.targets: must be a list, got 'population'"),
        ("targets.0", None, "diagnostics.targets[0]: must be a mapping, got null"),
        ("split.test", "ajar", "is not known here, got 'ajar'; allowed open, sealed"),
        ("targets.0.fit", [], "diagnostics.targets[0].fit: must be a mapping, got []"),
        ("targets.0.fit.mass", [1], "diagnostics.targets[0].fit.mass: must be a text, a number or"),
        ("targets.0.fit.mass", float("nan"), "fit.mass: must be a finite number or null, got nan"),
        ("targets.0.questions.1.split", "dev", "is not known here, got 'dev'; allowed train, test"),
        (
            "targets.0.questions.1.mse",
            ...,
            "diagnostics.targets[0].questions[1]: mse is missing; allowed a number or null",
        ),
        (
            "targets.0.questions.1.mse",
            "small",
            "diagnostics.targets[0].questions[1].mse: must be a finite number or null, got 'small'",
        ),
        (
            "targets.0.questions.1.id",
            "Q1",
            "diagnostics.targets[0].questions: a name stands twice, got 'Q1'",
        ),
        (
            "targets.0.questions.0.options.1.label",
            "A",
            "diagnostics.targets[0].questions[0].options: a name stands twice, got 'A'",
        ),
        ("targets.0.questions.0.options.0.target", float("inf"), "must be a finite number or null"),
        ("targets.0.questions.0.options.0.target", True, "must be a finite number or null"),
        ("targets.0.questions.0.options.0.low", 0.99, "options[0]: low lies above high, got (0.99"),
        ("targets.0.questions.0.options.0.predicted", None, "options[0]: predicted is null"),
        ("targets.0.questions.0.is_modal_right", "yes", "must be true, false or null, got 'yes'"),
        ("targets.0.records.0.n_questions", -1, "must be a whole number from 0 on, got -1"),
        ("targets.0.records.0.source", 3, "records[0].source: must be a text, got 3"),
        ("targets.0.paired.0.difference", ..., "paired[0]: difference is missing"),
        ("targets.0.fit.cv.0.lam", -1.0, "cv[0].lam: must be a number from 0 on or null, got -1.0"),
        ("personas.3.weights.population", "much", "personas[3].weights.population: must be a"),
        ("cleaning.counts.0.n", 1.5, "counts[0].n: must be a whole number from 0 on, got 1.5"),
        ("entropy.modes.2.entropy", ..., "diagnostics.entropy.modes[2]: entropy is missing"),
        ("notes", ["x", 3], "diagnostics.notes[1]: must be a text, got 3"),
        ("policy", "clip", "no prediction has this policy, got 'clip'; allowed project, raw"),
    ],
)
def test_what_is_missing_or_malformed_is_one_line_with_its_place(
    diagnostics: Make, path: str, value: object, line: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_diagnostics(put(diagnostics(), path, value))
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_targets_of_one_name_are_refused(diagnostics: Make) -> None:
    source = diagnostics()
    source["targets"] *= 2
    with pytest.raises(InputError, match="a name stands twice, got 'population'"):
        read_diagnostics(source)


def test_real_people_are_neither_persons_nor_groups_below_ten(diagnostics: Make) -> None:
    source = diagnostics(respondents="panel")
    source["cells"][0]["n"] = 9
    with pytest.raises(InputError, match=r"cells\[0\].n: so small a group .* got 9; allowed 10"):
        read_diagnostics(source)
    persons = diagnostics(respondents="panel") | {"personas": diagnostics()["personas"]}
    with pytest.raises(InputError, match="real people are never shown one by one"):
        read_diagnostics(persons)


@pytest.mark.parametrize(
    ("path", "value", "leak"),
    [
        ("targets.0.questions.2.mse", 0.1, "got 'Q3'"),
        ("targets.0.questions.2.is_modal_right", False, "got 'Q3'"),
        ("targets.0.questions.2.options.0.target", 0.1, "got 'Q3 A'"),
        ("targets.0.paired.0.difference", -0.1, "got 'difference to pool_mean'"),
        ("targets.0.interval_coverage.test", 0.9, "got 'interval_coverage.test'"),
        ("targets.0.uncovered.0.question", "Q3", "got 'Q3'"),
    ],
)
def test_a_value_of_a_sealed_test_is_refused(
    diagnostics: Make, path: str, value: object, leak: str
) -> None:
    source = diagnostics(is_sealed=True)
    assert read_diagnostics(source).is_sealed
    with pytest.raises(
        InputError, match="the test is sealed and yet a value of it is written"
    ) as e:
        read_diagnostics(put(source, path, value))
    assert leak in str(e.value)


def test_a_metric_of_a_sealed_test_is_refused_but_not_the_fits_mass(diagnostics: Make) -> None:
    source = diagnostics(is_sealed=True)
    records = source["targets"][0]["records"]
    index = next(i for i, item in enumerate(records) if item["split"] == "test")
    records[index] |= {"metric": "mass", "value": 0.9}
    assert read_diagnostics(source).is_sealed
    records[index]["metric"] = "skill"
    with pytest.raises(InputError, match="got 'skill'"):
        read_diagnostics(source)


def test_the_primary_policy_is_the_given_one_else_project_else_the_first(diagnostics: Make) -> None:
    source = diagnostics()
    assert read_diagnostics(source | {"policy": "raw"}).policy == "raw"
    del source["policy"]
    assert read_diagnostics(source).policy == "project"
    for question in source["targets"][0]["questions"]:
        for option in question["options"]:
            option["predicted"] = {"raw": 0.1, "clip": 0.1}
    assert read_diagnostics(source).policy == "clip"


def test_whole_parts_may_be_absent(diagnostics: Make) -> None:
    source = diagnostics()
    for name in ("personas", "cells", "position_bias", "entropy", "mode_summary", "notes"):
        source.pop(name)
    read = read_diagnostics(source)
    assert (read.personas, read.cells, read.entropy, read.modes) == ((), (), None, ())
