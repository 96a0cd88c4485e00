"""What ``quorum inspect`` shows of a run: tables of plain cells, for a terminal and for a page.

Only run.json and metrics.json are needed. Any other file may be missing, which is said; one that is
there and cannot be read is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from typing import cast

from quorum.errors import InputError
from quorum.pipeline.runs import Run
from quorum.report.charts import percent
from quorum.report.document import Attribution, read_attribution
from quorum.report.reconstruction_document import read_diagnostics
from quorum.report.reconstruction_records import Diagnostics, Target

Cell = str | int | float | None
Row = dict[str, Cell]
MAX_ROWS = 40  # of one table; the rest is counted
LABELS = {
    "attribution": "Model-generated replies, and what changed them.",
    "reconstruction": "Model-generated answers, weighted to match a population's shares.",
    "simulation": "Synthetic worlds whose truth is known. No person and no model answered.",
}
# what each study writes besides the files of every run; any of it may be missing
EXPECTED: dict[str, tuple[str, ...]] = {
    "attribution": ("attributions.jsonl", "payoffs.csv", "generations", "players.jsonl"),
    "reconstruction": ("diagnostics.json", "responses.csv", "weights.csv", "generations"),
    "simulation": ("simulation_aggregate.csv", "simulation_summary.json", "grid.csv"),
}
_ALWAYS = ("config.resolved.yaml", "metrics.csv", "usage.json", "budget.json")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a title, all with the same columns."""

    title: str
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """A run, ready to be shown.

    Args:
        title: What the run is about.
        label: What its answers are, in a sentence.
        facts: Name and value of what identifies it.
        tables: Numbers, study by study.
        notes: What a reader must know.
        missing: Files that such a run has as a rule, and this one has not.
    """

    title: str
    label: str
    facts: tuple[tuple[str, str], ...]
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = field(default=())


def inspect(run: Run) -> Inspection:
    """All that there is to say about a run.

    Raises:
        InputError: A file that is there cannot be used.
    """
    missing = [name for name in (*_ALWAYS, *EXPECTED[run.study]) if run.path(name) is None]
    label, tables, notes = _STUDIES[run.study](run)
    source = cast("Mapping[str, object]", run.record["input"])
    return Inspection(
        title=f"{run.study.capitalize()}: {source.get('title')}",
        label=label,
        facts=_facts(run),
        tables=tuple(t for t in (_scalars(run), *tables, _undefined(run), *_spent(run)) if t.rows),
        notes=tuple(notes),
        missing=tuple(missing),
    )


def _facts(run: Run) -> tuple[tuple[str, str], ...]:
    record = run.record
    model = record.get("model")
    found: list[tuple[str, object]] = [
        ("Run", run.name),
        ("Run id", run.run_id),
        ("Revision", run.revision),
        ("Study", run.study),
        ("Finished", record["finished"]),
        ("Stopped by", record.get("stop_reason")),
    ]
    if isinstance(model, Mapping):
        found += [("Backend", model.get("backend")), ("Model", model.get("model"))]
    source = cast("Mapping[str, object]", record["input"])
    found += [("Input", source.get("name")), ("Licence of the input", source.get("licence"))]
    found += [("Settings digest", record["settings_digest"]), ("Seed", record["seed"])]
    policies = record.get("policies")
    if isinstance(policies, Mapping):
        found += [(f"Policy: {key}", _shown(policies[key])) for key in sorted(policies)]
    versions = cast("Mapping[str, object]", record["versions"])
    found += [(key.capitalize(), versions.get(key)) for key in ("quorum", "python")]
    return tuple((name, str(value)) for name, value in found if value not in (None, ""))


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _scalars(run: Run) -> Table:
    rows = [{"scalar": key, "value": cast("Cell", run.scalars[key])} for key in sorted(run.scalars)]
    return Table("Numbers", tuple(rows))


def _undefined(run: Run) -> Table:
    """Metrics without a value, by the reason."""
    counts = Counter(
        (str(r["metric"]), str(r.get("reason") or "not recorded"))
        for r in run.records
        if r["value"] is None
    )
    rows: list[Row] = [
        {"metric": m, "reason": why, "records": n} for (m, why), n in sorted(counts.items())
    ]
    return Table("Undefined", *_first(rows))


def _spent(run: Run) -> list[Table]:
    """What this run's own calls took; nothing where it made none, or did not say."""
    usage = run.read_object("usage.json")
    total = usage.get("total") if usage is not None else None
    if not isinstance(total, Mapping):
        return []
    rows = [
        {"of this run's calls": str(key), "n": value}
        for key, value in sorted(total.items())
        if isinstance(value, int | float | str)
    ]
    return [Table("Usage", tuple(cast("list[Row]", rows)))]


def _first(rows: Sequence[Row]) -> tuple[tuple[Row, ...], str]:
    """The first rows, and how many more there are."""
    left = len(rows) - MAX_ROWS
    note = f"{left} more are in the run's own tables." if left > 0 else ""
    return tuple(rows[:MAX_ROWS]), note


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Errors about a file's content get the file's address."""
    try:
        yield
    except InputError as error:
        raise InputError(
            f"{where}: {error.where}",
            error.what,
            got=error.got,
            allowed=error.allowed,
            mend=error.mend or "Copy the run again, or run it again: dvc repro",
        ) from error


Shown = tuple[str, list[Table], list[str]]  # label, tables, notes


def attributions_of(run: Run) -> list[Attribution] | None:
    """The attributions; None where the run has no such file.

    Raises:
        InputError: One cannot be used.
    """
    rows = run.read_rows("attributions.jsonl")
    if rows is None:
        return None
    with placed(run.where("attributions.jsonl")):
        return [read_attribution(row) for row in rows]


def _attribution(run: Run) -> Shown:
    found = attributions_of(run)
    if found is None:
        return LABELS[run.study], [], []
    rows = [_snapshot_row(item) for item in found]
    notes = [f"{item.snapshot}: {note}" for item in found for note in item.notes]
    return LABELS[run.study], [Table("Snapshots", *_first(rows))], notes


def _snapshot_row(item: Attribution) -> Row:
    errors = [e for e in item.standard_errors if e is not None]
    best = item.ranking()[0] if item.players else None
    return {
        "snapshot": item.snapshot,
        "players": item.n_players,
        "coalitions": item.n_coalitions,
        "v(∅)": item.base_value,
        "v(N)": item.grand_value,
        "mean SE": fmean(errors) if errors else None,
        "first player": None if best is None else item.players[best].text,
        "its value": None if best is None else item.raw_values[best],
    }


def diagnostics_of(run: Run) -> Diagnostics | None:
    """The diagnostics of a reconstruction; None where the run has no such file.

    Raises:
        InputError: They cannot be used.
    """
    found = run.read_object("diagnostics.json")
    if found is None:
        return None
    with placed(run.where("diagnostics.json")):
        return read_diagnostics(found)


def _reconstruction(run: Run) -> Shown:
    found = diagnostics_of(run)
    if found is None:
        return LABELS[run.study], [], []
    fits = [_fit_row(target) for target in found.targets]
    paired: list[Row] = [
        {
            "target": target.name,
            "fit against": row.against,
            "split": row.split,
            "difference": row.difference,
            "low": row.low,
            "high": row.high,
            "verdict": row.verdict(),
        }
        for target in found.targets
        for row in target.paired
        if row.metric == "mse"
    ]
    lacking: list[Row] = [{"reason": why, "answers": n} for why, n in found.cleaning_counts]
    tables = [
        Table("Targets", *_first(fits)),
        Table("Fit minus baseline, mean squared error", *_first(paired)),
        Table("Answers that lack", *_first(lacking)),
    ]
    return found.label, tables, list(found.notes)


def _fit_row(target: Target) -> Row:
    def mse(split: str, source: str) -> float | None:
        record = target.record("mse", split, source)
        return None if record is None else record.value

    inside = target.test_coverage
    return {
        "target": target.name,
        "ensemble": target.fit.get("ensemble"),
        "active": target.fit.get("n_active"),
        "cv MSE": mse("cv", "fit"),
        "test MSE": mse("test", "fit"),
        "pool mean": mse("test", "pool_mean"),
        "uniform": mse("test", "uniform"),
        "in interval": None if inside is None else percent(inside),
    }


def _simulation(run: Run) -> Shown:
    rows = cast("list[Row]", run.read_table("simulation_aggregate.csv") or [])
    return LABELS[run.study], [Table("Cells", *_first(rows))], []


_STUDIES = {
    "attribution": _attribution,
    "reconstruction": _reconstruction,
    "simulation": _simulation,
}


def diagnostics_page(run: Run) -> str:
    """``diagnostics.html``: a reconstruction's own page where its file is there, else the summary.

    Raises:
        InputError: A file that is there cannot be used.
    """
    from quorum.report.inspection import inspection_page
    from quorum.report.reconstruction import reconstruction_pages

    diagnostics = run.read_object("diagnostics.json") if run.study == "reconstruction" else None
    if diagnostics is not None:
        facts = {"run_id": run.run_id, "finished": run.record["finished"]}
        with placed(run.where("diagnostics.json")):
            return reconstruction_pages(diagnostics, facts)["diagnostics.html"]
    found = inspect(run)
    return inspection_page(
        found.title,
        found.label,
        found.facts,
        [(table.title, table.rows, table.note) for table in found.tables],
        found.notes,
        found.missing,
    )
