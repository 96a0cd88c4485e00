"""Replies to select-all questions: ``A, B, and D``, a JSON list, option texts one a line."""

from __future__ import annotations

import re

from quorum.reconstruction.replies import Parsed, json_fields, says_dont_know, says_refused
from quorum.reconstruction.shown import DECOR, Shown, bare, key
from quorum.reconstruction.texts import normalised

_SEPARATOR = re.compile(r"[\s,;/&+|.•*-]*(?:\b(?:and|und|or|also|as well as)\b)?[\s,;/&+|.•*-]*")
_MARKER = re.compile(
    r"\b(?:answers?|choices?|selections?)\b(?:\s+(?:is|are))?\s*[:=]?\s*", re.IGNORECASE
)
_MAX_MARKERS = 20  # marked answers that are looked at, from the end
_BULLETS = DECOR + "-•"
_NONE = re.compile(r"none of (?:the above|these|them|the options)[.! ]*")


def parse_selection(body: str, table: Shown) -> Parsed:
    """The set of options that a reply chooses; the whole reply must be a list of them.

    An empty set is an answer only as ``[]`` or ``none of the above``.
    """
    values, comment = json_fields(body)
    if values:
        items = [item for v in values for item in (v if isinstance(v, list) else [v])]
        found = [_whole(str(item), table) for item in items]
        if None in items or any(index is None for index in found):
            return Parsed("missing", (), "json", "unparsed", comment=body)
        return _selected([i for i in found if i is not None], "json", comment)
    if (index := table.texts.get(key(body))) is not None:
        return _selected([index], "text")
    if bare(body) == "" or _NONE.fullmatch(normalised(body)):
        own = [i for i, o in enumerate(table.options) if _NONE.fullmatch(normalised(o.text))]
        return _selected(own, "none_of_them")
    markers = [*_MARKER.finditer(body)][-_MAX_MARKERS:]
    for rest in (body, *(body[m.end() :] for m in reversed(markers))):
        listed = _list(rest.strip(DECOR).lstrip(_BULLETS), table)
        if listed is not None:
            return _selected(listed, "list")
    if says_dont_know(body):
        return Parsed("missing", (), "dont_know", "dont_know", comment=body)
    if says_refused(body):
        return Parsed("refused", (), "refusal", "refused", comment=body)
    return Parsed("missing", (), "none", "unparsed", table.mentioned(body), body)


def _selected(found: list[int], rule: str, comment: str | None = None) -> Parsed:
    return Parsed("answered", tuple(sorted(set(found))), rule, comment=comment)


def _whole(text: str, table: Shown) -> int | None:
    """The option that a text is, label, text, or both."""
    listed = _list(text.strip(DECOR), table)
    return listed[0] if listed and len(listed) == 1 else None


def _list(text: str, table: Shown) -> list[int] | None:
    """The options of a text that holds nothing but labels, option texts and separators."""
    if len(text) > 1 and text.isalpha() and set(text) <= {o.label for o in table.options}:
        return [table.letters[letter] for letter in text]
    found: list[int] = []
    position = 0
    while position < len(text):
        match = table.item.match(text, position)
        if match is None:
            return None
        index = _item(match[0], table)
        if index is None:
            return None
        found.append(index)
        after = _SEPARATOR.match(text, match.end())
        position = after.end() if after else match.end()
        if position == match.end() and position < len(text):
            return None
    return found or None


def _item(text: str, table: Shown) -> int | None:
    name = bare(text)
    if name in table.letters:
        return table.letters[name]
    if key(name) in table.texts:
        return table.texts[key(name)]
    label, _, rest = re.sub(r"[).:]", ":", name, count=1).partition(":")
    index = table.letters.get(label.strip())
    return index if index is not None and table.texts.get(key(rest)) == index else None
