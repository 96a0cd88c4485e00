"""quorum doctor: one tiny request, what it says, and what the backend can do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from canary import KEY, is_in
from provider_stub import Failure, Reply

from quorum.backends.anthropic import Anthropic
from quorum.backends.base import Capabilities
from quorum.backends.openai import OpenAI
from quorum.config.compose import compose
from quorum.errors import SettingsError
from quorum.pipeline.doctor import doctor, examine

ROOT = Path(__file__).parents[3]


def rows(found) -> dict[str, dict[str, object]]:
    return {row["name"]: row for row in found["capabilities"]}


@pytest.fixture
def backend(provider, monkeypatch):
    monkeypatch.setenv("CANARY_KEY", KEY)
    return OpenAI(base_url=provider.openai_url, key_variable="CANARY_KEY")


def test_one_request_and_a_table_of_what_is_declared(provider, backend):
    provider.headers = {"x-ratelimit-limit-requests": "500"}
    provider.script(Reply("ok", model="gpt-4o-mini-2024-07-18"))
    found = asyncio.run(examine(backend))
    assert len(provider.calls) == 1
    assert found["works"] is True
    assert (found["problem"], found["exit_code"]) == (None, 0)
    assert (found["reply"], found["finish_reason"]) == ("ok", "stop")
    assert found["limits"]["requests_per_min"] == 500
    assert found["usage"]["input_tokens"] == 10
    assert {row["checked"] for row in found["capabilities"]} == {"declared"}
    assert json.loads(json.dumps(found)) == found  # as --json prints it


def test_all_that_can_be_tried_is_tried_on_request(provider, backend):
    provider.script(Reply("ok"), Reply("A", top=[("A", -0.1), ("B", -3.0)]), Reply('{"ok": true}'))
    found = asyncio.run(examine(backend, is_thorough=True))
    assert found["works"] is True
    table = rows(found)
    assert table["choice_probs"]["checked"] == table["structured"]["checked"] == "tried"
    assert found["usage"]["input_tokens"] == 30
    assert len(provider.calls) == 3


def test_what_is_declared_and_fails_is_told(provider, backend):
    provider.script(Reply("ok"), Reply("A", top=None), Reply("Sure! Here it is:"))
    found = asyncio.run(examine(backend, is_thorough=True))
    assert found["works"] is False
    assert "no log-probabilities" in found["problem"]
    assert found["reply"] == "ok"
    assert {rows(found)[name]["checked"] for name in ("choice_probs", "structured")} == {"failed"}


@pytest.mark.parametrize(
    ("failure", "says", "n_calls"),
    [
        (Failure(401, "invalid_api_key", f"Incorrect API key provided: {KEY}"), "CANARY_KEY", 1),
        (Failure(429, "insufficient_quota", "No credit"), "credit", 1),
        (Failure(is_dropped=True), "connection failed", 1),
    ],
)
def test_a_problem_is_one_line_with_its_mend_and_no_key(provider, backend, failure, says, n_calls):
    provider.answer = lambda seen: failure
    found = asyncio.run(examine(backend, is_thorough=True))
    assert found["works"] is False
    assert found["exit_code"] == 5
    assert says in found["problem"]
    assert found["reply"] is None
    assert len(provider.calls) == n_calls
    assert not is_in(json.dumps(found))


def test_a_missing_key_is_told_before_anything_is_sent(provider, monkeypatch):
    monkeypatch.delenv("CANARY_KEY", raising=False)
    backend = Anthropic(base_url=provider.url, key_variable="CANARY_KEY")
    found = asyncio.run(examine(backend))
    assert found["exit_code"] == 2
    assert "export CANARY_KEY" in found["problem"]
    assert provider.seen == []


def test_the_table_names_every_capability(backend):
    known = {name for name in Capabilities.__slots__ if not name.endswith("_per_s")}
    assert set(rows(asyncio.run(examine(backend)))) == known


def test_by_the_settings_of_a_project(tmp_path):
    settings = compose(ROOT, {"backend": "scripted"})
    found = doctor(ROOT, settings)
    assert (found["works"], found["backend"]) == (True, "scripted")
    assert found["reply"] == "Reply with the word ok."  # it echoes
    assert found["project"] == ROOT.name


def test_people_of_a_table_are_not_asked():
    params = {"backend": "panel", "study": "reconstruction", "input": "us2020"}
    with pytest.raises(SettingsError, match="nothing to try"):
        doctor(ROOT, compose(ROOT, params))
