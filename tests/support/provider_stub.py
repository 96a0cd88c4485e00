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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from provider_shapes import (
    Failure,
    Json,
    Raw,
    Reply,
    Step,
    anthropic_body,
    chat_body,
    failure_body,
    instance,
    responses_body,
)

__all__ = [
    "Answer",
    "Failure",
    "ProviderStub",
    "Raw",
    "Reply",
    "Seen",
    "Step",
    "anthropic_body",
    "chat_body",
    "failure_body",
    "provider",
    "render",
    "responses_body",
    "usual",
]


_HELD_S = 30.0  # a gate that nobody opens ends here, so that a failing test ends


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
            return Reply(json.dumps(instance(schema)))
    return Reply()


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
