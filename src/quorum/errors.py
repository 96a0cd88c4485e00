"""The error tree: every error that a user can mend prints as one line and has an exit code.

The line reads ``where: what is wrong, got X; allowed Y. what to do``.
"""

from __future__ import annotations

from typing import Literal

TransientKind = Literal["rate_limit", "overloaded", "server", "timeout", "connection", "unsent"]


class Bare(str):
    """A value that is shown without quotes, such as ``null``."""

    __slots__ = ()


class QuorumError(Exception):
    """An error with an address and a mend.

    Args:
        where: What the error is about: a setting (``budget.fraction``), a file and line, a part.
        what: What is wrong, as a clause without a full stop.
        got: The offending value, shown with ``repr`` (true and false as in YAML); None
            leaves the clause out.
        allowed: What would have been right, as text.
        mend: What the user can do, as a sentence without a full stop.
    """

    exit_code = 1

    def __init__(
        self,
        where: str,
        what: str,
        *,
        got: object = None,
        allowed: str = "",
        mend: str = "",
    ) -> None:
        self.where = where
        self.what = what
        self.got = got
        self.allowed = allowed
        self.mend = mend
        line = f"{where}: {what}"
        if got is not None:
            line += f", got {_shown(got)}"
        if allowed:
            line += f"; allowed {allowed}"
        if mend:
            line += f". {mend}"
        super().__init__(" ".join(line.split()))


class SettingsError(QuorumError):
    """A setting is unknown, out of range or clashes with another one."""

    exit_code = 2


class InputError(QuorumError):
    """An input file, or what stands in it, cannot be used."""

    exit_code = 2


class MissingExtraError(SettingsError):
    """A part needs an optional package; the mend is its install command."""


class RefusedError(QuorumError):
    """Going on would mix runs or lose what has been paid for."""

    exit_code = 3


class BudgetError(QuorumError):
    """A cap would be overshot, or a priced backend has none."""

    exit_code = 4


class BackendError(QuorumError):
    """A backend failed and repeating the call cannot help."""

    exit_code = 5


class RejectedError(BackendError):
    """A request was turned away for good, by a server's own error code or before it was sent.

    It costs nothing.
    """


class TransientBackendError(BackendError):
    """A backend failed in a way that may pass: rate limit, 5xx, time-out, dropped connection.

    Args:
        where: The backend.
        what: What happened.
        retry_after_s: How long the server asked to wait, in seconds; None where it did not say.
        kind: What failed: rate_limit, overloaded, server, timeout, connection or unsent (no
            connection was made). After a time-out, a dropped connection or an answer that could
            not be read, the server may have worked and charged.
    """

    def __init__(
        self,
        where: str,
        what: str,
        *,
        retry_after_s: float | None = None,
        kind: TransientKind = "server",
    ) -> None:
        self.retry_after_s = retry_after_s
        self.kind = kind
        super().__init__(where, what, mend="Run the same command again: what is done is kept")


def _shown(value: object, limit: int = 120) -> str:
    if isinstance(value, Bare):
        return str(value)
    text = str(value).lower() if isinstance(value, bool) else repr(value)  # as in YAML: true
    return text if len(text) <= limit else text[: limit - 1] + "…"
