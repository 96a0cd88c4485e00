"""``quorum aggregate``: from a specification to a folder of tables, or to one error and nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quorum.config.aggregation import Aggregation, read_aggregation
from quorum.pipeline.aggregation.cells import make_rows
from quorum.pipeline.aggregation.contrasts import make_differences
from quorum.pipeline.aggregation.files import Result, texts
from quorum.pipeline.aggregation.folder import check_target, write_folder
from quorum.pipeline.aggregation.layout import contrast_layout, table_layout
from quorum.pipeline.aggregation.mixing import Finding
from quorum.pipeline.aggregation.records import Filtered, check_key, filtered, known_keys
from quorum.pipeline.aggregation.sources import Source, read_sources


@dataclass(frozen=True, slots=True)
class Aggregated:
    """What was written, and where."""

    folder: Path
    names: tuple[str, ...]
    result: Result


def aggregate(path: Path, to: Path | None, project: Path | None) -> Aggregated:
    """Carries out a specification.

    Args:
        path: Its YAML file.
        to: The folder for the tables; None: tables/<name of the file> of the project, or of the
            current folder outside of one.
        project: The project's folder; None outside of one.

    Raises:
        SettingsError: The specification is wrong.
        InputError: A run is missing or broken, or no record is left.
        RefusedError: Runs or records would be mixed, or something else overwritten.
    """
    spec = read_aggregation(path)
    folder = (to or (project or Path.cwd()) / "tables" / path.stem).resolve()
    check_target(folder, ())
    sources = read_sources(spec.inputs, project, path.name)
    check_target(folder, {place for source in sources for place in source.folders})
    result = aggregated(spec, sources, path.name)
    files = texts(result, path.stem)
    write_folder(folder, files)
    return Aggregated(folder, tuple(files), result)


def aggregated(spec: Aggregation, sources: Sequence[Source], where: str) -> Result:
    """The rows, differences and tables of a specification.

    Raises:
        SettingsError: A key is unknown.
        InputError: No record is left.
        RefusedError: A cell would mix what does not belong together.
    """
    found = filtered(sources, spec.filters, where)
    known = known_keys(found.sources, found.records)
    for name, keys in (("group_by", spec.group_by), ("across", spec.across)):
        for key in keys:
            check_key(f"{where}: {name}", key, known)
    for index, contrast in enumerate(spec.contrasts):
        for key in (contrast.key, *contrast.paired_by):
            check_key(f"{where}: contrasts[{index}]", key, known)
    rows, of_rows = make_rows(spec, found.records, where)
    differences, of_differences = make_differences(spec, found.records, where)
    return Result(
        spec=spec,
        sources=sources,
        filtered=found,
        rows=rows,
        differences=differences,
        findings=[
            *_of_runs(sources, found),
            *(  # a ledger says nothing of the file's name
                dataclasses.replace(one, detail=one.detail.removeprefix(f"{where}: "))
                for one in (*of_rows, *of_differences)
            ),
        ],
        table=table_layout(spec, rows, found.sources),
        contrasts=contrast_layout(spec, differences, found.sources),
    )


def _of_runs(sources: Sequence[Source], found: Filtered) -> list[Finding]:
    """What holds of every run that was read, and what filters left out."""
    findings = []
    for source in sources:
        label = source.label
        n = len(source.records)
        findings += [
            Finding(label, "record and metrics are of one run", "ok", source.run_id),
            Finding(label, "values are numbers or null with a reason", "ok", f"records: {n}"),
            Finding(label, "no other input is the same run", "ok", source.name),
        ]
        if label in found.left_out:
            findings.append(Finding(label, "filters", "left out", found.left_out[label]))
        elif found.n_dropped[label]:
            detail = f"records: {found.n_dropped[label]}"
            findings.append(Finding(label, "filters", "left out", detail))
    for name in ("quorum", "numpy", "scipy"):
        versions = sorted({str(source.versions.get(name)) for source in found.sources})
        outcome = "ok" if len(versions) == 1 else "differs"
        findings.append(Finding("", f"one version of {name}", outcome, " | ".join(versions)))
    return findings
