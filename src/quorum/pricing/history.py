"""What earlier runs used, read from their ledgers: counts of calls and tokens, no prompt text."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from quorum.errors import InputError
from quorum.records import Usage

_COUNTS = (
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cache_write_tokens",
)
_NEEDED = ("time", "module", "backend", "model", "key", "finish_reason", "attempt", "status")


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One attempt of a run, as usage.csv tells it."""

    time: str
    module: str
    backend: str
    model: str
    key: str
    finish_reason: str
    attempt: int
    usage: Usage
    seconds: float = 0.0
    status: str = "ok"
    mode: str = "sync"


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """Two numbers of a request: length of its prompt (see ``text_length``), limit of its reply."""

    length: int
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class RunUsage:
    """What one kind of call used in one run: a row of budget_history.csv.

    Attributes:
        run: The run: the name of its folder.
        module: The kind of call.
        backend: Who answered.
        model: The model that answered.
        mode: sync or batch.
        n_requests: Distinct requests that were answered.
        n_calls: Rows with tokens: more than requests where something was paid for twice.
        n_failed: Attempts without a reply.
        input_tokens: Of all calls; so the other counts.
        input_variation: Standard deviation of a call's input over its mean; None below two calls.
        output_variation: The same of its output.
        length: Mean length of a prompt (see ``text_length``); None where it is not known.
        max_tokens: Mean limit of a reply; None likewise.
        seconds: Spent in calls, summed.
    """

    run: str
    module: str
    backend: str
    model: str
    mode: str
    n_requests: int
    n_calls: int
    n_failed: int
    input_tokens: int
    cached_input_tokens: int
    cache_write_tokens: int
    output_tokens: int
    reasoning_tokens: int
    input_variation: float | None = None
    output_variation: float | None = None
    length: float | None = None
    max_tokens: float | None = None
    seconds: float = 0.0


HISTORY_COLUMNS = tuple(field.name for field in fields(RunUsage))


def text_length(text: str) -> int:
    """Length of a prompt in UTF-8 bytes: characters of Latin text, three a Chinese character.

    A quarter of it is near the number of tokens in many scripts, where a quarter of the
    characters would be far too few.
    """
    return len(text.encode("utf-8", "surrogatepass"))


def read_usage(path: Path) -> tuple[UsageRow, ...]:
    """The rows of a ledger, also of one that is being written or has columns of older versions.

    Raises:
        InputError: It cannot be read, or a row is damaged; the line is named.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(path), f"cannot be read: {error}") from error
    if not text.endswith("\n"):
        text = text[: text.rfind("\n") + 1]  # the last row is torn, or on its way
    reader = csv.DictReader(io.StringIO(text, newline=""))
    lacking = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
    if lacking and text.strip():
        raise InputError(str(path), f"lacks the column {lacking[0]} of a usage ledger")
    return tuple(_row(cells, f"{path}, line {reader.line_num}") for cells in reader)


def read_history(
    folders: Iterable[Path], facts: Callable[[str], RequestFacts | None] | None = None
) -> tuple[RunUsage, ...]:
    """What the runs in these folders used, by module, model and mode; in order of run and module.

    A row that stands in several folders, such as a run's copy, counts once.

    Args:
        folders: Of runs; one without a usage.csv counts for nothing.
        facts: A request's key to what is known of it, usually from the store.

    Raises:
        InputError: A ledger cannot be read.
    """
    seen: set[UsageRow] = set()
    found: list[RunUsage] = []
    for folder in sorted(set(folders)):
        path = folder / "usage.csv"
        if not path.exists():
            continue
        groups: dict[tuple[str, str, str, str], list[UsageRow]] = {}
        for row in read_usage(path):
            if row not in seen:
                seen.add(row)
                groups.setdefault((row.module, row.backend, row.model, row.mode), []).append(row)
        used = (summarise(folder.name, groups[group], facts) for group in sorted(groups))
        found.extend(run for run in used if run is not None)
    return tuple(found)


def summarise(
    run: str,
    rows: Iterable[UsageRow],
    facts: Callable[[str], RequestFacts | None] | None = None,
) -> RunUsage | None:
    """What rows of one module, model and mode used; None if none of them has a reply."""
    rows = list(rows)
    paid = [row for row in rows if row.usage != Usage()]
    answered = {row.key for row in rows if row.status == "ok"}
    if not answered or not paid:
        return None
    known = [fact for key in answered if facts is not None and (fact := facts(key)) is not None]
    limits = [fact.max_tokens for fact in known if fact.max_tokens is not None]
    first = rows[0]
    return RunUsage(
        run=run,
        module=first.module,
        backend=first.backend,
        model=first.model,
        mode=first.mode,
        n_requests=len(answered),
        n_calls=len(paid),
        n_failed=sum(row.status == "failed" for row in rows),
        **{name: sum(getattr(row.usage, name) for row in paid) for name in _COUNTS},
        input_variation=_variation([row.usage.input_tokens for row in paid]),
        output_variation=_variation([row.usage.output_tokens for row in paid]),
        length=_mean([fact.length for fact in known]),
        max_tokens=_mean(limits),
        seconds=round(sum(row.seconds for row in rows), 6),
    )


def history_rows(runs: Iterable[RunUsage]) -> Iterator[dict[str, object]]:
    """Rows of budget_history.csv, with the columns ``HISTORY_COLUMNS``."""
    for run in runs:
        yield {name: getattr(run, name) for name in HISTORY_COLUMNS}


def _row(cells: Mapping[str, str | None], line: str) -> UsageRow:
    try:
        texts = {name: cells[name] or "" for name in _NEEDED if name != "attempt"}
        counts = {name: int(cells.get(name) or 0) for name in _COUNTS}
        seconds = float(cells.get("seconds") or 0.0)
        attempt = int(cells["attempt"] or 1)
    except (TypeError, ValueError) as error:
        raise InputError(line, f"is not a row of a usage ledger: {error}") from error
    if texts["status"] not in ("ok", "failed") or not math.isfinite(seconds):
        raise InputError(line, "is not a row of a usage ledger", got=texts["status"])
    return UsageRow(
        **texts,
        attempt=attempt,
        usage=Usage(**counts),
        seconds=seconds,
        mode=cells.get("mode") or "sync",
    )


def _mean(values: list[int]) -> float | None:
    return round(sum(values) / len(values), 6) if values else None


def _variation(values: list[int]) -> float | None:
    if len(values) < 2 or not sum(values):
        return None
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return round(spread / mean, 6)
