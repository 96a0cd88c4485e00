"""Our format against a real server of it: llama.cpp with the embedded model, on loopback."""

from __future__ import annotations

import asyncio
import json

import pytest

from quorum.backends.anthropic import Anthropic
from quorum.backends.embedded import find_weights
from quorum.backends.engine import Engine
from quorum.backends.openai import OpenAI
from quorum.digests import canonical_json
from quorum.errors import RejectedError
from quorum.records import Message, Request

pytestmark = pytest.mark.embedded

LETTERS = "How often do you cycle? A: daily B: never. Answer with one letter."
MESSAGES = (Message("system", "Be brief."), Message("user", LETTERS))
SCHEMA = {
    "type": "object",
    "properties": {"often": {"enum": ["daily", "never"]}},
    "required": ["often"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def engine():
    engine = Engine(find_weights(), 1024)
    yield engine
    engine.close()


@pytest.fixture
def openai(engine, monkeypatch):
    monkeypatch.setenv("LLAMA_KEY", engine._key)

    def make(**options) -> OpenAI:
        url = f"http://{engine._host}/v1"
        return OpenAI(model="tiny", base_url=url, key_variable="LLAMA_KEY", **options)

    return make


def ask(backend, request: Request):
    async def drive():
        try:
            return await backend.complete(request)
        finally:
            await backend.close()

    return asyncio.run(drive())


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_reply_with_its_tokens(openai, engine, api):
    found = ask(openai(api=api), Request(MESSAGES, {"temperature": 0.0, "max_tokens": 16}))
    assert found.text
    assert found.usage.input_tokens == len(engine.tokens(engine.prompt_of(MESSAGES), special=True))
    assert 1 <= found.usage.output_tokens <= 16
    assert found.model_version.startswith("SmolLM2-135M-Instruct")


def test_probabilities_are_those_that_the_engine_computes_itself(openai, engine):
    """To 0.05: the runtime's kernels for one and for many new tokens differ by that much."""
    request = Request(MESSAGES, choices=("A", "B"))
    found = ask(openai(), request)
    exact = engine.choice_probs(request)
    assert found.choice_probs == pytest.approx(exact.choice_probs, abs=0.05)
    assert found.choice_mass == pytest.approx(exact.choice_mass, abs=0.05)


def test_an_option_beyond_the_list_is_bounded(openai, engine):
    found = ask(openai(top_logprobs=2), Request(MESSAGES, choices=("A", "Z")))
    exact = engine.choice_probs(Request(MESSAGES, choices=("A", "Z")))
    assert found.choice_probs[1] == 0.0
    assert 0 < exact.choice_probs[1] <= found.choice_bound <= 1


def test_a_schema_binds_the_reply(openai):
    options = {"temperature": 0.0, "max_tokens": 32, "schema": canonical_json(SCHEMA)}
    found = ask(openai(), Request(MESSAGES, options))
    assert json.loads(found.text)["often"] in {"daily", "never"}


def test_a_prompt_beyond_the_context_is_rejected(openai):
    with pytest.raises(RejectedError, match="context") as caught:
        ask(openai(), Request((Message("user", "word " * 2000),), {"max_tokens": 8}))
    assert "Shorten" in caught.value.mend


def test_a_wrong_key_names_its_variable(openai, monkeypatch):
    monkeypatch.setenv("LLAMA_KEY", "not-the-key")
    with pytest.raises(RejectedError, match="LLAMA_KEY"):
        ask(openai(), Request(MESSAGES, {"max_tokens": 8}))


def test_the_same_server_by_anthropics_format(engine, monkeypatch):
    monkeypatch.setenv("LLAMA_KEY", engine._key)
    backend = Anthropic(
        model="tiny", base_url=f"http://{engine._host}", key_variable="LLAMA_KEY", temperature=True
    )
    found = ask(backend, Request(MESSAGES, {"temperature": 0.0, "max_tokens": 16}))
    assert found.text
    assert found.usage.input_tokens == len(engine.tokens(engine.prompt_of(MESSAGES), special=True))
