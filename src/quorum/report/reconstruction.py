"""The self-contained pages of a reconstruction: the answer, and what one needs to check it.

``report.html`` answers in its first screen whether the fit beat its baselines;
``diagnostics.html`` holds the solver, every question, entropies, counts and audits. Both depend on
the diagnostics alone and ask for nothing; the only script sorts a table of several targets.
"""

from __future__ import annotations

from collections.abc import Mapping

from quorum.report.charts import percent
from quorum.report.escape import visible_label, visible_text
from quorum.report.pages import environment, script_view
from quorum.report.reconstruction_charts import View, forest_scale
from quorum.report.reconstruction_details import (
    active_personas,
    cell_rows,
    cv_view,
    entropy_view,
    fit_facts,
    mode_rows,
    position_view,
    problems,
)
from quorum.report.reconstruction_document import read_diagnostics
from quorum.report.reconstruction_overview import overview_rows
from quorum.report.reconstruction_reading import Node, Scalar
from quorum.report.reconstruction_records import Diagnostics, Question, Target
from quorum.report.reconstruction_texts import Fact, facts, scalar
from quorum.report.reconstruction_views import (
    LONG,
    SHORT,
    counts_of_verdicts,
    lead,
    question_views,
    record_table,
    target_view,
)

MAX_PERSONAS = 10  # in report.html; diagnostics.html holds all of them
_FEW = 3  # targets up to which every table holds texts whole


def reconstruction_pages(
    diagnostics: Mapping[str, object], run: Mapping[str, object]
) -> dict[str, str]:
    """Both pages: path → text, ``report.html`` and ``diagnostics.html``.

    Args:
        diagnostics: The object of ``diagnostics.json``.
        run: What the run is: ``title`` and ``notes`` have their place; any other entry (a text,
            a number, true, false, null, or a list or a mapping of these) is shown under its own
            name.

    Raises:
        InputError: The object is not the diagnostics of a reconstruction, or ``run`` holds
            something that cannot be shown.
    """
    read = read_diagnostics(diagnostics)
    about = Node("run", {key: run[key] for key in run if key not in ("title", "notes")})
    notes = [visible_text(note) for note in (*read.notes, *Node("run", run).give_texts("notes"))]
    survey = scalar(read.survey.get("title")) if read.survey.get("title") else "A survey"
    common: View = {
        "title": visible_text(str(run.get("title") or f"{survey}, reconstructed")),
        "badge": read.badge,
        "label": visible_text(read.label),
        "level": percent(read.level),
        "policy": visible_text(read.policy),
        "is_panel": read.is_panel,
        "is_sealed": read.is_sealed,
        "n_targets": len(read.targets),
        "notes": notes,
    }
    return {
        "report.html": _report(read, common, _flat(about)),
        "diagnostics.html": _diagnostics(read, common, _flat(about)),
    }


def _flat(node: Node) -> list[Fact]:
    found: list[Fact] = []
    for key in sorted(node.items):
        if isinstance(node.items[key], Mapping):
            inner = _flat(node.need_child(key))
            name = facts({key: ""})[0][0]
            found += [(f"{name}: {label.lower()}", value) for label, value in inner]
        else:
            value = node.items[key]
            items = value if isinstance(value, (list, tuple)) else [value]
            read = [Node(node.where, {key: item}).scalars()[key] for item in items]
            shown = "; ".join(scalar(item) for item in read) or None
            found += facts({key: read[0] if len(read) == 1 else shown})
    return found


def _report(read: Diagnostics, common: View, run: list[Fact]) -> str:
    scale = forest_scale(row for target in read.targets for row in lead(target))
    views = []
    for index, target in enumerate(read.targets):
        # One target's own scale shows its intervals best; the table of targets has a common one.
        own = forest_scale(target.paired)
        view = target_view(target, index, read, own)
        view["personas"] = active_personas(read, target.name, MAX_PERSONAS)
        view["cells"] = cell_rows(read, target.name)
        view["facts"] = _first_facts(target, read)
        views.append(view)
    is_many = len(views) > 1
    template = environment().get_template("reconstruction.html")
    return template.render(
        **common,
        targets=views,
        overview=overview_rows(read, scale),
        is_many=is_many,
        counts=counts_of_verdicts(read),
        facts=_about(read) + run,
        **(script_view("sort.js") if is_many else {"script": "", "script_hash": ""}),
    )


def _diagnostics(read: Diagnostics, common: View, run: list[Fact]) -> str:
    limit = LONG if len(read.targets) <= _FEW else SHORT
    policies = _policies(read)
    targets = []
    for index, target in enumerate(read.targets):
        groups = []
        for split, name in (("test", "Test questions"), ("train", "Training questions")):
            questions = [item for item in target.questions if item.split == split]
            if questions:
                groups.append((name, question_views(questions, read, policies, limit)))
        targets.append(
            {
                "index": index + 1,
                "name": visible_label(target.name),
                "fit": fit_facts(target),
                "solver": facts(target.solver),
                "cv": cv_view(target),
                "records": record_table(target),
                "groups": groups,
                "personas": active_personas(read, target.name, None),
                "cells": cell_rows(read, target.name),
                **problems(target),
            }
        )
    template = environment().get_template("diagnostics.html")
    return template.render(
        **common,
        targets=targets,
        policies=[visible_text(policy) for policy in policies],
        codebook=_codebook(read) if limit == SHORT else [],
        entropy=None if read.entropy is None else entropy_view(read.entropy),
        modes=mode_rows(read),
        stop_reason=visible_text(read.stop_reason),
        cleaning=facts(read.cleaning),
        counts=[(visible_text(reason), f"{n:,}") for reason, n in read.cleaning_counts],
        elicitation=facts(read.elicitation),
        position=position_view(read.position_bias),
        facts=_about(read) + run,
    )


def _policies(read: Diagnostics) -> list[str]:
    """The primary policy first, then the others by name."""
    found = {
        policy
        for target in read.targets
        for question in target.questions
        for option in question.options
        for policy in option.predicted
    }
    return [read.policy, *sorted(found - {read.policy})] if found else []


def _codebook(read: Diagnostics) -> list[View]:
    """Every question once, with its whole text: tables of many targets show its beginning."""
    found: dict[str, Question] = {}
    for target in read.targets:
        for question in target.questions:
            found.setdefault(question.id, question)
    return [
        {
            "id": visible_label(question.id),
            "topic": visible_text(question.topic),
            "text": visible_text(question.text),
            "options": [
                (visible_label(option.label, limit=24), visible_text(option.text))
                for option in question.options
            ],
        }
        for question in found.values()
    ]


def _first_facts(target: Target, read: Diagnostics) -> list[Fact]:
    """The facts beside the answer: coverage, questions, who carries the weight."""
    wanted = ("Active (weight above 0)", "Effective size (Kish)", "Mass", "Anchor", "Ensemble")
    shown = dict(fit_facts(target))
    n_test = sum(question.split == "test" for question in target.questions)
    nominal = percent(read.level)
    return [
        (f"Test shares within their {nominal} interval", shown["Interval coverage, test"]),
        (f"Cross-validated, within {nominal}", shown["Interval coverage, cross-validated"]),
        ("Noise floor of the targets (MSE)", shown["Noise floor of the targets (MSE)"]),
        ("Questions", f"{len(target.questions) - n_test} training, {n_test} test"),
        *((name, shown[name]) for name in wanted if name in shown),
    ]


def _about(read: Diagnostics) -> list[Fact]:
    """Survey, split, elicitation and cleaning; what was not given is left out."""
    survey = [(f"Survey: {name.lower()}", value) for name, value in facts(_given(read.survey))]
    found = [*survey, *facts(_given(read.split))]
    if read.pair:
        found.append(("Most similar pair", ", ".join(visible_text(name) for name in read.pair)))
    found += [(f"Elicitation: {k.lower()}", v) for k, v in facts(_given(read.elicitation))]
    found += [(f"Cleaning: {k.lower()}", v) for k, v in facts(_given(read.cleaning))]
    if read.stop_reason:
        found.append(("Generation stopped by", visible_text(read.stop_reason)))
    found.append(("Prediction policy", visible_text(read.policy) or "not recorded"))
    return [*found, ("Seed", scalar(read.seed))]


def _given(items: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {name: value for name, value in items.items() if value is not None}
