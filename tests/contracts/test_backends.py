"""What every backend promises; a backend joins by a line in BACKENDS."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable

import pytest
from provider_stub import ProviderStub

from quorum.backends.anthropic import Anthropic
from quorum.backends.base import Backend
from quorum.backends.embedded import Embedded
from quorum.backends.openai import OpenAI
from quorum.backends.scripted import Scripted
from quorum.digests import canonical_json
from quorum.records import Generation, Message, Request

BACKENDS: dict[str, Callable[[], Backend]] = {
    "embedded": lambda: Embedded(engines=1),
    "scripted": lambda: Scripted(rules=({"contains": "cycle", "reply": "B"},)),
}
PROVIDERS: dict[str, Callable[[str], Backend]] = {  # of a provider at an address
    "openai": lambda url: OpenAI(base_url=f"{url}/v1", key_variable="none"),
    "openai responses": lambda url: OpenAI(
        base_url=f"{url}/v1", key_variable="none", api="responses"
    ),
    "anthropic": lambda url: Anthropic(base_url=url, key_variable="none"),
}
OPTIONS = {"temperature": 0.0, "max_tokens": 8}
MESSAGES = (Message("system", "Be brief."), Message("user", "How often do you cycle?"))


@pytest.fixture(scope="module", params=[*BACKENDS, *PROVIDERS])
def backend(request):
    if request.param in BACKENDS:
        yield BACKENDS[request.param]()
        return
    stub = ProviderStub()
    yield PROVIDERS[request.param](stub.url)
    stub.close()


def ask(backend: Backend, *requests: Request) -> list[Generation]:
    async def all_of_them() -> list[Generation]:
        try:
            return [await backend.complete(request, lane=0) for request in requests]
        finally:
            if backend.lanes is None:  # engines stay: to load one takes a while
                await backend.close()

    return asyncio.run(all_of_them())


def test_the_target_is_the_same_every_time_and_its_identity_is_text(backend):
    assert backend.target == backend.target
    assert backend.target.backend
    assert backend.target.model
    assert all(isinstance(v, str) for pair in backend.target.identity.items() for v in pair)


def test_lanes_are_none_or_a_count(backend):
    assert backend.lanes is None or backend.lanes >= 1


def test_a_reply_is_text_with_its_tokens_counted(backend):
    (generation,) = ask(backend, Request(MESSAGES, OPTIONS))
    usage = generation.usage
    assert generation.text
    assert generation.finish_reason in {"stop", "length", "refusal"}
    assert usage.input_tokens >= usage.cached_input_tokens >= 0
    assert usage.output_tokens >= usage.reasoning_tokens >= 0
    assert usage.input_tokens >= 1
    assert usage.output_tokens >= 1
    assert generation.token_logprobs is None
    assert generation.choice_probs is None


def test_a_deterministic_backend_repeats_itself_whatever_came_between(backend):
    if backend.capabilities.deterministic:
        one, two = Request(MESSAGES, OPTIONS), Request((Message("user", "Hello!"),), OPTIONS)
        first, other, again = ask(backend, one, two, one)
        assert first.text == again.text
        assert ask(backend, two)[0].text == other.text


def test_a_seeded_backend_draws_the_same_sample_again(backend):
    if backend.capabilities.seed:
        warm = {**OPTIONS, "temperature": 1.0}
        requests = [Request(MESSAGES, warm, sample=i) for i in range(3)]
        first = [generation.text for generation in ask(backend, *requests)]
        assert first == [generation.text for generation in ask(backend, *requests)]


def test_a_structured_backend_binds_the_reply_to_the_schema(backend):
    if backend.capabilities.structured:
        schema = {
            "type": "object",
            "properties": {"often": {"enum": ["daily", "never"]}},
            "required": ["often"],
            "additionalProperties": False,
        }
        options = {**OPTIONS, "max_tokens": 32, "schema": canonical_json(schema)}
        (generation,) = ask(backend, Request(MESSAGES, options))
        assert json.loads(generation.text)["often"] in {"daily", "never"}


def test_a_continuation_has_a_log_likelihood_for_each_token(backend):
    if backend.capabilities.continuation:
        (generation,) = ask(backend, Request(MESSAGES, OPTIONS, continuation="Every day"))
        assert generation.finish_reason == "scored"
        assert generation.text == ""
        assert generation.token_logprobs
        assert all(math.isfinite(p) and p <= 0 for p in generation.token_logprobs)


def test_choices_have_probabilities_that_add_up(backend):
    if backend.capabilities.choice_probs:
        (generation,) = ask(backend, Request(MESSAGES, OPTIONS, choices=("A", "B", "C")))
        assert generation.choice_probs is not None
        assert len(generation.choice_probs) == 3
        assert sum(generation.choice_probs) == pytest.approx(1.0)
        assert all(0 <= p <= 1 for p in generation.choice_probs)
        assert generation.choice_mass is None or 0 <= generation.choice_mass <= 1


def test_a_message_without_text_is_taken_where_it_is_said_to_be(backend):
    if backend.capabilities.empty_message:
        (generation,) = ask(backend, Request((Message("user", ""),), OPTIONS))
        assert isinstance(generation.text, str)


def test_closing_twice_is_safe():
    nowhere = [make("http://127.0.0.1:9") for make in PROVIDERS.values()]
    for backend in [make() for make in BACKENDS.values()] + nowhere:
        asyncio.run(backend.close())
        asyncio.run(backend.close())
