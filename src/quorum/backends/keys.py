"""Keys of providers: read from the environment, sent to one place, and shown nowhere."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

from quorum.errors import RejectedError, SettingsError

HIDDEN = "[key]"
NO_KEY = (None, "none")  # of a server without keys; in settings, null leaves the default
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOOKS_LIKE_A_KEY = re.compile(
    r"(?i)\b(?:sk|pk|rk|org|gsk|xai|hf)[-_][A-Za-z0-9_\-*.]{6,}|\bbearer\s+[^\s\"',}]+"
)
_MIN_LENGTH = 4  # a shorter "key" of a local server would hide half of every text


class NoKeyError(SettingsError, RejectedError):
    """There is no key to call with; the call that found out was not sent and costs nothing."""


def check_key_variable(name: str | None) -> None:
    """Refuses what cannot be the name of an environment variable, a key itself before all.

    Raises:
        SettingsError: It says so without showing the value.
    """
    if name is not None and not _NAME.fullmatch(name):  # "none" is one
        raise SettingsError(
            "backend.key_variable",
            "is no name of an environment variable (what was given is not shown)",
            allowed="letters, digits and _, such as OPENAI_API_KEY; none for a server without keys",
            mend="Put the key into the environment and its variable's name here; a key that has "
            "been written to a file should be revoked",
        )


def read_key(name: str | None) -> str | None:
    """The key that an environment variable holds; None where the settings name ``none``.

    Raises:
        NoKeyError: The variable is not set, or holds what no header can carry.
    """
    if name in NO_KEY:
        return None
    assert name is not None
    key = os.environ.get(name, "").strip()
    if not key:
        raise NoKeyError(
            "backend.key_variable",
            f"the environment variable {name} is not set",
            mend=f"export {name}=…, or set backend.key_variable: none for a server without keys",
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise NoKeyError(
            "backend.key_variable",
            f"the environment variable {name} holds what cannot be a key (it is not shown)",
            mend="Copy the key again, without quotes, spaces and line breaks",
        )
    return key


def scrubbed(text: str, keys: Iterable[str | None]) -> str:
    """A text without keys: those given, in the forms that they are sent and echoed in.

    What looks like another key (``sk-…``, ``Bearer …``) goes, too.
    """
    for key in keys:
        if key and len(key) >= _MIN_LENGTH:
            encoded = base64.b64encode(key.encode()).decode()
            for form in (key, quote(key, safe=""), encoded, encoded.rstrip("=")):
                text = text.replace(form, HIDDEN)
    return _LOOKS_LIKE_A_KEY.sub(HIDDEN, text)


def without_key(text: str, key: str | None) -> str:
    """A model's text without the key itself; anything else in it stays as it came."""
    return text.replace(key, HIDDEN) if key and len(key) >= _MIN_LENGTH else text


def is_local(base_url: str) -> bool:
    """Whether an address is this machine's own."""
    host = (urlsplit(base_url).hostname or "").rstrip(".").lower()
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_base_url(base_url: str, *, allow_http: bool) -> None:
    """Refuses an address that a key should not be sent to, or that holds one.

    Raises:
        SettingsError: No http(s) address; user, query or fragment in it; plain http to another
            machine without ``allow_http``.
    """
    where = "backend.base_url"
    try:
        parts = urlsplit(base_url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    if not has_host or parts.scheme not in ("http", "https") or base_url != base_url.strip():
        raise SettingsError(
            where,
            "is no address of a server",
            allowed="https://HOST/PATH, or http://localhost:PORT/PATH",
        )
    if parts.username or parts.password or parts.query or parts.fragment or "@" in parts.netloc:
        raise SettingsError(
            where,
            "holds more than an address (what was given is not shown)",
            allowed="https://HOST/PATH",
            mend="A key belongs into the environment variable that backend.key_variable names",
        )
    if parts.scheme == "http" and not (is_local(base_url) or allow_http):
        raise SettingsError(
            where,
            "would send key and prompts over plain http to another machine",
            got=base_url,
            allowed="https, or http to this machine",
            mend="If the network is yours, set backend.allow_http: true",
        )
