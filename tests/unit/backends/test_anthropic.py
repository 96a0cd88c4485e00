"""Anthropic's messages against a server on loopback: what is sent, and what its answers mean."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import pytest
from provider_stub import Failure, Raw, Reply

from quorum.backends.anthropic import Anthropic
from quorum.backends.base import ObservedLimits
from quorum.digests import canonical_json
from quorum.errors import (
    BackendError,
    MissingExtraError,
    RejectedError,
    SettingsError,
    TransientBackendError,
)
from quorum.reconstruction.learner import SCHEMA
from quorum.records import Message, Request, Usage

MESSAGES = (Message("system", "Be brief."), Message("user", "How often do you cycle?"))
ASK = Request(MESSAGES, {"temperature": 0.0, "max_tokens": 8, "seed": 3})


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-of-the-test")


@pytest.fixture
def backend(provider):
    def make(**options) -> Anthropic:
        return Anthropic(base_url=provider.url, **options)

    return make


def ask(backend: Anthropic, *requests: Request):
    async def all_of_them():
        try:
            return [await backend.complete(request) for request in requests]
        finally:
            await backend.close()

    return asyncio.run(all_of_them())


def failed(backend: Anthropic, request: Request = ASK) -> BackendError:
    with pytest.raises(BackendError) as caught:
        ask(backend, request)
    return caught.value


# What is sent


def test_messages_are_sent_with_the_system_apart(provider, backend):
    ask(backend(), ASK)
    assert provider.last == {
        "model": "claude-haiku-4-5",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "How often do you cycle?"}],
        "max_tokens": 8,
        "temperature": 0.0,
    }
    seen = provider.calls[0]
    assert seen.path == "/v1/messages"
    assert "sk-ant-of-the-test" in seen.headers.get("authorization", "") + seen.headers.get(
        "x-api-key", ""
    )


@pytest.mark.parametrize(
    ("model", "has_temperature"),
    [
        ("claude-haiku-4-5", True),
        ("claude-haiku-4-5-20251001", True),
        ("claude-sonnet-4-6", True),
        ("claude-opus-4-1-20250805", True),
        ("claude-sonnet-4-20250514", True),
        ("claude-3-5-haiku-latest", True),
        ("anthropic.claude-opus-4-6-v1:0", True),
        ("claude-opus-4-7", False),
        ("claude-opus-4-8", False),
        ("claude-sonnet-5", False),
        ("claude-haiku-5-5", False),
        ("claude-fable-5-2", False),
        ("claude-opus-4-60", False),
        ("some-model", False),
    ],
)
def test_temperature_goes_to_models_that_take_one_with_the_version_that_allows_it(
    provider, backend, model, has_temperature
):
    ask(backend(model=model), ASK)
    assert ("temperature" in provider.last) is has_temperature
    version = provider.calls[0].headers["anthropic-version"]
    assert version == ("2023-06-01" if has_temperature else "2026-10-21")


def test_temperature_can_be_decided():
    assert Anthropic(model="some-model", temperature=True).body(ASK)["temperature"] == 0.0
    assert "temperature" not in Anthropic(temperature=False).body(ASK)
    assert "temperature" not in Anthropic(temperature=True, thinking="adaptive").body(ASK)


def test_thinking_gets_room_and_effort(provider, backend):
    ask(backend(model="claude-opus-5", thinking="adaptive", effort="low"), ASK)
    body = provider.last
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"] == {"effort": "low"}
    assert body["max_tokens"] == 8 + 4096


def test_a_schema_binds_the_reply_without_the_words_that_are_not_known(provider, backend):
    request = replace(ASK, options={**ASK.options, "schema": canonical_json(SCHEMA)})
    ask(backend(), request)
    form = provider.last["output_config"]["format"]
    assert form["type"] == "json_schema"
    assert "maxLength" not in canonical_json(form["schema"])
    assert form["schema"]["required"] == ["attributes"]


def test_caching_is_asked_for_and_changes_no_key(provider, backend):
    ask(backend(cache_prompt=True), ASK)
    assert provider.last["cache_control"] == {"type": "ephemeral"}
    assert Anthropic(cache_prompt=True).target == Anthropic().target
    assert Anthropic(cache_prompt=True).capabilities.prefix_reuse


def test_case_79_another_server_model_or_setting_is_another_key():
    backends = [
        Anthropic(),
        Anthropic(model="claude-sonnet-4-6"),
        Anthropic(base_url="https://example.org"),
        Anthropic(temperature=False),
        Anthropic(thinking="adaptive"),
        Anthropic(effort="low"),
        Anthropic(omit=("system",)),
        Anthropic(extra={"service_tier": "standard_only"}),
    ]
    assert len({ASK.key(backend.target) for backend in backends}) == 8


def test_what_it_cannot_do_is_refused_before_anything_is_sent(provider, backend):
    found = backend()
    user = Message("user", "a")
    for request in (
        Request(MESSAGES, choices=("A", "B")),
        Request(MESSAGES, continuation="Daily"),
        Request((user, Message("system", "b"))),
        Request((Message("system", "b"),)),
    ):
        assert isinstance(failed(found, request), RejectedError)
    assert provider.calls == []
    can = Anthropic().capabilities
    assert not any((can.choice_probs, can.continuation, can.empty_message, can.deterministic))
    assert all((can.priced, can.batch, can.structured))
    assert not Anthropic(model="claude-3-haiku-20240307").capabilities.structured
    with pytest.raises(SettingsError, match="extra"):
        Anthropic(extra={"system": "x"})


# What comes back


def test_case_95_a_reply_with_its_tokens(provider, backend):
    provider.script(
        Reply(
            "Every day.",
            input_tokens=1000,
            cached_tokens=800,
            cache_write_tokens=150,
            output_tokens=300,
            reasoning_tokens=250,
            model="claude-haiku-4-5-20251001",
        )
    )
    (found,) = ask(backend(), ASK)
    assert (found.text, found.finish_reason) == ("Every day.", "stop")
    assert found.usage == Usage(1000, 800, 300, 250, 150)
    assert found.model_version == "claude-haiku-4-5-20251001"


def test_case_35_a_refusal_is_one_call_and_its_own_kind(provider, backend):
    provider.script(Reply("", finish_reason="refusal", output_tokens=1))
    (found,) = ask(backend(), ASK)
    assert found.finish_reason == "refusal"
    assert found.usage == Usage(10, 0, 1)
    assert len(provider.calls) == 1


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_empty_text_with_length_is_booked_and_said_once(provider, backend, caplog, reason):
    def cut(body):
        body["stop_reason"] = reason
        body["content"] = [{"type": "thinking", "thinking": "Hm", "signature": "s"}]

    provider.answer = lambda seen: Reply(output_tokens=64, reasoning_tokens=64, change=cut)
    found = ask(backend(thinking="adaptive"), ASK, replace(ASK, sample=1))
    assert [(f.text, f.finish_reason) for f in found] == [("", "length")] * 2
    assert len(caplog.records) == 1
    assert "backend.reasoning_tokens" in caplog.records[0].message


def test_thinking_is_no_part_of_the_text(provider, backend):
    blocks = [{"type": "thinking", "thinking": "A?"}, {"type": "text", "text": "B"}]
    provider.script(Reply(change=lambda body: body.update(content=blocks)))
    assert ask(backend(), ASK)[0].text == "B"


def test_limits_are_read(provider, backend):
    provider.headers = {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-tokens-limit": "48000",
        "anthropic-ratelimit-input-tokens-limit": "40000",
        "anthropic-ratelimit-output-tokens-limit": "8000",
    }
    found = backend()
    ask(found, ASK)
    assert found.observed_limits == ObservedLimits(50, 48_000, 40_000, 8_000)


# Errors


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (Failure(429, headers={"retry-after": "171"}), "rate_limit"),
        (Failure(529), "overloaded"),
        (Failure(500), "server"),
        (Failure(504, "timeout_error"), "timeout"),
        (Failure(is_dropped=True), "connection"),
        (Reply(is_lost=True), "connection"),
        (Raw(b'{"content": ['), "connection"),
        (Raw({"type": "message"}), "server"),
        (Failure(401), None),
        (Failure(400), None),
        (Failure(402, "billing_error"), None),
        (Failure(404), None),
        (Failure(413), None),
    ],
)
def test_each_failure_is_one_request(provider, backend, step, kind):
    provider.script(step)
    error = failed(backend())
    assert getattr(error, "kind", None) == kind
    assert isinstance(error, TransientBackendError) is (kind is not None)
    assert len(provider.calls) == 1  # the SDK repeats nothing


def test_case_112_and_124_the_wait_is_read_in_every_form(provider, backend):
    provider.script(
        Failure(429, headers={"retry-after": "171"}),
        Failure(429, headers={"retry-after-ms": "40"}),
        Failure(529, headers={"retry-after": "abc"}),
    )
    assert [failed(backend()).retry_after_s for _ in range(3)] == [171.0, 0.04, None]


def test_case_92_a_second_run_in_one_process_completes(provider, backend):
    found = backend()
    for _ in range(2):
        assert ask(found, ASK)[0].text == "ok"


@pytest.mark.parametrize("variable", [None, "none"])
def test_a_server_without_keys_gets_none(provider, backend, monkeypatch, variable):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    ask(backend(key_variable=variable), ASK)
    assert not {"authorization", "x-api-key"} & set(provider.calls[0].headers)


def test_other_credentials_of_the_environment_are_not_sent(provider, backend, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "another-token")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    ask(backend(), ASK)
    assert "another-token" not in str(provider.calls[0].headers)


def test_without_its_package_the_mend_is_the_command(backend, monkeypatch):
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(MissingExtraError, match="pip install anthropic"):
        ask(backend(), ASK)


def test_the_ceiling_is_what_is_sent():
    for backend in (Anthropic(), Anthropic(thinking="adaptive", reasoning_tokens=7)):
        for request in (ASK, Request(MESSAGES)):
            assert backend.output_ceiling(request) == backend.body(request)["max_tokens"]
