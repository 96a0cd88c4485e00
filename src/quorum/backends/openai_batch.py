"""OpenAI's batches: a file of requests, answered within a day at half the price.

Limits: 50,000 requests and 200 MB a file; custom ids come back, in any order; lines with errors
stand in a file of their own, and what was done before a batch expired is kept (and charged).
Source: OpenAI, API reference, Batch and Files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast
from urllib.parse import quote, urlencode

from quorum.backends.base import Capabilities
from quorum.backends.batch_lines import (
    BatchStatus,
    Found,
    LineResult,
    ask,
    auth,
    cleaned,
    encoded,
    failed,
    guarded,
    lines_of,
    mends,
    replied,
    unanswered,
)
from quorum.backends.failures import failure_of
from quorum.backends.openai import WHERE, OpenAI
from quorum.backends.wire import Json
from quorum.errors import BackendError, RejectedError, TransientBackendError
from quorum.records import Request, Target

MARK = "quorum_submission"  # in a batch's metadata
_ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
_UNANSWERED = {"batch_expired": "expired", "batch_cancelled": "cancelled"}
_PAGE = 100
_CLOCK_S = 300.0  # how far the server's clock and ours may differ


class OpenAIBatch:
    """The batches of an OpenAI backend; fulfils ``BatchBackend`` (runtime.batch_port).

    Args:
        backend: The backend whose requests are sent; the caller closes it.
    """

    max_requests = 50_000
    max_bytes = 200_000_000

    def __init__(self, backend: OpenAI) -> None:
        self._backend = backend
        self._connection = backend.connection

    @property
    def target(self) -> Target:
        """That of single calls: a reply is the same whichever way it came."""
        return self._backend.target

    @property
    def capabilities(self) -> Capabilities:
        """That of single calls."""
        return self._backend.capabilities

    def line(self, request: Request, custom_id: str) -> bytes:
        """One line of the input file."""
        return encoded(
            {
                "custom_id": custom_id,
                "method": "POST",
                "url": f"/v1{self._backend.path}",
                "body": self._backend.body(request),
            }
        )

    async def upload(self, lines: Sequence[bytes], submission: str) -> str:
        """Uploads the input file, which costs nothing; returns its id."""
        name, content = f"quorum-{submission}.jsonl", b"".join(lines)

        async def create(client: Any) -> object:
            file = (name, content, "application/jsonl")
            headers = auth(self._connection) or None
            return await client.files.create(file=file, purpose="batch", extra_headers=headers)

        return str((await guarded(self._connection, create)).id)

    async def create(self, upload: str, lines: Sequence[bytes], submission: str) -> str:
        """Starts the batch; returns its id."""
        del lines
        body: Json = {
            "input_file_id": upload,
            "endpoint": f"/v1{self._backend.path}",
            "completion_window": "24h",
            "metadata": {MARK: submission},
        }
        return str((await ask(self._connection, "POST", "/batches", body))["id"])

    async def find(
        self, submission: str, n_lines: int, since: float, known: AbstractSet[str]
    ) -> Found:
        """The batch with our mark in its metadata; the list is gone through, newest first."""
        del n_lines, known
        query: dict[str, object] = {"limit": _PAGE}
        while True:
            page = await ask(self._connection, "GET", f"/batches?{urlencode(query)}")
            rows = _rows(page)
            for row in rows:
                if (row.get("metadata") or {}).get(MARK) == submission:
                    return Found(str(row["id"]))
            is_older = rows and float(rows[-1].get("created_at") or 0) < since - _CLOCK_S
            if not rows or is_older or not page.get("has_more"):
                return Found()
            query["after"] = rows[-1]["id"]

    async def status(self, batch: str) -> BatchStatus:
        """How far a batch is."""
        found = await self._retrieve(batch)
        counts = found.get("request_counts") or {}
        n_done = int(counts.get("completed") or 0) + int(counts.get("failed") or 0)
        status = found.get("status")
        return BatchStatus(
            status in _ENDED, n_done, self._failure(found) if status == "failed" else None
        )

    async def results(self, batch: str, requests: Mapping[str, Request]) -> list[LineResult]:
        """The lines of both files, by custom id; the first one of an id counts."""
        found = await self._retrieve(batch)
        results: dict[str, LineResult] = {}
        for name in ("output_file_id", "error_file_id"):
            if file := found.get(name):
                path = f"/files/{quote(str(file), safe='')}/content"
                for row in await lines_of(self._connection, path):
                    custom_id = str(row.get("custom_id"))
                    if custom_id in requests and custom_id not in results:
                        results[custom_id] = self._result(custom_id, row, requests[custom_id])
        if found.get("status") in ("expired", "cancelled"):
            for custom_id in requests.keys() - results.keys():
                results[custom_id] = unanswered(self._connection, custom_id, found["status"])
        return list(results.values())

    async def close(self) -> None:
        """Closes the backend; safe to call twice."""
        await self._backend.close()

    async def _retrieve(self, batch: str) -> Json:
        return await ask(self._connection, "GET", f"/batches/{quote(batch, safe='')}")

    def _failure(self, batch: Json) -> BackendError:
        """Why a batch was turned away as a whole, at its validation: nothing is charged."""
        errors = [e for e in _rows(batch.get("errors") or {}) if isinstance(e, dict)]
        first = errors[0] if errors else {"code": "", "message": "no reason given"}
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        error = cleaned(self._connection, 400, {"error": first})
        what = f"a batch was turned away: {error.code} {error.message}{more}"
        if error.code in ("token_limit_exceeded", "request_limit_exceeded"):  # of the queue
            return TransientBackendError(WHERE, what, kind="rate_limit")
        mend = failure_of(error, WHERE, mends(self._connection)).mend
        return RejectedError(WHERE, what, mend=mend)

    def _result(self, custom_id: str, row: Json, request: Request) -> LineResult:
        response, error = row.get("response"), row.get("error")
        status = int((response or {}).get("status_code") or 0)
        if isinstance(response, dict) and isinstance(response.get("body"), dict):
            if status == 200 and not response["body"].get("error"):
                return replied(custom_id, response["body"], request, self._backend.read)
            return failed(
                self._connection, custom_id, status, response["body"], is_charged=status >= 500
            )
        code = error.get("code") if isinstance(error, dict) else None
        if code in _UNANSWERED:
            return unanswered(self._connection, custom_id, _UNANSWERED[code])
        return failed(self._connection, custom_id, status or 500, {"error": error}, is_charged=True)


def _rows(page: Json) -> list[Json]:
    rows = page.get("data")
    return cast("list[Json]", rows) if isinstance(rows, list) else []
