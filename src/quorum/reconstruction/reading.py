"""Survey files: questions and shares. Bytes in, records out.

Long form: one row an option (and group). What a file leaves open is decided by ``ReadingRules``
and said in the survey's notes; everything else that does not fit is an error with its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from quorum.errors import InputError
from quorum.reconstruction.shares import AS_GIVEN, ReadingRules
from quorum.reconstruction.survey import Option, Question, Survey
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

_FLAGS = {"": False, "0": False, "1": True, "false": False, "true": True, "no": False, "yes": True}
_SPLITS = ("", "train", "test")


@dataclass(slots=True)
class _Draft:
    """A question while its rows are read; options in the order of their first rows."""

    id: str
    at: str
    cells: dict[str, tuple[str, str]] = field(default_factory=dict)  # column → value, address
    options: dict[str, Option] = field(default_factory=dict)  # key → option
    refusals: set[str] = field(default_factory=set)  # keys of the options to be dropped
    rows: dict[str, dict[str, Row]] = field(default_factory=dict)  # target → key → row

    def say(self, column: str, value: str, at: str) -> None:
        """Keeps what a row says about the question; an empty cell says nothing."""
        known, first = self.cells.setdefault(column, (value, at)) if value else ("", "")
        if value and known != value:
            raise InputError(
                at, f"question {self.id!r} has another {column} in {first}", got=value,
                allowed=repr(known), mend="Write it alike in each row, or leave it empty below",
            )  # fmt: skip

    def get(self, column: str) -> str:
        return self.cells.get(column, ("", ""))[0]


def read_survey(content: bytes, where: str, rules: ReadingRules = AS_GIVEN) -> Survey:
    """The questions of a file and the shares of its targets, the population's and groups'.

    Columns: question_id, question_text, option_text, share (or percent); optional option_label
    (else A, B, C … by first appearance), n_eff, se, n, ordinal, topic, split, kind (answer or
    missing), multi_select, group_by and group.

    Raises:
        InputError: The file cannot be used; the error names file, line and question.
        SettingsError: There is no such encoding.
    """
    table = read_table(
        content, where, required=QUESTION_COLUMNS, known=SURVEY_COLUMNS, encoding=rules.encoding
    )
    column = share_column(table)
    drafts, notes = _drafts(table, rules)
    asked = {id_: draft for id_, draft in drafts.items() if not _is_multi(draft, rules)}
    multi = [id_ for id_ in drafts if id_ not in asked]
    if multi:
        notes.append(
            f"select-all questions left out, as their shares are no distribution: {listed(multi)}"
        )
    questions = [_question(draft) for draft in asked.values()]
    labels = {q.id: [option.label for option in q.options] for q in questions}
    collected = [
        _entries(table, column, draft, target, labels[draft.id], rules)
        for draft in asked.values()
        for target in draft.rows
    ]
    targets, more = resolve(collected, labels, rules)
    answered = {id_ for by_question in targets.values() for id_ in by_question}
    if not answered:
        raise InputError(where, "no question has shares", mend="Fill its column of shares")
    return Survey(
        tuple(q for q in questions if q.id in answered),
        targets,
        (*notes, *more, *_unread(table)),
        tuple(id_ for id_ in drafts if id_ not in answered),
        {d.id: tuple(d.options[key] for key in d.options if key in d.refusals)
         for d in asked.values() if d.refusals},
    )  # fmt: skip


# -- one file with its texts ---------------------------------------------------------------------


def _drafts(table: Table, rules: ReadingRules) -> tuple[dict[str, _Draft], list[str]]:
    drafts: dict[str, _Draft] = {}
    n_twins = 0
    for row in table.rows:
        at = table.at(row)
        id_ = question_id(table, row)
        draft = drafts.setdefault(id_, _Draft(id_, at))
        draft.say("question_text", row.cells["question_text"], at)
        for column in ("topic", "split", "ordinal", "multi_select"):
            draft.say(column, row.cells.get(column, ""), at)
        key = _option(draft, table, row, rules)
        by_option = draft.rows.setdefault(target_name(table, row), {})
        n_twins += not is_new(by_option, key, table, row, rules)
    for draft in drafts.values():
        _check_draft(draft)
    _check_ids(drafts.values())
    note = [f"{n_twins} rows stood twice; one of each was kept (rule duplicates=keep_one)"]
    return drafts, note if n_twins else []


def _option(draft: _Draft, table: Table, row: Row, rules: ReadingRules) -> str:
    """The key of the row's option, which is made known to the question."""
    label, text = row.cells.get("option_label", ""), row.cells["option_text"]
    if "option_label" in table.columns and not label:
        raise InputError(table.at(row, "option_label"), "the label is empty")
    key = label or text
    known = draft.options.get(key)
    is_missing = is_refusal(table, row, label, text, rules)
    if known is None:
        if not text and not is_missing:
            raise InputError(
                table.at(row, "option_text"), f"an option of question {draft.id!r} has no text"
            )
        draft.options[key] = Option(label, text or label)
        if is_missing and rules.refusals == "drop":
            draft.refusals.add(key)
    elif text and known.text != text:
        raise InputError(
            table.at(row), f"option {label!r} of question {draft.id!r} has two texts", got=text,
            allowed=repr(known.text), mend="Give each option its own label",
        )  # fmt: skip
    return key


def _check_draft(draft: _Draft) -> None:
    at = f"{draft.at}, question {draft.id!r}"
    if not draft.get("question_text"):
        raise InputError(at, "has no text", mend="Fill question_text in its first row")
    if draft.get("split") not in _SPLITS:
        raise InputError(at, "no such split", got=draft.get("split"), allowed="train, test")
    for column in ("ordinal", "multi_select"):
        if draft.get(column).lower() not in _FLAGS:
            raise InputError(at, f"{column} is no flag", got=draft.get(column), allowed="0, 1")
    kept = [option for key, option in draft.options.items() if key not in draft.refusals]
    if len(kept) < 2:
        raise InputError(at, "a question needs 2 options", got=[option.text for option in kept])
    for what in ("label", "text"):
        _check_distinct([getattr(o, what) for o in draft.options.values()], at, what)


def _check_distinct(names: Sequence[str], at: str, what: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(normalised(name), name) if name else name
        if first is not name:
            raise InputError(
                at, f"the {what}s of two options are the same but for case, quotes or spaces",
                got=[first, name], mend="Merge the two options",
            )  # fmt: skip


def _check_ids(drafts: Iterable[_Draft]) -> None:
    seen: dict[str, _Draft] = {}
    for draft in drafts:
        first = seen.setdefault(normalised(draft.id), draft)
        if first is not draft:
            raise InputError(
                f"{draft.at}, question {draft.id!r}",
                f"its id is that of the question in {first.at} but for case or spaces",
                got=draft.id, mend="Write an id alike everywhere",
            )  # fmt: skip


def _is_multi(draft: _Draft, rules: ReadingRules) -> bool:
    if not _FLAGS[draft.get("multi_select").lower()]:
        return False
    if rules.multi_select == "error":
        raise InputError(
            f"{draft.at}, question {draft.id!r}",
            "is a select-all question, whose shares are no distribution",
            mend="Leave it out of the file, or set multi_select=skip",
        )
    return True


def _question(draft: _Draft) -> Question:
    kept = [option for key, option in draft.options.items() if key not in draft.refusals]
    options = tuple(
        option if option.label else Option(_letters(i), option.text)
        for i, option in enumerate(kept)
    )
    return Question(
        draft.id, draft.get("question_text"), options, draft.get("topic") or None,
        _FLAGS[draft.get("ordinal").lower()], draft.get("split") or None,
    )  # fmt: skip


def _letters(index: int) -> str:
    """A … Z, AA, AB …: the label of an option from its position."""
    return (_letters(index // 26 - 1) if index >= 26 else "") + chr(ord("A") + index % 26)


def _entries(
    table: Table, column: str, draft: _Draft, target: str, labels: Sequence[str],
    rules: ReadingRules,
) -> Entries:  # fmt: skip
    rows = draft.rows[target]
    kept = [key for key in draft.options if key not in draft.refusals]
    read = {key: entry(table, row, column, rules) for key, row in rows.items()}
    assert len(kept) == len(labels)
    return Entries(
        draft.id,
        target,
        [read.get(key) for key in kept],
        [read[key] for key in draft.options if key in draft.refusals and key in read],
    )


def _unread(table: Table) -> list[str]:
    unread = [c for c in table.columns if c not in (*QUESTION_COLUMNS, *SURVEY_COLUMNS)]
    return [f"columns that are not read: {listed(unread)}"] if unread else []
