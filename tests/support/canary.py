"""A key that must never be seen, and where to look for it."""

from __future__ import annotations

import base64
import traceback
from pathlib import Path

KEY = "sk-canary-4f9c2e7d81b3a650"  # no key of anything


def forms(key: str = KEY) -> list[bytes]:
    """The key as it could be written: plain, in parts, in base64."""
    plain = key.encode()
    return [plain, plain[3:], base64.b64encode(plain).rstrip(b"=")]


def is_in(content: bytes | str) -> bool:
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return any(form in raw for form in forms())


def files_with_key(root: Path) -> list[str]:
    """Files under a folder that hold the key."""
    files = [path for path in root.rglob("*") if path.is_file()]
    return [path.relative_to(root).as_posix() for path in files if is_in(path.read_bytes())]


def everything_of(error: BaseException) -> str:
    """An error as a user or a tool may print it: text, repr, traceback with all locals, chain."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=False)
    chain: list[str] = []
    link: BaseException | None = error
    while link is not None:
        chain += [str(link), repr(link), repr(vars(link))]
        link = link.__cause__ or link.__context__
    return "".join(shown.format()) + "\n".join(chain)
