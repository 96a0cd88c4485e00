"""Tables of individual answers: one row a respondent, one column a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quorum.digests import text_digest
from quorum.errors import InputError
from quorum.reconstruction.joins import mismatch, option_indices
from quorum.reconstruction.shares import AS_GIVEN, ReadingRules, read_count
from quorum.reconstruction.survey import Question, Survey
from quorum.reconstruction.tables import Row, Table, read_table
from quorum.reconstruction.texts import normalised

REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Respondents:
    """Real people's answers, under ids of our own; all tuples in the order of the ids.

    Args:
        ids: ``r0001`` …, in the order of SHA-256 over the file's content and the file's ids, so
            that neither the id nor the order says who it is or where the row stood.
        weights: Survey weights, ≥ 0, as the file has them; 1 where it has none.
        attributes: Attribute → value; an empty cell is left out.
        answers: Question id → label of the option, ``refused``, or None where missing.
    """

    ids: tuple[str, ...]
    weights: tuple[float, ...]
    attributes: tuple[Mapping[str, str], ...]
    answers: tuple[Mapping[str, str | None], ...]


def read_respondents(
    content: bytes,
    where: str,
    survey: Survey,
    *,
    id_column: str,
    weight_column: str | None = None,
    attribute_columns: Sequence[str] = (),
    refused: Sequence[str] = ("R",),
    rules: ReadingRules = AS_GIVEN,
) -> Respondents:
    """The respondents of a CSV file with a column for each of the survey's questions.

    A cell holds an option's label or text, one of ``refused``, or nothing. Columns that are
    neither questions of the survey nor named here are not read.

    Raises:
        InputError: A column is not there, an id is empty or stands twice, a cell is no answer, a
            weight no number ≥ 0, or all weights are 0.
        SettingsError: There is no such encoding.
    """
    named = [id_column, *([weight_column] if weight_column else []), *attribute_columns]
    table = read_table(content, where, required=named, known=None, encoding=rules.encoding)
    _check_columns(table, survey, named)
    rows = _unique(table, id_column, rules)
    secret = text_digest(content.decode(rules.encoding))
    ordered = sorted(rows, key=lambda row: text_digest(secret + row.cells[id_column]))
    weights = tuple(_weight(table, row, weight_column) for row in ordered)
    if not any(weights):
        raise InputError(f"{where}, column {weight_column}", "all weights are 0")
    readers = [(q, option_indices(q)) for q in survey.questions]
    refusals = frozenset(normalised(text) for text in refused)
    width = max(4, len(str(len(ordered))))
    return Respondents(
        tuple(f"r{i:0{width}d}" for i in range(1, len(ordered) + 1)),
        weights,
        tuple({a: row.cells[a] for a in attribute_columns if row.cells[a]} for row in ordered),
        tuple(
            {q.id: _answer(table, row, q, indices, refusals) for q, indices in readers}
            for row in ordered
        ),
    )


def _check_columns(table: Table, survey: Survey, named: Sequence[str]) -> None:
    asked = {q.id for q in survey.questions}
    lacking = [q.id for q in survey.questions if q.id not in table.columns]
    if lacking:
        others = [c for c in table.columns if c not in asked and c not in named]
        raise mismatch(f"{table.where}:1", others, lacking)


def _unique(table: Table, id_column: str, rules: ReadingRules) -> list[Row]:
    seen: dict[str, Row] = {}
    for row in table.rows:
        id_ = row.cells[id_column]
        if not id_:
            raise InputError(
                table.at(row, id_column), "the id is empty", mend="Give each respondent an id"
            )
        first = seen.setdefault(id_, row)
        if first is row:
            continue
        same = first.cells == row.cells
        if not same or rules.duplicates == "error":
            raise InputError(
                table.at(row, id_column),
                f"the id stands on line {first.line} already,"
                f" with {'the same' if same else 'other'} cells",
                got=id_,
                mend="Drop one of the two rows" + (", or set duplicates=keep_one" if same else ""),
            )
    return list(seen.values())


def _weight(table: Table, row: Row, column: str | None) -> float:
    if column is None:
        return 1.0
    at = table.at(row, column)
    weight = read_count(row.cells[column], at, what="the weight")
    if weight is None:
        raise InputError(at, "the weight is empty", mend="Fill it, or drop the row")
    return weight


def _answer(
    table: Table, row: Row, question: Question, indices: Mapping[str, int], refusals: frozenset[str]
) -> str | None:
    cell = row.cells[question.id]
    if not cell:
        return None
    key = normalised(cell)
    if key in indices:
        return question.options[indices[key]].label
    if key in refusals:
        return REFUSED
    raise InputError(
        table.at(row, question.id), "is no answer of that question", got=cell,
        allowed=f"{', '.join(o.label for o in question.options)}, empty, or the mark of a refusal",
    )  # fmt: skip
