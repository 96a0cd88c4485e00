"""One provider's SDK client: one for each event loop, no retries of its own, errors without keys.

The SDK's errors hold the request with its headers, hence the key. None of them leaves this module,
not even as the context of another one.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from quorum.backends.base import ObservedLimits
from quorum.backends.failures import ErrorAnswer, failure_of, read_error
from quorum.backends.keys import is_local, read_key, scrubbed
from quorum.backends.wire import estimated_usage, read_limits
from quorum.errors import (
    BackendError,
    MissingExtraError,
    RejectedError,
    TransientBackendError,
    TransientKind,
)
from quorum.records import Request, Usage

Json = dict[str, Any]
_log = logging.getLogger(__name__)
_CONNECT_S = 10.0  # time to connect; the call as a whole is timed by the caller
_MAX_CONNECTIONS = 1000
_LONE_SURROGATES = re.compile("[\ud800-\udfff]")
_TALKATIVE = ("openai", "anthropic", "httpx2", "httpcore2")
_UNSENT = ("ConnectError", "ConnectTimeout", "PoolTimeout")


class NotInstalledError(MissingExtraError, RejectedError):
    """The SDK is missing; the call that found out was not sent and costs nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered: its JSON and the headers, names in lower case."""

    body: Json
    headers: Mapping[str, str]


@dataclass
class Connection:
    """A server that is talked to through its provider's SDK.

    Args:
        where: The backend, as its errors name it.
        package: Name of the SDK.
        load: Imports the SDK.
        client_class: Name of its client's class.
        base_url: Address of the server.
        key_variable: Environment variable that holds the key; ``none`` for a server without keys.
        wire_mend: What to do where the server rejects a parameter.

    Attributes:
        observed_limits: What the last answer, or the last error, says of the server's limits.
    """

    where: str
    package: str
    load: Callable[[], Any]
    client_class: str
    base_url: str
    key_variable: str | None
    wire_mend: str
    observed_limits: ObservedLimits | None = field(default=None, init=False, repr=False)
    _client: Any = field(default=None, init=False, repr=False)
    _loop: asyncio.AbstractEventLoop | None = field(default=None, init=False, repr=False)
    _key: str | None = field(default=None, init=False, repr=False)
    _said: set[str] = field(default_factory=set, init=False, repr=False)

    @property
    def key(self) -> str | None:
        """The key in use, for hiding it; None before the first call or where there is none."""
        return self._key

    def client(self) -> Any:
        """The SDK's client of the running event loop.

        Raises:
            NotInstalledError: The SDK is not installed.
            NoKeyError: The key's variable is not set.
        """
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client, self._loop = self._new_client(), loop
        return self._client

    async def send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer | ErrorAnswer:
        """One request and its answer; a prompt that was declined comes back as an ErrorAnswer.

        Raises:
            TransientBackendError: It may pass.
            BackendError: It will not.
        """
        client = self.client()
        sdk = self._sdk()
        more: Json = {"headers": {**self._auth(sdk), **(headers or {})}}
        content = None if body is None else cast("Json", sendable(body))
        outcome: Answer | ErrorAnswer | BackendError
        try:
            if method == "GET":
                response = await client.get(path, cast_to=_response_class(), options=more)
            else:
                response = await client.post(
                    path, cast_to=_response_class(), body=content, options=more
                )
        except _base_error(sdk) as error:
            outcome = self.outcome_of(error)
        else:
            outcome = self._read(response)
        if isinstance(outcome, BackendError):
            raise outcome  # outside of the handler: with no SDK error as its context
        return outcome

    def outcome_of(self, error: Exception) -> BackendError | ErrorAnswer:
        """What an error of the SDK means: what to raise, or that the prompt was declined."""
        sdk = self._sdk()
        if isinstance(error, sdk.APIStatusError):
            response = cast("Any", error).response
            try:
                body: object = response.json()
            except ValueError:
                body = _plain(response.text)
            return self._failed(response.status_code, body, self._headers(response))
        if isinstance(error, sdk.APIConnectionError):
            cause = type(error.__cause__).__name__
            if isinstance(error, sdk.APITimeoutError) and cause not in _UNSENT:
                return TransientBackendError(self.where, "no reply in time", kind="timeout")
            what = f"the connection failed ({self._clean(str(error.__cause__ or '') or cause)})"
            kind: TransientKind = "unsent" if cause in _UNSENT else "connection"
            return TransientBackendError(self.where, what, kind=kind)
        return BackendError(self.where, self._clean(f"{type(error).__name__}: {error}"))

    async def close(self) -> None:
        """Closes the client; safe to call twice, and from another loop than the calls came from."""
        client, self._client = self._client, None
        if client is not None and self._loop is asyncio.get_running_loop():
            await client.close()
        self._loop = None

    def warn_once(self, name: str, text: str) -> None:
        """A warning of a kind, the first time that it is met."""
        if name not in self._said:
            self._said.add(name)
            _log.warning(text)

    def estimate(self, request: Request, text: str) -> Usage:
        """Tokens of a call that the server did not count, with a warning."""
        what = f"{self.where}: the server counts no tokens: characters/4 are booked"
        self.warn_once("usage", what)
        return estimated_usage(request, text)

    def _read(self, response: Any) -> Answer | ErrorAnswer | BackendError:
        headers = self._headers(response)
        try:
            body: object = response.json()
        except ValueError:
            text = _plain(response.text)
            if "json" not in str(response.headers.get("content-type", "")):
                return BackendError(
                    self.where,
                    f"the server answered with no JSON ({self._clean(text)})",
                    mend="Check backend.base_url",
                )
            return TransientBackendError(self.where, "the answer broke off", kind="connection")
        if not isinstance(body, dict):
            return BackendError(
                self.where, "the server answered with no object", mend="Check backend.base_url"
            )
        if isinstance(body.get("error"), dict | str) and body["error"]:
            return self._failed(response.status_code, body, headers)
        return Answer(body, headers)

    def _failed(
        self, status: int, body: object, headers: Mapping[str, str]
    ) -> BackendError | ErrorAnswer:
        found = read_error(status, body, headers)
        error = ErrorAnswer(
            found.status,
            self._clean(found.code),
            self._clean(found.kind),
            self._clean(found.message),
            found.retry_after_s,
        )
        if error.is_refusal:
            return error
        named = self.key_variable or "that backend.key_variable names"
        mends = {"key": f"Check the key in the variable {named}", "wire": self.wire_mend}
        return failure_of(error, self.where, mends)

    def _headers(self, response: Any) -> dict[str, str]:
        headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
        self.observed_limits = read_limits(headers) or self.observed_limits
        return headers

    def _clean(self, text: str) -> str:
        return " ".join(scrubbed(text, (self._key,)).split())[:300]

    def _sdk(self) -> Any:
        try:
            return self.load()
        except ImportError as error:
            raise NotInstalledError(
                f"backend={self.package}",
                f"needs the package {self.package}",
                mend=f"Install it: python -m pip install {self.package}",
            ) from error

    def _new_client(self) -> Any:
        sdk = self._sdk()
        self._key = read_key(self.key_variable)
        import httpx2  # what both SDKs stand on

        for name in _TALKATIVE:  # at DEBUG they write down headers, where a server may echo a key
            logging.getLogger(name).setLevel(logging.WARNING)
        http_client = sdk.DefaultAsyncHttpxClient(
            trust_env=not is_local(self.base_url),  # a proxy has no business on this machine
            follow_redirects=False,  # a key goes to the address in the settings and nowhere else
            timeout=httpx2.Timeout(None, connect=_CONNECT_S),
            limits=httpx2.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=100),
        )
        return getattr(sdk, self.client_class)(
            api_key=self._key or "none",
            base_url=self.base_url,
            max_retries=0,  # the scheduler retries
            http_client=http_client,
            timeout=http_client.timeout,
        )

    def _auth(self, sdk: Any) -> Json:
        return {} if self._key else {"Authorization": sdk.Omit()}


def sendable(value: object) -> object:
    """A value with its texts as UTF-8 can carry them: lone surrogates become U+FFFD."""
    if isinstance(value, str):
        return _LONE_SURROGATES.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {str(sendable(key)): sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    return value


def _response_class() -> Any:
    import httpx2

    return httpx2.Response


def _base_error(sdk: Any) -> type[Exception]:
    return cast("type[Exception]", getattr(sdk, "OpenAIError", None) or sdk.AnthropicError)


def _plain(text: str) -> str:
    """The beginning of a page without its marks."""
    text = re.sub(r"<[^>]*>", " ", text[:2000])
    return " ".join(text.split())[:120]
