"""Errors by their code: what is tried again, what is not, and how long to wait before."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from quorum.backends.failures import ErrorAnswer, failure_of, read_error, retry_after_s
from quorum.errors import RejectedError, TransientBackendError

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
MENDS = {"key": "Check the key", "wire": "Leave it out"}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"retry-after": "171"}, 171.0, id="case 112: seconds"),
        pytest.param({"retry-after": "121"}, 121.0, id="case 113: more than the SDK takes"),
        pytest.param({"retry-after": "0.5"}, 0.5, id="part of a second"),
        pytest.param({"retry-after-ms": "1500"}, 1.5, id="case 124: milliseconds"),
        pytest.param({"retry-after-ms": "20", "retry-after": "9"}, 0.02, id="ms come first"),
        pytest.param({"retry-after-ms": "x", "retry-after": "9"}, 9.0, id="ms unreadable"),
        pytest.param({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30.0, id="case 124: a date"),
        pytest.param({"retry-after": "Sun, 01 Mar 2026 11:59:00 GMT"}, None, id="a date gone by"),
        pytest.param({"retry-after": "-5"}, None, id="case 124: negative"),
        pytest.param({"retry-after-ms": "-5"}, None, id="negative ms"),
        pytest.param({"retry-after": "abc"}, None, id="case 124: garbage"),
        pytest.param({"retry-after": ""}, None, id="empty"),
        pytest.param({"retry-after": "0"}, None, id="zero"),
        pytest.param({"retry-after": "nan"}, None, id="nan"),
        pytest.param({"retry-after": "inf"}, None, id="inf"),
        pytest.param({"retry-after": "1e9"}, None, id="exponents are no form of it"),
        pytest.param({"retry-after": "9" * 400}, None, id="not finite"),
        pytest.param({"retry-after": "Sun, 99 Foo 2026"}, None, id="no date"),
        pytest.param({}, None, id="not said"),
    ],
)
def test_forms_of_the_wait(headers, seconds):
    assert retry_after_s(headers, NOW) == seconds


def failure(status: int, code: str | None = None, kind: str | None = None, message: str = ""):
    body = {"error": {"code": code, "type": kind, "message": message}}
    return failure_of(read_error(status, body, {}), "backend x", MENDS)


@pytest.mark.parametrize(
    ("status", "code", "kind", "expected"),
    [
        (429, "rate_limit_exceeded", "requests", "rate_limit"),
        (429, None, None, "rate_limit"),
        (429, None, "tokens", "rate_limit"),
        (429, None, "rate_limit_error", "rate_limit"),
        (429, None, "invalid_request_error", "rate_limit"),
        (408, None, None, "timeout"),
        (409, None, None, "server"),
        (500, None, "server_error", "server"),
        (500, None, "invalid_request_error", "server"),
        (502, None, None, "server"),
        (503, None, None, "overloaded"),
        (504, None, None, "timeout"),
        (524, None, None, "timeout"),
        (529, None, "overloaded_error", "overloaded"),
        (500, None, "api_error", "server"),
        (504, None, "timeout_error", "timeout"),
    ],
)
def test_what_may_pass(status, code, kind, expected):
    found = failure(status, code, kind)
    assert isinstance(found, TransientBackendError)
    assert found.kind == expected


@pytest.mark.parametrize(
    ("status", "code", "kind", "mend"),
    [
        (429, "insufficient_quota", "insufficient_quota", "credit"),
        (429, None, "insufficient_quota", "credit"),
        (429, "billing_hard_limit_reached", None, "spending limit"),
        (401, "invalid_api_key", "invalid_request_error", "Check the key"),
        (401, None, "authentication_error", "Check the key"),
        (401, None, None, "Check the key"),
        (403, None, "permission_error", "Check the key"),
        (402, None, "billing_error", "credit"),
        (402, None, None, "credit"),
        (404, "model_not_found", "invalid_request_error", "setting model"),
        (404, None, "not_found_error", "base_url"),
        (400, "context_length_exceeded", "invalid_request_error", "Shorten"),
        (400, "unsupported_parameter", "invalid_request_error", "Leave it out"),
        (400, None, "invalid_request_error", ""),
        (413, None, "request_too_large", "Shorten"),
        (422, None, None, ""),
        (307, None, None, "redirects"),
    ],
)
def test_what_no_repetition_mends(status, code, kind, mend):
    found = failure(status, code, kind)
    assert isinstance(found, RejectedError)
    assert mend in found.mend


def test_case_115_the_wording_decides_nothing():
    found = failure(429, message="INSUFFICIENT QUOTA: slow down")
    assert isinstance(found, TransientBackendError)
    found = failure(400, message="Rate limit exceeded, please retry")
    assert not isinstance(found, TransientBackendError)


@pytest.mark.parametrize(
    "code", ["content_filter", "invalid_prompt", "content_policy_violation", "bio_policy"]
)
def test_case_35_a_declined_prompt_is_a_refusal_and_no_failure(code):
    assert read_error(400, {"error": {"code": code}}, {}).is_refusal
    assert not read_error(400, {"error": {"code": "rate_limit_exceeded"}}, {}).is_refusal


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, {"error": {"code": 502, "message": "Provider returned error"}}, (502, "")),
        (200, {"error": {"code": 402, "message": "no credit"}}, (402, "")),
        (200, {"error": {"code": "server_error", "message": "x"}}, (500, "server_error")),
        (200, {"error": {"message": "x"}}, (500, "")),
        (200, {"error": {"type": "invalid_request_error"}}, (400, "")),
        (400, {"error": "bad"}, (400, "")),
        (400, {"detail": "bad"}, (400, "")),
        (500, "<html>", (500, "")),
        (500, None, (500, "")),
        (
            429,
            {"error": {"type": "rate_limit_error", "details": {"error_code": "ramp"}}},
            (429, "ramp"),
        ),
    ],
)
def test_errors_of_many_servers(status, body, expected):
    found = read_error(status, body, {})
    assert (found.status, found.code) == expected


def test_the_line_names_status_code_and_words_without_control_characters():
    error = ErrorAnswer(429, "rate_limit_exceeded", "", "Slow \x1b[31mdown.\n" + "x" * 500)
    text = str(failure_of(error, "backend x", MENDS))
    assert text.startswith("backend x: the server answered 429 rate_limit_exceeded (Slow [31mdown.")
    assert "\x1b" not in text
    assert len(text) < 450
