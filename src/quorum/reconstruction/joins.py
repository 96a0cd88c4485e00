"""Files that are joined to a survey on question ids and option labels: groups, refusals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from quorum.errors import InputError
from quorum.reconstruction.shares import AS_GIVEN, ReadingRules
from quorum.reconstruction.survey import POPULATION, Question, Shares, Survey
from quorum.reconstruction.tables import Row, Table, listed, read_table
from quorum.reconstruction.targets import (
    QUESTION_COLUMNS,
    SURVEY_COLUMNS,
    Entries,
    entry,
    is_new,
    is_refusal,
    question_id,
    resolve,
    share_column,
    target_name,
)
from quorum.reconstruction.texts import normalised


def with_groups(
    survey: Survey, content: bytes, where: str, rules: ReadingRules = AS_GIVEN
) -> Survey:
    """The survey with the targets of a file by group, and what was noted while reading it.

    Raises:
        InputError: As `read_groups`; or a target stands in both.
    """
    groups, notes = _groups(content, where, survey, rules)
    twice = [target for target in groups if target in survey.targets]
    if twice:
        raise InputError(where, f"the survey has shares of {listed(twice)} already")
    return replace(
        survey,
        targets={**survey.targets, **groups},
        notes=(*survey.notes, *(f"{where}: {note}" for note in notes)),
    )


def read_groups(
    content: bytes, where: str, survey: Survey, rules: ReadingRules = AS_GIVEN
) -> dict[str, dict[str, Shares]]:
    """Target → question id → shares of a file by group, joined on question ids and option labels.

    Columns: group_by, group, question_id, option_label (or option_text), share (or percent);
    optional n_eff, se, n, kind. A question may lack in a group.

    Raises:
        InputError: An id or label is not the survey's (both sides are listed), an option has no
            row, a sum is off.
        SettingsError: There is no such encoding.
    """
    return _groups(content, where, survey, rules)[0]


def read_refused(
    content: bytes, where: str, survey: Survey, rules: ReadingRules = AS_GIVEN
) -> dict[str, float]:
    """Question id → share of everybody asked who refused: the rows whose ``kind`` is ``missing``.

    Columns: question_id, option_label, kind (answer or missing), share (or percent).

    Raises:
        InputError: As `read_groups`.
    """
    keep = replace(rules, refusals="drop", refusal_labels=())
    collected = _joined(
        content, where, survey, keep, required=("question_id", "option_label", "kind")
    )
    targets, _ = resolve(collected, _labels(survey), keep)
    read = targets.get(POPULATION, {})
    return {
        entries.question: _refused_share(entries)
        for entries in collected
        if entries.target == POPULATION and entries.question in read
    }


def _refused_share(entries: Entries) -> float:
    total = math.fsum(e.share.value or 0.0 for e in entries.given())
    return math.fsum(e.share.value or 0.0 for e in entries.refusals) / total


def _labels(survey: Survey) -> dict[str, list[str]]:
    return {q.id: [option.label for option in q.options] for q in survey.questions}


def _groups(
    content: bytes, where: str, survey: Survey, rules: ReadingRules
) -> tuple[dict[str, dict[str, Shares]], list[str]]:
    required = ("group_by", "group", "question_id")
    collected = _joined(content, where, survey, rules, required=required)
    return resolve(collected, _labels(survey), rules)


def _joined(
    content: bytes, where: str, survey: Survey, rules: ReadingRules, *, required: Sequence[str]
) -> list[Entries]:
    known = (*QUESTION_COLUMNS, *SURVEY_COLUMNS)
    table = read_table(content, where, required=required, known=known, encoding=rules.encoding)
    column = share_column(table)
    if "option_label" not in table.columns and "option_text" not in table.columns:
        raise InputError(f"{where}:1", "no column option_label", got=list(table.columns))
    questions = {q.id: q for q in survey.questions}
    rows = [row for row in table.rows if question_id(table, row) not in survey.skipped]
    _check_join(where, [row.cells["question_id"] for row in rows], list(questions))
    indices = {q.id: option_indices(q) for q in survey.questions}
    collected: dict[tuple[str, str], Entries] = {}
    seen: dict[tuple[str, str], dict[str, Row]] = {}
    for row in rows:
        at = (target_name(table, row), row.cells["question_id"])
        question = questions[at[1]]
        name = row.cells.get("option_label") or row.cells.get("option_text", "")
        index = indices[at[1]].get(normalised(name))
        key = name if index is None else question.options[index].label
        if not is_new(seen.setdefault(at, {}), key, table, row, rules):
            continue
        entries = collected.setdefault(at, Entries(at[1], at[0], [None] * len(question.options)))
        if index is not None:
            entries.answers[index] = entry(table, row, column, rules)
        elif _is_dropped(table, row, survey, rules):
            entries.refusals.append(entry(table, row, column, rules))
        else:
            raise InputError(
                table.at(row), f"question {question.id!r} has no such option", got=name,
                allowed=", ".join(option.label for option in question.options),
            )  # fmt: skip
    return list(collected.values())


def _is_dropped(table: Table, row: Row, survey: Survey, rules: ReadingRules) -> bool:
    """Whether the row is a refusal that the rules take out."""
    if rules.refusals != "drop":
        return False
    label, text = row.cells.get("option_label", ""), row.cells.get("option_text", "")
    dropped = survey.dropped.get(row.cells["question_id"], ())
    names = {normalised(name) for option in dropped for name in (option.label, option.text)}
    return is_refusal(table, row, label, text, rules) or normalised(label or text) in names


def option_indices(question: Question) -> Mapping[str, int]:
    """Normalised label or text → index; a label goes before a text that looks like one."""
    texts = {normalised(option.text): i for i, option in enumerate(question.options)}
    return texts | {normalised(option.label): i for i, option in enumerate(question.options)}


def _check_join(where: str, found: Iterable[str], expected: Sequence[str]) -> None:
    """Refuses question ids that are not the survey's.

    Raises:
        InputError: It lists what is unmatched on both sides.
    """
    names = list(dict.fromkeys(found))
    unknown = [name for name in names if name not in set(expected)]
    if unknown:
        raise mismatch(where, unknown, [name for name in expected if name not in set(names)])


def mismatch(where: str, unknown: Sequence[str], lacking: Sequence[str]) -> InputError:
    """The error that lists the ids unmatched on both sides."""
    return InputError(
        where,
        f"ids do not match: here but not in the survey {listed(unknown) or 'none'};"
        f" in the survey but not here {listed(lacking) or 'none'}",
        mend="Write an id alike in both files: 7 and 007 are two ids",
    )
