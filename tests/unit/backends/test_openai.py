"""OpenAI's format against a server on loopback: what is sent, and what its answers mean."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import sys
import threading
from dataclasses import replace

import pytest
from provider_stub import Failure, Raw, Reply

from quorum.backends.base import Backend, ObservedLimits
from quorum.backends.openai import OFFICIAL_URL, OpenAI
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
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, run_jobs
from quorum.runtime.store import GenerationStore

MESSAGES = (Message("system", "Be brief."), Message("user", "How often do you cycle?"))
ASK = Request(MESSAGES, {"temperature": 0.0, "max_tokens": 8, "seed": 3})
LETTERS = Request(MESSAGES, choices=("A", "B", "C"))


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test")


@pytest.fixture
def backend(provider):
    def make(**options) -> OpenAI:
        return OpenAI(base_url=provider.openai_url, **options)

    return make


def ask(backend: Backend, *requests: Request):
    async def all_of_them():
        try:
            return [await backend.complete(request) for request in requests]
        finally:
            await backend.close()

    return asyncio.run(all_of_them())


def failed(backend: Backend, request: Request = ASK) -> BackendError:
    with pytest.raises(BackendError) as caught:
        ask(backend, request)
    return caught.value


# What is sent


def test_a_chat_is_sent_as_it_stands(provider, backend):
    ask(backend(), ASK)
    assert provider.last == {
        "model": "gpt-4o-mini",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "How often do you cycle?"},
        ],
        "max_tokens": 8,
        "temperature": 0.0,
        "seed": provider.last["seed"],
    }
    assert provider.calls[0].path == "/v1/chat/completions"
    assert provider.calls[0].headers["authorization"] == "Bearer sk-of-the-test"


def test_openai_itself_gets_the_name_of_the_limit_that_all_its_models_know():
    body = OpenAI().body(ASK)
    assert body["max_completion_tokens"] == 8
    assert "max_tokens" not in body
    assert OpenAI().url == OFFICIAL_URL


@pytest.mark.parametrize(
    ("model", "is_reasoning"),
    [
        ("gpt-4o-mini", False),
        ("gpt-4.1", False),
        ("gpt-5-chat-latest", False),
        ("gpt-oss-20b", False),
        ("my-finetune-1", False),
        ("ft:gpt-4o-mini:org::id", False),
        ("qwen3-8b", False),
        ("o1", True),
        ("o3-mini", True),
        ("o4-mini-2025-04-16", True),
        ("gpt-5", True),
        ("gpt-5-mini", True),
        ("gpt-5.2", True),
        ("openai/gpt-5-mini", True),
        ("ft:o4-mini-2025-04-16:org::id", True),
    ],
)
def test_models_that_reason_are_told_by_their_names(model, is_reasoning):
    assert OpenAI(model=model).is_reasoning is is_reasoning
    assert OpenAI(model=model).capabilities.choice_probs is not is_reasoning


def test_a_model_that_reasons_gets_room_and_no_sampling(provider, backend):
    ask(backend(model="gpt-5-mini", reasoning_effort="low", reasoning_tokens=1000), ASK)
    body = provider.last
    assert body["max_completion_tokens"] == 1008
    assert body["reasoning_effort"] == "low"
    assert not {"temperature", "seed", "max_tokens", "logprobs"} & set(body)


def test_effort_none_is_no_reasoning_where_the_model_can_do_without():
    assert not OpenAI(model="gpt-5.2", reasoning_effort="none").is_reasoning
    assert OpenAI(model="gpt-5-mini", reasoning_effort="none").is_reasoning
    assert OpenAI(model="my-model", reasoning=True).is_reasoning


def test_choices_ask_for_one_token_and_its_rivals(provider, backend):
    provider.script(Reply("A", top=[("A", -0.1)]))
    ask(backend(top_logprobs=5), LETTERS)
    body = provider.last
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 5, 1)
    assert body["temperature"] == 0.0
    assert "seed" not in body


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_schema_binds_the_reply(provider, backend, api):
    request = replace(ASK, options={**ASK.options, "schema": canonical_json(SCHEMA)})
    ask(backend(api=api), request)
    body = provider.last
    if api == "chat":
        form = body["response_format"]["json_schema"]
        assert body["response_format"]["type"] == "json_schema"
    else:
        form = body["text"]["format"]
        assert form["type"] == "json_schema"
    assert form["schema"] == SCHEMA
    assert form["strict"] is True
    assert form["name"] == "reply"


def test_responses_are_sent_and_not_kept_there(provider, backend):
    ask(backend(api="responses", model="o4-mini", reasoning_effort="low"), ASK)
    body = provider.last
    assert provider.calls[0].path == "/v1/responses"
    assert body["store"] is False
    assert body["max_output_tokens"] == 16 + 4096  # 16 is the least that this API takes
    assert body["reasoning"] == {"effort": "low"}
    assert body["input"][1] == {"role": "user", "content": "How often do you cycle?"}


def test_parameters_can_be_left_out_and_added(provider, backend):
    ask(backend(omit=("seed", "temperature"), extra={"top_p": 0.5, "provider": {"sort": "x"}}), ASK)
    body = provider.last
    assert not {"seed", "temperature"} & set(body)
    assert (body["top_p"], body["provider"]) == (0.5, {"sort": "x"})


def test_a_request_without_a_limit_gets_the_backends():
    assert OpenAI(max_output_tokens=77).body(Request(MESSAGES))["max_completion_tokens"] == 77


def test_odd_texts_arrive_and_lone_surrogates_become_a_mark(provider, backend):
    text = "é\x00\u2028</script>\ud800😀"
    provider.answer = lambda seen: Reply("\ud83d")  # half of an emoji comes back as it is
    (found,) = ask(backend(), Request((Message("user", text),)))
    assert provider.last["messages"][0]["content"] == text.replace("\ud800", "\ufffd")
    assert isinstance(found.text, str)


def test_the_ceiling_is_what_is_sent():
    for options, request, tokens in [
        ({}, ASK, 8),
        ({}, LETTERS, 1),
        ({"model": "o3", "reasoning_tokens": 100}, ASK, 108),
        ({"api": "responses"}, LETTERS, 16),
        ({"max_output_tokens": 5}, Request(MESSAGES), 5),
    ]:
        backend = OpenAI(**options)
        assert backend.output_ceiling(request) == tokens
        sent = backend.body(request)
        assert sent.get("max_completion_tokens", sent.get("max_output_tokens")) == tokens


def test_what_it_cannot_do_is_refused_before_anything_is_sent(provider, backend):
    assert isinstance(failed(backend(), Request(MESSAGES, continuation="Daily")), RejectedError)
    assert "log-likelihood" in str(failed(backend(), Request(MESSAGES, continuation="Daily")))
    assert "elicitation=choice" in failed(backend(model="o3"), LETTERS).mend
    assert provider.calls == []


# What changes an answer is part of the key


def test_case_79_another_server_model_setting_or_prompt_is_another_key():
    one = OpenAI()
    others = [
        OpenAI(model="gpt-4o"),
        OpenAI(base_url="https://example.org/v1"),
        OpenAI(api="responses"),
        OpenAI(reasoning=True),
        OpenAI(reasoning_effort="low"),
        OpenAI(omit=("seed",)),
        OpenAI(extra={"top_p": 0.5}),
        OpenAI(top_logprobs=5),
    ]
    keys = {ASK.key(backend.target) for backend in [one, *others]}
    keys |= {
        request.key(one.target)
        for request in (
            replace(ASK, messages=MESSAGES[1:]),
            replace(ASK, options={**ASK.options, "max_tokens": 9}),
            replace(ASK, options={**ASK.options, "schema": "{}"}),
            replace(ASK, sample=1),
        )
    }
    assert len(keys) == 13


def test_how_a_call_is_carried_out_is_no_part_of_the_key():
    one = OpenAI().target
    assert OpenAI(base_url=OFFICIAL_URL + "/").target == one
    assert OpenAI(key_variable="OTHER", priced=False, batch=False, mode="batch").target == one


def test_case_80_five_repeats_are_five_seeds_and_five_keys(provider, backend):
    warm = {"temperature": 1.0, "seed": 3}
    found = backend()
    requests = [Request(MESSAGES, warm, sample=i) for i in range(5)]
    ask(found, *requests)
    assert len({seen.body["seed"] for seen in provider.calls}) == 5
    assert len({request.key(found.target) for request in requests}) == 5


# What comes back


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_reply_with_its_tokens(provider, backend, api):
    provider.script(
        Reply(
            "Every day.",
            input_tokens=1000,
            cached_tokens=800,
            cache_write_tokens=100,
            output_tokens=300,
            reasoning_tokens=250,
            model="gpt-4o-mini-2024-07-18",
        )
    )
    (found,) = ask(backend(api=api), ASK)
    assert (found.text, found.finish_reason) == ("Every day.", "stop")
    assert found.usage == Usage(1000, 800, 300, 250, 100)
    assert found.model_version.startswith("gpt-4o-mini-2024-07-18")
    assert found.seconds > 0


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_probabilities_of_letters(provider, backend, api):
    top = [("A", math.log(0.4)), (" A", math.log(0.2)), ("B", math.log(0.2)), ("I", -3.0)]
    provider.script(Reply("A", top=top, output_tokens=1))
    (found,) = ask(backend(api=api), LETTERS)
    assert found.choice_probs == pytest.approx((0.75, 0.25, 0.0))
    assert found.choice_mass == pytest.approx(0.8)
    least = math.exp(-3.0)
    assert found.choice_bound == pytest.approx(least / (0.8 + least))  # C is not listed
    assert (found.text, found.finish_reason) == ("", "scored")


def test_a_list_without_letters_is_scored_without_probabilities(provider, backend, caplog):
    empty = Reply("", finish_reason="length", top=[])
    provider.script(Reply("I", top=[("I", -0.1)]), empty)
    for found in ask(backend(), LETTERS, LETTERS):
        assert (found.choice_probs, found.choice_mass) == (None, 0.0)
        assert found.finish_reason == "scored"
        assert found.usage.output_tokens == 2
    assert caplog.records == []


def test_a_server_without_log_probabilities_is_told_and_not_asked_again(provider, backend):
    provider.script(Reply("A", top=None))
    error = failed(backend(), LETTERS)
    assert "logprobs: false" in error.mend
    assert not isinstance(error, RejectedError)  # the answer is charged all the same
    assert len(provider.calls) == 1


@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("reason", ["refusal", "filter"])
def test_case_35_a_refusal_is_one_call_and_its_own_kind(provider, backend, api, reason):
    provider.script(Reply("I can't.", finish_reason=reason))
    (found,) = ask(backend(api=api), ASK)
    assert found.finish_reason == "refusal"
    assert found.usage.output_tokens == 2
    assert len(provider.calls) == 1


def test_case_35_a_declined_prompt_is_a_refusal_without_tokens(provider, backend):
    provider.script(Failure(400, "content_filter", "filtered"))
    (found,) = ask(backend(), ASK)
    assert (found.text, found.finish_reason, found.usage) == ("", "refusal", Usage())


def test_a_refused_letter_is_a_refusal(provider, backend):
    provider.script(Reply("No.", finish_reason="refusal", top=[("N", -0.1)]))
    (found,) = ask(backend(), LETTERS)
    assert (found.finish_reason, found.choice_probs) == ("refusal", None)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_empty_text_with_length_is_booked_and_said_once(provider, backend, api, caplog):
    provider.answer = lambda seen: Reply(
        "", finish_reason="length", output_tokens=64, reasoning_tokens=64
    )
    found = ask(backend(api=api, model="o4-mini"), ASK, replace(ASK, sample=1))
    assert [(f.text, f.finish_reason, f.usage.reasoning_tokens) for f in found] == [
        ("", "length", 64),
        ("", "length", 64),
    ]
    (said,) = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert "backend.reasoning_tokens" in said


def test_a_cut_reply_is_length(provider, backend):
    provider.script(Reply("Every", finish_reason="length"))
    assert ask(backend(), ASK)[0].finish_reason == "length"


def test_tokens_that_a_server_does_not_count_are_estimated_and_said_once(provider, backend, caplog):
    provider.answer = lambda seen: Reply("Often", change=lambda body: body.pop("usage"))
    found = ask(backend(), ASK, replace(ASK, sample=1))
    assert found[0].usage == Usage(input_tokens=8, output_tokens=2)  # 32 and 5 characters
    assert len(caplog.records) == 1
    assert "characters/4" in caplog.records[0].message


def test_text_in_parts_is_one_text(provider, backend):
    def parts(body):
        message = body["choices"][0]["message"]
        message["content"] = [{"type": "text", "text": "Every "}, {"type": "text", "text": "day"}]

    provider.script(Reply(change=parts))
    assert ask(backend(), ASK)[0].text == "Every day"


def test_limits_are_read_from_the_last_answer(provider, backend):
    found = backend()
    assert found.observed_limits is None
    provider.headers = {"x-ratelimit-limit-requests": "500", "x-ratelimit-limit-tokens": "200000"}
    ask(found, ASK)
    assert found.observed_limits == ObservedLimits(500, 200_000)
    provider.headers = {}
    ask(found, ASK)
    assert found.observed_limits == ObservedLimits(500, 200_000)


def test_limits_are_read_from_errors_too(provider, backend):
    """A request above the whole allowance gets nothing but 429, and must be told so."""
    provider.script(
        Failure(429, "rate_limit_exceeded", headers={"x-ratelimit-limit-tokens": "30000"})
    )
    found = backend()
    failed(found)
    assert found.observed_limits == ObservedLimits(None, 30_000)


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(provider, backend, monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ask(backend(), ASK)[0].text == "ok"


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("/models/tiny.gguf", "tiny.gguf fp_1"),
        ("C:\\models\\tiny.gguf", "tiny.gguf fp_1"),
        ("./tiny.gguf", "tiny.gguf fp_1"),
        ("openai/gpt-5-mini", "openai/gpt-5-mini fp_1"),
    ],
)
def test_a_servers_folders_are_no_version(provider, backend, model, version):
    provider.script(Reply(model=model))
    assert ask(backend(), ASK)[0].model_version == version


# Errors


def test_case_88_a_rate_limit_is_one_request_and_names_the_wait(provider, backend):
    provider.script(Failure(429, "rate_limit_exceeded", headers={"retry-after": "171"}))
    error = failed(backend())
    assert isinstance(error, TransientBackendError)
    assert (error.kind, error.retry_after_s) == ("rate_limit", 171.0)
    assert len(provider.calls) == 1  # the SDK repeats nothing
    assert ask(backend(), ASK)[0].text == "ok"
    assert [seen.headers["x-stainless-retry-count"] for seen in provider.calls] == ["0", "0"]


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [
        ({"retry-after": "121"}, 121.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "-1"}, None),
    ],
)
def test_case_113_any_wait_reaches_our_own_loop(provider, backend, wait, seconds):
    provider.script(Failure(429, headers=wait))
    assert failed(backend()).retry_after_s == seconds
    assert len(provider.calls) == 1


def test_no_credit_is_permanent_and_case_115_is_not(provider, backend):
    provider.script(
        Failure(429, "insufficient_quota", "You exceeded your current quota"),
        Failure(429, None, "INSUFFICIENT QUOTA"),
    )
    assert not isinstance(failed(backend()), TransientBackendError)
    assert isinstance(failed(backend()), TransientBackendError)


def test_case_122_a_reply_that_is_lost_may_have_been_charged(provider, backend):
    provider.script(Reply(is_lost=True))
    error = failed(backend())
    assert error.kind == "connection"
    assert len(provider.paid) == len(provider.calls) == 1


def test_nobody_there_is_a_failed_connection(provider, backend):
    found = backend()
    provider.close()
    assert failed(found).kind == "unsent"  # no connection: nothing can have been charged


def test_cancelling_a_call_leaves_the_client_usable(provider, backend):
    gate = threading.Event()
    provider.script(Reply(gate=gate))

    async def drive():
        found = backend()
        task = asyncio.create_task(found.complete(ASK))
        await asyncio.to_thread(provider.wait_for, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        reply = await found.complete(ASK)
        await found.close()
        return reply

    assert asyncio.run(drive()).text == "ok"


@pytest.mark.parametrize(
    ("step", "is_transient", "says"),
    [
        (Raw(b"<html><b>Log in</b></html>", headers={"content-type": "text/html"}), False, "base"),
        (Raw(b'{"choices": [', headers={"content-type": "application/json"}), True, "broke off"),
        (Raw(b"[]"), False, "no object"),
        (Raw({"choices": []}), True, "no reply"),
        (Raw({"error": {"code": 502, "message": "upstream"}}), True, "502"),
        (Raw({"error": {"code": 402, "message": "Insufficient credits"}}), False, "402"),
        (Failure(500, body=b"<html>Bad gateway</html>"), True, "Bad gateway"),
        (Failure(307, headers={"location": "https://elsewhere.example/"}), False, "redirects"),
        (Failure(404, "model_not_found", "no such model"), False, "no such model"),
        (Failure(400, "unsupported_parameter", "no seed"), False, "backend.omit"),
    ],
)
def test_odd_answers_are_one_line(provider, backend, step, is_transient, says):
    provider.script(step)
    error = failed(backend())
    assert isinstance(error, TransientBackendError) is is_transient
    assert isinstance(error, RejectedError) is (
        (isinstance(step, Failure) and not is_transient) or says == "402"
    )
    assert says in str(error)
    assert "\n" not in str(error)
    assert len(provider.calls) == 1


def test_a_failed_response_is_read_by_its_code(provider, backend):
    provider.script(
        Raw({"status": "failed", "error": {"code": "server_error", "message": "x"}, "output": []}),
        Raw({"status": "failed", "error": {"code": "invalid_prompt", "message": "x"}}),
    )
    assert isinstance(failed(backend(api="responses")), TransientBackendError)
    assert ask(backend(api="responses"), ASK)[0].finish_reason == "refusal"


# Running


def test_case_92_a_second_run_in_one_process_completes(provider, backend):
    found = backend()
    for _ in range(2):
        assert ask(found, ASK)[0].text == "ok"


@pytest.mark.filterwarnings("ignore:.*unclosed:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
def test_case_92_also_where_the_first_run_was_not_closed(provider, backend):
    found = backend()
    assert asyncio.run(found.complete(ASK)).text == "ok"
    assert ask(found, ASK)[0].text == "ok"
    asyncio.run(found.close())
    asyncio.run(found.close())
    gc.collect()  # what the first run left open is dropped, and said, here


def test_many_calls_run_at_once(provider, backend):
    async def drive():
        found = backend()
        replies = await asyncio.gather(*(found.complete(replace(ASK, sample=i)) for i in range(50)))
        await found.close()
        return replies

    assert len(asyncio.run(drive())) == len(provider.calls) == 50


@pytest.mark.parametrize("variable", [None, "none"])
def test_a_server_without_keys_gets_none(provider, backend, monkeypatch, variable):
    monkeypatch.delenv("OPENAI_API_KEY")
    ask(backend(key_variable=variable), ASK)
    assert "authorization" not in provider.calls[0].headers


def test_the_address_of_another_provider_in_the_environment_changes_nothing(
    provider, backend, monkeypatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert ask(backend(), ASK)[0].text == "ok"


def test_without_its_package_the_mend_is_the_command(backend, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match="pip install openai"):
        ask(backend(), ASK)


def test_case_109_nothing_counts_tokens_with_a_download(provider, backend):
    ask(backend(), ASK)
    assert "tiktoken" not in sys.modules


def test_capabilities_are_known_before_anything_is_sent(backend, provider):
    official = OpenAI().capabilities
    assert official.priced
    assert official.batch
    assert official.structured
    assert official.choice_probs
    assert official.empty_message
    assert not any((official.deterministic, official.seed, official.continuation))
    local = backend().capabilities
    assert not local.priced
    assert not local.batch
    assert backend(priced=True, batch=True).capabilities.priced
    assert not backend(logprobs=False).capabilities.choice_probs
    assert OpenAI(model="my-model", base_url="https://example.org/v1").capabilities.priced
    assert provider.seen == []


def test_what_each_request_sets_is_no_extra():
    with pytest.raises(SettingsError, match=r"backend\.extra\.messages"):
        OpenAI(extra={"messages": []})


def test_a_batch_line_is_the_same_body_and_the_same_reading(provider, backend):
    """What a batch uploads and downloads: no call of its own, cached tokens in their place."""
    found = backend()
    line = {"custom_id": "k", "method": "POST", "url": "/v1" + found.path, "body": found.body(ASK)}
    assert json.loads(json.dumps(line)) == line
    ask(found, ASK)
    assert provider.last == line["body"]
    answer = {
        "choices": [{"message": {"content": "A"}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 1000,
            "completion_tokens": 1,
            "prompt_tokens_details": {"cached_tokens": 800},
        },
    }
    assert found.read(answer, ASK).usage == Usage(1000, 800, 1)


def test_case_122_after_a_timeout_one_repetition_at_most(provider, backend):
    """The server goes on and charges for each: neither we nor the SDK ask a third time."""
    gate = threading.Event()
    provider.answer = lambda seen: Reply(gate=gate)

    async def drive():
        found = backend()
        options = RuntimeOptions(timeout_s=0.1, backoff_base_s=0.001, max_attempts=9)
        try:
            with GenerationStore() as store:
                groups = [[Job(ASK, "a")]]
                await run_jobs(found, store, groups, on_result=lambda *_: (), options=options)
        finally:
            await found.close()

    with pytest.raises(TransientBackendError, match=r"no reply within 0\.1 s"):
        asyncio.run(drive())
    assert len(provider.calls) == 2
    gate.set()


def test_case_88_a_rate_limit_and_then_a_reply_is_one_answer(provider, backend):
    provider.script(Failure(429, headers={"retry-after-ms": "5"}), Failure(500))
    replies = []

    async def drive():
        found = backend()
        options = RuntimeOptions(backoff_base_s=0.001)
        try:
            with GenerationStore() as store:
                keep = lambda job, generation, from_store: replies.append(generation) or ()  # noqa: E731
                await run_jobs(found, store, [[Job(ASK, "a")]], on_result=keep, options=options)
        finally:
            await found.close()

    asyncio.run(drive())
    assert [reply.text for reply in replies] == ["ok"]
    assert (len(provider.calls), len(provider.paid)) == (3, 1)
