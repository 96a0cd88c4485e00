"""Drives a run's requests: by calls or in batches, with progress, under the run's caps."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from quorum.backends.base import Backend
from quorum.config.view import RuntimeView
from quorum.runtime.caps import Account
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import progress_for
from quorum.runtime.scheduler import Groups, OnResult, RunStats, run_jobs
from quorum.runtime.store import GenerationStore


@dataclass(frozen=True, slots=True)
class Driver:
    """What the requests of a run go through.

    Args:
        backend: Who answers; closed at the end.
        store: Where replies are looked up and kept.
        runtime: How the run is carried out.
        folder: The run's folder beside the store: ledger, checkpoint, journal of batches.
        spending: The account that calls are booked in; None where nothing is capped.
    """

    backend: Backend
    store: GenerationStore
    runtime: RuntimeView
    folder: Path
    spending: Account | None

    def drive(
        self,
        groups: Groups,
        on_result: OnResult,
        *,
        label: str,
        n_jobs: int,
        ledger: UsageLedger | None,
        note: str = "",
    ) -> RunStats:
        """Answers all jobs; see `quorum.runtime.scheduler.run_jobs`.

        Args:
            groups: What is asked first.
            on_result: Takes a reply, and says what follows from it.
            label: What is being done, for the display.
            n_jobs: How many jobs there will be.
            ledger: Gets a row for each call.
            note: Something to say at the start; empty for nothing.
        """
        options = RuntimeOptions(**cast("dict[str, Any]", self.runtime.options))

        async def run() -> RunStats:
            try:
                with progress_for(options.progress, label, n_jobs) as progress:
                    if note:
                        progress.note(note)
                    return await run_jobs(
                        self.backend,
                        self.store,
                        groups,
                        on_result=on_result,
                        options=options,
                        ledger=ledger,
                        progress=progress,
                        spending=self.spending,
                        on_cap=cast("Literal['fail', 'partial']", self.runtime.caps["on_cap"]),
                    )
            finally:
                await self.backend.close()

        return asyncio.run(run())
