"""What the providers' formats have in common: tokens, option probabilities, schemas, limits.

Every token of a call is counted in exactly one place. Our form: input is the total, of it what was
read from and written to a cache (disjoint); output is the total, of it the reasoning.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quorum.backends.base import ObservedLimits
from quorum.digests import digest
from quorum.errors import RejectedError, SettingsError
from quorum.records import Request, Usage

Json = dict[str, Any]
CHARACTERS_PER_TOKEN = 4  # an estimate, where a server counts nothing
# What Anthropic's schemas do not know, and answers 400 to; a reply is checked by its reader anyway.
LIMITS_OF_VALUES = frozenset(
    {
        "minLength",
        "maxLength",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "maxItems",
        "uniqueItems",
    }
)


@dataclass(frozen=True, slots=True)
class ChoiceProbs:
    """Probabilities of the options out of a list of the likeliest tokens.

    Args:
        probs: Of each option, normalised over them; None where the list holds none of them.
        mass: What they have together of the whole vocabulary.
        bound: Where an option is not on the list: its largest possible share; else None.
    """

    probs: tuple[float, ...] | None
    mass: float | None
    bound: float | None


def choice_probs(top: Iterable[tuple[str, float]], choices: Sequence[str]) -> ChoiceProbs:
    """Adds up each option's tokens, with and without white space before them, and normalises.

    p_i = m_i / Σ m, with m_i = Σ exp(logprob) over the tokens that read as option i. An option
    that is not listed has m = 0 and can at most be as likely as the unlikeliest listed token b:
    its share is then at most b / (Σ m + b).

    Args:
        top: Tokens with their natural log-probabilities.
        choices: The options, one token each.
    """
    listed = [(token.strip(" \n\t\r▁Ġ"), math.exp(min(p, 0.0))) for token, p in top]
    masses = [math.fsum(p for token, p in listed if token == choice) for choice in choices]
    mass = math.fsum(masses)
    names = {token for token, _ in listed}
    smallest = min((p for _, p in listed), default=1.0)
    is_censored = any(choice not in names for choice in choices)
    bound = smallest / (mass + smallest) if is_censored and mass + smallest > 0 else None
    probs = tuple(m / mass for m in masses) if mass > 0 else None
    return ChoiceProbs(probs, min(1.0, mass), bound)


def first_tokens(content: object) -> list[tuple[str, float]] | None:
    """The list of the likeliest first tokens of an OpenAI reply; None where there is none.

    The drawn token counts, too, where the list leaves it out.
    """
    if not isinstance(content, list) or not content:
        return None
    first = mapping(content[0])
    rows = [_token(row) for row in sequence(first.get("top_logprobs"))]
    drawn = _token(first)
    found = [row for row in rows if row is not None]
    if drawn is not None and drawn not in found:
        found.append(drawn)
    return found or None


def openai_usage(usage: object) -> Usage | None:
    """Tokens of an OpenAI answer, chat or responses; None where the server counts nothing.

    Input includes what was cached, output includes the reasoning. A server that reports reasoning
    apart from the reply's tokens (Gemini behind OpenAI's format) shows it by its total, or by more
    reasoning than output: there the output is the sum.
    """
    if not isinstance(usage, Mapping) or not usage:
        return None
    inputs = _count(usage, "prompt_tokens", "input_tokens")
    outputs = _count(usage, "completion_tokens", "output_tokens")
    into = _details(usage, "prompt_tokens_details", "input_tokens_details")
    out = _details(usage, "completion_tokens_details", "output_tokens_details")
    reasoning = _count(out, "reasoning_tokens")
    total = _count(usage, "total_tokens")
    if reasoning > outputs or (reasoning and total == inputs + outputs + reasoning):
        outputs += reasoning
    elif not reasoning and total > inputs + outputs:
        reasoning = total - inputs - outputs
        outputs += reasoning
    cached = min(_count(into, "cached_tokens"), inputs)
    written = min(_count(into, "cache_write_tokens"), inputs - cached)
    return Usage(inputs, cached, outputs, reasoning, written)


def anthropic_usage(usage: object) -> Usage | None:
    """Tokens of an Anthropic answer, whose input excludes what was cached and what was written."""
    if not isinstance(usage, Mapping) or not usage:
        return None
    cached = _count(usage, "cache_read_input_tokens")
    written = _count(usage, "cache_creation_input_tokens")
    outputs = _count(usage, "output_tokens")
    thinking = _count(_details(usage, "output_tokens_details"), "thinking_tokens")
    inputs = _count(usage, "input_tokens") + cached + written
    return Usage(inputs, cached, outputs, min(thinking, outputs), written)


def estimated_usage(request: Request, text: str) -> Usage:
    """Tokens by characters/4, rounded up, where a server counts nothing: unknown is not 0."""
    characters = sum(len(message.content) for message in request.messages)
    return Usage(
        input_tokens=-(-characters // CHARACTERS_PER_TOKEN),
        output_tokens=-(-len(text) // CHARACTERS_PER_TOKEN),
    )


def read_limits(headers: Mapping[str, str]) -> ObservedLimits | None:
    """The limits per minute that an answer's headers state; None where they state none."""
    found = ObservedLimits(
        requests_per_min=_limit(
            headers, "x-ratelimit-limit-requests", "anthropic-ratelimit-requests-limit"
        ),
        tokens_per_min=_limit(
            headers, "x-ratelimit-limit-tokens", "anthropic-ratelimit-tokens-limit"
        ),
        input_tokens_per_min=_limit(headers, "anthropic-ratelimit-input-tokens-limit"),
        output_tokens_per_min=_limit(headers, "anthropic-ratelimit-output-tokens-limit"),
    )
    return None if found == ObservedLimits() else found


def check_extra(extra: Mapping[str, object], own: frozenset[str]) -> None:
    """Refuses parameters that each request sets by itself.

    Raises:
        SettingsError: It names the first one.
    """
    for name in sorted(own & set(extra)):
        raise SettingsError(f"backend.extra.{name}", "is set by each request", mend="Leave it out")


def seed_of(request: Request) -> int | None:
    """A draw's own seed: repeats of one prompt are independent draws, each the same again."""
    seed = request.options.get("seed")
    return None if seed is None else int(digest([seed, request.sample])[:8], 16) >> 1


def schema_of(request: Request, where: str) -> Json | None:
    """The JSON Schema of option ``schema``; None where the reply is free.

    Raises:
        RejectedError: It is no JSON object.
    """
    text = request.options.get("schema")
    if not text:
        return None
    try:
        schema = json.loads(str(text))
    except ValueError as error:
        raise RejectedError(where, f"the reply's schema is no JSON ({error})", got=text) from error
    if not isinstance(schema, dict):
        raise RejectedError(where, "the reply's schema is no object", got=text)
    return schema


def is_strict(schema: object) -> bool:
    """Whether a schema is closed as OpenAI's strict mode wants it.

    Every object forbids further properties and requires all it has. Source: OpenAI, Structured
    model outputs, supported schemas.
    """
    if isinstance(schema, list):
        return all(is_strict(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, Mapping):
        names = set(properties) if isinstance(properties, Mapping) else set()
        if schema.get("additionalProperties") is not False:
            return False
        if names != set(schema.get("required") or ()):
            return False
    return all(is_strict(item) for item in schema.values())


def without_limits(schema: object, names: frozenset[str] = LIMITS_OF_VALUES) -> object:
    """A schema without the keywords that a provider does not know; the form stays.

    ``minItems`` stays at 0 and 1. Names of properties are no keywords.
    """
    if isinstance(schema, list):
        return [without_limits(item, names) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    kept: Json = {}
    for key, value in schema.items():
        if key in names or (key == "minItems" and value not in (0, 1)):
            continue
        if key in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            kept[key] = {name: without_limits(item, names) for name, item in value.items()}
        elif key in ("enum", "const", "required", "default"):
            kept[key] = value
        else:
            kept[key] = without_limits(value, names)
    return kept


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object; an empty one in the place of anything else."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[Any]:
    """A JSON array; an empty one in the place of anything else."""
    return value if isinstance(value, list) else []


def _token(row: object) -> tuple[str, float] | None:
    if not isinstance(row, Mapping):
        return None
    token, logprob = row.get("token"), row.get("logprob")
    if not isinstance(token, str) or isinstance(logprob, bool):
        return None
    if not isinstance(logprob, int | float) or math.isnan(logprob):
        return None
    return token, float(logprob)


def _details(usage: Mapping[str, object], *names: str) -> Mapping[str, object]:
    for name in names:
        found = usage.get(name)
        if isinstance(found, Mapping):
            return found
    return {}


def _count(usage: Mapping[str, object], *names: str) -> int:
    for name in names:
        value = usage.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return max(0, int(value))
    return 0


def _limit(headers: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        text = headers.get(name, "").strip()
        if text.isascii() and text.isdigit() and int(text) > 0:
            return int(text)
    return None
