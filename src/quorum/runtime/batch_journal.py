"""The journal of batches: what is about to be sent stands on the disk before it is sent.

One file for each submission, one JSON object a line: the plan with all requests, then what was
done, each step synced before the next one begins. The process that works on a submission holds the
file's lock; a file whose lock is free was left by a process that is gone, and whoever comes next
goes on with it. Where all results are in the store, a short record in ``done`` takes its place.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

from quorum.digests import canonical_json, text_digest
from quorum.errors import RefusedError
from quorum.records import Message, Request, Target
from quorum.runtime.accounts import Amount, Ticket

SCHEMA = 1
_ID_BYTES = 8
_SWEPT_AFTER_S = 3600.0
_KEY_DIGITS = 32  # of the key, in a custom id; 64 characters are allowed in all


@dataclass(frozen=True, slots=True)
class Line:
    """One request of a batch: its key, how it is booked, and which attempt this is."""

    key: str
    canonical: str
    module: str
    attempt: int = 1

    @property
    def request(self) -> Request:
        """The request, out of its canonical JSON."""
        fields = json.loads(self.canonical)
        return Request(
            messages=tuple(Message(role, content) for role, content in fields["messages"]),
            options=fields["options"],
            sample=fields["sample"],
            continuation=fields["continuation"],
            choices=tuple(fields["choices"]),
        )

    def custom_id(self, submission: str) -> str:
        """Its name within a submission, which no other submission uses again."""
        return f"{self.key[:_KEY_DIGITS]}-{submission}"


@dataclass(slots=True)
class Submission:
    """A batch from its plan to its last result.

    Attributes:
        name: Our name of it.
        lines: What is asked.
        tickets: Reservations by key.
        created: When it was planned (Unix time).
        began: When the server was about to be told; None before that.
        batch: The server's id; None as long as it is not known.
        ledgers: Folders of the ledgers in which its usage may stand already.
        account: The account that pays.
        before: Numbers of reservations for a key that were there before this submission's.
        is_adopted: Whether another process has begun it.
    """

    name: str
    lines: list[Line]
    created: float
    account: str = ""
    ledgers: tuple[str, ...] = ()
    tickets: dict[str, Ticket] = field(default_factory=dict)
    before: dict[str, list[int]] = field(default_factory=dict)
    began: float | None = None
    batch: str | None = None
    is_adopted: bool = False

    @property
    def by_custom_id(self) -> dict[str, Line]:
        """Its lines by their names at the provider."""
        return {line.custom_id(self.name): line for line in self.lines}


class Journal:
    """The submissions of all runs that use a folder, for one target.

    Args:
        folder: Where the files lie; beside the store, so that all who share it find them.
        target: Submissions to others are left alone.
    """

    def __init__(self, folder: Path, target: Target) -> None:
        self._folder = folder
        self._target = json.loads(
            canonical_json([target.backend, target.model, dict(target.identity)])
        )
        self._open: dict[str, int] = {}  # submission: the file that we hold the lock of
        self._foreign: dict[str, frozenset[str]] = {}  # keys of files that others hold

    # One submission

    def new_name(self) -> str:
        """A name for a submission that no other one has."""
        return secrets.token_hex(_ID_BYTES)

    def plan(
        self,
        name: str,
        lines: Sequence[Line],
        account: str,
        before: Mapping[str, list[int]],
        ledger: Path | None,
    ) -> Submission:
        """Writes a plan; nothing has been reserved or sent yet."""
        ledgers = () if ledger is None else (str(ledger.absolute()),)
        submission = Submission(
            name, list(lines), time.time(), account, ledgers, before=dict(before)
        )
        head = {
            "event": "plan",
            "schema": SCHEMA,
            "target": self._target,
            "created": submission.created,
            "account": account,
            "ledgers": ledgers,
            "before": before,
        }
        rows = [
            {"key": x.key, "module": x.module, "attempt": x.attempt, "canonical": x.canonical}
            for x in lines
        ]
        with self._guarded():
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._path(name)
            new = path.with_suffix(".new")
            file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            self._open[name] = file
            fcntl.flock(file, fcntl.LOCK_EX)
            _append(file, head, *rows)
            new.rename(path)
            self._sync_folder()
        return submission

    def reserved(self, submission: Submission, tickets: Mapping[str, Ticket]) -> None:
        """Which lines are sent, each with its reservation; the others are no part any more."""
        submission.tickets = dict(tickets)
        submission.lines = [line for line in submission.lines if line.key in tickets]
        rows = [[key, _packed(ticket)] for key, ticket in tickets.items()]
        self._add(submission, {"event": "reserved", "tickets": rows})

    def begin(self, submission: Submission) -> None:
        """From now on the server may know of it."""
        submission.began = time.time()
        self._add(submission, {"event": "begin", "at": submission.began})

    def submitted(self, submission: Submission, batch: str) -> None:
        """The server's id is known."""
        submission.batch = batch
        self._add(submission, {"event": "submitted", "batch": batch})

    def finish(self, submission: Submission, record: Mapping[str, object]) -> None:
        """All results are kept; a record of them takes the place of the journal."""
        path = self._folder / "done" / f"{submission.name}.json"
        text = json.dumps({"submission": submission.name, **record}, indent=1, ensure_ascii=False)
        with self._guarded():
            path.parent.mkdir(exist_ok=True)
            new = path.with_suffix(".new")
            new.write_bytes((text + "\n").encode("utf-8", "surrogatepass"))
            new.rename(path)
        self.drop(submission)

    def drop(self, submission: Submission) -> None:
        """Forgets a submission of which nothing was sent, or everything is kept."""
        with self._guarded():
            self._path(submission.name).unlink(missing_ok=True)
            os.close(self._open.pop(submission.name))

    # Those of others

    def adopt(self) -> list[Submission]:
        """Submissions that processes which are gone have left; ours from now on."""
        with self._guarded():
            for path in self._folder.glob("*.new"):
                self._sweep(path)
            found = [self._adopt(path) for path in sorted(self._folder.glob("*.jsonl"))]
        return [submission for submission in found if submission is not None]

    def foreign_keys(self) -> frozenset[str]:
        """Keys of submissions that other processes work on."""
        keys: set[str] = set()
        with self._guarded():
            names = {path.stem: path for path in self._folder.glob("*.jsonl")}
            for name, path in names.items():
                if name in self._open:
                    continue
                if name not in self._foreign:
                    _, rows, _ = _read(path)
                    self._foreign[name] = frozenset(row["key"] for row in rows)
                keys |= self._foreign[name]
        self._foreign = {name: held for name, held in self._foreign.items() if name in names}
        return frozenset(keys)

    def batches(self) -> frozenset[str]:
        """The server's ids of all submissions, done ones included."""
        with self._guarded():
            ids = {json.loads(p.read_bytes())["batch"] for p in self._done()}
            for path in self._folder.glob("*.jsonl"):
                ids |= {event["batch"] for event in _read(path)[2] if "batch" in event}
        return frozenset(i for i in ids if i)

    def path(self, submission: Submission) -> Path:
        """Where a submission is written down."""
        return self._path(submission.name)

    def close(self) -> None:
        """Frees the locks; what is not finished waits for the next run."""
        for file in self._open.values():
            os.close(file)
        self._open.clear()

    def _done(self) -> Iterator[Path]:
        return (self._folder / "done").glob("*.json")

    def _adopt(self, path: Path) -> Submission | None:
        if path.stem in self._open:
            return None
        file = _locked(path)
        if file is None:
            return None
        head, rows, events = _read(path)
        if head.get("target") != self._target:
            os.close(file)
            return None
        if head.get("schema") != SCHEMA:
            os.close(file)
            raise RefusedError(
                str(path),
                "is of another version",
                got=head.get("schema"),
                allowed=str(SCHEMA),
                mend="Use the release that wrote it",
            )
        os.ftruncate(file, _whole_bytes(path))
        self._open[path.stem] = file
        return _submission(path.stem, head, rows, events)

    def _sweep(self, path: Path) -> None:
        """Removes a plan that was cut off while it was written: nothing had been done for it."""
        if path.stem in self._open or (file := _locked(path)) is None:
            return
        if time.time() - os.fstat(file).st_mtime > _SWEPT_AFTER_S:  # else it may be just made
            path.unlink(missing_ok=True)
        os.close(file)

    def n_unfinished(self) -> int:
        """How many requests stand in submissions to this target that are not finished."""
        with self._guarded():
            found = [_read(path) for path in self._folder.glob("*.jsonl")]
        return sum(len(rows) for head, rows, _ in found if head.get("target") == self._target)

    # Files

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.jsonl"

    def _add(self, submission: Submission, event: Mapping[str, object]) -> None:
        with self._guarded():
            _append(self._open[submission.name], event)

    def _sync_folder(self) -> None:
        file = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def _guarded(self) -> _Guard:
        return _Guard(self._folder)


class _Guard:
    """Turns an error of the file system into one line that says what to do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raises the line."""
        if isinstance(error, OSError):
            raise RefusedError(
                str(self._folder),
                f"the journal of batches cannot be kept: {error}",
                mend="Free disk space and run the same command again: what is done is kept",
            ) from error


def _submission(
    name: str, head: Mapping[str, Any], rows: list[dict[str, Any]], events: list[dict[str, Any]]
) -> Submission:
    lines = [Line(r["key"], r["canonical"], r["module"], r["attempt"]) for r in rows]
    found = Submission(
        name,
        [line for line in lines if text_digest(line.canonical) == line.key],
        head["created"],
        head["account"],
        tuple(head["ledgers"]),
        before=head["before"],
        is_adopted=True,
    )
    for event in events:
        if event["event"] == "reserved":
            packed = dict(cast("list[tuple[str, Any]]", event["tickets"]))
            found.lines = [line for line in found.lines if line.key in packed]
            found.tickets = {k: _unpacked(k, found.account, row) for k, row in packed.items()}
        elif event["event"] == "begin":
            found.began = event["at"]
        elif event["event"] == "submitted":
            found.batch = event["batch"]
    return found


def _packed(ticket: Ticket) -> list[object]:
    amount = ticket.amount
    return [ticket.number, str(amount.usd), amount.calls, amount.tokens]


def _unpacked(key: str, account: str, row: Sequence[Any]) -> Ticket:
    number, usd, calls, tokens = row
    return Ticket(number, account, key, Amount(Decimal(usd), calls, tokens))


def with_attempt(line: Line, attempt: int) -> Line:
    """The line as another attempt."""
    return replace(line, attempt=attempt)


def _append(file: int, *rows: Mapping[str, object]) -> None:
    text = "".join(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n" for row in rows)
    content = memoryview(text.encode("ascii"))
    while content:
        content = content[os.write(file, content) :]
    os.fsync(file)


def _read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """Head, lines and events; a torn last line is left out: what it tells had not begun."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:  # finished meanwhile
        content = b""
    rows = [json.loads(line) for line in content.split(b"\n")[:-1]]
    head = rows[0] if rows else {}
    lines = [row for row in rows if "event" not in row]
    return head, lines, [row for row in rows[1:] if "event" in row]


def _whole_bytes(path: Path) -> int:
    return path.read_bytes().rfind(b"\n") + 1


def _locked(path: Path) -> int | None:
    """The file with its lock; None where another one holds it or it has gone."""
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
            return file
    except BlockingIOError:
        pass
    os.close(file)
    return None
