"""The rows of batches in a ledger: one for each result, also where a crash came between."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from quorum.records import Generation, Target, Usage
from quorum.runtime.batch_journal import Line, Submission
from quorum.runtime.ledger import Call, UsageLedger

_NO_USAGE = Usage()


class BatchLedger:
    """Books results in the ledger of a run.

    Args:
        ledger: Where they go; None keeps no rows.
        target: Who answers.
    """

    def __init__(self, ledger: UsageLedger | None, target: Target) -> None:
        self._ledger = ledger
        self._target = target
        self._there: dict[str, set[tuple[str, int]]] = {}  # submission: rows that stand already

    @property
    def folder(self) -> Path | None:
        """The ledger's folder."""
        if self._ledger is None:
            return None
        return self._ledger._csv.parent.absolute()  # noqa: SLF001 - it has no public name yet

    def remember(self, submission: Submission) -> None:
        """Reads which results of a submission were booked before a crash, here or elsewhere.

        A key is in one submission at a time, so that a row of its attempt since the plan is it.
        """
        folders = {Path(name) for name in submission.ledgers}
        if self.folder is not None:
            folders.add(self.folder)
        since = datetime.fromtimestamp(submission.created, UTC).isoformat(timespec="milliseconds")
        self._there[submission.name] = {pair for f in folders for pair in _rows(f, since)}

    def book(
        self, submission: Submission, line: Line, generation: Generation | None, outcome: str
    ) -> None:
        """One row for a line; none where a process before us has written it.

        Raises:
            RefusedError: The ledger cannot be written.
        """
        is_there = (line.key, line.attempt) in self._there.get(submission.name, ())
        if self._ledger is None or is_there:
            return
        self._ledger.append(
            Call(
                module=line.module,
                backend=self._target.backend,
                model=self._target.model,
                key=line.key,
                sample=line.request.sample,
                finish_reason=outcome,
                attempt=line.attempt,
                usage=_NO_USAGE if generation is None else generation.usage,
                seconds=0.0,  # of its own; it waited with all the others
                status="failed" if generation is None else "ok",
                mode="batch",
            )
        )


def _rows(folder: Path, since: str) -> Iterable[tuple[str, int]]:
    """Key and attempt of the batch rows since a moment."""
    path = folder / "usage.csv"
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="") as file:
        rows: Iterable[Mapping[str, str]] = csv.DictReader(file)
        for row in rows:
            if row.get("mode") == "batch" and row["time"] >= since:
                yield row["key"], int(row["attempt"])
