"""Anthropic's message batches: a list of requests, answered within a day at half the price.

Limits: 100,000 requests and 256 MB. A batch carries no metadata, so a submission is known by the
custom ids in its results, which can be read when it has ended. Lines that errored, expired or were
cancelled are not charged. Source: Anthropic, Batch processing; API reference, Message Batches.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Literal
from urllib.parse import quote, urlencode

from quorum.backends.anthropic import Anthropic
from quorum.backends.base import Capabilities
from quorum.backends.batch_lines import (
    BatchStatus,
    Found,
    LineResult,
    ask,
    encoded,
    failed,
    lines_of,
    replied,
    unanswered,
)
from quorum.backends.wire import Json
from quorum.records import Request, Target

PATH = "/v1/messages/batches"
_PAGE = 100
_CLOCK_S = 300.0  # how far the server's clock and ours may differ
_WINDOW_S = 7200.0  # a batch that was made so long after its create began is another one's


class AnthropicBatch:
    """The batches of an Anthropic backend; fulfils ``BatchBackend`` (runtime.batch_port).

    Args:
        backend: The backend whose requests are sent; the caller closes it.
    """

    max_requests = 100_000
    max_bytes = 250_000_000  # 256 MB with what is around the lines

    def __init__(self, backend: Anthropic) -> None:
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
        """One request, as JSON."""
        return encoded({"custom_id": custom_id, "params": self._backend.body(request)})

    async def upload(self, lines: Sequence[bytes], submission: str) -> str:
        """Nothing but a look whether we could: ``create`` sends the lines."""
        del lines, submission
        self._connection.client()
        return ""

    async def create(self, upload: str, lines: Sequence[bytes], submission: str) -> str:
        """Starts the batch; returns its id."""
        del upload, submission
        body: Json = {"requests": [json.loads(line) for line in lines]}
        return str((await self._ask("POST", PATH, body))["id"])

    async def find(
        self, submission: str, n_lines: int, since: float, known: AbstractSet[str]
    ) -> Found:
        """The batch whose results carry our custom ids.

        Batches of that time and size which have not ended may be it: then nothing is sure yet.
        """
        is_sure = True
        query: dict[str, object] = {"limit": _PAGE}
        while True:
            page = await self._ask("GET", f"{PATH}?{urlencode(query)}")
            rows = page.get("data") or []
            for row in rows:
                created = _unix(row.get("created_at"))
                fits = since - _CLOCK_S <= created <= since + _WINDOW_S
                if not fits or row["id"] in known or _n_requests(row) != n_lines:
                    continue
                if row.get("processing_status") != "ended":
                    is_sure = False
                elif await self._is_ours(row, submission):
                    return Found(str(row["id"]))
            is_older = rows and _unix(rows[-1].get("created_at")) < since - _CLOCK_S
            if not rows or is_older or not page.get("has_more"):
                return Found(None, is_sure)
            query["after_id"] = rows[-1]["id"]

    async def status(self, batch: str) -> BatchStatus:
        """How far a batch is."""
        found = await self._ask("GET", _path(batch))
        counts = found.get("request_counts") or {}
        n_done = sum(int(counts.get(k) or 0) for k in counts if k != "processing")
        return BatchStatus(found.get("processing_status") == "ended", n_done)

    async def results(self, batch: str, requests: Mapping[str, Request]) -> list[LineResult]:
        """The results, by custom id; the first one of an id counts."""
        results: dict[str, LineResult] = {}
        for row in await lines_of(
            self._connection, f"{_path(batch)}/results", self._backend.headers
        ):
            custom_id = str(row.get("custom_id"))
            if custom_id in requests and custom_id not in results:
                results[custom_id] = self._result(custom_id, row, requests[custom_id])
        return list(results.values())

    async def close(self) -> None:
        """Closes the backend; safe to call twice."""
        await self._backend.close()

    async def _ask(
        self, method: Literal["GET", "POST"], path: str, body: Json | None = None
    ) -> Json:
        return await ask(self._connection, method, path, body, self._backend.headers)

    async def _is_ours(self, row: Json, submission: str) -> bool:
        if not row.get("results_url"):  # archived: its results can no longer be read
            return False
        path = f"{_path(str(row['id']))}/results"
        lines = await lines_of(self._connection, path, self._backend.headers)
        return any(str(line.get("custom_id")).endswith(f"-{submission}") for line in lines)

    def _result(self, custom_id: str, row: Json, request: Request) -> LineResult:
        result = row.get("result") or {}
        kind = result.get("type")
        if kind == "succeeded" and isinstance(result.get("message"), dict):
            return replied(custom_id, result["message"], request, self._backend.read)
        if kind in ("expired", "canceled"):
            how = "expired" if kind == "expired" else "cancelled"
            return unanswered(self._connection, custom_id, how)
        error = result.get("error")
        inner = error.get("error", error) if isinstance(error, dict) else error
        code = inner.get("type") if isinstance(inner, dict) else None
        status = 400 if code == "invalid_request_error" else 500
        return failed(self._connection, custom_id, status, {"error": inner}, is_charged=False)


def _path(batch: str) -> str:
    return f"{PATH}/{quote(batch, safe='')}"


def _n_requests(row: Json) -> int:
    return sum(int(n or 0) for n in (row.get("request_counts") or {}).values())


def _unix(text: object) -> float:
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return 0.0
