"""The batch endpoints of OpenAI and Anthropic, on a ``ProviderStub``, which count lines.

``BatchStub(provider)`` adds them. A line's fate is scripted by ``answer``: a ``Reply``, a
``Failure`` (an error line), or ``EXPIRED``. A batch ends after it was looked at, or listed,
``n_polls`` times.
``submitted`` holds every line that ever came in a batch: what a provider would charge for.
"""

from __future__ import annotations

import email
import email.policy
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qs

from provider_stub import (
    Failure,
    Json,
    ProviderStub,
    Raw,
    Reply,
    Seen,
    anthropic_body,
    chat_body,
    failure_body,
    responses_body,
)

EXPIRED = "expired"
Fate = Reply | Failure | str
OPENAI = "/v1/batches"
ANTHROPIC = "/v1/messages/batches"


@dataclass
class Batch:
    """A batch: its lines as they came, and how often it was looked at."""

    id: str
    lines: list[Json]
    created: float
    metadata: dict[str, str] = field(default_factory=dict)
    endpoint: str = ""
    error: Json | None = None  # OpenAI: fails at its validation
    n_polls: int = 0
    fates: list[Fate] | None = None
    is_hidden: bool = False  # not in lists yet


class BatchStub:
    """Batches of both providers.

    Attributes:
        answer: Fate of a line, given the text of its last message and how many lines with this
            text came before.
        n_polls: Looks at a batch until it has ended.
        n_lost: How many of the next creates work, but lose their answer.
        refusals: What the next creates get instead of a batch.
        failures: Errors (code, message) with which the next OpenAI batches fail as a whole.
        reverses: Results come in the reverse order.
        is_slow_to_list: New batches are missing in lists, until it is set to False.
    """

    def __init__(self, provider: ProviderStub) -> None:
        self.answer: Callable[[str, int], Fate] = lambda text, n: Reply(f"re: {text}")
        self.n_polls = 1
        self.n_lost = 0
        self.refusals: list[Failure] = []
        self.failures: list[tuple[str, str]] = []
        self.reverses = True
        self.is_slow_to_list = False
        self.files: dict[str, bytes] = {}
        self.batches: list[Batch] = []
        self.charged = 0  # replies that were made
        self._lock = threading.RLock()
        self._served: dict[str, int] = {}
        for method, path, step in (
            ("POST", "/v1/files", self._upload),
            ("GET", "/v1/files/", self._content),
            ("POST", OPENAI, self._create),
            ("GET", OPENAI, self._get),
            ("POST", ANTHROPIC, self._create),
            ("GET", ANTHROPIC, self._get),
        ):
            provider.route(method, path, self._locked(step))

    @property
    def submitted(self) -> list[str]:
        """Texts of all lines in batches that were not turned away, in order."""
        return [text_of(line) for b in self.batches if b.error is None for line in b.lines]

    def _locked(self, step: Callable[[Seen], Raw | Failure | Reply]) -> Callable[[Seen], object]:
        def answer(seen: Seen) -> object:
            with self._lock:
                return step(seen)

        return answer

    # Endpoints

    def _upload(self, seen: Seen) -> Raw:
        head = f"Content-Type: {seen.headers['content-type']}\r\n\r\n".encode()
        message = email.message_from_bytes(head + seen.raw, policy=email.policy.HTTP)
        for part in message.iter_parts():
            if part.get_param("name", header="content-disposition") == "file":
                name = f"file-{len(self.files)}"
                self.files[name] = part.get_payload(decode=True)
                return Raw({"id": name, "object": "file", "purpose": "batch", "bytes": 1,
                            "created_at": 1, "filename": "f", "status": "processed"})  # fmt: skip
        return Raw(failure_body(Failure(400), is_anthropic=False), 400)

    def _content(self, seen: Seen) -> Raw:
        name = seen.path.split("/")[3]
        return Raw(self.files[name], headers={"content-type": "application/octet-stream"})

    def _create(self, seen: Seen) -> Raw | Failure | Reply:
        if self.refusals:
            return self._in_shape(self.refusals.pop(0), seen)
        is_openai = seen.path == OPENAI
        body = seen.body
        if is_openai:
            raw = self.files[body["input_file_id"]]
            lines = [json.loads(line) for line in raw.split(b"\n") if line]
        else:
            lines = body["requests"]
        assert len({line["custom_id"] for line in lines}) == len(lines)
        batch = Batch(
            f"batch_{len(self.batches)}",
            lines,
            time.time(),
            body.get("metadata") or {},
            body.get("endpoint", ""),
            is_hidden=self.is_slow_to_list,
        )
        if is_openai and self.failures:
            code, message = self.failures.pop(0)
            batch.error = {"code": code, "message": message, "line": None, "param": None}
        self.batches.append(batch)
        if self.n_lost:
            self.n_lost -= 1
            return Failure(is_dropped=True)
        return Raw(self._shown(batch, is_openai))

    def _get(self, seen: Seen) -> Raw:
        is_openai = not seen.path.startswith(ANTHROPIC)
        rest = seen.path.removeprefix(OPENAI if is_openai else ANTHROPIC).strip("/").split("/")
        if rest == [""]:
            return self._list(seen, is_openai)
        batch = next(b for b in self.batches if b.id == rest[0])
        if rest[1:] == ["results"]:
            return Raw(self._results(batch, is_openai), headers={"content-type": "binary/jsonl"})
        batch.n_polls += 1
        self._end(batch)
        return Raw(self._shown(batch, is_openai))

    def _list(self, seen: Seen, is_openai: bool) -> Raw:
        query = parse_qs(seen.query)
        for batch in self.batches:
            batch.n_polls += 1
            self._end(batch)
        rows = [b for b in reversed(self.batches) if not (self.is_slow_to_list and b.is_hidden)]
        after = query.get("after", query.get("after_id"))
        if after:
            rows = rows[[b.id for b in rows].index(after[0]) + 1 :]
        limit = min(int(query["limit"][0]), 3)  # small pages, so that paging is tested
        page = [self._shown(b, is_openai) for b in rows[:limit]]
        return Raw({"data": page, "has_more": len(rows) > limit, "object": "list"})

    # What a batch is

    def _end(self, batch: Batch) -> None:
        if batch.fates is not None or batch.n_polls < self.n_polls or batch.error:
            return
        batch.fates = []
        for line in batch.lines:
            text = text_of(line)
            n = self._served.get(text, 0)
            self._served[text] = n + 1
            fate = self.answer(text, n)
            self.charged += isinstance(fate, Reply)
            batch.fates.append(fate)

    def _shown(self, batch: Batch, is_openai: bool) -> Json:
        fates, n = batch.fates, len(batch.lines)
        n_ok = sum(isinstance(fate, Reply) for fate in fates or ())
        created = datetime.fromtimestamp(batch.created, UTC).isoformat()
        if not is_openai:
            counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
            counts["processing"] = 0 if fates else n
            counts["succeeded"] = n_ok
            counts["expired"] = sum(fate == EXPIRED for fate in fates or ())
            counts["errored"] = sum(isinstance(fate, Failure) for fate in fates or ())
            return {
                "id": batch.id,
                "type": "message_batch",
                "processing_status": "ended" if fates else "in_progress",
                "request_counts": counts,
                "created_at": created,
                "results_url": f"http://elsewhere.invalid/{batch.id}" if fates else None,
            }
        is_expired = fates is not None and EXPIRED in fates
        status = "in_progress" if fates is None else "expired" if is_expired else "completed"
        files: dict[str, str | None] = {"output_file_id": None, "error_file_id": None}
        if fates is not None:
            for name, is_error in (("output_file_id", False), ("error_file_id", True)):
                content = self._results(batch, is_openai, is_error)
                if content:
                    files[name] = f"{batch.id}-{name}"
                    self.files[f"{batch.id}-{name}"] = content
        return {
            "id": batch.id,
            "object": "batch",
            "status": "failed" if batch.error else status,
            "errors": {"object": "list", "data": [batch.error]} if batch.error else None,
            "endpoint": batch.endpoint,
            "metadata": batch.metadata or None,
            "created_at": int(batch.created),
            "request_counts": {"total": n, "completed": n_ok, "failed": n - n_ok},
            **files,
        }

    def _results(self, batch: Batch, is_openai: bool, is_error: bool = False) -> bytes:
        rows = []
        for i, (line, fate) in enumerate(zip(batch.lines, batch.fates or (), strict=True)):
            row = _openai_row(line, fate, i) if is_openai else _anthropic_row(line, fate, i)
            if not is_openai or is_error != isinstance(fate, Reply):
                rows.append(json.dumps(row).encode() + b"\n")
        return b"".join(reversed(rows) if self.reverses else rows)

    @staticmethod
    def _in_shape(failure: Failure, seen: Seen) -> Raw | Failure:
        if failure.is_dropped:
            return failure
        body = failure_body(failure, is_anthropic=seen.path == ANTHROPIC)
        return Raw(body, failure.status, failure.headers)


def text_of(line: Json) -> str:
    """Text of a line's last message."""
    body = line.get("body") or line.get("params")
    return (body.get("messages") or body["input"])[-1]["content"]


def _openai_row(line: Json, fate: Fate, i: int) -> Json:
    row: Json = {"id": f"r-{line['custom_id']}", "custom_id": line["custom_id"]}
    if isinstance(fate, Reply):
        shape = responses_body if line["url"].endswith("/responses") else chat_body
        body = shape(fate, line["body"], i)
        return {**row, "response": {"status_code": 200, "body": body}, "error": None}
    if isinstance(fate, Failure):
        body = failure_body(fate, is_anthropic=False)
        return {**row, "response": {"status_code": fate.status, "body": body}, "error": None}
    error = {"code": "batch_expired", "message": "This request could not be executed in time."}
    return {**row, "response": None, "error": error}


def _anthropic_row(line: Json, fate: Fate, i: int) -> Json:
    if isinstance(fate, Reply):
        result: Json = {"type": "succeeded", "message": anthropic_body(fate, line["params"], i)}
    elif isinstance(fate, Failure):
        result = {"type": "errored", "error": failure_body(fate, is_anthropic=True)}
    else:
        result = {"type": "expired"}
    return {"custom_id": line["custom_id"], "result": result}
