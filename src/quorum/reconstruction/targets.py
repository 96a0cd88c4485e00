"""From rows to shares: an entry for each option, a distribution for each question and target."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from quorum.errors import InputError
from quorum.reconstruction.shares import (
    Cell,
    ReadingRules,
    distribution,
    is_percent,
    read_cell,
    read_count,
)
from quorum.reconstruction.survey import POPULATION, Shares
from quorum.reconstruction.tables import Row, Table, listed
from quorum.reconstruction.texts import normalised

COUNTS = ("n_eff", "se", "n")
QUESTION_COLUMNS = ("question_id", "question_text", "option_text")
SURVEY_COLUMNS = (
    "option_label", "share", "percent", "n", "n_eff", "se", "ordinal", "topic", "split", "kind",
    "group_by", "group", "multi_select",
)  # fmt: skip
_ALL = ("", "all")
_KINDS = ("", "answer", "missing")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one row says about one option: its share, and its numbers of answers."""

    at: str
    share: Cell
    counts: Mapping[str, float | None]
    is_percent_column: bool


@dataclass(slots=True)
class Entries:
    """A question's entries for one target: those of its options, and refusals to be dropped."""

    question: str
    target: str
    answers: list[Entry | None]
    refusals: list[Entry] = field(default_factory=list)

    def given(self) -> list[Entry]:
        """All entries, in the order of the options."""
        return [entry for entry in self.answers if entry is not None] + self.refusals

    def at(self) -> str:
        """The address: the first row, the question and the target."""
        target = "" if self.target == POPULATION else f" of {self.target}"
        return f"{self.given()[0].at}, question {self.question!r}{target}"


def share_column(table: Table) -> str:
    """Which of the columns ``share`` and ``percent`` a file has.

    Raises:
        InputError: It has both or neither.
    """
    found = [name for name in ("share", "percent") if name in table.columns]
    if len(found) != 1:
        raise InputError(
            f"{table.where}:1",
            "the columns share and percent exclude each other" if found else "no column share",
            allowed="share (0 to 1, or percentages that sum to 100) or percent",
        )
    return found[0]


def entry(table: Table, row: Row, column: str, rules: ReadingRules) -> Entry:
    """The entry of a row."""
    cells = row.cells
    counts = {
        name: read_count(cells[name], table.at(row, name), what=name)
        for name in COUNTS
        if name in cells
    }
    share = read_cell(cells[column], table.at(row, column), rules)
    return Entry(f"{table.where}:{row.line}", share, counts, column == "percent")


def target_name(table: Table, row: Row) -> str:
    """``population``, or ``group_by=group`` of the row.

    Raises:
        InputError: Only one of the two cells is filled.
    """
    by, group = row.cells.get("group_by", ""), row.cells.get("group", "")
    if by.lower() in _ALL and group.lower() in _ALL:
        return POPULATION
    if not by or not group or "=" in by:
        raise InputError(
            table.at(row), "a group needs group_by, without an equals sign, and group",
            got=[by, group], mend="Fill both cells, or leave both empty for the population",
        )  # fmt: skip
    return f"{by}={group}"


def question_id(table: Table, row: Row) -> str:
    """The question that a row is about.

    Raises:
        InputError: The cell is empty.
    """
    id_ = row.cells["question_id"]
    if not id_:
        raise InputError(
            table.at(row, "question_id"), "the id is empty", mend="Repeat the id in each row"
        )
    return id_


def is_refusal(table: Table, row: Row, label: str, text: str, rules: ReadingRules) -> bool:
    """Whether a row counts refusals: by its kind, or by the rules' labels.

    Raises:
        InputError: Its kind is unknown.
    """
    kind = row.cells.get("kind", "")
    if kind not in _KINDS:
        raise InputError(
            table.at(row, "kind"), "unknown kind of row", got=kind, allowed="answer, missing"
        )
    names = _normalised_names(rules.refusal_labels)
    return kind == "missing" or normalised(label) in names or normalised(text) in names


@lru_cache(maxsize=16)
def _normalised_names(labels: tuple[str, ...]) -> frozenset[str]:
    return frozenset(normalised(label) for label in labels)


def is_new(
    by_option: dict[str, Row], key: str, table: Table, row: Row, rules: ReadingRules
) -> bool:
    """Keeps a row of a target's options; False for a second one that a rule leaves out.

    Raises:
        InputError: The option has a row already.
    """
    first = by_option.setdefault(key, row)
    if first is row:
        return True
    same = first.cells == row.cells
    if not same or rules.duplicates == "error":
        raise InputError(
            table.at(row),
            f"option {key!r} of question {row.cells['question_id']!r} stands on line {first.line}"
            f" already, {'with the same cells' if same else 'with other cells'}",
            mend="Drop one of the two rows" + (", or set duplicates=keep_one" if same else ""),
        )
    return False


def resolve(
    collected: Iterable[Entries], labels: Mapping[str, Sequence[str]], rules: ReadingRules
) -> tuple[dict[str, dict[str, Shares]], list[str]]:
    """Target → question id → shares, and notes on what was recognised.

    Raises:
        InputError: An option is missing, the scales are mixed, or a sum is off.
    """
    complete: list[Entries] = []
    blank: dict[str, list[str]] = {}
    for entries in collected:
        _check_complete(entries, labels[entries.question])
        if any(e.share.value is None for e in entries.given()):
            blank.setdefault(entries.question, []).append(entries.target)
        else:
            complete.append(entries)
    percent = _scale(complete)
    targets: dict[str, dict[str, Shares]] = {}
    for entries in complete:
        shares = _shares(entries, percent=percent)
        targets.setdefault(entries.target, {})[entries.question] = shares
    return targets, [*_blank_notes(blank), *_notes(complete, targets, rules, percent=percent)]


def _check_complete(entries: Entries, labels: Sequence[str]) -> None:
    lacking = [
        label for label, e in zip(labels, entries.answers, strict=True) if e is None
    ]  # fmt: skip
    if lacking:
        raise InputError(
            entries.at(),
            f"no row for the option {listed(lacking)}",
            mend="Give every option a row, with share 0 where nobody chose it",
        )


def _scale(complete: Sequence[Entries]) -> bool:
    """Whether the file has percentages: one scale for all its questions."""
    scales: dict[bool, Entries] = {}
    counts = {True: 0, False: 0}
    for entries in complete:
        given = entries.given()
        scale = is_percent([e.share for e in given], entries.at())
        if given[0].is_percent_column:
            scale = True
        if scale is not None:
            scales.setdefault(scale, entries)
            counts[scale] += 1
    if len(scales) == 2:
        odd = counts[True] < counts[False]
        raise InputError(
            scales[odd].at(),
            f"has {'percentages' if odd else 'shares of 1'} where other questions have"
            f" {'shares of 1' if odd else 'percentages'}",
            got=[e.share.value for e in scales[odd].given()],
            mend="Write the whole file in one scale",
        )
    return True in scales


def _shares(entries: Entries, *, percent: bool) -> Shares:
    given = entries.given()
    at = entries.at()
    values, total = distribution([e.share for e in given], at, percent=percent)
    n, source = _answers(given, values, at, percent=percent)
    n_answers = len(given) - len(entries.refusals)
    kept = math.fsum(values[:n_answers])
    if kept == 0:
        raise InputError(at, "nothing but refusals", mend="Leave the question out")
    if entries.refusals:
        values = tuple(value / kept for value in values[:n_answers])
        n = None if n is None else n * kept
    return Shares(values, n, source, total)


def _answers(
    given: Sequence[Entry], values: Sequence[float], at: str, *, percent: bool
) -> tuple[float | None, str | None]:
    """Number of answers behind the shares: n_eff, else Σp(1−p) / Σse², else n."""
    for name in COUNTS:
        found = [count for e in given if (count := e.counts.get(name)) is not None]
        if not found:
            continue
        if name == "se":
            variance = math.fsum(se**2 for se in found) / (1e4 if percent else 1.0)
            spread = math.fsum(p * (1 - p) for p in values)
            if len(found) == len(given) and variance > 0 and spread > 0:
                return spread / variance, name
            continue
        if len(set(found)) > 1:
            raise InputError(
                at, f"{name} differs inside the question", got=sorted(set(found)),
                mend="Give the number of answers to the question, the same in each of its rows",
            )  # fmt: skip
        if found[0]:
            return found[0], name
    return None, None


def _blank_notes(blank: Mapping[str, Sequence[str]]) -> list[str]:
    return [
        f"question {question!r}: blank, so without shares for {', '.join(targets)}"
        for question, targets in blank.items()
    ]


def _notes(
    complete: Sequence[Entries],
    targets: Mapping[str, Mapping[str, Shares]],
    rules: ReadingRules,
    *,
    percent: bool,
) -> list[str]:
    notes = ["percentages, read as shares of 1"] if percent else []
    every = [shares for by_question in targets.values() for shares in by_question.values()]
    off = [shares.raw_sum for shares in every if abs(shares.raw_sum - 1) > 1e-6]
    if off:
        notes.append(
            f"{len(off)} of {len(every)} distributions sum to {min(off):.4g}–{max(off):.4g}"
            " because of rounding, and were renormalised"
        )
    cells = [e.share for entries in complete for e in entries.given()]
    for rule, meaning in (
        ("less_than", "a bound was read as its half"),
        ("asterisk", "an asterisk was read as 0.25 %"),
    ):
        if count := sum(cell.rule == rule for cell in cells):
            notes.append(f"{meaning}, {count} times (rule {rule}={getattr(rules, rule)})")
    n_dropped = sum(bool(entries.refusals) for entries in complete)
    if n_dropped:
        notes.append(
            f"refusals were dropped from {n_dropped} distributions, and the rest renormalised"
            " (rule refusals=drop)"
        )
    if any(shares.n_source == "n" for shares in every):
        notes.append("n is taken as it stands: the file has neither n_eff nor se")
    return notes
