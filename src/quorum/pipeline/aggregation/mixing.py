"""What may stand in one cell: nothing is averaged over without being named.

Units, policies, coverage and studies differ inside a cell only where ``allow`` says so; any other
key only where it is in ``across``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quorum.config.aggregation import GOVERNED, RECORD_KEYS
from quorum.errors import RefusedError
from quorum.pipeline.aggregation.records import Record, distinct
from quorum.pipeline.aggregation.sources import DESCRIPTIONS, IDENTITY, Source

MAX_SHOWN = 4  # values or keys that an error or a ledger names


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the ledger of checks: ``ok``, ``averaged``, ``allowed``, ``left out``, ``differs``.

    ``run`` is a run's label, empty for what is about a cell.
    """

    run: str
    check: str
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class Rules:
    """What may differ.

    Args:
        across: Keys whose values may differ, each with all keys below it.
        allow: Of ``mixed_units``, ``mixed_policies``, ``mixed_coverage``, ``mixed_studies``.
    """

    across: tuple[str, ...]
    allow: tuple[str, ...]

    def covers(self, key: str) -> bool:
        """Whether the key, or one above it, is in ``across``."""
        return any(key == one or key.startswith(f"{one}.") for one in self.across)


def check_mixing(records: Sequence[Record], rules: Rules, where: str) -> list[Finding]:
    """Refuses records that do not belong into one mean.

    Args:
        records: Those with a value.
        rules: What may differ.
        where: The cell, for errors and the ledger.

    Returns:
        What differs and was allowed to; one finding ``ok`` where nothing does.

    Raises:
        RefusedError: Something else differs.
    """
    found = [
        *_governed(records, rules, where),
        *_record_keys(records, rules, where),
        *_settings(_sources(records), rules, where),
    ]
    return found or [Finding("", "one kind in a cell", "ok", f"{where}: records: {len(records)}")]


def _governed(records: Sequence[Record], rules: Rules, where: str) -> Iterable[Finding]:
    values = {
        "unit": distinct(record.keys.get("unit") for record in records),
        "policy": distinct(record.keys.get("policy") for record in records),
        "coverage": distinct(record.coverage for record in records),
        "study": distinct(record.source.study for record in records),
    }
    for key, found in values.items():
        if len(found) < 2:
            continue
        name = GOVERNED[key].replace("_", " ")
        if GOVERNED[key] not in rules.allow:
            raise RefusedError(
                where,
                f"would average over {name}",
                got=_listed(found),
                allowed=f"one {key} in a cell",
                mend=f"{_narrower(key)}, or put {GOVERNED[key]} into allow",
            )
        yield Finding("", name, "allowed", f"{where}: {_listed(found)}")


def _narrower(key: str) -> str:
    if key in RECORD_KEYS:
        return f"Name one with the metric ({{name: …, {key}: …}}), group by {key}"
    return f"Group by {key}" if key == "study" else "Filter on what has the same coverage"


def _record_keys(records: Sequence[Record], rules: Rules, where: str) -> Iterable[Finding]:
    for key in RECORD_KEYS:
        found = distinct(record.keys.get(key) for record in records)
        if key not in GOVERNED and len(found) > 1:
            yield _averaged(key, found, rules, where, f"name one with the metric ({key}: …)")


def _settings(sources: Sequence[Source], rules: Rules, where: str) -> Iterable[Finding]:
    by_study: dict[str, list[Source]] = {}
    for source in sources:  # of different studies, which mixed_studies allows, no key compares
        by_study.setdefault(source.study, []).append(source)
    for group in by_study.values():
        for key in compared_keys(group):
            found = distinct(source.parameters.get(key) for source in group)
            if len(found) > 1:
                yield _averaged(key, found, rules, where, "filter on it")
        yield from _repeats(group, rules, where)


def compared_keys(sources: Sequence[Source]) -> list[str]:
    """Settings that tell runs apart, of all these runs."""
    keys = {key for source in sources for key in source.parameters}
    return sorted(keys - {*IDENTITY, *DESCRIPTIONS, "study", "study.name"})


def _repeats(sources: Sequence[Source], rules: Rules, where: str) -> Iterable[Finding]:
    """Runs with all settings alike, such as one by another version of the code."""
    keys = compared_keys(sources)
    seen: dict[tuple[object, ...], Source] = {}
    for source in sources:
        values = tuple(source.parameters.get(key) for key in keys)
        if values in seen:
            names = [seen[values].name, source.name]
            yield _averaged("run", names, rules, where, "leave one out")
            return
        seen[values] = source


def _averaged(key: str, found: Sequence[str], rules: Rules, where: str, narrower: str) -> Finding:
    if not rules.covers(key):
        raise RefusedError(
            where,
            f"would average over {key}",
            got=_listed(found),
            allowed=f"one {key} in a cell",
            mend=f"Group by {key}, {narrower}, or put {key} into across",
        )
    return Finding("", f"across {key}", "averaged", f"{where}: {_listed(found)}")


def _sources(records: Sequence[Record]) -> list[Source]:
    return list({record.source.label: record.source for record in records}.values())


def _listed(found: Sequence[str]) -> str:
    more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
    return " | ".join(found[:MAX_SHOWN]) + more
