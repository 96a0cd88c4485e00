"""Anthropic's models by the messages API, and servers that speak it.

What is sent for a request is ``body`` (with ``headers``), what an answer means is ``read``: pure
functions of the settings, for calls and batches alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, cast

from annotated_types import Ge

from quorum.backends.base import Capabilities
from quorum.backends.connection import Connection
from quorum.backends.keys import check_base_url, check_key_variable, without_key
from quorum.backends.openai_answers import version_of
from quorum.backends.remote import Remote
from quorum.backends.wire import (
    Json,
    anthropic_usage,
    check_extra,
    schema_of,
    without_limits,
)
from quorum.digests import canonical_json
from quorum.errors import RejectedError, TransientBackendError
from quorum.records import Generation, Message, Request, Target

OFFICIAL_URL = "https://api.anthropic.com"
ADAPTER = "1"  # raised where a change of ours changes what is sent
WHERE = "backend anthropic"
# The newer version of the API takes no temperature from any model; the older one still does from
# models up to 4.6. Source: Anthropic, Migrating to API version 2026-10-21.
VERSION_WITH_SAMPLING = "2023-06-01"
VERSION = "2026-10-21"
_TAKES_TEMPERATURE = re.compile(
    r"claude-(?:[23]|instant|(?:haiku|sonnet|opus)-4-(?:[0-6](?!\d)|20))"
)
_UNSTRUCTURED = re.compile(r"claude-(?:[23]|instant|(?:sonnet|opus)-4-(?:0|20))")
_OWN = frozenset({"model", "messages", "system", "stream"})


@dataclass
class Anthropic(Remote):
    """A model behind Anthropic's messages API.

    Args:
        model: Its name, as the server knows it.
        base_url: Address of another server, without /v1; null for Anthropic's.
        temperature: Whether a request's temperature is sent. Null: to the models that take one,
            as their names say; the others reply at their own.
        thinking: ``adaptive`` lets the model think before it replies, ``disabled`` forbids it;
            null sends nothing.
        effort: low, medium, high, xhigh or max; null leaves it to the model.
        reasoning_tokens: Room for the thinking, added to a reply's max_tokens.
        max_output_tokens: Longest reply where a request names no max_tokens.
        structured: Whether it binds replies to a schema. Null: as the model's name says.
        omit: Parameters that the server does not take.
        extra: Parameters that are sent with every request.
        cache_prompt: Let the server keep prompts for five minutes: writing costs more, reading
            less, and the replies are the same.
        key_variable: Environment variable that holds the key; ``none`` for a server without keys.
        allow_http: Send key and prompts over plain http to another machine.
        priced: Whether calls cost money. Null: unless the server is on this machine.
        batch: Whether it takes batches. Null: Anthropic's does.
        mode: sync, or batch: answers within a day at half the price.

    Raises:
        SettingsError: An address or variable is none, or ``extra`` names what a request sets.
    """

    official_url: ClassVar[str] = OFFICIAL_URL
    runtime_options: ClassVar[tuple[str, ...]] = (
        "cache_prompt",
        "key_variable",
        "allow_http",
        "priced",
        "batch",
        "mode",
    )

    model: str = "claude-haiku-4-5"
    base_url: str | None = None
    temperature: bool | None = None
    thinking: Literal["adaptive", "disabled"] | None = None
    effort: str | None = None
    reasoning_tokens: Annotated[int, Ge(0)] = 4096
    max_output_tokens: Annotated[int, Ge(1)] = 1024
    structured: bool | None = None
    omit: tuple[str, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict)
    cache_prompt: bool = False
    key_variable: str | None = "ANTHROPIC_API_KEY"
    allow_http: bool = False
    priced: bool | None = None
    batch: bool | None = None
    mode: Literal["sync", "batch"] = "sync"
    _connection: Connection = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_base_url(self.url, allow_http=self.allow_http)
        check_key_variable(self.key_variable)
        check_extra(self.extra, _OWN)
        self._connection = Connection(
            where=WHERE,
            package="anthropic",
            load=_sdk,
            client_class="AsyncAnthropic",
            base_url=self.url,
            key_variable=self.key_variable,
            wire_mend="A parameter that this model does not take: backend.omit: [NAME]",
        )

    @property
    def path(self) -> str:
        """Path of the endpoint below ``url``."""
        return "/v1/messages"

    @property
    def headers(self) -> dict[str, str]:
        """The API's version: what is sent depends on it."""
        return {"anthropic-version": VERSION_WITH_SAMPLING if self.has_temperature else VERSION}

    @property
    def target(self) -> Target:
        """Model, address, and every setting that changes what is sent."""
        identity = {"base_url": self.url, "adapter": ADAPTER, **self.headers}
        if self.effort is not None:
            identity["effort"] = self.effort
        identity["wire"] = canonical_json(
            {
                "temperature": self.has_temperature,
                "thinking": self.thinking,
                "reasoning_tokens": self.reasoning_tokens if self.is_reasoning else 0,
                "max_output_tokens": self.max_output_tokens,
                "omit": sorted(self.omit),
                "extra": dict(self.extra),
            }
        )
        return Target("anthropic", self.model, identity)

    @property
    def is_reasoning(self) -> bool:
        """Whether the model thinks before it replies."""
        return self.thinking == "adaptive"

    @property
    def has_temperature(self) -> bool:
        """Whether a request's temperature is sent; a model that thinks takes none."""
        if self.is_reasoning:
            return False
        if self.temperature is not None:
            return self.temperature
        return _TAKES_TEMPERATURE.search(self.model) is not None

    @property
    def capabilities(self) -> Capabilities:
        """What the settings say that the server can do; nothing is asked."""
        structured = self.structured
        if structured is None:
            structured = _UNSTRUCTURED.search(self.model) is None
        return Capabilities(
            structured=structured,
            empty_message=False,
            prefix_reuse=self.cache_prompt,
            priced=self.is_priced,
            batch=self.takes_batches,
        )

    def output_ceiling(self, request: Request) -> int:
        """The most tokens that a reply can be charged with, thinking included."""
        asked = int(cast("int", request.options.get("max_tokens") or self.max_output_tokens))
        return asked + (self.reasoning_tokens if self.is_reasoning else 0)

    def body(self, request: Request) -> Json:
        """The JSON that is sent for a request.

        Raises:
            RejectedError: The request asks for what the backend cannot do.
        """
        if request.continuation is not None or request.choices:
            mend = "Use elicitation=choice" if request.choices else ""
            raise RejectedError(WHERE, "gives no log-probabilities", mend=mend)
        system, turns = _split(request.messages)
        body: Json = {
            "model": self.model,
            "max_tokens": self.output_ceiling(request),
            "messages": [{"role": m.role, "content": m.content} for m in turns],
        }
        if system:
            body["system"] = system
        if self.has_temperature and request.options.get("temperature") is not None:
            body["temperature"] = request.options["temperature"]
        if self.thinking is not None:
            body["thinking"] = {"type": self.thinking}
        output: Json = {} if self.effort is None else {"effort": self.effort}
        if schema := schema_of(request, WHERE):
            output["format"] = {"type": "json_schema", "schema": without_limits(schema)}
        if output:
            body["output_config"] = output
        if self.cache_prompt:
            body["cache_control"] = {"type": "ephemeral"}
        body.update(self.extra)
        return {key: value for key, value in body.items() if key not in self.omit}

    def read(self, answer: Json, request: Request, seconds: float = 0.0) -> Generation:
        """What a message says: its text, why it ended, its tokens.

        Raises:
            TransientBackendError: It holds no reply.
        """
        content = answer.get("content")
        if not isinstance(content, list):
            raise TransientBackendError(WHERE, "the answer holds no reply")
        texts = [
            str(block.get("text") or "")
            for block in content
            if isinstance(block, dict) and block.get("type") == "text"
        ]
        key = self._connection.key
        text = without_key("".join(texts), key)
        reasons = {
            "max_tokens": "length",
            "model_context_window_exceeded": "length",
            "refusal": "refusal",
        }
        finish_reason = reasons.get(str(answer.get("stop_reason")), "stop")
        usage = anthropic_usage(answer.get("usage")) or self._connection.estimate(request, text)
        if finish_reason == "length" and not text and usage.output_tokens:
            self._connection.warn_once(
                "truncated",
                f"{WHERE}: a reply ended before its first word (stop_reason max_tokens, "
                f"{usage.reasoning_tokens} tokens of thinking); it is booked. Raise "
                "backend.reasoning_tokens or max_tokens, or lower backend.effort",
            )
        version = without_key(version_of(answer), key)
        return Generation(text, finish_reason, usage, model_version=version, seconds=seconds)


def _sdk() -> Any:
    import anthropic

    return anthropic


def _split(messages: tuple[Message, ...]) -> tuple[str, list[Message]]:
    """The system's text, from the messages that come first, and the turns after it.

    Raises:
        RejectedError: The system speaks in the middle, or nobody else does.
    """
    n_system = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
    turns = list(messages[n_system:])
    if any(message.role == "system" for message in turns):
        raise RejectedError(WHERE, "takes messages of the system at the beginning and nowhere else")
    if not turns:
        raise RejectedError(WHERE, "takes no conversation without a message of the user")
    return "\n\n".join(m.content for m in messages[:n_system] if m.content), turns
