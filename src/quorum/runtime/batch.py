"""Batches: the requests of a run in files, answered within a day at a lower price.

``run_batches`` does what ``run_jobs`` does, with the same store, ledger and cap: what the store has
is delivered from there, equal requests share one line, and no two processes ask the same. What a
crash leaves at the provider is taken up by the next run that uses the same journal.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

from quorum.records import Target
from quorum.runtime.batch_flight import Flights, Listener
from quorum.runtime.batch_journal import Journal
from quorum.runtime.batch_port import BatchBackend, BatchOptions
from quorum.runtime.batch_reserve import Reserver
from quorum.runtime.batch_run import BatchRun
from quorum.runtime.caps import Spending
from quorum.runtime.interrupt import CtrlC
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import NoProgress, Progress
from quorum.runtime.scheduler import Groups, OnResult
from quorum.runtime.stats import RunStats
from quorum.runtime.store import GenerationStore

__all__ = ["BatchBackend", "BatchOptions", "batch_folder", "n_unfinished", "run_batches"]


def batch_folder(store: GenerationStore) -> Path:
    """Where the journal lies by default: beside the store, so that all who share it find it.

    Raises:
        ValueError: The store is kept in memory.
    """
    if store.path == ":memory:":
        raise ValueError("a store in memory has no folder beside it: name a journal_folder")
    return Path(f"{store.path}.batches")


def n_unfinished(folder: Path, target: Target) -> int:
    """Requests of a target that a run of batches has begun and not collected.

    Calls one by one do not know of them: before such a run on the same store, collect them.
    """
    return Journal(folder, target).n_unfinished()


async def run_batches(
    backend: BatchBackend,
    store: GenerationStore,
    groups: Groups,
    *,
    on_result: OnResult,
    options: RuntimeOptions,
    ledger: UsageLedger | None = None,
    spending: Spending | None = None,
    journal_folder: Path | None = None,
    progress: Progress | None = None,
    on_cap: Literal["fail", "partial"] = "fail",
    batch: BatchOptions | None = None,
) -> RunStats:
    """Answers all jobs, from the store where it can, else by batches.

    Args:
        backend: Who answers; the caller closes it.
        store: Where replies are looked up and kept.
        groups: Runs of jobs, pulled lazily, as many as one batch takes.
        on_result: Called in the event loop for every job with its reply and whether it came
            without a line of its own; may return further groups, which are the next batch.
        options: ``max_attempts``, ``timeout_s``, back-off and ``calls`` count here, too.
        ledger: Gets a row for each result, with mode ``batch``.
        spending: Is asked before each line is sent; its prices are those of batches.
        journal_folder: Where submissions are written down; all processes on one store should
            share it. None: ``batch_folder(store)``.
        progress: Is told of each job.
        on_cap: As in ``run_jobs``: ``fail`` raises when what is in flight is kept, ``partial``
            returns what there is.
        batch: Sizes and patience.

    Returns:
        Counts, times and token totals; ``busy_s`` is how long any batch was at the provider.

    Raises:
        QuorumError: The first failure for good, when all batches in flight are kept.
        RefusedError: ``options.calls`` is ``forbid`` and the store lacks a request, or the
            journal cannot be written.
        BudgetError: The cap is reached; it says what is done, what is left and how to go on.
        KeyboardInterrupt: Ctrl-C: batches go on at the provider; the next run collects them.
    """
    batch, progress = batch or BatchOptions(), progress or NoProgress()
    journal = Journal(journal_folder or batch_folder(store), backend.target)
    reserver = Reserver(spending, batch.stall_s)
    run = BatchRun(backend.target, store, on_result, options, batch, progress)
    run.flights = Flights(
        backend,
        store,
        journal,
        options,
        batch,
        ledger,
        reserver,
        progress,
        Listener(run.deliver, run.try_again, run.fail),
    )
    run.journal = journal
    loop = asyncio.get_running_loop()
    start = loop.time()
    me = asyncio.current_task()
    assert me is not None
    try:
        with CtrlC(run.stop.set, lambda: _cancel(me)) as ctrl_c:
            try:
                await run.work(groups)
            except asyncio.CancelledError:
                if not ctrl_c.n_signals:
                    raise
    finally:
        run.free()
        journal.close()
    if ctrl_c.n_signals:
        raise KeyboardInterrupt
    if run.error is not None:
        raise run.last_word(run.error)
    if run.cap is not None and on_cap == "fail":
        raise run.unfinished(run.cap) from run.cap
    return run.stats(loop.time() - start)


def _cancel(task: asyncio.Task[object]) -> None:
    task.cancel()
