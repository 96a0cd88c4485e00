"""The stub speaks what the providers' own clients understand, and counts what arrives."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest
from provider_stub import Failure, Raw, Reply


def post(url: str, body: object, **headers: str):
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return json.load(answer)


def test_one_reply_has_the_shape_of_the_endpoint_that_was_called(provider):
    reply = Reply("hi", input_tokens=10, cached_tokens=4, cache_write_tokens=3)
    provider.answer = lambda seen: reply
    ask = {"model": "m", "messages": [{"role": "user", "content": "a"}]}
    chat = post(provider.openai_url + "/chat/completions", ask)
    responses = post(provider.openai_url + "/responses", {"model": "m", "input": "a"})
    messages = post(provider.url + "/v1/messages", ask)
    assert chat["usage"]["prompt_tokens"] == responses["usage"]["input_tokens"] == 10
    assert messages["usage"]["input_tokens"] == 3
    assert provider.paid == [reply] * 3
    assert [seen.text for seen in provider.calls] == ["a"] * 3
    assert all(seen.is_delivered for seen in provider.calls)


def test_scripts_come_before_the_answer_and_failures_are_counted(provider):
    provider.script(Failure(429, headers={"retry-after": "3"}), Failure(is_dropped=True))
    url = provider.openai_url + "/chat/completions"
    with pytest.raises(urllib.error.HTTPError) as caught:
        post(url, {})
    assert caught.value.headers["Retry-After"] == "3"
    caught.value.close()
    with pytest.raises(OSError, match="closed"):
        post(url, {})
    assert post(url, {})["choices"][0]["message"]["content"] == "ok"
    assert (provider.n_failed(), provider.n_failed(429), len(provider.paid)) == (2, 1, 1)


def test_a_lost_reply_is_paid_for(provider):
    provider.script(Reply(is_lost=True))
    with pytest.raises(OSError, match="closed"):
        post(provider.openai_url + "/responses", {})
    assert len(provider.paid) == 1


def test_a_route_adds_an_endpoint_that_is_no_call_to_a_model(provider):
    provider.route("POST", "/v1/batches", lambda seen: Raw({"id": seen.body["x"]}))
    assert post(provider.openai_url + "/batches", {"x": "b1"}) == {"id": "b1"}
    assert provider.calls == []
    assert len(provider.seen) == 1


def test_the_usual_reply_fits_what_is_asked_for(provider):
    schema = {"type": "object", "properties": {"often": {"enum": ["daily", "never"]}}}
    form = {"type": "json_schema", "json_schema": {"schema": schema}}
    url = provider.openai_url
    chat = post(f"{url}/chat/completions", {"response_format": form})
    assert json.loads(chat["choices"][0]["message"]["content"]) == {"often": "daily"}
    found = post(f"{url}/responses", {"text": {"format": {"schema": schema}}})
    assert json.loads(found["output"][0]["content"][0]["text"]) == {"often": "daily"}
    found = post(f"{provider.url}/v1/messages", {"output_config": {"format": {"schema": schema}}})
    assert json.loads(found["content"][0]["text"]) == {"often": "daily"}
    chat = post(f"{url}/chat/completions", {"logprobs": True})
    assert chat["choices"][0]["logprobs"]["content"][0]["token"] == "A"
