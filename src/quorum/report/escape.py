r"""Foreign text made harmless: for pages, for embedded JSON, for terminals and for file names.

Prompts and replies are text and never markup. HTML escaping itself is jinja2's (autoescape); here
stand the characters that HTML escaping leaves alone: controls, lone surrogates, direction
overrides, ``</`` in JSON, and terminal sequences.
"""

from __future__ import annotations

import json
import re

import regex

from quorum.digests import text_digest

# C0 without tab and newline, DEL, C1, line and paragraph separators, direction embeddings,
# overrides and isolates, byte order mark, the two noncharacters of the first plane, surrogates.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
)
_UNSTORABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# String sequences (OSC, DCS, SOS, PM, APC) that BEL or ST ends; CSI sequences; shorter escapes.
# Of a string sequence without an end only the beginning goes: the text behind it may matter.
_SEQUENCE = re.compile(
    "(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\\\|\x9c)"
    "|(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]?"
    "|\x1b[ -/]*[0-~]?"
)
_SAFE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ENDS_IN_DIGEST = re.compile(r"(?:^|-)[0-9a-f]{12}$")
_RESERVED = frozenset(
    ["con", "prn", "aux", "nul", "index"]
    + [f"{port}{number}" for port in ("com", "lpt") for number in range(10)]
)


def _as_escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def visible_text(text: str) -> str:
    r"""Text for a page: what cannot be seen is written as an escape (``\x1b``, ``\ud800``).

    Tabs and newlines stay, CRLF becomes a newline; joiners that emoji and scripts need stay.
    """
    return _UNSEEN.sub(_as_escape, text.replace("\r\n", "\n"))


def storable_text(text: str) -> str:
    r"""Text for a CSV cell: control characters and lone surrogates as escapes.

    Tab, newline and carriage return stay.
    """
    return _UNSTORABLE.sub(_as_escape, text)


def visible_label(text: str, limit: int = 60) -> str:
    """One line of at most ``limit`` graphemes: for table cells, tooltips and plot labels.

    Text of white space only is shown with ``␣``, ``⏎`` and ``⇥``, so that a blank player can be
    seen; other white space becomes single spaces.
    """
    if text.strip(" \t\r\n") == "":
        shown = text.replace("\r\n", "\n")
        for blank, sign in ((" ", "␣"), ("\n", "⏎"), ("\t", "⇥"), ("\r", "⏎")):
            shown = shown.replace(blank, sign)
        return shown[:limit]
    line = visible_text(" ".join(text[: limit * 12].split(None)))
    graphemes = regex.findall(r"\X", line)
    if len(graphemes) <= limit and len(text) <= limit * 12:
        return line
    return "".join(graphemes[: limit - 1]).rstrip() + "…"


def script_json(value: object) -> str:
    r"""JSON that can neither end nor open a script element.

    It is ASCII, ``</`` is written ``<\/`` and any other ``<`` is written ``\u003c``.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return re.sub("<(?!\\\\/)", lambda _: "\\u003c", text.replace("</", "<\\/"))


def strip_terminal(text: str) -> str:
    r"""Text that a terminal can only print: escape sequences and control characters are removed.

    Newlines and tabs stay; lone surrogates, which no stream can take, are written as ``\ud800``.
    """
    plain = _SEQUENCE.sub("", text.replace("\r\n", "\n"))
    return _UNSEEN.sub(
        lambda match: _as_escape(match) if "\ud800" <= match.group() <= "\udfff" else "", plain
    )


def file_slug(name: str) -> str:
    """A file name (without ending) for any id: lower-case ASCII letters, digits, ``-`` and ``_``.

    An id that is such a name already stays as it is. Any other gets its first 12 hex digits of
    SHA-256 appended, so two ids never share a name, on file systems that ignore case too.
    """
    if (
        _SAFE_NAME.fullmatch(name)
        and name not in _RESERVED
        and _ENDS_IN_DIGEST.search(name) is None
    ):
        return name
    stem = re.sub(r"[^a-z0-9_]+", "-", name.lower())[:40].strip("-")
    return f"{stem or 'snapshot'}-{text_digest(name)[:12]}"
