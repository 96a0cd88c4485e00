"""The scripted backend: replies by rules, in order; for tests, teaching and rehearsals.

It calls no model. What it answers is a pure function of the request and the rules; failures,
delays and a crash can be scripted as well, so that a run can be rehearsed with all its accidents.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge

from quorum.backends.base import Capabilities
from quorum.digests import digest
from quorum.errors import BackendError, SettingsError, TransientBackendError
from quorum.records import Generation, Request, Target, Usage

_MATCHERS = ("contains", "regex", "equals")
_KNOWN = -0.1  # log-likelihood of a token of the continuation that stands in the prompt
_UNKNOWN = -3.0  # and of one that does not
_FAVOURED = 0.9  # share of the choice that the rules reply; the others share the rest equally

Reply = str | Mapping[str, list[str]]
Rule = Mapping[str, str | bool | Mapping[str, list[str]]]
Failure = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class Scripted:
    r"""Answers by rules.

    A rule is a mapping. One of ``contains``, ``regex`` (searched) and ``equals`` is held against
    the prompt, the contents of all messages joined by newlines; a rule without any of them always
    fits. The first rule that fits answers: with ``reply``, a text in which ``{prompt}`` stands for
    the contents of the user's messages, or ``{"choices": [...]}`` with such texts; or with
    ``echo: true``, which is ``reply: "{prompt}"``. Where no rule fits, the prompt is echoed. Of
    choices, temperature 0 takes the first; above, SHA-256 of the request and its sample index
    draws one. ``finish_reason: refusal`` in a rule marks its reply as a refusal.

    Tokens are words between white space. ``max_tokens`` in a request's options cuts the reply
    (finish_reason ``length``). A continuation's token has log-likelihood −0.1 where it stands in
    the prompt and −3 where it does not. Of a request's choices, the one that the rules reply gets
    probability 0.9 and the others share 0.1; all are equal where the reply is none of them.

    Args:
        model: Name of the model; the rules' digest is part of its identity.
        rules: The rules, tried in order.
        latency_s: How long a call takes, in seconds.
        lanes: How many calls run in parallel; None for no limit of its own.
        fail: Failures: a matcher as in a rule, ``error`` (transient or permanent), ``times``
            (1 if not given: so many calls fail, then it answers), ``retry_after_s`` if any.
        call_log: File that gets the line ``key pid`` as a call starts; empty for none.
        crash_after: The process kills itself (SIGKILL) at this start or end of a call, counted
            from 1; None for never.

    Raises:
        SettingsError: A rule or a failure cannot be read.
    """

    runtime_options: ClassVar[tuple[str, ...]] = (
        "latency_s",
        "lanes",
        "fail",
        "call_log",
        "crash_after",
    )

    model: str = "scripted"
    rules: tuple[Rule, ...] = ()
    latency_s: Annotated[float, Ge(0)] = 0.0
    lanes: Annotated[int, Ge(1)] | None = None
    fail: tuple[Failure, ...] = ()
    call_log: str = ""
    crash_after: Annotated[int, Ge(1)] | None = None
    _identity: str = field(init=False, repr=False, compare=False, default="")
    _failed: list[int] = field(init=False, repr=False, compare=False, default_factory=list)
    _events: list[int] = field(init=False, repr=False, compare=False, default_factory=lambda: [0])

    def __post_init__(self) -> None:
        """Checks the script."""
        for index, rule in enumerate(self.rules):
            _check_rule(f"backend.rules[{index}]", rule)
        for index, failure in enumerate(self.fail):
            _check_failure(f"backend.fail[{index}]", failure)
        self._failed.extend(0 for _ in self.fail)
        object.__setattr__(self, "_identity", digest([dict(rule) for rule in self.rules]))

    @property
    def target(self) -> Target:
        """The model's name and the digest of its rules: another script is another model."""
        return Target("scripted", self.model, {"rules": self._identity})

    @property
    def capabilities(self) -> Capabilities:
        """All that a script can do; it is free and deterministic."""
        return Capabilities(continuation=True, choice_probs=True, seed=True, deterministic=True)

    async def complete(self, request: Request, lane: int = 0) -> Generation:
        """The reply of the first rule that fits.

        Raises:
            TransientBackendError: The script says so.
            BackendError: The script says so.
        """
        del lane
        if self.call_log:
            _log_call(Path(self.call_log), request.key(self.target))
        self._count_event()
        await asyncio.sleep(self.latency_s)
        prompt = "\n".join(message.content for message in request.messages)
        self._fail_if_scripted(prompt)
        generation = self._answer(request, prompt)
        self._count_event()
        return generation

    async def close(self) -> None:
        """Nothing is open."""

    def _count_event(self) -> None:
        self._events[0] += 1
        if self._events[0] == self.crash_after:
            os.kill(os.getpid(), signal.SIGKILL)

    def _fail_if_scripted(self, prompt: str) -> None:
        for index, failure in enumerate(self.fail):
            if _fits(failure, prompt) and self._failed[index] < int(failure.get("times", 1)):
                self._failed[index] += 1
                what = f"failed as scripted (backend.fail[{index}])"
                if failure["error"] == "permanent":
                    raise BackendError("scripted", what)
                wait = failure.get("retry_after_s")
                raise TransientBackendError(
                    "scripted", what, retry_after_s=None if wait is None else float(wait)
                )

    def _answer(self, request: Request, prompt: str) -> Generation:
        n_input = len(prompt.split())
        if request.continuation is not None:
            words = set(prompt.split())
            tokens = request.continuation.split()
            scores = tuple(_KNOWN if token in words else _UNKNOWN for token in tokens)
            usage = Usage(input_tokens=n_input + len(tokens))
            return Generation("", "scored", usage, token_logprobs=scores)
        text, finish_reason = self._reply(request, prompt)
        if request.choices:
            probs = _choice_probs(request.choices, text.strip())
            usage = Usage(input_tokens=n_input, output_tokens=1)
            return Generation("", "scored", usage, choice_probs=probs, choice_mass=1.0)
        limit = request.options.get("max_tokens")
        if isinstance(limit, int) and len(text.split()) > limit:
            text, finish_reason = " ".join(text.split()[:limit]), "length"
        usage = Usage(input_tokens=n_input, output_tokens=len(text.split()))
        return Generation(text, finish_reason, usage, model_version=self.model)

    def _reply(self, request: Request, prompt: str) -> tuple[str, str]:
        rule: Rule = next((r for r in self.rules if _fits(r, prompt)), {"echo": True})
        reply = rule.get("reply", "{prompt}")
        if isinstance(reply, Mapping):
            reply = self._draw(request, reply["choices"])
        user = "\n".join(m.content for m in request.messages if m.role == "user")
        return str(reply).replace("{prompt}", user), str(rule.get("finish_reason", "stop"))

    def _draw(self, request: Request, texts: list[str]) -> str:
        temperature = request.options.get("temperature") or 0
        if not isinstance(temperature, int | float) or temperature <= 0:
            return texts[0]
        drawn = hashlib.sha256(request.canonical(self.target).encode("utf-8", "surrogatepass"))
        return texts[int.from_bytes(drawn.digest()[:8]) % len(texts)]


def _fits(rule: Mapping[str, object], prompt: str) -> bool:
    if "contains" in rule:
        return str(rule["contains"]) in prompt
    if "regex" in rule:
        return re.search(str(rule["regex"]), prompt) is not None
    return "equals" not in rule or rule["equals"] == prompt


def _choice_probs(choices: tuple[str, ...], reply: str) -> tuple[float, ...]:
    n = len(choices)
    if n == 1 or reply not in choices:
        return (1 / n,) * n
    favoured = choices.index(reply)
    return tuple(_FAVOURED if i == favoured else (1 - _FAVOURED) / (n - 1) for i in range(n))


def _log_call(path: Path, key: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{key} {os.getpid()}\n".encode("ascii"))
    finally:
        os.close(file)


def _check_matcher(where: str, rule: Mapping[str, object], others: tuple[str, ...]) -> None:
    if unknown := sorted(set(rule) - {*_MATCHERS, *others}):
        allowed = ", ".join((*_MATCHERS, *others))
        raise SettingsError(where, "has an unknown key", got=unknown[0], allowed=allowed)
    named = [name for name in _MATCHERS if name in rule]
    if len(named) > 1:
        raise SettingsError(where, "has several matchers", got=named, allowed="one of them")
    for name in named:
        if not isinstance(rule[name], str):
            raise SettingsError(f"{where}.{name}", "is no text", got=rule[name], allowed="a text")
    if "regex" in rule:
        try:
            re.compile(str(rule["regex"]))
        except re.error as error:
            raise SettingsError(
                f"{where}.regex", f"is no regular expression ({error})", got=rule["regex"]
            ) from error


def _check_rule(where: str, rule: Rule) -> None:
    _check_matcher(where, rule, ("reply", "echo", "finish_reason"))
    if ("reply" in rule) == (rule.get("echo") is True):
        raise SettingsError(where, "does not say what to reply", allowed="reply or echo: true")
    if rule.get("finish_reason", "stop") not in ("stop", "length", "refusal"):
        raise SettingsError(
            f"{where}.finish_reason",
            "is unknown",
            got=rule["finish_reason"],
            allowed="stop, length, refusal",
        )
    reply = rule.get("reply", "")
    if isinstance(reply, Mapping):
        texts = reply.get("choices")
        if set(reply) == {"choices"} and isinstance(texts, list | tuple) and texts:
            reply = "" if all(isinstance(text, str) for text in texts) else reply
    if not isinstance(reply, str):
        raise SettingsError(
            f"{where}.reply", "is no reply", got=reply, allowed="a text or {choices: [texts]}"
        )


def _check_failure(where: str, failure: Failure) -> None:
    _check_matcher(where, failure, ("error", "times", "retry_after_s"))
    if failure.get("error") not in ("transient", "permanent"):
        raise SettingsError(
            f"{where}.error", "is unknown", got=failure.get("error"), allowed="transient, permanent"
        )
    times = failure.get("times", 1)
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise SettingsError(f"{where}.times", "is no count", got=times, allowed="1 or more")
    wait = failure.get("retry_after_s", 0)
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not math.isfinite(wait):
        raise SettingsError(f"{where}.retry_after_s", "is no time", got=wait, allowed="seconds")
