"""Drives a run's requests: by calls or in batches, with progress, under the run's caps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from quorum.backends.base import Backend
from quorum.config.view import RuntimeView
from quorum.errors import RefusedError, SettingsError
from quorum.pipeline.spending import mode_of
from quorum.records import Generation
from quorum.runtime.batch import (
    BatchBackend,
    BatchOptions,
    batch_folder,
    n_unfinished,
    run_batches,
)
from quorum.runtime.caps import Account
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import progress_for
from quorum.runtime.scheduler import Groups, Job, OnResult, RunStats, run_jobs
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
        on_pilot: Called once, after ``budget.pilot`` calls, to forecast again from them.
    """

    backend: Backend
    store: GenerationStore
    runtime: RuntimeView
    folder: Path
    spending: Account | None
    on_pilot: Callable[[], None] | None = None

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

        on_result = self._with_pilot(on_result)
        on_cap = cast("Literal['fail', 'partial']", self.runtime.caps["on_cap"])
        batches = batches_of(self.backend)
        if batches is None:
            self._refuse_unfinished_batches()

        async def run() -> RunStats:
            try:
                connection = getattr(self.backend, "connection", None)
                if connection is not None:
                    connection.client()  # the SDK's import is no part of the first call
                with progress_for(options.progress, label, n_jobs) as progress:
                    if note:
                        progress.note(note)
                    if batches is not None:
                        return await run_batches(
                            batches,
                            self.store,
                            groups,
                            on_result=on_result,
                            options=options,
                            ledger=ledger,
                            progress=progress,
                            spending=self.spending,
                            on_cap=on_cap,
                            batch=BatchOptions(poll_first_s=options.batch_poll_s),
                        )
                    return await run_jobs(
                        self.backend,
                        self.store,
                        groups,
                        on_result=on_result,
                        options=options,
                        ledger=ledger,
                        progress=progress,
                        spending=self.spending,
                        on_cap=on_cap,
                    )
            finally:
                await self.backend.close()

        return asyncio.run(run())

    def _refuse_unfinished_batches(self) -> None:
        """Calls would pay again for what a killed run still has in batches at the provider."""
        if not self.store.is_file or not self.backend.capabilities.batch:
            return
        n = n_unfinished(batch_folder(self.store), self.backend.target)
        if n:
            raise RefusedError(
                "backend.mode",
                f"{n} requests of a batch run that was cut off are still at the provider",
                got="sync",
                mend="Run once more with backend.mode: batch, which collects them, paid once",
            )

    def _with_pilot(self, on_result: OnResult) -> OnResult:
        """The same, and after the pilot's last call a new forecast."""
        n_pilot, on_pilot = cast("int", self.runtime.caps["pilot"]), self.on_pilot
        if n_pilot == 0 or on_pilot is None:
            return on_result
        left = n_pilot

        def counting(job: Job, generation: Generation, from_store: bool) -> Groups:  # noqa: FBT001
            nonlocal left
            left -= not from_store
            if left == 0:
                left = -1
                on_pilot()
            return on_result(job, generation, from_store)

        return counting


def batches_of(backend: Backend) -> BatchBackend | None:
    """The backend's batches, where its mode is ``batch``; else None.

    Raises:
        SettingsError: The server takes no batches.
    """
    if mode_of(backend) != "batch":
        return None
    if not backend.capabilities.batch:
        raise SettingsError(
            "backend.mode",
            "this server takes no batches",
            got="batch",
            allowed="sync",
            mend="Where it does, set backend.batch: true",
        )
    from quorum.backends.anthropic import Anthropic
    from quorum.backends.openai import OpenAI

    if isinstance(backend, OpenAI):
        from quorum.backends.openai_batch import OpenAIBatch

        return OpenAIBatch(backend)
    if isinstance(backend, Anthropic):
        from quorum.backends.anthropic_batch import AnthropicBatch

        return AnthropicBatch(backend)
    raise SettingsError("backend.mode", "no adapter for batches", got=backend.target.backend)
