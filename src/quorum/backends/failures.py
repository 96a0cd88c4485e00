"""What a provider's error means: decided by its code, never by its wording."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from quorum.errors import BackendError, RejectedError, TransientBackendError, TransientKind

KEPT = "then run the same command again: what is done is kept"
# Codes (OpenAI's error.code, Anthropic's error.type) that no repetition can mend, whatever the
# status: both providers send a missing credit as 429.
PERMANENT: Mapping[str, str] = {
    "insufficient_quota": f"Add credit or raise the limit at the provider, {KEPT}",
    "billing_hard_limit_reached": f"Raise the spending limit at the provider, {KEPT}",
    "billing_not_active": f"Activate billing at the provider, {KEPT}",
    "billing_error": f"Add credit at the provider, {KEPT}",
    "ramp_limit_exceeded": f"Ask the provider for a higher limit, {KEPT}",
    "account_deactivated": "Use a key of an active account",
    "access_terminated": "Use a key of an active account",
    "invalid_api_key": "{key}",
    "authentication_error": "{key}",
    "permission_error": "{key}",
    "model_not_found": "Check the setting model, and that the key may use it",
    "not_found_error": "Check the settings model and backend.base_url",
    "context_length_exceeded": "Shorten the prompt, or choose a model with a longer context",
    "exceed_context_size_error": "Shorten the prompt, or start the server with a longer context",
    "string_above_max_length": "Shorten the prompt",
    "request_too_large": "Shorten the prompt",
    "unsupported_parameter": "{wire}",
    "unsupported_value": "{wire}",
    "unknown_parameter": "{wire}",
}
# A prompt that the provider declines to answer: an answer of its own kind, see ``is_refusal``.
REFUSALS = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "responsibleaipolicyviolation",
        "invalid_prompt",
        "bio_policy",
        "misalignment_policy_violation",
    }
)
_TRANSIENT: Mapping[str, TransientKind] = {
    "rate_limit_exceeded": "rate_limit",
    "rate_limit_error": "rate_limit",
    "tokens": "rate_limit",  # error.type of OpenAI's limits
    "requests": "rate_limit",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "engine_overloaded": "overloaded",
    "server_error": "server",
    "api_error": "server",
    "timeout_error": "timeout",
}
_STATUSES: Mapping[int, TransientKind] = {
    408: "timeout",
    409: "server",
    425: "server",
    429: "rate_limit",
    503: "overloaded",
    504: "timeout",
    524: "timeout",
    529: "overloaded",
}
_MENDS: Mapping[int, str] = {
    401: "{key}",
    402: f"Add credit at the provider, {KEPT}",
    403: "{key}",
    404: "Check the settings model and backend.base_url",
    413: "Shorten the prompt",
}
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?|[+-]?\.\d+")
_MAX_SHOWN = 300


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An answer that is an error.

    Args:
        status: HTTP status; that of the body where a proxy sends an error as 200.
        code: What names the cause, most telling first; empty where the server names none.
        kind: The broad category that the server names; empty where it names none.
        message: The server's words.
        retry_after_s: How long it asks to wait.
    """

    status: int
    code: str
    kind: str
    message: str
    retry_after_s: float | None = None

    @property
    def is_refusal(self) -> bool:
        """Whether the prompt was declined, rather than the call failed."""
        return not {self.code.lower(), self.kind.lower()}.isdisjoint(REFUSALS)


def read_error(
    status: int, body: object, headers: Mapping[str, str], now: datetime | None = None
) -> ErrorAnswer:
    """The error in a body: ``{error: {code, type, message}}``, as a text, or none at all."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    code = kind = ""
    message = error if isinstance(error, str) else ""
    if isinstance(error, Mapping):
        details = error.get("details")
        inner = details.get("error_code") if isinstance(details, Mapping) else None
        raw = error.get("code")
        code = str(inner or (raw if isinstance(raw, str) else "") or "")
        kind = str(error.get("type") or "")
        message = str(error.get("message") or "")
        if status < 300:  # sent as 200: the number stands in the body
            unnamed = 400 if kind == "invalid_request_error" else 500
            status = raw if isinstance(raw, int) and 400 <= raw < 600 else unnamed
    return ErrorAnswer(status, code, kind, message.strip(), retry_after_s(headers, now))


def failure_of(error: ErrorAnswer, where: str, mends: Mapping[str, str]) -> BackendError:
    """The error to raise: transient where a repetition may help, else rejected.

    A code that is known decides; else the status: 408, 409, 425, 429 and from 500 on may pass.

    Args:
        error: What came.
        where: The backend.
        mends: Texts for ``key`` and ``wire`` in the mends above.
    """
    if 300 <= error.status < 400:
        mend = "Set backend.base_url to the address that the server redirects to"
        return RejectedError(where, _what(error), mend=mend)
    for code in (error.code, error.kind):
        if code in PERMANENT:
            break
        if code in _TRANSIENT:
            return _transient(error, where, _TRANSIENT[code])
    else:
        kind = _STATUSES.get(error.status, "server" if error.status >= 500 else None)
        if kind is not None:
            return _transient(error, where, kind)
        code = ""
    mend = PERMANENT.get(code) or _MENDS.get(error.status, "")
    return RejectedError(where, _what(error), mend=mend.format(**mends))


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """How long a server asks to wait, in seconds.

    ``retry-after-ms`` (milliseconds) comes before ``Retry-After`` (seconds, or a date of HTTP).
    Negative, zero and unreadable ones count as not said. Source: RFC 9110, section 10.2.3.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None and milliseconds > 0:
        return milliseconds / 1000
    text = (headers.get("retry-after") or "").strip()
    seconds = _number(text)
    if seconds is None and text:
        try:
            date = parsedate_to_datetime(text)
        except ValueError:
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = (date - (now or datetime.now(UTC))).total_seconds()
    return seconds if seconds is not None and seconds > 0 else None


def _number(text: str | None) -> float | None:
    if text is None or not _NUMBER.fullmatch(text.strip()):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def _transient(error: ErrorAnswer, where: str, kind: TransientKind) -> TransientBackendError:
    return TransientBackendError(where, _what(error), retry_after_s=error.retry_after_s, kind=kind)


def _what(error: ErrorAnswer) -> str:
    code = error.code or error.kind
    named = f"{error.status} {code}".rstrip()
    message = " ".join(error.message.split())
    if len(message) > _MAX_SHOWN:
        message = message[: _MAX_SHOWN - 1] + "…"
    message = "".join(c for c in message if c.isprintable()).rstrip(".")
    return f"the server answered {named}" + (f" ({message})" if message else "")
