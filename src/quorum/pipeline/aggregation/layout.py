"""From rows and differences to tables: every number with an address and where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorum.config.aggregation import RECORD_KEYS, Aggregation
from quorum.pipeline.aggregation.cells import ALL, Row
from quorum.pipeline.aggregation.contrasts import Difference
from quorum.pipeline.aggregation.records import Record, shown
from quorum.pipeline.aggregation.sources import Source
from quorum.pipeline.aggregation.statistics import Number
from quorum.pipeline.aggregation.statistics import columns as columns_of
from quorum.report.aggregation import Origin
from quorum.report.aggregation_tables import FIRST_ROW, Table, TableCell, TableRow, letters

CONTRAST_HEAD = ("metric", "contrast", "group")
CONTRAST_STATISTICS = ("n", "mean", "sd", "se", "ci_low", "ci_high")
LEFT_OUT = ("n_unpaired_first", "n_unpaired_second", "n_null")
CLUSTERED = (
    "Records of one run are not independent, so se and ci may be too small where a number rests "
    "on several of a run."
)


@dataclass(frozen=True, slots=True)
class Traced:
    """A cell and what it came from.

    Args:
        address: Such as ``C2``.
        row: The row's name.
        column: The column's.
        metric: The metric's label.
        statistic: Which; one of ``LEFT_OUT`` is a number of records or pairs.
        value: The cell's.
        reason: Why it has none.
        records: Ids of the records behind it.
        minus: Ids of the records that were taken from them, one by one; empty for no difference.
        without_value: Ids of records of the same group and metric that have no value.
    """

    address: str
    row: str
    column: str
    metric: str
    statistic: str
    value: float | int | None
    reason: str | None
    records: tuple[str, ...]
    minus: tuple[str, ...]
    without_value: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """A table, the trace of its cells in the same order, and the origins for the page."""

    table: Table
    traced: tuple[Traced, ...]
    origins: tuple[Origin, ...]


def table_layout(spec: Aggregation, rows: Sequence[Row], sources: Sequence[Source]) -> Layout:
    """The first table: a row a group, columns a metric and statistic."""
    names = columns_of(spec.statistics)
    head = spec.group_by or ("rows",)
    made, traced, origins = [], [], []
    for index, row in enumerate(rows):
        cells: list[TableCell] = []
        for number, block in enumerate(row.blocks):
            anchor = f"cell-{index + 1}-{number + 1}"
            first = len(head) + len(cells)
            records, empty = _ids(block.used), _ids(block.empty)
            own = [
                Traced(
                    address=f"{letters(first + offset)}{index + FIRST_ROW}",
                    row=row.name,
                    column=f"{block.metric.label} {name}",
                    metric=block.metric.label,
                    statistic=name,
                    value=block.statistics[name].value,
                    reason=block.statistics[name].reason,
                    records=records,
                    minus=(),
                    without_value=empty,
                )
                for offset, name in enumerate(names)
            ]
            traced += own
            cells += [TableCell(one.address, one.value, one.reason, anchor) for one in own]
            title = f"{row.name}: {block.metric.label}"
            origins.append(_origin(anchor, title, own, [*block.used, *block.empty]))
        shown_head = tuple(map(shown, row.values)) or (ALL,)
        made.append(TableRow(shown_head, tuple(cells)))
    groups = tuple((metric.label, tuple(names)) for metric in spec.metrics)
    table = Table(spec.title, head, groups, tuple(made), _table_notes(spec, rows, sources))
    return Layout(table, tuple(traced), tuple(origins))


def contrast_layout(
    spec: Aggregation, differences: Sequence[Difference], sources: Sequence[Source]
) -> Layout:
    """The second table: a row a contrast and group."""
    made, traced, origins = [], [], []
    for index, one in enumerate(differences):
        row = (one.contrast.metric.label, one.name, one.group)
        anchor = f"contrast-{index + 1}"
        own = [
            Traced(
                address=f"{letters(len(CONTRAST_HEAD) + offset)}{index + FIRST_ROW}",
                row=", ".join(row),
                column=name,
                metric=one.contrast.metric.label,
                statistic=name,
                value=number.value,
                reason=number.reason,
                records=records,
                minus=minus,
                without_value=_ids([record for pair in one.empty for record in pair]),
            )
            for offset, (name, number, records, minus) in enumerate(_difference_cells(one))
        ]
        traced += own
        cells = tuple(TableCell(t.address, t.value, t.reason, anchor) for t in own)
        made.append(TableRow(row, cells))
        members = [record for pair in (*one.pairs, *one.empty) for record in pair]
        members += [record for side in one.unpaired for record in side]
        origins.append(_origin(anchor, ": ".join(row), own, members))
    groups = (("", (*CONTRAST_STATISTICS, *LEFT_OUT)),)
    notes = (
        f"Differences, first minus second, of pairs; ci is a t interval at level {spec.level}.",
        "Records without a partner and pairs without a value are left out and counted.",
        *((CLUSTERED,) if _has_clusters([_firsts(one) for one in differences]) else ()),
        *_origin_notes(sources),
    )
    table = Table(f"{spec.title}: paired differences", CONTRAST_HEAD, groups, tuple(made), notes)
    return Layout(table, tuple(traced), tuple(origins))


def _difference_cells(
    one: Difference,
) -> list[tuple[str, Number, tuple[str, ...], tuple[str, ...]]]:
    first, second = (_ids([pair[side] for pair in one.pairs]) for side in (0, 1))
    found = [(name, one.statistics[name], first, second) for name in CONTRAST_STATISTICS]
    of_first, of_second = map(_ids, one.unpaired)
    empty = _ids([pair[0] for pair in one.empty]), _ids([pair[1] for pair in one.empty])
    left_out = ((of_first, ()), (of_second, ()), empty)
    return found + [
        (name, Number(len(records)), records, minus)
        for name, (records, minus) in zip(LEFT_OUT, left_out, strict=True)
    ]


def _firsts(one: Difference) -> list[Record]:
    return [pair[0] for pair in one.pairs]


def _ids(records: Sequence[Record]) -> tuple[str, ...]:
    return tuple(record.id for record in records)


def _origin(anchor: str, title: str, traced: Sequence[Traced], records: Sequence[Record]) -> Origin:
    keys = [key for key in RECORD_KEYS if any(key in record.keys for record in records)]
    rows = tuple(
        (
            record.id,
            record.source.name,
            repr(record.value) if record.value is not None else f"none: {record.reason}",
            *(shown(record.keys[key]) if key in record.keys else "" for key in keys),
            "" if record.coverage is None else repr(record.coverage),
        )
        for record in records
    )
    columns = ("record", "run", "value", *keys, "coverage")
    return Origin(anchor, title, tuple(one.address for one in traced), columns, rows)


def _table_notes(
    spec: Aggregation, rows: Sequence[Row], sources: Sequence[Source]
) -> tuple[str, ...]:
    over = f"; means are over {', '.join(spec.across)}" if spec.across else ""
    notes = [f"n is the number of metric records{over}."]
    if "ci" in spec.statistics:
        notes.append(f"ci is a t interval at level {spec.level}.")
    is_spread = {"ci", "se"} & set(spec.statistics)
    blocks = [block.used for row in rows for block in row.blocks]
    if is_spread and _has_clusters(blocks):
        notes.append(CLUSTERED)
    n_empty = sum(len(block.empty) for row in rows for block in row.blocks)
    if n_empty:
        what = "record has no value and is" if n_empty == 1 else "records have no value and are"
        notes.append(f"{n_empty} {what} left out: n_null in summary.csv.")
    if spec.allow:
        notes.append(f"Allowed inside a cell: {', '.join(spec.allow).replace('_', ' ')}.")
    return (*notes, *_origin_notes(sources))


def _has_clusters(cells: Sequence[Sequence[Record]]) -> bool:
    """Whether a number rests on several records of one of several runs."""
    return any(1 < len({r.source.label for r in records}) < len(records) for records in cells)


def _origin_notes(sources: Sequence[Source]) -> list[str]:
    return [f"Answers: {text}" for text in answered_by(sources)]


def answered_by(sources: Sequence[Source]) -> list[str]:
    """Who answered, each once."""
    return list(dict.fromkeys(source.answered_by for source in sources))
