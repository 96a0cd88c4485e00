"""A provider on loopback that counts what arrives: OpenAI chat and responses, Anthropic messages.

``provider`` is a running ``ProviderStub``. What it answers is scripted request by request
(``script``), or by a function of the request (``answer``); the same ``Reply`` and ``Failure`` are
shown in the shape of whichever endpoint was called. ``seen`` holds every request that arrived, in
order, with its time and what it got. Further endpoints (batches, files) come in with ``route``.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Json = dict[str, Any]
TopLogprobs = Sequence[tuple[str, float]]
_HELD_S = 30.0  # a gate that nobody opens ends here, so that a failing test ends


@dataclass(frozen=True)
class Reply:
    """A reply, provider-neutral; tokens are counted as our own records count them.

    ``input_tokens`` is the total, ``cached_tokens`` and ``cache_write_tokens`` are disjoint parts
    of it; ``output_tokens`` includes ``reasoning_tokens``. ``top`` is the list of the likeliest
    first tokens with their log-probabilities; None sends no log-probabilities at all.
    ``finish_reason`` is stop, length, refusal or filter.
    """

    text: str = "ok"
    finish_reason: str = "stop"
    input_tokens: int = 10
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 2
    reasoning_tokens: int = 0
    top: TopLogprobs | None = None
    model: str | None = None  # as the provider names it; None repeats what was asked for
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    gate: threading.Event | None = None  # the reply is held until it is set
    is_lost: bool = False  # made and charged, but the connection drops before it is sent
    change: Callable[[Json], object] | None = None  # last word on the body, in place


@dataclass(frozen=True)
class Failure:
    """An error in the shape of the endpoint; ``is_dropped`` closes the connection instead."""

    status: int = 500
    code: str | None = None  # OpenAI's error.code, Anthropic's error.type where kind is not given
    message: str = "something failed"
    kind: str | None = None  # error.type
    headers: Mapping[str, str] = field(default_factory=dict)
    is_dropped: bool = False
    body: bytes | None = None  # instead of JSON in the usual shape
    delay_s: float = 0.0
    gate: threading.Event | None = None


@dataclass(frozen=True)
class Raw:
    """An answer as it is, for endpoints of ``route``."""

    body: bytes | Json = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Step = Reply | Failure | Raw


@dataclass
class Seen:
    """A request as it arrived, and what it got."""

    index: int
    method: str
    path: str
    query: str
    headers: dict[str, str]  # names in lower case
    raw: bytes
    at: float  # time.monotonic() of its arrival
    step: Step | None = None  # what it got; None while it is being answered
    is_delivered: bool = False  # the whole answer could be sent

    @property
    def body(self) -> Json:
        """The JSON that came."""
        return json.loads(self.raw or b"{}")

    @property
    def text(self) -> str:
        """Contents of all messages, the system's first, joined by newlines."""
        body = self.body
        parts = [body[name] for name in ("system", "instructions") if body.get(name)]
        turns = body.get("messages", body.get("input", ()))
        parts += [turns] if isinstance(turns, str) else [turn["content"] for turn in turns]
        return "\n".join(_plain(part) for part in parts)


Answer = Callable[[Seen], Step]


class ProviderStub:
    """A running provider.

    Attributes:
        url: Its address without a path, as Anthropic's ``base_url``.
        openai_url: The same with /v1, as OpenAI's ``base_url``.
        seen: All requests that arrived, in order.
        answer: What a request gets that no script is left for; ``usual`` where nothing is set.
        headers: Sent with every answer, such as x-ratelimit-limit-requests.
        keys: Keys that are let in; empty lets everybody in.
    """

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.answer: Answer = usual
        self.headers: dict[str, str] = {}
        self.keys: set[str] = set()
        self._steps: list[Step] = []
        self._routes: list[tuple[str, str, Answer]] = []
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._sockets: set[socket.socket] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.stub = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.openai_url = f"{self.url}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    # What it answers

    def script(self, *steps: Step) -> None:
        """What the next requests to a model get, one step each, before ``answer`` is asked."""
        with self._lock:
            self._steps.extend(steps)

    def route(self, method: str, path: str, answer: Answer) -> None:
        """Answers another endpoint: ``path`` is its beginning, the longest that fits wins.

        Raw answers go out as they are; route's answers are no part of ``calls``.
        """
        self._routes.append((method, path, answer))

    def close(self) -> None:
        """Stops, and cuts the connections that are still open."""
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            sockets = list(self._sockets)
        for connection in sockets:
            _cut(connection)
        self._thread.join()

    # What it has seen

    @property
    def calls(self) -> list[Seen]:
        """Requests to a model (no route's), in order of arrival."""
        return [seen for seen in list(self.seen) if seen.path.endswith(_MODEL_PATHS)]

    @property
    def paid(self) -> list[Reply]:
        """Replies that were made, whether they could be delivered or not: what is charged."""
        return [seen.step for seen in self.calls if isinstance(seen.step, Reply)]

    @property
    def last(self) -> Json:
        """Body of the last request to a model."""
        return self.calls[-1].body

    def n_failed(self, status: int | None = None) -> int:
        """Requests to a model that got an error (of a status), dropped ones included."""
        steps = [seen.step for seen in self.calls]
        failures = [step for step in steps if isinstance(step, Failure)]
        return sum(status is None or (s.status == status and not s.is_dropped) for s in failures)

    def wait_for(self, n: int, timeout_s: float = 10.0) -> None:
        """Blocks until ``n`` requests to a model have arrived."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.calls) >= n, timeout_s):
                raise TimeoutError(f"{len(self.calls)} of {n} requests arrived")

    # For the handler

    def step_for(self, seen: Seen) -> Step:
        fits = [r for r in self._routes if r[0] == seen.method and seen.path.startswith(r[1])]
        if fits:
            return max(fits, key=lambda route: len(route[1]))[2](seen)
        if not seen.path.endswith(_MODEL_PATHS):
            return Failure(404, "not_found", f"no endpoint {seen.method} {seen.path}")
        if self.keys and _key(seen) not in self.keys:
            return Failure(401, "invalid_api_key", f"Incorrect API key provided: {_key(seen)}")
        with self._lock:
            step = self._steps.pop(0) if self._steps else None
        return self.answer(seen) if step is None else step

    def arrive(self, seen: Seen) -> None:
        with self._arrived:
            seen.index = len(self.seen)
            self.seen.append(seen)
            self._arrived.notify_all()

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._sockets.discard(connection)


def usual(seen: Seen) -> Reply:
    """A reply that fits what is asked for: letters with log-probabilities, JSON by its schema."""
    body = seen.body
    if body.get("logprobs") or body.get("top_logprobs"):
        return Reply("A", top=[("A", -0.3), ("B", -1.5), ("C", -4.0), ("D", -5.0)])
    chat = body.get("response_format", {}).get("json_schema", {})
    forms = (chat, body.get("text", {}).get("format", {}), body.get("output_config", {}))
    for form in forms:
        schema = form.get("schema") or form.get("format", {}).get("schema")
        if schema:
            return Reply(json.dumps(_instance(schema)))
    return Reply()


def _instance(schema: Json) -> object:
    """The smallest value that a schema allows, as far as ours go."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: _instance(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [_instance(schema["items"])] * max(1, schema.get("minItems", 1))
    return {"string": "xy", "integer": 1, "number": 1.0, "boolean": True}.get(str(kind))


_MODEL_PATHS = ("/chat/completions", "/responses", "/messages")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    stub: ProviderStub

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.stub.opened(self.connection)

    def finish(self) -> None:
        self.server.stub.closed(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing."""

    def _serve(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(-1, self.command, path, query, headers, raw, time.monotonic())
        stub = self.server.stub
        stub.arrive(seen)
        step = stub.step_for(seen)
        _wait(step)
        seen.step = step
        if getattr(step, "is_dropped", False) or getattr(step, "is_lost", False):
            self.close_connection = True
            _cut(self.connection)
            return
        status, body, more = render(step, seen)
        seen.is_delivered = True  # before it goes out: the client may look at once
        try:
            self._send(status, {**stub.headers, **more}, body)
        except OSError:
            seen.is_delivered = False
            self.close_connection = True

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    do_GET = do_POST = do_DELETE = _serve  # noqa: N815


def render(step: Step, seen: Seen) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of an answer in the shape of the endpoint."""
    kind = {"content-type": "application/json"}
    if isinstance(step, Raw):
        body = step.body if isinstance(step.body, bytes) else _dumps(step.body)
        return step.status, body, {**kind, **step.headers}
    is_anthropic = seen.path.endswith("/messages")
    if isinstance(step, Failure):
        body = step.body if step.body is not None else _dumps(failure_body(step, is_anthropic))
        return step.status, body, {**kind, **step.headers}
    shape = (
        anthropic_body
        if is_anthropic
        else responses_body
        if seen.path.endswith("/responses")
        else chat_body
    )
    return 200, _dumps(shape(step, seen.body, seen.index)), {**kind, **step.headers}


def chat_body(reply: Reply, asked: Json, index: int = 0) -> Json:
    """An object chat.completion."""
    is_refusal = reply.finish_reason == "refusal"
    body = {
        "id": f"chatcmpl-{index}",
        "object": "chat.completion",
        "created": 1767225600,
        "model": reply.model or asked.get("model"),
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": None if is_refusal else reply.text,
                    "refusal": reply.text if is_refusal else None,
                },
                "logprobs": None if reply.top is None else {"content": _top(reply.top)},
                "finish_reason": {"refusal": "stop", "filter": "content_filter"}.get(
                    reply.finish_reason, reply.finish_reason
                ),
            }
        ],
        "usage": {
            "prompt_tokens": reply.input_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": reply.input_tokens + reply.output_tokens,
            "prompt_tokens_details": {
                "cached_tokens": reply.cached_tokens,
                "cache_write_tokens": reply.cache_write_tokens,
            },
            "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
        },
        "system_fingerprint": "fp_1",
    }
    return _changed(body, reply)


def responses_body(reply: Reply, asked: Json, index: int = 0) -> Json:
    """An object response."""
    reasons = {"length": "max_output_tokens", "filter": "content_filter"}
    reason = reasons.get(reply.finish_reason)
    part: Json = (
        {"type": "refusal", "refusal": reply.text}
        if reply.finish_reason == "refusal"
        else {
            "type": "output_text",
            "text": reply.text,
            "annotations": [],
            "logprobs": [] if reply.top is None else _top(reply.top),
        }
    )
    message = {
        "id": f"msg_{index}",
        "type": "message",
        "role": "assistant",
        "status": "incomplete" if reason else "completed",
        "content": [part],
    }
    thought = {"id": f"rs_{index}", "type": "reasoning", "summary": []}
    body = {
        "id": f"resp_{index}",
        "object": "response",
        "created_at": 1767225600,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": reply.model or asked.get("model"),
        "output": [thought] * bool(reply.reasoning_tokens) + [message] * bool(reply.text),
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {
                "cached_tokens": reply.cached_tokens,
                "cache_write_tokens": reply.cache_write_tokens,
            },
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }
    return _changed(body, reply)


def anthropic_body(reply: Reply, asked: Json, index: int = 0) -> Json:
    """An object message; its input_tokens exclude what was read from and written to the cache."""
    reasons = {"stop": "end_turn", "length": "max_tokens", "filter": "refusal"}
    uncached = reply.input_tokens - reply.cached_tokens - reply.cache_write_tokens
    body = {
        "id": f"msg_{index}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or asked.get("model"),
        "content": [{"type": "text", "text": reply.text}] if reply.text else [],
        "stop_reason": reasons.get(reply.finish_reason, reply.finish_reason),
        "stop_sequence": None,
        "usage": {
            "input_tokens": uncached,
            "cache_creation_input_tokens": reply.cache_write_tokens,
            "cache_read_input_tokens": reply.cached_tokens,
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"thinking_tokens": reply.reasoning_tokens},
        },
    }
    return _changed(body, reply)


def failure_body(failure: Failure, is_anthropic: bool) -> Json:
    """The error object of a provider."""
    if is_anthropic:
        kind = failure.kind or failure.code or _ANTHROPIC_KINDS.get(failure.status, "api_error")
        error = {"type": kind, "message": failure.message}
        return {"type": "error", "error": error, "request_id": "req_1"}
    kinds = {429: "requests", **dict.fromkeys(range(500, 600), "server_error")}
    kind = failure.kind or kinds.get(failure.status, "invalid_request_error")
    return {
        "error": {
            "message": failure.message,
            "type": kind,
            "param": None,
            "code": failure.code,
        }
    }


_ANTHROPIC_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _top(top: TopLogprobs) -> list[Json]:
    rows = [{"token": token, "logprob": p, "bytes": list(token.encode())} for token, p in top]
    return [{**rows[0], "top_logprobs": rows}] if rows else []


def _changed(body: Json, reply: Reply) -> Json:
    if reply.change is not None:
        reply.change(body)
    return body


def _dumps(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _plain(part: object) -> str:
    if isinstance(part, str):
        return part
    return "".join(str(block.get("text", "")) for block in part or ())


def _key(seen: Seen) -> str:
    return seen.headers.get("x-api-key") or seen.headers.get("authorization", "")[7:]


def _wait(step: Step) -> None:
    gate = getattr(step, "gate", None)
    if gate is not None:
        gate.wait(_HELD_S)
    if delay_s := getattr(step, "delay_s", 0.0):
        threading.Event().wait(delay_s)


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is gone already
        connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def provider() -> Iterator[ProviderStub]:
    """A running provider of the test's own."""
    stub = ProviderStub()
    yield stub
    stub.close()
