"""The files of an aggregation, as texts: resolved specification, ledgers, rows, tables, trace."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quorum.config.aggregation import RECORD_KEYS, Aggregation, Input, Scalar, plain
from quorum.digests import text_digest
from quorum.pipeline.aggregation.cells import Row
from quorum.pipeline.aggregation.contrasts import Difference
from quorum.pipeline.aggregation.layout import Layout, answered_by
from quorum.pipeline.aggregation.mixing import Finding, compared_keys
from quorum.pipeline.aggregation.records import Filtered, Record, shown
from quorum.pipeline.aggregation.sources import FILES, IDENTITY, Source
from quorum.pipeline.aggregation.statistics import NAMES
from quorum.pipeline.artifacts import json_text
from quorum.pipeline.manifest import yaml_text
from quorum.report.aggregation import Listing, aggregation_page
from quorum.report.aggregation_tables import table_csv, tables_latex, tables_markdown
from quorum.report.tables import Cell, csv_text

SCHEMA = "quorum.aggregation/1"
TRACE = "trace.json"
SPECIFICATION = "specification.resolved.yaml"
TABLES = {"csv": "table.csv", "md": "table.md", "tex": "table.tex", "html": "table.html"}
NAMES_OF_FILES = (
    SPECIFICATION,
    "inputs.csv",
    "validation.csv",
    "runs.csv",
    "records.csv",
    "summary.csv",
    "contrasts.csv",
    *TABLES.values(),
    TRACE,
)
RECORD_COLUMNS = (
    *("record", "run", "run_id", "place", "metric", "value", "reason"),
    *RECORD_KEYS,
    "coverage",
)
INPUT_COLUMNS = (
    *("run", "name", "revision", "run_id", "study", "outcome", "reason"),
    *("n_records", "n_filtered", *FILES),
)
FINDING_COLUMNS = ("run", "check", "outcome", "detail")
RUN_COLUMNS = ("run", "name", "revision", "run_id", "study", "answered_by")


@dataclass(frozen=True, slots=True)
class Result:
    """An aggregation that was carried out.

    Args:
        spec: What was to be done.
        sources: All runs that were read.
        filtered: What filters left.
        rows: Of the first table.
        differences: Of the second.
        findings: The ledger of checks.
        table: The first table.
        contrasts: The second.
    """

    spec: Aggregation
    sources: Sequence[Source]
    filtered: Filtered
    rows: Sequence[Row]
    differences: Sequence[Difference]
    findings: Sequence[Finding]
    table: Layout
    contrasts: Layout

    @property
    def records(self) -> list[Record]:
        """Records behind any cell, in the order of runs."""
        used = {name for layout in (self.table, self.contrasts) for name in _named(layout)}
        return [record for record in self.filtered.records if record.id in used]


def _named(layout: Layout) -> set[str]:
    return {
        name for cell in layout.traced for name in (*cell.records, *cell.minus, *cell.without_value)
    }


def texts(result: Result, stem: str) -> dict[str, str]:
    """All files: name to text."""
    spec = result.spec
    files = {
        SPECIFICATION: yaml_text(_resolved(result)),
        "inputs.csv": csv_text(INPUT_COLUMNS, _input_rows(result)),
        "validation.csv": csv_text(FINDING_COLUMNS, map(dataclasses.asdict, result.findings)),
        "runs.csv": _runs_csv(result),
        "records.csv": csv_text(RECORD_COLUMNS, map(_record_row, result.records)),
        "summary.csv": _summary_csv(result),
        "contrasts.csv": table_csv(result.contrasts.table),
    }
    tables = [result.table.table, result.contrasts.table]
    if "csv" in spec.formats:
        files[TABLES["csv"]] = table_csv(tables[0])
    if "md" in spec.formats:
        files[TABLES["md"]] = tables_markdown(tables, spec.digits)
    if "tex" in spec.formats:
        files[TABLES["tex"]] = tables_latex(tables, spec.digits, stem)
    if "html" in spec.formats:
        files[TABLES["html"]] = _page(result)
    return {**files, TRACE: json_text(_trace(result, files))}


def _resolved(result: Result) -> dict[str, object]:
    """The specification with every default and every run: it can be carried out again."""
    inputs = tuple(
        Input("run", source.name, source.revision, source.run_id) for source in result.sources
    )
    return plain(dataclasses.replace(result.spec, inputs=inputs))


def _input_rows(result: Result) -> list[dict[str, Cell]]:
    rows: list[dict[str, Cell]] = []
    n_used = Counter(record.source.label for record in result.records)
    for source in result.sources:
        reason = result.filtered.left_out.get(source.label)
        rows.append(
            {
                "run": source.label,
                "name": source.name,
                "revision": source.revision,
                "run_id": source.run_id,
                "study": source.study,
                "outcome": "read" if reason is None else "left out",
                "reason": reason,
                "n_records": n_used[source.label],
                "n_filtered": result.filtered.n_dropped.get(source.label),
                **{name: source.digests.get(name) for name in FILES},
            }
        )
    return rows


def _runs_csv(result: Result) -> str:
    sources, spec = result.filtered.sources, result.spec
    keys = varying(sources)
    named = [*spec.group_by, *spec.across, *spec.filters, *(c.key for c in spec.contrasts)]
    for key in named:
        full = {source.full_key(key) for source in sources if source.parameter(key) is not None}
        keys += sorted(full - {*keys, *IDENTITY, "study"})
    scalars = list(
        dict.fromkeys(f"{source.study}.{name}" for source in sources for name in source.scalars)
    )
    rows = [
        {
            "run": source.label,
            "name": source.name,
            "revision": source.revision,
            "run_id": source.run_id,
            "study": source.study,
            "answered_by": source.answered_by,
            **{key: _cell(source.parameters.get(key)) for key in keys},
            **{name: _scalar(source, name) for name in scalars},
        }
        for source in sources
    ]
    return csv_text([*RUN_COLUMNS, *keys, *scalars], rows)


def varying(sources: Sequence[Source]) -> list[str]:
    """Settings in which the runs differ."""
    return [
        key
        for key in compared_keys(sources)
        if len({shown(source.parameters.get(key)) for source in sources}) > 1
    ]


def _scalar(source: Source, name: str) -> Cell:
    study, _, own = name.partition(".")
    value = source.scalars.get(own) if study == source.study else None
    assert value is None or isinstance(value, int | float)
    return value


def _cell(value: Scalar) -> Cell:
    return shown(value) if isinstance(value, bool) else value


def _record_row(record: Record) -> dict[str, Cell]:
    return {
        "record": record.id,
        "run": record.source.label,
        "run_id": record.source.run_id,
        "place": record.place,
        "metric": record.metric,
        "value": record.value,
        "reason": record.reason,
        **{key: _cell(record.keys.get(key)) for key in RECORD_KEYS},
        "coverage": record.coverage,
    }


def _summary_csv(result: Result) -> str:
    spec = result.spec
    keys = [f"group {key}" for key in spec.group_by]
    columns = ["row", *keys, "metric", "label", "units", "n_null", *NAMES, "level", "reason"]
    rows = []
    for row in result.rows:
        for block in row.blocks:
            numbers = block.statistics
            reasons = dict.fromkeys(number.reason for number in numbers.values() if number.reason)
            units = sorted({shown(record.keys.get("unit")) for record in block.used})
            rows.append(
                {
                    "row": row.name,
                    **{key: _cell(v) for key, v in zip(keys, row.values, strict=True)},
                    "metric": block.metric.name,
                    "label": block.metric.label,
                    "units": " | ".join(units),
                    "n_null": len(block.empty),
                    **{name: number.value for name, number in numbers.items()},
                    "level": spec.level,
                    "reason": "; ".join(reasons) or None,
                }
            )
    return csv_text(columns, rows)


def _page(result: Result) -> str:
    sources = result.filtered.sources
    keys = varying(sources)
    columns = ("run", "name", "commit", "run id", "study", *keys)
    runs = tuple(
        (
            source.label,
            source.name,
            (source.revision or "")[:10],
            source.run_id[:12],
            source.study,
            *(shown(source.parameters.get(key)) for key in keys),
        )
        for source in sources
    )
    checks = tuple((f.check, f.outcome, f.run, f.detail) for f in result.findings)
    return aggregation_page(
        result.spec.title,
        [result.table.table, result.contrasts.table],
        [result.table.origins, result.contrasts.origins],
        [
            Listing(f"Runs ({len(runs)})", columns, runs),
            Listing(f"Checks ({len(checks)})", ("check", "outcome", "run", "detail"), checks),
        ],
        answered_by(sources),
        is_model_generated=any(source.is_model_generated for source in sources),
        digits=result.spec.digits,
    )


def _trace(result: Result, files: Mapping[str, str]) -> dict[str, object]:
    run_of = {record.id: record.source.label for record in result.records}
    layouts = {"table": result.table, "contrasts": result.contrasts}
    return {
        "schema": SCHEMA,
        "title": result.spec.title,
        "level": result.spec.level,
        "digits": result.spec.digits,
        "runs": {
            source.label: {
                "name": source.name,
                "run_id": source.run_id,
                "revision": source.revision,
            }
            for source in result.filtered.sources
        },
        "files": {name: text_digest(text) for name, text in files.items()},
        **{
            name: {cell.address: _traced(dataclasses.asdict(cell), run_of) for cell in one.traced}
            for name, one in layouts.items()
        },
    }


def _traced(cell: dict[str, object], run_of: Mapping[str, str]) -> dict[str, object]:
    del cell["address"]
    named = [*_texts(cell["records"]), *_texts(cell["minus"])]
    return {**cell, "runs": list(dict.fromkeys(run_of[name] for name in named))}


def _texts(value: object) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value
