"""What the backends of providers share: an address, a connection, one call a request."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import ClassVar

from quorum.backends.base import ObservedLimits
from quorum.backends.connection import Connection
from quorum.backends.failures import ErrorAnswer
from quorum.backends.keys import is_local
from quorum.backends.wire import Json
from quorum.records import Generation, Request


class Remote(ABC):
    """A model behind a server. The subclass is a dataclass that has the options named here.

    ``body`` and ``headers`` are what is sent for a request, ``read`` is what an answer means.
    """

    official_url: ClassVar[str]

    base_url: str | None
    priced: bool | None
    batch: bool | None
    _connection: Connection

    @property
    def url(self) -> str:
        """The server's address."""
        return (self.base_url or self.official_url).rstrip("/")

    @property
    @abstractmethod
    def path(self) -> str:
        """Path of the endpoint below ``url``."""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request beside those of the SDK."""
        return {}

    @property
    def is_official(self) -> bool:
        """Whether the server is the provider's own."""
        return self.url == self.official_url

    @property
    def is_priced(self) -> bool:
        """Whether calls cost money: as the settings say, else unless it is this machine."""
        return not is_local(self.url) if self.priced is None else self.priced

    @property
    def takes_batches(self) -> bool:
        """Whether the server takes batches: as the settings say, else the provider's own."""
        return self.is_official if self.batch is None else self.batch

    @property
    def connection(self) -> Connection:
        """The server's connection, for further endpoints such as batches."""
        return self._connection

    @property
    def observed_limits(self) -> ObservedLimits | None:
        """The server's limits, as its last answer or error states them."""
        return self._connection.observed_limits

    @property
    def lanes(self) -> None:
        """No limit of its own: max_inflight alone counts."""
        return None

    @abstractmethod
    def body(self, request: Request) -> Json:
        """The JSON that is sent for a request."""

    @abstractmethod
    def read(self, answer: Json, request: Request, seconds: float = 0.0) -> Generation:
        """What an answer says."""

    async def complete(self, request: Request, lane: int = 0) -> Generation:
        """The reply to a request.

        Raises:
            TransientBackendError: It may pass.
            BackendError: It will not pass.
        """
        del lane
        start = time.perf_counter()
        answer = await self._connection.send("POST", self.path, self.body(request), self.headers)
        seconds = time.perf_counter() - start
        if isinstance(answer, ErrorAnswer):
            return Generation("", "refusal", seconds=seconds)
        return self.read(answer.body, request, seconds)

    async def close(self) -> None:
        """Closes what was opened; safe to call twice."""
        await self._connection.close()
