"""A key comes from the environment, goes to one server, and is seen nowhere else."""

from __future__ import annotations

import asyncio
import base64
import logging
import subprocess
import sys
import textwrap

import pytest
from canary import KEY, everything_of, files_with_key, is_in
from provider_stub import Failure, Raw, Reply

from quorum.backends.anthropic import Anthropic
from quorum.backends.keys import (
    HIDDEN,
    check_base_url,
    check_key_variable,
    is_local,
    read_key,
    scrubbed,
)
from quorum.backends.openai import OpenAI
from quorum.errors import BackendError, QuorumError, RejectedError, SettingsError
from quorum.records import Message, Request
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job, run_jobs
from quorum.runtime.store import GenerationStore

ASK = Request((Message("user", "How often do you cycle?"),), {"max_tokens": 8})


@pytest.fixture(params=["openai", "responses", "anthropic"])
def backend(request, provider, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", KEY)
    if request.param == "anthropic":
        return Anthropic(base_url=provider.url, key_variable="CANARY_KEY")
    api = "responses" if request.param == "responses" else "chat"
    return OpenAI(base_url=provider.openai_url, key_variable="CANARY_KEY", api=api)


def failed(backend) -> BackendError:
    async def drive():
        try:
            await backend.complete(ASK)
        except BackendError as error:
            return error
        finally:
            await backend.close()

    return asyncio.run(drive())


def test_the_name_of_a_variable_is_a_name():
    for name in ("OPENAI_API_KEY", "my_key2", None):
        check_key_variable(name)


@pytest.mark.parametrize("make", [OpenAI, Anthropic])
@pytest.mark.parametrize("value", [KEY, "sk-abc", "", "A KEY", "${OPENAI_API_KEY}"])
def test_a_key_where_its_variable_should_stand_is_refused_and_not_shown(make, value):
    with pytest.raises(SettingsError) as caught:
        make(key_variable=value)
    assert caught.value.where == "backend.key_variable"
    assert not value or value not in everything_of(caught.value)


def test_a_missing_key_is_one_line_that_names_the_variable(monkeypatch, provider):
    monkeypatch.delenv("CANARY_KEY", raising=False)
    with pytest.raises(SettingsError, match="CANARY_KEY is not set"):
        read_key("CANARY_KEY")
    backend = OpenAI(base_url=provider.openai_url, key_variable="CANARY_KEY")
    with pytest.raises(SettingsError, match="export CANARY_KEY") as caught:
        asyncio.run(backend.complete(ASK))
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, RejectedError)  # so that a cap books nothing for it
    assert provider.seen == []


def test_a_key_with_a_line_break_is_taken_without_it(monkeypatch):
    monkeypatch.setenv("CANARY_KEY", KEY + "\r\n")
    assert read_key("CANARY_KEY") == KEY


@pytest.mark.parametrize("value", [KEY + "\n" + KEY, f"Bearer {KEY}", KEY + "é"])
def test_what_no_header_can_carry_is_refused_and_not_shown(monkeypatch, value):
    monkeypatch.setenv("CANARY_KEY", value)
    with pytest.raises(SettingsError, match="cannot be a key") as caught:
        read_key("CANARY_KEY")
    assert not is_in(everything_of(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {KEY}.",
        f"Authorization: Bearer {KEY}",
        f"{{'x-api-key': '{KEY}'}}",
        base64.b64encode(KEY.encode()).decode(),
        f"Bearer {KEY[:10]}…",
    ],
)
def test_every_form_of_a_key_is_hidden(text):
    assert not is_in(scrubbed(text, (KEY,)))


def test_other_keys_are_hidden_too_and_words_are_not():
    assert scrubbed("key sk-proj-abc***xyz", ()) == f"key {HIDDEN}"
    assert scrubbed("the task-force asked sk-1", ("ab",)) == "the task-force asked sk-1"


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://localhost:8000/v1", True),
        ("http://127.0.0.1:11434/v1", True),
        ("http://127.9.9.9", True),
        ("http://[::1]:8080/v1", True),
        ("http://models.localhost/v1", True),
        ("https://api.openai.com/v1", False),
        ("http://localhost.example.org", False),
        ("http://127.0.0.1.example.org", False),
        ("http://192.168.0.7/v1", False),
        ("http://0.0.0.0/v1", False),
    ],
)
def test_addresses_of_this_machine(url, local):
    assert is_local(url) is local
    if local:
        check_base_url(url, allow_http=False)


@pytest.mark.parametrize("make", [OpenAI, Anthropic])
def test_plain_http_to_another_machine_needs_a_yes(make):
    with pytest.raises(SettingsError, match="plain http") as caught:
        make(base_url="http://192.168.0.7:8000/v1")
    assert "allow_http: true" in caught.value.mend
    make(base_url="http://192.168.0.7:8000/v1", allow_http=True)
    make(base_url="https://192.168.0.7:8000/v1")


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{KEY}@example.org/v1",
        f"https://{KEY}@example.org/v1",
        f"https://example.org/v1?api_key={KEY}",
        f"https://example.org/v1#{KEY}",
        "ftp://example.org",
        "example.org/v1",
        "https://",
        "https://example.org:99999/v1",
        " https://example.org",
        "file" + ":///etc/passwd",
    ],
)
def test_an_address_that_is_none_or_holds_a_key_is_refused_and_not_shown(url):
    with pytest.raises(SettingsError) as caught:
        OpenAI(base_url=url)
    assert caught.value.where == "backend.base_url"
    assert not is_in(everything_of(caught.value))


ANSWERS = {
    "success": Reply("ok"),
    "success that repeats the key": Reply(f"your key is {KEY}", model=f"m {KEY}"),
    "401": Failure(401, "invalid_api_key", f"Incorrect API key provided: {KEY}"),
    "429": Failure(429, "rate_limit_exceeded", f"Limit reached for {KEY}"),
    "no credit": Failure(429, "insufficient_quota", f"No credit for {KEY}"),
    "500 with the request in it": Failure(500, body=f"<pre>Bearer {KEY}</pre>".encode()),
    "no json": Raw(f"Authorization: Bearer {KEY}".encode(), headers={"content-type": "text/html"}),
    "no reply": Raw({"error": {"message": KEY, "code": KEY}}),
    "dropped": Failure(is_dropped=True),
    "redirect": Failure(307, message=KEY, headers={"location": f"https://example.org/{KEY}"}),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_canary_key_is_in_nothing_that_a_run_writes_or_says(
    backend, provider, tmp_path, caplog, answer
):
    provider.answer = lambda seen: ANSWERS[answer]
    caplog.set_level(logging.DEBUG)
    said = []

    async def drive():
        try:
            with GenerationStore(tmp_path / "store.sqlite") as store:
                await run_jobs(
                    backend,
                    store,
                    [[Job(ASK, "a")]],
                    on_result=lambda job, generation, from_store: said.append(generation) or (),
                    options=RuntimeOptions(max_attempts=2, backoff_base_s=0.001),
                    ledger=UsageLedger(tmp_path / "run"),
                )
        finally:
            await backend.close()

    try:
        asyncio.run(drive())
    except QuorumError as error:
        said.append(everything_of(error))
    assert said
    sent = provider.calls[0].headers  # it was really sent
    assert is_in(sent.get("authorization", "") + sent.get("x-api-key", ""))
    assert files_with_key(tmp_path) == []
    assert not is_in(repr(said) + repr(backend) + repr(backend.target))
    assert not is_in(caplog.text)


def test_an_error_has_no_sdk_error_behind_it(backend, provider):
    provider.answer = lambda seen: Failure(401, message=KEY)
    error = failed(backend)
    assert error.__cause__ is None
    assert error.__context__ is None


def test_a_redirect_is_not_followed_with_a_key(backend, provider):
    provider.route("POST", "/elsewhere", lambda seen: Raw({}))
    location = {"location": f"{provider.url}/elsewhere"}
    provider.script(Failure(307, headers=location))
    assert "redirects" in failed(backend).mend
    assert len(provider.seen) == 1


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_canary_key_is_not_in_the_traceback_of_a_crash(provider, tmp_path, name):
    """The process dies of an error of our own in the middle of a call, and prints all it can."""
    script = """
        import asyncio, faulthandler, logging, os, sys
        faulthandler.enable()
        logging.basicConfig(level=logging.DEBUG)
        from quorum.backends.anthropic import Anthropic
        from quorum.backends.openai import OpenAI
        from quorum.records import Message, Request
        make = {"openai": OpenAI, "anthropic": Anthropic}[sys.argv[1]]
        backend = make(base_url=sys.argv[2], key_variable="CANARY_KEY")
        async def drive():
            await backend.complete(Request((Message("user", "a"),)))
            backend.read = lambda *parts: 1 / 0
            await backend.complete(Request((Message("user", "b"),)))
        asyncio.run(drive())
    """
    url = provider.openai_url if name == "openai" else provider.url
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), name, url],
        env={"CANARY_KEY": KEY, "PYTHONPATH": ":".join(sys.path), "OPENAI_LOG": "debug"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "ZeroDivisionError" in done.stderr
    assert len(provider.calls) == 2
    assert not is_in(done.stdout + done.stderr)
    assert files_with_key(tmp_path) == []
