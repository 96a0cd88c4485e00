"""Rows of the first table: records in groups, and what each group says of each metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quorum.config.aggregation import Aggregation, Metric, Scalar
from quorum.pipeline.aggregation.mixing import Finding, Rules, check_mixing
from quorum.pipeline.aggregation.records import Record, order, selected, shown
from quorum.pipeline.aggregation.statistics import Statistics, statistics

ALL = "all"  # the only row where nothing is grouped by


@dataclass(frozen=True, slots=True)
class Block:
    """A group's records of one metric.

    Args:
        metric: Which.
        used: Records with a value.
        empty: Records without one: left out of every statistic but counted.
        statistics: Of the values.
    """

    metric: Metric
    used: tuple[Record, ...]
    empty: tuple[Record, ...]
    statistics: Statistics


@dataclass(frozen=True, slots=True)
class Row:
    """A group: the values that it has in common, and a block a metric."""

    keys: tuple[str, ...]
    values: tuple[Scalar, ...]
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        """``budget.fraction=0.1, estimator=mc``; ``all`` without a key."""
        return group_name(self.keys, self.values)


def group_name(keys: Sequence[str], values: Sequence[Scalar]) -> str:
    """A group in words."""
    pairs = zip(keys, values, strict=True)
    return ", ".join(f"{key}={shown(value)}" for key, value in pairs) or ALL


def make_rows(
    spec: Aggregation, records: Sequence[Record], where: str
) -> tuple[list[Row], list[Finding]]:
    """All rows, sorted by their values (numbers as numbers), and the ledger of what was checked.

    Raises:
        InputError: No record has a metric.
        RefusedError: A cell would mix what does not belong together.
    """
    rules = Rules(spec.across, spec.allow)
    of_metric = [
        selected(records, metric, f"{where}: metrics[{index}]")
        for index, metric in enumerate(spec.metrics)
    ]
    groups = grouped([record for found in of_metric for record in found], spec.group_by)
    by_metric = [grouped(found, spec.group_by) for found in of_metric]
    rows: list[Row] = []
    findings: list[Finding] = []
    for values in groups:
        blocks = []
        name = group_name(spec.group_by, values)
        for metric, found in zip(spec.metrics, by_metric, strict=True):
            own = found.get(values, [])
            used = tuple(record for record in own if record.value is not None)
            empty = tuple(record for record in own if record.value is None)
            place = f"{where}: {name}, {metric.label}"
            findings += check_mixing(used, rules, place) if used else []
            if empty:
                reasons = " | ".join(sorted({str(record.reason) for record in empty}))
                detail = f"{place}: {len(empty)} of {len(own)} records: {reasons}"
                findings.append(Finding("", "records have a value", "left out", detail))
            blocks.append(Block(metric, used, empty, _statistics(used, spec.level)))
        rows.append(Row(spec.group_by, values, tuple(blocks)))
    return rows, findings


def grouped(
    records: Sequence[Record], keys: Sequence[str]
) -> dict[tuple[Scalar, ...], list[Record]]:
    """Records by the values of keys, in the order of the values."""
    found: dict[tuple[Scalar, ...], list[Record]] = {}
    for record in records:
        found.setdefault(tuple(record.key(key) for key in keys), []).append(record)
    return {
        values: found[values]
        for values in sorted(found, key=lambda values: tuple(map(order, values)))
    }


def _statistics(used: Sequence[Record], level: float) -> Statistics:
    values = [record.value for record in used if record.value is not None]
    return statistics(values, len({record.source.label for record in used}), level)
