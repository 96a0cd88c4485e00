"""Do the chosen survey and the settings go together: checked before anything is paid for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from quorum.config.compose import Settings, input_path
from quorum.config.families import part_class
from quorum.config.reconstruction_stages import READING, has_respondents
from quorum.errors import InputError, SettingsError
from quorum.reconstruction.bank import read_bank
from quorum.reconstruction.joins import read_refused, with_groups
from quorum.reconstruction.reading import read_survey
from quorum.reconstruction.respondents import read_respondents
from quorum.reconstruction.shares import ReadingRules
from quorum.reconstruction.split import select_questions, split_questions
from quorum.reconstruction.survey import POPULATION, Survey, chosen_targets

DENSE = ("simple_average",)  # ensembles that give weight to everybody


def check_survey(root: Path, settings: Settings) -> None:
    """Reads the survey, the bank and the respondents, and makes the split.

    Raises:
        SettingsError: A file lies outside data/ or is not there, a setting does not fit.
        InputError: A file cannot be read.
    """
    section = cast("dict[str, Mapping[str, Any]]", settings)
    survey = read_input(root, section["input"])
    chosen_targets(survey.targets, section["target"]["groups"])
    split = section["split"]
    questions = select_questions(
        survey.questions,
        split["max_questions"],
        cast("int", settings["seed"]),
        exclude=split["exclude"],
    )
    split_questions(questions, split["by"], split["train_share"], cast("int", settings["seed"]))
    if has_respondents(settings):
        if section["elicitation"]["name"] != "choice":
            raise SettingsError(
                "elicitation",
                "people of a table give one answer and no probabilities",
                got=section["elicitation"]["name"],
                allowed="choice with backend=panel",
                mend="Leave elicitation out: backend=panel chooses it",
            )
        _check_respondents(root, section, survey)
    else:
        _check_bank(root, section["bank"])
    _check_anchor(root, section, survey)
    _check_cleaning(section)
    _check_active_only(section)
    policies = section["ensemble"]["policies"]
    if len(set(policies)) < len(policies):
        raise SettingsError("ensemble.policies", "one stands twice", got=policies)


def read_input(root: Path, section: Mapping[str, Any]) -> Survey:
    """The survey with its groups; its file of refusals is read as well."""
    rules = ReadingRules(**{key: section[key] for key in READING})
    path = input_path(root, section["path"])
    survey = read_survey(path.read_bytes(), section["path"], rules)
    if section["groups"] is not None:
        content = input_path(root, section["groups"], "input.groups").read_bytes()
        survey = with_groups(survey, content, section["groups"], rules)
    if section["refused"] is not None:
        content = input_path(root, section["refused"], "input.refused").read_bytes()
        read_refused(content, section["refused"], survey, rules)
    return survey


def _check_bank(root: Path, section: Mapping[str, Any]) -> None:
    where = f"conf/bank/{section['name']}.yaml"
    if (root / where).is_file():
        read_bank((root / where).read_text(encoding="utf-8"), where)  # it names the line
    read_bank(json.dumps({"attributes": section["attributes"]}), "bank")


def _check_respondents(
    root: Path, section: Mapping[str, Mapping[str, Any]], survey: Survey
) -> None:
    backend = section["backend"]
    content = input_path(root, backend["path"], "backend.path").read_bytes()
    try:
        read_respondents(
            content,
            backend["path"],
            survey,
            id_column=backend["id_column"],
            attribute_columns=backend["attributes"],
            refused=backend["refused"],
        )
    except InputError as error:
        raise InputError(
            error.where,
            error.what,
            got=error.got,
            allowed=error.allowed,
            mend=f"{error.mend or 'Mend the table'}; another table: backend.path",
        ) from error


def _check_anchor(root: Path, section: Mapping[str, Mapping[str, Any]], survey: Survey) -> None:
    ensemble = section["ensemble"]
    uses_file = "file" in ensemble.get("anchors", ())
    path = ensemble["anchor_file"]
    if uses_file != (path is not None):
        raise SettingsError(
            "ensemble.anchor_file",
            "goes with anchors [file], and only with it",
            got=path,
            mend="Name a file of shares and put file among ensemble.anchors, or neither",
        )
    if path is None:
        return
    anchor = read_survey(input_path(root, path, "ensemble.anchor_file").read_bytes(), path)
    given, known = anchor.targets[POPULATION], survey.targets.get(POPULATION, {})
    leaked = sorted(q for q in given if q in known and given[q].shares == known[q].shares)
    if leaked:
        raise SettingsError(
            "ensemble.anchor_file",
            "holds the shares that are to be predicted",
            got=f"{path}: {leaked[0]}",
            allowed="shares of another source, such as an older survey",
        )


def _check_cleaning(section: Mapping[str, Mapping[str, Any]]) -> None:
    if section["cleaning"]["name"] != "refusal_as_option":
        return
    if section["input"]["refusals"] == "drop":
        raise SettingsError(
            "cleaning",
            "input.refusals=drop takes refusals out of the shares that are to be matched",
            got="refusal_as_option",
            allowed="with input.refusals=option",
        )
    if section["input"]["refused"] is None:
        raise SettingsError(
            "cleaning",
            "a refusal can be an option only where its share is known",
            got="refusal_as_option",
            allowed="with input.refused",
        )
    if section["elicitation"]["name"] == "logprob":
        raise SettingsError(
            "cleaning",
            "elicitation=logprob knows no refusals",
            got="refusal_as_option",
            allowed="with elicitation=choice or verbalised",
        )


def _check_active_only(section: Mapping[str, Mapping[str, Any]]) -> None:
    """``active_only`` only where it changes no prediction."""
    if section["elicitation"]["elicit_test"] != "active_only":
        return
    ensemble = section["ensemble"]
    problems = {
        "ensemble": (ensemble["name"] in DENSE, ensemble["name"]),
        "ensemble.anchors": ("pool" in ensemble.get("anchors", ()), "pool"),
        "cleaning": (
            section["elicitation"]["name"] != "logprob" and section["cleaning"]["name"] != "strict",
            section["cleaning"]["name"],
        ),
        "budget.on_cap": (section["budget"]["on_cap"] == "partial", "partial"),
        "backend": (hasattr(part_class("backend", section["backend"]["name"]), "seat"), "panel"),
    }
    for where, (is_wrong, got) in problems.items():
        if is_wrong:
            raise SettingsError(
                where,
                "needs everybody's test answers, so elicit_test=active_only would change results",
                got=got,
                mend="Set elicitation.elicit_test=all, or another value here",
            )
