"""Batches on their way: planned, reserved, sent, looked up, polled, and their results kept.

The order of the steps is what makes a crash harmless. Before the server is told of a batch, the
journal names it; a batch whose ``create`` has no known end is looked up before its requests are
sent again; and a result is booked in the ledger, then settled, then in the store, so that what the
store has is booked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from quorum.errors import BackendError, QuorumError, RejectedError, TransientBackendError
from quorum.records import Generation
from quorum.runtime.batch_journal import Journal, Line, Submission, with_attempt
from quorum.runtime.batch_ledger import BatchLedger
from quorum.runtime.batch_port import BatchBackend, BatchOptions, LineResult
from quorum.runtime.batch_reserve import Reserved, Reserver
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import Progress
from quorum.runtime.store import GenerationStore

_TURNED_AWAY = ("rate_limit", "overloaded")  # kinds of errors after which nothing was begun
_GONE = "the server answered 404"
_BREATH = 256  # results between two looks at Ctrl-C


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of lines that were to be sent: those put back, and what stood in the way."""

    rest: list[Line] = field(default_factory=list)
    reserved: Reserved = field(default_factory=Reserved)
    was_sent: bool = False


@dataclass(slots=True)
class Listener:
    """What a run is told: a reply, a line to try again (and why), a failure for good."""

    reply: Callable[[str, Generation], None]
    again: Callable[[Line, TransientBackendError], None]
    failure: Callable[[Line | None, BackendError], None]


class Flights:
    """The batches that one run has at the provider.

    Attributes:
        active: Submissions whose results are not all kept yet.
        n_calls: Lines that were answered.
        n_retries: Lines that were sent another time.
        is_full: Whether the provider's queue takes no more until a batch has ended.
    """

    def __init__(
        self,
        backend: BatchBackend,
        store: GenerationStore,
        journal: Journal,
        options: RuntimeOptions,
        batch: BatchOptions,
        ledger: UsageLedger | None,
        reserver: Reserver,
        progress: Progress,
        listener: Listener,
    ) -> None:
        self.active: list[Submission] = []
        self.n_calls = 0
        self.n_retries = 0
        self.is_full = False
        self._backend = backend
        self._target = backend.target
        self._store = store
        self._journal = journal
        self._options = options
        self._batch = batch
        self._books = BatchLedger(ledger, backend.target)
        self._reserver = reserver
        self._progress = progress
        self._tell = listener
        self._n_done: dict[str, int] = {}
        most = backend.max_requests
        self._max_requests = min(batch.max_requests or most, most)

    @property
    def max_requests(self) -> int:
        """The most lines of one batch."""
        return self._max_requests

    @property
    def keys(self) -> set[str]:
        """Keys of all requests on their way."""
        return {line.key for submission in self.active for line in submission.lines}

    # What others have left

    def adopt(self) -> list[str]:
        """Goes on with submissions of processes that are gone; returns their keys."""
        found: list[str] = []
        for submission in self._journal.adopt():
            if submission.began is None:  # the server never heard of it
                self._reserver.free(submission)
                self._journal.drop(submission)
                continue
            keys = [line.key for line in submission.lines]
            if len(self._store.contains_many(keys)) == len(keys):  # hence booked, too
                self._journal.drop(submission)
                continue
            self._books.remember(submission)
            self.active.append(submission)
            found += keys
            self._progress.note(f"goes on with a batch of {len(submission.lines)} requests")
        return found

    # Sending

    async def submit(self, lines: Sequence[Line]) -> Sent:
        """Sends as many of the lines as one batch takes and the cap has room for.

        Raises:
            RefusedError: The journal or the store cannot be written.
        """
        name = self._journal.new_name()
        chosen, data, rest = self._choose(name, lines)
        if not chosen:
            return Sent(rest)
        before = self._reserver.before(chosen)
        submission = self._journal.plan(
            name, chosen, self._reserver.account, before, self._books.folder
        )
        reserved = Reserved()
        if self._reserver.is_needed:
            reserved = await self._reserver.reserve(chosen)
            if not reserved.tickets:
                self._journal.drop(submission)
                return Sent([*chosen, *rest], reserved)
            self._journal.reserved(submission, reserved.tickets)
            rest = [line for line in chosen if line.key not in reserved.tickets] + rest
        data = [data[i] for i, line in enumerate(chosen) if self._is_part(line, reserved)]
        return Sent(rest, reserved, was_sent=await self._send(submission, data))

    def _is_part(self, line: Line, reserved: Reserved) -> bool:
        return not self._reserver.is_needed or line.key in reserved.tickets

    def _choose(
        self, name: str, lines: Sequence[Line]
    ) -> tuple[list[Line], list[bytes], list[Line]]:
        """The lines of one batch, as they are sent, and the others."""
        limit = min(self._batch.max_bytes or self._backend.max_bytes, self._backend.max_bytes)
        chosen: list[Line] = []
        data: list[bytes] = []
        n_bytes = 0
        for i, line in enumerate(lines):
            try:
                row = self._backend.line(line.request, line.custom_id(name))
            except BackendError as error:
                self._tell.failure(line, error)
                continue
            if len(row) > limit:
                what = f"one request takes {len(row):,} bytes, a batch {limit:,}"
                too_long = BackendError(self._target.backend, what, mend="Shorten the prompt")
                self._tell.failure(line, too_long)
                continue
            if n_bytes + len(row) > limit or len(chosen) == self.max_requests:
                return chosen, data, list(lines[i:])
            n_bytes += len(row)
            chosen.append(line)
            data.append(row)
        return chosen, data, []

    async def _send(self, submission: Submission, data: list[bytes]) -> bool:
        """Uploads and starts a batch; whether the server has it, or may have it."""
        backend, name = self._backend, submission.name
        try:
            async with self._transfer():
                upload = await backend.upload(data, name)
            self._journal.begin(submission)
            self.active.append(submission)
            async with self._transfer():
                batch = await backend.create(upload, data, name)
        except TransientBackendError as error:
            if submission.began is None or error.kind in _TURNED_AWAY:
                self._give_back(submission, error)
                return False
            self._progress.note(f"{error.what}; looks whether the batch has arrived")
            return True
        except BackendError as error:
            if submission.began is None or isinstance(error, RejectedError):
                self._give_back(submission, None)
            else:  # it is looked up by the next run
                self.active.remove(submission)
            self._tell.failure(None, error)
            return False
        except QuorumError:  # such as a key that is not set: nothing was sent
            if submission.began is None:
                self._give_back(submission, None)
            raise
        self._journal.submitted(submission, batch)
        self.n_retries += sum(line.attempt > 1 for line in submission.lines)
        self._progress.note(f"batch {batch}: {len(submission.lines)} requests")
        return True

    def _transfer(self) -> _Limit:
        return _Limit(self._target.backend, self._batch.transfer_timeout_s)

    def _give_back(
        self,
        submission: Submission,
        error: TransientBackendError | None,
        *,
        keeps_full: bool = False,
    ) -> None:
        """Nothing of it was begun: frees its reservations; its lines may be sent again."""
        self._reserver.free(submission)
        self._journal.drop(submission)
        if submission in self.active:
            self.active.remove(submission)
        self.is_full &= keeps_full
        if error is not None:
            for line in submission.lines:
                self._tell.again(line, error)

    # Waiting

    async def poll(self) -> tuple[bool, TransientBackendError | None]:
        """Looks at each batch once; whether anything has moved, and what failed for now.

        Raises:
            BackendError: The provider does not let us look.
        """
        has_moved, trouble = False, None
        for submission in list(self.active):
            try:
                look = self._look_up if submission.batch is None else self._look_at
                has_moved |= await look(submission)
            except TransientBackendError as error:
                trouble = error
            except BackendError as error:
                raise self._if_gone(submission, error) from None
        return has_moved, trouble

    def _if_gone(self, submission: Submission, error: BackendError) -> BackendError:
        """The error, with a way on where the provider no longer knows the batch or its files."""
        if not error.what.startswith(_GONE):
            return error
        path = self._journal.path(submission)
        mend = f"Where batch {submission.batch} is gone for good: delete {path}, and run the same "
        return BackendError(
            error.where, error.what, mend=f"{mend}command again: its requests are paid for again"
        )

    async def _look_up(self, submission: Submission) -> bool:
        """Whether a batch whose ``create`` had no known end is there."""
        began = cast("float", submission.began)
        async with self._transfer():
            found = await self._backend.find(
                submission.name, len(submission.lines), began, self._journal.batches()
            )
        if found.batch is not None:
            self._journal.submitted(submission, found.batch)
            return True
        if found.is_sure and time.time() >= began + self._batch.grace_s:
            what = "a batch did not arrive"
            self._give_back(submission, TransientBackendError(self._target.backend, what))
            return True
        return False

    async def _look_at(self, submission: Submission) -> bool:
        batch = cast("str", submission.batch)
        async with _Limit(self._target.backend, self._options.timeout_s):
            status = await self._backend.status(batch)
        if status.error is not None:
            self._turned_away(submission, status.error)
            return True
        if status.is_ended:
            requests = {name: line.request for name, line in submission.by_custom_id.items()}
            async with self._transfer():
                results = await self._backend.results(batch, requests)
            await self._keep(submission, results)
            return True
        has_moved = status.n_done != self._n_done.get(submission.name, 0)
        self._n_done[submission.name] = status.n_done
        return has_moved

    def _turned_away(self, submission: Submission, error: BackendError) -> None:
        if isinstance(error, TransientBackendError):
            if len(self.active) > 1:  # waits for the others, which is no attempt
                self.is_full = True
                submission.lines = [with_attempt(x, x.attempt - 1) for x in submission.lines]
            else:
                self._max_requests = max(1, len(submission.lines) // 2)
            self._give_back(submission, error, keeps_full=True)
        else:
            self._give_back(submission, None)
            self._tell.failure(None, error)

    # Results

    async def _keep(self, submission: Submission, results: Iterable[LineResult]) -> None:
        """Books and keeps every result; a line without one counts as failed, for now."""
        lines = submission.by_custom_id
        errors: list[dict[str, str]] = []
        for number, result in enumerate(results):
            line = lines.pop(result.custom_id, None)
            if line is None:
                continue
            if result.error is not None:
                errors.append({"custom_id": result.custom_id, "error": result.error.what})
            self._take(submission, line, result)
            if number % _BREATH == _BREATH - 1:
                await asyncio.sleep(0)
        for custom_id, line in lines.items():
            error = TransientBackendError(self._target.backend, "a batch left a request out")
            errors.append({"custom_id": custom_id, "error": error.what})
            self._lose(submission, line, error, "missing", is_charged=True)
        self.active.remove(submission)
        self.is_full = False
        n_lines = len(submission.lines)
        record = {"batch": submission.batch, "created": submission.created, "ended": time.time()}
        self._journal.finish(submission, {**record, "lines": n_lines, "errors": errors})
        self._progress.note(f"batch {submission.batch}: {n_lines - len(errors)} replies")

    def _take(self, submission: Submission, line: Line, result: LineResult) -> None:
        generation = result.generation
        if generation is None:
            assert result.error is not None
            self._lose(submission, line, result.error, result.outcome, result.is_charged)
            return
        kept = self._store.get(line.key) if submission.is_adopted else None
        if kept is None:
            self._books.book(submission, line, generation, result.outcome)
        self._reserver.settle(submission, line, generation.usage, result.outcome)
        if kept is None and not self._store.put(line.key, line.canonical, generation):
            kept = self._store.get(line.key)
        self.n_calls += 1
        self._tell.reply(line.key, kept or generation)

    def _lose(
        self,
        submission: Submission,
        line: Line,
        error: BackendError,
        outcome: str,
        is_charged: bool,  # noqa: FBT001
    ) -> None:
        self._books.book(submission, line, None, outcome)
        end = "server" if is_charged else "rejected"
        self._reserver.settle(submission, line, None, end)
        if isinstance(error, TransientBackendError):
            self._tell.again(line, error)
        else:
            self._tell.failure(line, error)


class _Limit:
    """A time limit whose passing counts as an error that may pass."""

    def __init__(self, where: str, seconds: float) -> None:
        self._where = where
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            await self._timeout.__aexit__(type(error) if error else None, error, None)
        except TimeoutError:
            what = f"no reply within {self._seconds:g} s"
            raise TransientBackendError(self._where, what, kind="timeout") from None
