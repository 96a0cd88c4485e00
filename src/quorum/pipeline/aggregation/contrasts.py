"""Paired differences of a metric between two values of a key: n pairs, mean, spread, t interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quorum.config.aggregation import RECORD_KEYS, Aggregation, Contrast, Scalar
from quorum.errors import InputError, RefusedError
from quorum.pipeline.aggregation.cells import group_name, grouped
from quorum.pipeline.aggregation.mixing import Finding, Rules, check_mixing, compared_keys
from quorum.pipeline.aggregation.records import Record, distinct, is_same, selected, shown
from quorum.pipeline.aggregation.statistics import Number, Statistics, statistics

NO_PAIR = "no pair has both values"


@dataclass(frozen=True, slots=True)
class Difference:
    """A contrast in one group.

    Args:
        contrast: Which.
        group: The group in words.
        pairs: Records of the first and the second side, both with a value.
        empty: Pairs of which one has no value or both have none.
        unpaired: Records without a partner, of the first and of the second side.
        statistics: Of first minus second.
    """

    contrast: Contrast
    group: str
    pairs: tuple[tuple[Record, Record], ...]
    empty: tuple[tuple[Record, Record], ...]
    unpaired: tuple[tuple[Record, ...], tuple[Record, ...]]
    statistics: Statistics

    @property
    def name(self) -> str:
        """``estimator: mc − exact``."""
        first, second = shown(self.contrast.first), shown(self.contrast.second)
        return f"{self.contrast.key}: {first} − {second}"


def make_differences(
    spec: Aggregation, records: Sequence[Record], where: str
) -> tuple[list[Difference], list[Finding]]:
    """All contrasts in all groups, and the ledger of what was checked and left out.

    A contrast's groups are those of ``group_by`` but for its own key and what it is paired by.

    Raises:
        InputError: A side has no record.
        RefusedError: A pair is not unique, or would mix what does not belong together.
    """
    differences: list[Difference] = []
    findings: list[Finding] = []
    for index, contrast in enumerate(spec.contrasts):
        place = f"{where}: contrasts[{index}]"
        found = selected(records, contrast.metric, f"{place}.metric")
        _check_sides(found, contrast, place)
        own = {contrast.key, *contrast.paired_by}
        keys = tuple(key for key in spec.group_by if key not in own)
        rules = Rules((*spec.across, contrast.key, *contrast.paired_by), spec.allow)
        for values, members in grouped(found, keys).items():
            group = group_name(keys, values)
            one = _difference(contrast, group, members, spec.level, f"{place}: {group}")
            if not any((one.pairs, one.empty, *one.unpaired)):
                continue  # the group has neither side
            differences.append(one)
            used = [record for pair in one.pairs for record in pair]
            findings += check_mixing(used, rules, f"{place}: {group}") if used else []
            findings.append(_ledger(one, f"{place}: {group}"))
    return differences, findings


def _check_sides(found: Sequence[Record], contrast: Contrast, place: str) -> None:
    for side in (contrast.first, contrast.second):
        if not any(is_same(record.key(contrast.key), side) for record in found):
            raise InputError(
                f"{place}.between.{contrast.key}",
                f"no record of {contrast.metric.name} has this value",
                got=side,
                allowed=" | ".join(distinct(record.key(contrast.key) for record in found)),
            )


def _difference(
    contrast: Contrast, group: str, members: Sequence[Record], level: float, place: str
) -> Difference:
    sides = [
        _by_pair(members, contrast, value, place) for value in (contrast.first, contrast.second)
    ]
    first, second = sides
    both = [(first[key], second[key]) for key in first if key in second]
    pairs = tuple(p for p in both if p[0].value is not None and p[1].value is not None)
    differences = [
        one.value - other.value
        for one, other in pairs
        if one.value is not None and other.value is not None
    ]
    n_runs = len({record.source.label for pair in pairs for record in pair})
    found = statistics(differences, n_runs, level)
    if not pairs:
        found = {
            name: Number(None, NO_PAIR) if number.value is None else number
            for name, number in found.items()
        }
    return Difference(
        contrast=contrast,
        group=group,
        pairs=pairs,
        empty=tuple(p for p in both if p[0].value is None or p[1].value is None),
        unpaired=(
            tuple(record for key, record in first.items() if key not in second),
            tuple(record for key, record in second.items() if key not in first),
        ),
        statistics=found,
    )


def _by_pair(
    members: Iterable[Record], contrast: Contrast, side: Scalar, place: str
) -> dict[tuple[Scalar, ...], Record]:
    found: dict[tuple[Scalar, ...], Record] = {}
    for record in members:
        if not is_same(record.key(contrast.key), side):
            continue
        key = tuple(record.key(name) for name in contrast.paired_by)
        if key in found:
            raise RefusedError(
                f"{place}: {contrast.key}={shown(side)}",
                f"{found[key].id} and {record.id} have the same "
                f"{group_name(contrast.paired_by, key)}, so pairs are not unique",
                mend=f"Put what tells them apart into paired_by: {_apart(found[key], record)}",
            )
        found[key] = record
    return found


def _apart(one: Record, other: Record) -> str:
    """Keys in which two records differ."""
    keys = [*RECORD_KEYS, *compared_keys([one.source, other.source])]
    found = [key for key in keys if not is_same(one.key(key), other.key(key))]
    return ", ".join(found[:4]) or "run"


def _ledger(one: Difference, place: str) -> Finding:
    n_first, n_second = map(len, one.unpaired)
    detail = (
        f"{place}: pairs: {len(one.pairs)}; without a value: {len(one.empty)}; records without a "
        f"partner: {n_first} of the first and {n_second} of the second side"
    )
    is_whole = not (n_first or n_second or one.empty)
    return Finding("", "pairs are complete", "ok" if is_whole else "left out", detail)
