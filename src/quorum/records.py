"""What is sent to a model and what comes back: Message, Request, Usage, Generation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorum.digests import canonical_json, text_digest

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation: who speaks (system, user, assistant) and the text."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Target:
    """Which model answers, to the last detail that can change an answer.

    ``identity`` names what the model's name leaves open: digest of the weights, version of the
    runtime, instruction set, base URL. It is part of every request's key.
    """

    backend: str
    model: str
    identity: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent: one conversation, its decoding options, and the index of the repeat.

    ``continuation`` asks for the log-likelihood of that text as the next reply, instead of a
    reply; ``choices`` asks for the probabilities of those one-token answers.
    """

    messages: tuple[Message, ...]
    options: Mapping[str, Scalar] = field(default_factory=dict)
    sample: int = 0
    continuation: str | None = None
    choices: tuple[str, ...] = ()

    def canonical(self, target: Target) -> str:
        """The canonical JSON of all that can change the answer, as structured fields."""
        return canonical_json(
            {
                "backend": target.backend,
                "model": target.model,
                "identity": dict(target.identity),
                "messages": [[m.role, m.content] for m in self.messages],
                "options": dict(self.options),
                "sample": self.sample,
                "continuation": self.continuation,
                "choices": list(self.choices),
            }
        )

    def key(self, target: Target) -> str:
        """SHA-256 (64 hex digits) of ``canonical``: the request's address in the store."""
        return text_digest(self.canonical(target))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, each in exactly one bucket of its side (usage schema 2).

    ``input_tokens`` and ``output_tokens`` are totals. Of the input, ``cached_input_tokens`` were
    read from the provider's prompt cache and ``cache_write_tokens`` were written to it, which are
    disjoint; of the output, ``reasoning_tokens`` were spent on reasoning.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_tokens: int = 0

    @classmethod
    def of_parts(
        cls,
        *,
        plain_input: int,
        cached_input: int = 0,
        cache_write: int = 0,
        visible_output: int,
        reasoning: int = 0,
    ) -> Usage:
        """The usage of a provider that reports parts which exclude each other.

        So does Anthropic for input, and Gemini for output, whose thoughts stand apart from the
        answer's tokens.
        """
        return cls(
            input_tokens=plain_input + cached_input + cache_write,
            cached_input_tokens=cached_input,
            output_tokens=visible_output + reasoning,
            reasoning_tokens=reasoning,
            cache_write_tokens=cache_write,
        )


@dataclass(frozen=True, slots=True)
class Generation:
    """A reply.

    Args:
        text: The reply's text; empty for a log-likelihood or option probabilities.
        finish_reason: ``stop``, ``length`` (cut at max_tokens), ``refusal``, ``scored``.
        usage: Tokens of the call.
        token_logprobs: Natural log-likelihood of each token of ``continuation``, if asked.
        choice_probs: Probability of each of ``choices``, normalised over them, if asked.
        choice_mass: Probability mass that the whole vocabulary gave to ``choices``, if known.
        choice_bound: Where the server listed only the likeliest tokens: a choice that is not among
            them has probability 0 here, and at most this share of ``choices``. None: all listed.
        model_version: What the provider says has answered.
        seconds: How long the call took; never part of a result.
    """

    text: str
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)
    token_logprobs: tuple[float, ...] | None = None
    choice_probs: tuple[float, ...] | None = None
    choice_mass: float | None = None
    choice_bound: float | None = None
    model_version: str = ""
    seconds: float = 0.0
