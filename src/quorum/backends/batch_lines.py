"""What the providers' batches have in common: lines of JSON up and down, and what became of each.

The SDK's errors hold the key; as in ``connection`` none of them leaves this module.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from quorum.backends.connection import Answer, Connection, sendable
from quorum.backends.failures import ErrorAnswer, failure_of, read_error
from quorum.backends.keys import scrubbed
from quorum.backends.wire import Json
from quorum.errors import BackendError, TransientBackendError
from quorum.records import Generation, Request

_LOG = logging.getLogger(__name__)
_SHOWN = 300  # characters of a server's message


@dataclass(frozen=True, slots=True)
class LineResult:
    """What became of one line.

    Args:
        custom_id: Its name.
        generation: The reply; None where it failed.
        error: Why there is none; transient where another try may help.
        outcome: The finish reason, or expired, cancelled, rejected, server, …
        is_charged: Whether a line without a reply may have been charged.
    """

    custom_id: str
    generation: Generation | None = None
    error: BackendError | None = None
    outcome: str = ""
    is_charged: bool = False


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """How far a batch is: whether it has ended, lines done, why it failed as a whole."""

    is_ended: bool
    n_done: int = 0
    error: BackendError | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A batch that was looked up; None and not sure: look again later."""

    batch: str | None = None
    is_sure: bool = True


Read = Callable[[Json, Request], Generation]


def encoded(line: Json) -> bytes:
    """One line of a file."""
    return json.dumps(sendable(line), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def replied(custom_id: str, body: Json, request: Request, read: Read) -> LineResult:
    """A line that was answered, or whose answer cannot be used."""
    try:
        generation = read(body, request)
    except BackendError as error:
        return LineResult(custom_id, None, error, "failed", is_charged=True)
    return LineResult(custom_id, generation, None, generation.finish_reason)


def failed(
    connection: Connection, custom_id: str, status: int, body: object, *, is_charged: bool
) -> LineResult:
    """A line that failed with an error of the provider's; a declined prompt is an answer."""
    error = cleaned(connection, status, body)
    if error.is_refusal:
        return LineResult(custom_id, Generation("", "refusal"), None, "refusal")
    failure = failure_of(error, connection.where, mends(connection))
    if isinstance(failure, TransientBackendError):
        turned_away = failure.kind in ("rate_limit", "overloaded")
        return LineResult(
            custom_id, None, failure, failure.kind, is_charged=is_charged and not turned_away
        )
    return LineResult(custom_id, None, failure, "rejected")


def unanswered(connection: Connection, custom_id: str, how: str) -> LineResult:
    """A line that the provider did not come to, and does not charge."""
    what = f"a request of a batch was not answered: it {'was ' * (how != 'expired')}{how}"
    return LineResult(custom_id, None, TransientBackendError(connection.where, what), how)


def cleaned(connection: Connection, status: int, body: object) -> ErrorAnswer:
    """An error in a result, without keys."""
    found = read_error(status, body, {})
    message = " ".join(scrubbed(found.message, (connection.key,)).split())[:_SHOWN]
    return ErrorAnswer(found.status, found.code, found.kind, message)


def mends(connection: Connection) -> dict[str, str]:
    """What to do about a key or a parameter that was turned away."""
    named = connection.key_variable or "that backend.key_variable names"
    return {"key": f"Check the key in the variable {named}", "wire": connection.wire_mend}


async def ask(
    connection: Connection,
    method: Literal["GET", "POST"],
    path: str,
    body: Json | None = None,
    headers: Mapping[str, str] | None = None,
) -> Json:
    """The JSON that an endpoint answers.

    Raises:
        TransientBackendError: It may pass.
        BackendError: It will not.
    """
    return _unrefused(connection, await connection.send(method, path, body, headers))


async def lines_of(
    connection: Connection, path: str, headers: Mapping[str, str] | None = None
) -> Iterator[Json]:
    """The objects of a file of JSON lines; what is no object is left out, with a warning.

    Raises:
        TransientBackendError: It may pass, also where the file broke off.
        BackendError: It will not.
    """
    import httpx2

    def get(client: Any) -> Awaitable[Any]:
        more = {"headers": {**(headers or {}), "Accept": "application/binary"}}
        more["headers"].update(auth(connection))
        return cast("Awaitable[Any]", client.get(path, cast_to=httpx2.Response, options=more))

    response = await guarded(connection, get)
    return _objects(response.content, connection.where)


def _objects(content: bytes, where: str) -> Iterator[Json]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if isinstance(row, dict):
            yield row
        else:
            _LOG.warning("%s: line %d of a batch's results is no object", where, number)


async def guarded(connection: Connection, call: Callable[[Any], Awaitable[Any]]) -> Any:
    """What a call of the SDK returns; its errors become ours, without the SDK's as context.

    Raises:
        TransientBackendError: It may pass.
        BackendError: It will not.
    """
    client = connection.client()
    sdk = connection.load()
    base = cast("type[Exception]", getattr(sdk, "OpenAIError", None) or sdk.AnthropicError)
    outcome: BackendError | ErrorAnswer
    try:
        return await call(client)
    except base as error:
        outcome = connection.outcome_of(error)
    if isinstance(outcome, ErrorAnswer):
        outcome = failure_of(outcome, connection.where, mends(connection))
    raise outcome


def auth(connection: Connection) -> dict[str, Any]:
    """Headers that leave out the authorisation where the server has no keys."""
    return {} if connection.key else {"Authorization": connection.load().Omit()}


def _unrefused(connection: Connection, answer: Answer | ErrorAnswer) -> Json:
    if isinstance(answer, ErrorAnswer):
        raise failure_of(answer, connection.where, mends(connection))
    return answer.body
