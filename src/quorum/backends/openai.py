"""OpenAI's models, and any server that speaks their format: chat completions or responses.

By ``base_url`` also vLLM, llama.cpp, Ollama, LM Studio and OpenRouter. What is sent for a request
is ``body``, what an answer means is ``read``: pure functions of the settings, for calls and
batches alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, cast

from annotated_types import Ge, Interval

from quorum.backends.base import Capabilities
from quorum.backends.connection import Connection
from quorum.backends.keys import check_base_url, check_key_variable, without_key
from quorum.backends.openai_answers import Found, of_chat, of_response, version_of
from quorum.backends.remote import Remote
from quorum.backends.wire import (
    ChoiceProbs,
    Json,
    check_extra,
    choice_probs,
    is_strict,
    openai_usage,
    schema_of,
    seed_of,
)
from quorum.digests import canonical_json
from quorum.errors import BackendError, RejectedError
from quorum.records import Generation, Request, Target, Usage

OFFICIAL_URL = "https://api.openai.com/v1"
ADAPTER = "1"  # raised where a change of ours changes what is sent
WHERE = "backend openai"
_MIN_RESPONSES_TOKENS = 16  # of the responses API
_REASONING = re.compile(r"o\d|gpt-5(?!-chat)|gpt-[6-9]|gpt-\d{2}|codex-")
_CAN_STOP_REASONING = re.compile(r"gpt-5\.[1-5]")  # effort none: temperature and logprobs again
_OWN = frozenset({"model", "messages", "input", "stream", "n"})


@dataclass
class OpenAI(Remote):
    """A model behind OpenAI's format.

    Args:
        model: Its name, as the server knows it.
        base_url: Address of another server, with its /v1; null for OpenAI's.
        api: ``chat`` (chat completions) or ``responses``.
        reasoning: Whether the model thinks before it replies: no temperature is sent, and its
            thinking counts as output. Null: as the model's name says.
        reasoning_effort: none, minimal, low, medium, high, xhigh or max; null leaves it to the
            model.
        reasoning_tokens: Room for the thinking, added to a reply's max_tokens.
        max_output_tokens: Longest reply where a request names no max_tokens.
        logprobs: Whether the server lists the likeliest tokens. Null: models that do not reason.
        top_logprobs: How many it lists; some servers have fewer than 20.
        structured: Whether it binds replies to a schema.
        omit: Parameters that the server does not take, such as [seed].
        extra: Parameters that are sent with every request, such as {top_p: 0.9}.
        key_variable: Environment variable that holds the key; ``none`` for a server without keys.
        allow_http: Send key and prompts over plain http to another machine.
        priced: Whether calls cost money. Null: unless the server is on this machine.
        batch: Whether it takes batches. Null: OpenAI's does.
        mode: sync, or batch: answers within a day at half the price.

    Raises:
        SettingsError: An address or variable is none, or ``extra`` names what a request sets.
    """

    official_url: ClassVar[str] = OFFICIAL_URL
    runtime_options: ClassVar[tuple[str, ...]] = (
        "key_variable",
        "allow_http",
        "priced",
        "batch",
        "mode",
    )

    model: str = "gpt-4o-mini"
    base_url: str | None = None
    api: Literal["chat", "responses"] = "chat"
    reasoning: bool | None = None
    reasoning_effort: str | None = None
    reasoning_tokens: Annotated[int, Ge(0)] = 4096
    max_output_tokens: Annotated[int, Ge(1)] = 1024
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Interval(ge=1, le=20)] = 20
    structured: bool = True
    omit: tuple[str, ...] = ()
    extra: Mapping[str, object] = field(default_factory=dict)
    key_variable: str | None = "OPENAI_API_KEY"
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
            package="openai",
            load=_sdk,
            client_class="AsyncOpenAI",
            base_url=self.url,
            key_variable=self.key_variable,
            wire_mend="A parameter that this server does not take: backend.omit: [NAME]; a "
            "model that reasons: backend.reasoning: true",
        )

    @property
    def path(self) -> str:
        """Path of the endpoint below ``url``."""
        return "/responses" if self.api == "responses" else "/chat/completions"

    @property
    def target(self) -> Target:
        """Model, address, and every setting that changes what is sent."""
        identity = {"base_url": self.url, "api": self.api, "adapter": ADAPTER}
        if self.is_reasoning:
            identity["reasoning_tokens"] = str(self.reasoning_tokens)
        if self.reasoning_effort is not None:
            identity["reasoning_effort"] = self.reasoning_effort
        identity["wire"] = canonical_json(
            {
                "reasoning": self.is_reasoning,
                "max_output_tokens": self.max_output_tokens,
                "top_logprobs": self.top_logprobs,
                "omit": sorted(self.omit),
                "extra": dict(self.extra),
            }
        )
        return Target("openai", self.model, identity)

    @property
    def is_reasoning(self) -> bool:
        """Whether the model thinks before it replies."""
        if self.reasoning is not None:
            return self.reasoning
        name = _base_name(self.model)
        if self.reasoning_effort == "none" and _CAN_STOP_REASONING.match(name):
            return False
        return _REASONING.match(name) is not None

    @property
    def capabilities(self) -> Capabilities:
        """What the settings say that the server can do; nothing is asked."""
        return Capabilities(
            choice_probs=not self.is_reasoning if self.logprobs is None else self.logprobs,
            structured=self.structured,
            priced=self.is_priced,
            batch=self.takes_batches,
        )

    def output_ceiling(self, request: Request) -> int:
        """The most tokens that a reply can be charged with, thinking included."""
        asked = int(cast("int", request.options.get("max_tokens") or self.max_output_tokens))
        if request.choices:
            asked = 1
        if self.api == "responses":
            asked = max(asked, _MIN_RESPONSES_TOKENS)
        return asked + (self.reasoning_tokens if self.is_reasoning else 0)

    def body(self, request: Request) -> Json:
        """The JSON that is sent for a request.

        Raises:
            RejectedError: The request asks for what the backend cannot do.
        """
        if request.continuation is not None:
            raise RejectedError(WHERE, "gives no log-likelihood of a given reply")
        if request.choices and not self.capabilities.choice_probs:
            mend = "Use elicitation=choice, or a model with log-probabilities"
            raise RejectedError(WHERE, "gives no probabilities of answers", mend=mend)
        body = self._responses(request) if self.api == "responses" else self._chat(request)
        body.update(self.extra)
        return {key: value for key, value in body.items() if key not in self.omit}

    def read(self, answer: Json, request: Request, seconds: float = 0.0) -> Generation:
        """What an answer says: its text or probabilities, why it ended, its tokens.

        Raises:
            TransientBackendError: It holds no reply.
            BackendError: It lacks the log-probabilities that were asked for.
        """
        found = of_response(answer, WHERE) if "output" in answer else of_chat(answer, WHERE)
        text = without_key(found.text, self._connection.key)
        usage = openai_usage(answer.get("usage")) or self._connection.estimate(request, text)
        if not request.choices:
            self._warn_if_truncated(found, usage)
        probs = ChoiceProbs(None, None, None)
        finish_reason = found.finish_reason
        if request.choices and finish_reason != "refusal":
            if found.top is None and not found.has_logprobs:
                raise BackendError(
                    WHERE,
                    "the server sent no log-probabilities",
                    mend="Use elicitation=choice, or set backend.logprobs: false",
                )
            probs = choice_probs(found.top or (), request.choices)
            text, finish_reason = "", "scored"
        return Generation(
            text=text,
            finish_reason=finish_reason,
            usage=usage,
            choice_probs=probs.probs,
            choice_mass=probs.mass,
            choice_bound=probs.bound,
            model_version=without_key(version_of(answer), self._connection.key),
            seconds=seconds,
        )

    def _chat(self, request: Request) -> Json:
        is_own = self.is_official or self.is_reasoning
        limit = "max_completion_tokens" if is_own else "max_tokens"
        body: Json = {
            "model": self.model,
            "messages": [{"role": m.role, "content": m.content} for m in request.messages],
            limit: self.output_ceiling(request),
        }
        self._add_sampling(body, request)
        seed = seed_of(request)
        if seed is not None and not (request.choices or self.is_reasoning):
            body["seed"] = seed
        if self.reasoning_effort is not None:
            body["reasoning_effort"] = self.reasoning_effort
        if request.choices:
            body.update(logprobs=True, top_logprobs=self.top_logprobs)
        if schema := schema_of(request, WHERE):
            named = {"name": "reply", "schema": schema, "strict": is_strict(schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": named}
        return body

    def _responses(self, request: Request) -> Json:
        body: Json = {
            "model": self.model,
            "input": [{"role": m.role, "content": m.content} for m in request.messages],
            "max_output_tokens": self.output_ceiling(request),
            "store": False,  # else the provider keeps the reply for a month
        }
        self._add_sampling(body, request)
        if self.reasoning_effort is not None:
            body["reasoning"] = {"effort": self.reasoning_effort}
        if request.choices:
            body["include"] = ["message.output_text.logprobs"]
            body["top_logprobs"] = self.top_logprobs
        if schema := schema_of(request, WHERE):
            form = {"type": "json_schema", "name": "reply", "schema": schema}
            body["text"] = {"format": {**form, "strict": is_strict(schema)}}
        return body

    def _add_sampling(self, body: Json, request: Request) -> None:
        if self.is_reasoning:
            return
        temperature = request.options.get("temperature", 0.0 if request.choices else None)
        if temperature is not None:
            body["temperature"] = temperature

    def _warn_if_truncated(self, found: Found, usage: Usage) -> None:
        if found.finish_reason == "length" and not found.text and usage.output_tokens:
            self._connection.warn_once(
                "truncated",
                f"{WHERE}: a reply ended before its first word (finish_reason length, "
                f"{usage.reasoning_tokens} tokens of reasoning); it is booked. Raise "
                "backend.reasoning_tokens or max_tokens, or lower backend.reasoning_effort",
            )


def _sdk() -> Any:
    import openai

    return openai


def _base_name(model: str) -> str:
    """The model without its maker (openrouter) and without the marks of a fine-tuned one."""
    name = model.lower().rsplit("/", 1)[-1]
    return name.split(":")[1] if name.startswith("ft:") and name.count(":") > 1 else name
