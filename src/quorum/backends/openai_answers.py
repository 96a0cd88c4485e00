"""What stands in an answer of OpenAI's format: the reply, why it ended, the likeliest tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass

from quorum.backends.wire import Json, first_tokens, mapping, sequence
from quorum.errors import TransientBackendError

_PATH = re.compile(r"[/~.\\]|[A-Za-z]:[/\\]")  # openai/gpt-5-mini is none


@dataclass(frozen=True, slots=True)
class Found:
    """A reply.

    Args:
        text: Its text, or how it was refused.
        finish_reason: stop, length or refusal.
        top: The likeliest first tokens with their log-probabilities, if there are any.
        has_logprobs: Whether the server sent the list, even an empty one.
    """

    text: str
    finish_reason: str
    top: list[tuple[str, float]] | None = None
    has_logprobs: bool = False


def of_chat(answer: Json, where: str) -> Found:
    """The reply of a chat completion.

    Raises:
        TransientBackendError: It holds none.
    """
    choice = mapping(next(iter(sequence(answer.get("choices"))), None))
    if not choice:
        raise TransientBackendError(where, "the answer holds no reply")
    message = mapping(choice.get("message"))
    reason = choice.get("finish_reason")
    content = mapping(choice.get("logprobs")).get("content")
    if message.get("refusal"):
        return Found(str(message["refusal"]), "refusal")
    return Found(
        _text(message.get("content")),
        {"length": "length", "content_filter": "refusal"}.get(str(reason), "stop"),
        first_tokens(content),
        isinstance(content, list),
    )


def of_response(answer: Json, where: str) -> Found:
    """The reply of a response.

    Raises:
        TransientBackendError: It holds none.
    """
    items = [mapping(item) for item in sequence(answer.get("output"))]
    messages = [item for item in items if item.get("type") == "message"]
    parts = [mapping(part) for item in messages for part in sequence(item.get("content"))]
    refused = [str(part.get("refusal")) for part in parts if part.get("type") == "refusal"]
    texts = [part for part in parts if part.get("type") == "output_text"]
    reason = mapping(answer.get("incomplete_details")).get("reason")
    if answer.get("status") in ("failed", "cancelled") or not (parts or answer.get("status")):
        raise TransientBackendError(where, "the answer holds no reply")
    if refused or reason == "content_filter":
        return Found("\n".join(refused), "refusal")
    content = texts[0].get("logprobs") if texts else None
    return Found(
        "".join(_text(part.get("text")) for part in texts),
        "length" if reason == "max_output_tokens" else "stop",
        first_tokens(content),
        isinstance(content, list),
    )


def _text(content: object) -> str:
    """A text, also where a server sends it in parts."""
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def version_of(answer: Json) -> str:
    """Which model the server says has answered, and in which build.

    Of a path to a file of weights (llama.cpp) its name is left: folders are no version.
    """
    names = [str(name) for name in (answer.get("model"), answer.get("system_fingerprint")) if name]
    return " ".join(_file_name(name) if _PATH.match(name) else name for name in names)


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
