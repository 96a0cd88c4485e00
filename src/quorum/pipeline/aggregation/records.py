"""Metric records of all runs: each with an id, its run and its place; filtered and selected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from quorum.config.aggregation import RECORD_KEYS, Metric, Scalar
from quorum.config.families import nearest
from quorum.errors import InputError, RefusedError, SettingsError
from quorum.pipeline.aggregation.sources import Source

SCALAR_UNIT = "run"  # the unit of a scalar: a number of the whole run


@dataclass(frozen=True, slots=True)
class Record:
    """A metric of a run.

    Args:
        id: ``<run label>.<number>``, the number being its place in metrics.json, from 0;
            ``<run label>.<name>`` for a scalar.
        source: Its run.
        place: Where it stands, for a reader.
        metric: Its name; a scalar's has its study before it: ``attribution.n_requests``.
        value: None with a reason where undefined.
        reason: Why undefined.
        keys: What else tells it apart; keys of ``RECORD_KEYS``.
        coverage: Share of what it needs that is known; None where it has none.
    """

    id: str
    source: Source
    place: str
    metric: str
    value: float | None
    reason: str | None
    keys: Mapping[str, Scalar]
    coverage: float | None

    def key(self, name: str) -> Scalar:
        """A key of the record, or a setting of its run; None where it has neither."""
        return self.keys.get(name) if name in RECORD_KEYS else self.source.parameter(name)


def records_of(source: Source) -> list[Record]:
    """All records of a run, and its scalars.

    Raises:
        InputError: A record has a field of the wrong type.
        RefusedError: Two records are the same but for their value.
    """
    found = [_record(source, index, row) for index, row in enumerate(source.records)]
    found += [
        Record(
            id=f"{source.label}.{name}",
            source=source,
            place=f"metrics.json {source.study}.{name}",
            metric=f"{source.study}.{name}",
            value=None if value is None else _number(f"{source.name}: metrics.json: {name}", value),
            reason="the run has no value" if value is None else None,
            keys={"unit": SCALAR_UNIT},
            coverage=None,
        )
        for name, value in source.scalars.items()
    ]
    seen: dict[object, Record] = {}
    for record in found:
        identity = (record.metric, *(record.keys.get(key) for key in RECORD_KEYS))
        if identity in seen:
            raise RefusedError(
                f"{source.name}: metrics.json",
                f"records {seen[identity].id} and {record.id} are the same metric of the same "
                "thing and would count twice",
                got=record.metric,
                mend="Run it again: dvc repro -f aggregate",
            )
        seen[identity] = record
    return found


def _record(source: Source, index: int, row: Mapping[str, object]) -> Record:
    where = f"{source.name}: metrics.json: records[{index}]"
    keys: dict[str, Scalar] = {}
    for key in RECORD_KEYS:
        value = row.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            raise InputError(f"{where}.{key}", "must be a text", got=value)
        keys[key] = value
    coverage, value, reason = row.get("coverage"), row["value"], row.get("reason")
    if coverage is not None and not _is_share(coverage):
        raise InputError(f"{where}.coverage", "must be a share, or null", got=coverage)
    return Record(
        id=f"{source.label}.{index}",
        source=source,
        place=f"metrics.json records[{index}]",
        metric=str(row["metric"]),
        value=None if value is None else _number(f"{where}.value", value),
        reason=None if value is not None else str(reason or "the run gives no reason"),
        keys=keys,
        coverage=None if coverage is None else _number(where, coverage),
    )


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _number(where: str, value: object) -> float:
    assert isinstance(value, int | float)
    try:
        return float(value)
    except OverflowError as error:
        raise InputError(where, "is too large for a number", got=value) from error


@dataclass(frozen=True, slots=True)
class Filtered:
    """What filters leave.

    Args:
        sources: Runs that are used.
        left_out: Label of a run that is not to why not.
        records: Records of the used runs.
        n_dropped: Records of used runs that filters left out, by run label.
    """

    sources: Sequence[Source]
    left_out: Mapping[str, str]
    records: Sequence[Record]
    n_dropped: Mapping[str, int]


def filtered(
    sources: Sequence[Source], filters: Mapping[str, Sequence[Scalar]], where: str
) -> Filtered:
    """Runs and records that match.

    Args:
        sources: All runs.
        filters: Key to allowed values.
        where: The specification, for errors.

    Raises:
        InputError: Nothing is left.
    """
    by_run = {source.label: records_of(source) for source in sources}
    known = known_keys(sources, [record for rows in by_run.values() for record in rows])
    for key in filters:
        check_key(f"{where}: filters", key, known)
    left_out = {}
    for source in sources:
        for key, allowed in filters.items():
            if key not in RECORD_KEYS and not _is_among(source.parameter(key), allowed):
                left_out[source.label] = f"{key} is {shown(source.parameter(key))}"
    of_records = {key: allowed for key, allowed in filters.items() if key in RECORD_KEYS}
    used = [source for source in sources if source.label not in left_out]
    kept = {
        source.label: [
            record
            for record in by_run[source.label]
            if all(_is_among(record.keys.get(key), among) for key, among in of_records.items())
        ]
        for source in used
    }
    records = [record for rows in kept.values() for record in rows]
    if not records:
        raise InputError(
            f"{where}: filters",
            f"no record of {len(sources)} runs is left",
            got={key: list(allowed) for key, allowed in filters.items()},
            mend="Loosen a filter",
        )
    n_dropped = {label: len(by_run[label]) - len(rows) for label, rows in kept.items()}
    return Filtered(used, left_out, records, n_dropped)


def selected(records: Sequence[Record], metric: Metric, where: str) -> list[Record]:
    """The records of a metric.

    Raises:
        InputError: There is none.
    """
    names = sorted({record.metric for record in records})
    if metric.name not in names:
        raise InputError(
            where,
            "no run has this metric",
            got=metric.name,
            allowed=", ".join(names),
            mend=nearest(metric.name, names),
        )
    found = [
        record
        for record in records
        if record.metric == metric.name
        and all(is_same(record.keys.get(key), value) for key, value in metric.where.items())
    ]
    if not found:
        named = [record for record in records if record.metric == metric.name]
        key = next(
            key
            for key, value in metric.where.items()
            if not any(is_same(record.keys.get(key), value) for record in named)
            or key == [*metric.where][-1]
        )
        raise InputError(
            where,
            f"no record of {metric.name} has these keys",
            got=dict(metric.where),
            allowed=f"{key}: " + " | ".join(distinct(record.keys.get(key) for record in named)),
        )
    return found


def known_keys(sources: Sequence[Source], records: Sequence[Record]) -> list[str]:
    """Keys that some run or record has, with the short ones."""
    known = {key for record in records for key in record.keys}
    for source in sources:
        known |= set(source.parameters)
        known |= {key.removesuffix(".name") for key in source.parameters if key.endswith(".name")}
    return sorted(known)


def check_key(where: str, key: str, known: Sequence[str]) -> None:
    """Refuses a key that nothing has.

    Raises:
        SettingsError: No run and no record has it.
    """
    if key not in known:
        raise SettingsError(
            where,
            "no run and no record has this key",
            got=key,
            allowed=f"settings of config.resolved.yaml with dots, or {', '.join(RECORD_KEYS)}",
            mend=nearest(key, list(known)),
        )


def is_same(one: Scalar, other: Scalar) -> bool:
    """Equality of values as YAML means it: true is not 1, 1 is 1.0."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _is_among(value: Scalar, allowed: Iterable[Scalar]) -> bool:
    return any(is_same(value, one) for one in allowed)


def shown(value: Scalar) -> str:
    """A value as YAML would write it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def distinct(values: Iterable[Scalar]) -> list[str]:
    """Distinct values as texts, sorted as rows are."""
    return [shown(value) for value in sorted(set(values), key=order)]


def order(value: Scalar) -> tuple[int, float, str]:
    """Sorts values: null, then numbers, then texts."""
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, str):
        return (2, 0.0, value)
    return (1, float(value), str(value))
