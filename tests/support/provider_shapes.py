"""Answers of a provider, provider-neutral, and how each endpoint shows them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
TopLogprobs = Sequence[tuple[str, float]]


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


def instance(schema: Json) -> object:
    """The smallest value that a schema allows, as far as ours go."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: instance(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [instance(schema["items"])] * max(1, schema.get("minItems", 1))
    return {"string": "xy", "integer": 1, "number": 1.0, "boolean": True}.get(str(kind))
