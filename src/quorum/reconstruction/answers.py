"""Replies to closed questions, read by fixed rules: no guess, no nearest match.

The order of the rules: exact letter, JSON field, exact option text, letter set off at the start,
marked answer (``Answer: B``), refusal, don't know, option text at the start, the one letter that a
sentence chooses; else missing. Nothing is dropped: what cannot be read is missing with a reason,
and what stands beside an answer is its comment.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from quorum.reconstruction.quantities import parse_distribution, parse_scale
from quorum.reconstruction.replies import (
    Parsed,
    free_text,
    json_fields,
    says_dont_know,
    says_refused,
    without_thoughts,
)
from quorum.reconstruction.selections import parse_selection
from quorum.reconstruction.shown import DECOR, Shown, bare, key, shown
from quorum.reconstruction.survey import Option
from quorum.reconstruction.texts import normalised

__all__ = ["Parsed", "free_text", "parse_choice", "parse_distribution", "parse_scale"]

_MIN_PREFIX = 3  # characters of an option's text that a cut reply must hold
_MAX_MARKERS = 20  # marked answers that are looked at, from the end
_LOOK_BACK = 80  # characters before a letter that can make it a choice
_MARKER = re.compile(
    r"(?:\b(?:answer|antwort|response|choice|selection)\b[\s*_\"']*"
    r"(?:\s(?:is|would be|will be|seems to be|ist)\b|[:=])+[\s*_:=]*|\\boxed\s*\{(?:\\text\{)?)"
    r"(?:(?:the )?(?:option|letter|number|choice)\s+)?",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"(?:\b(?:choose|chose|pick|select|go with|going with|opt for|say|vote for|take|prefer|mark"
    r"|option|answer|choice|letter|number|is|be|ist|it['’]s)|[:—–])[\s:*_\"'“(`\[]*\Z",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"[*_\"'”)`\]]*\s*(?:(?:is|would be|seems|looks)\s+(?:my|the|closest|best|right|most)"
    r"|because\b|since\b|fits\b|describes\b|applies\b)",
    re.IGNORECASE,
)
_NAMES = re.compile(r"\b(?:option|answer|choice|letter|number)[\s:*_\"'“(`\[]*\Z", re.IGNORECASE)
_OPTION = re.compile(r"\b(?:option|choice|letter)\s+[*_\"'“(`\[]*\Z", re.IGNORECASE)
_NEGATED = re.compile(
    r"(?:\b(?:not|never|cannot|can't|neither|nor|except|than|of)|n't)\s(?:\S+\s+){0,3}\S*\Z"
)
_ARTICLE = re.compile(r"\s+(?!(?:is|because|since|as|and|or|fits|would|seems|describes)\b)\w")
_ENDS = re.compile(r"[*_\"'”)`\]]*[.!]?\s*(?:\Z|\n)")
_BETWEEN = re.compile(r"\A[\s,/&+*_():–—-]*(?:(?:and|or)\b)?[\s*_(]*")
_SET_OFF = re.compile(r"[*_]*(?:[).:,/&+\]]|\s*(?:\Z|\n)|\s+(?:or|and)\b)")
_REJECTED = re.compile(r"\s+(?:\w+\s+){0,2}(?:\w*n['’]t|not|wrong|incorrect|false)\b")
_GOES_ON = re.compile(
    r"[^\w\s]|\s*\n|\s+[(:–—-]|\s+(?:because|since|when|if|as|i|we|though|although)\b"
)


def parse_choice(text: str, options: Sequence[Option], *, multiple: bool = False) -> Parsed:
    """Which of the options a reply chooses.

    Args:
        text: The raw reply.
        options: In the order in which they were shown; labels are the letters shown. Indices in
            the result are positions in this list, not those of the question.
        multiple: Whether any number of options may be chosen (select all that apply).

    No fuzzy match: ``Nope`` is not ``No``, and ``None`` is an answer only where an option says so.
    """
    table = shown(tuple(options))
    if not multiple and (hit := table.exact.get(text.strip())) is not None:
        return Parsed("answered", (hit[0],), hit[1])
    body, is_unfinished = without_thoughts(text)
    if not body:
        return Parsed("missing", reason="unfinished_thought" if is_unfinished else "empty")
    if multiple:
        return parse_selection(body, table)
    return (
        _letter(body, table)
        or _field(body, table)
        or _text(body, table)
        or _leading(body, table)
        or _marked(body, table)
        or _no_answer(body, table)
        or _start(body, table)
        or _sentence(body, table)
        or _unparsed(body, table)
    )


def _answered(index: int, rule: str, comment: str | None = None) -> Parsed:
    return Parsed("answered", (index,), rule, comment=(comment or "").strip() or None)


def _ambiguous(candidates: Sequence[int], rule: str, body: str) -> Parsed:
    return Parsed("missing", (), rule, "ambiguous", tuple(sorted(set(candidates))), body)


def _letter(body: str, table: Shown) -> Parsed | None:
    """The reply is a label, in whatever decoration: ``**B**``, ``$B$``, ``(b).``."""
    label = bare(body)
    if not label.isascii():
        label = unicodedata.normalize("NFKC", label)  # the B of a Japanese keyboard
    index = table.letters.get(label)
    return None if index is None else _answered(index, "letter")


def _field(body: str, table: Shown) -> Parsed | None:
    """A field such as ``{"answer": "B"}``, in a fence, in a sentence, or cut off after it."""
    if '"' not in body and "'" not in body:
        return None
    values, comment = json_fields(body)
    if not values:
        return None
    found: list[int] = []
    for value in values:
        if value is None:
            return Parsed("missing", (), "json", "empty", comment=body)
        items = value if isinstance(value, list) else [value]
        for item in items:
            read = _plain(str(item), table)
            if read is None or read.status != "answered":
                return Parsed("missing", (), "json", "unparsed", comment=body)
            found.extend(read.options)
    if len(set(found)) != 1:
        return _ambiguous(found, "json", body) if found else None
    return _answered(found[0], "json", comment)


def _plain(text: str, table: Shown) -> Parsed | None:
    return _letter(text, table) or _text(text, table) or _leading(text, table)


def _text(body: str, table: Shown) -> Parsed | None:
    """The reply, or its first line, is an option's text."""
    index = table.texts.get(key(body))
    if index is not None:
        return _answered(index, "text")
    first, _, rest = body.partition("\n")
    index = table.texts.get(key(first)) if rest else None
    if index is None:
        return None
    named = {table.texts[key(line)] for line in rest.split("\n") if key(line) in table.texts}
    if named - {index}:  # the options repeated, one a line
        return _ambiguous([index, *named], "text", body)
    return _answered(index, "text", rest)


def _leading(body: str, table: Shown) -> Parsed | None:
    """The reply begins with a label that is set off: ``B) Sometimes``, ``(B) in the EU``, ``B⏎…``.

    A text of another option after the label or a second label make it ambiguous; a list of options
    is no answer at all.
    """
    match = table.leading.match(body)
    if match is None or len(_pairs(body, table)) > 1:
        return None
    label = match[1] or match[2] or match[3]
    index = table.letters[label]
    if label in ("I", "i") and body[match.end(match.lastindex or 0) :][:1] == ",":
        return None  # "I, for one, …"
    rest = body[match.end() :]
    named = {index}
    first = rest.strip().partition("\n")[0]
    if (same := table.texts.get(key(first))) is not None:
        named.add(same)
        rule, rest = "letter_text", rest.strip().partition("\n")[2]
    else:
        rule = "leading_letter"
        named.update(_next_label(rest, table), _first_text(first, table))
    if len(named) > 1:
        return _ambiguous([*named], rule, body)
    return _answered(index, rule, rest)


def _pairs(body: str, table: Shown) -> set[int]:
    """Options that stand in a text with their labels, as in the list that was shown."""
    return {
        table.letters[match[1]]
        for match in table.pair.finditer(body)
        if table.texts.get(key(match[2])) == table.letters[match[1]]
    }


def _next_label(rest: str, table: Shown) -> set[int]:
    """A second label right after the first: ``B, C``, ``B) or C)``, ``A) B) C)``."""
    after = _BETWEEN.sub("", rest, count=1)
    match = table.token.match(after)
    if match is None or (match[1] in ("A", "I") and _is_word(match, after)):
        return set()
    return {table.letters[match[1]]} if _SET_OFF.match(after, match.end()) else set()


def _first_text(line: str, table: Shown) -> set[int]:
    """The option whose text a line begins with."""
    hit = _starts_with(line, table)
    return set() if hit is None else {hit}


def _marked(body: str, table: Shown) -> Parsed | None:
    r"""The last marked answer: ``Answer: B``, ``my answer is Sometimes``, ``\boxed{B}``."""
    for match in reversed([*_MARKER.finditer(body)][-_MAX_MARKERS:]):
        rest = body[match.end() :].lstrip()
        first = rest.partition("\n")[0].removesuffix("$")
        read = _plain(first.partition("}")[0] if "boxed" in match[0] else first, table)
        if read is None:
            index = _starts_with(first, table)
            token = table.token.match(rest.lstrip("*_`\"'“([$ "))
            if index is not None:
                read = _answered(index, "text", rest)
            elif token and _is_named(token, token.string):
                read = _first_of(token, table)
        if read is not None:
            comment = "\n".join(filter(None, (body[: match.start()].strip(), read.comment)))
            return Parsed(
                read.status, read.options, "marked", read.reason, read.candidates, comment or None
            )
    return None


def _first_of(token: re.Match[str], table: Shown) -> Parsed:
    """The label of a token; ambiguous where another follows: ``B or C``."""
    rest = token.string[token.end() :]
    named = {table.letters[token[1]], *_next_label(rest, table)}
    if len(named) > 1:
        return _ambiguous([*named], "letter", token.string)
    return _answered(table.letters[token[1]], "letter", rest)


def _no_answer(body: str, table: Shown) -> Parsed | None:
    """A refusal or a don't know; an answer only where an option says just that."""
    if says_dont_know(body):
        own = [i for i, o in enumerate(table.options) if says_dont_know(o.text)]
        others = {*_letters(body, table), *table.mentioned(body)} - {*own}
        if len(own) == 1 and not others and says_dont_know(body, and_no_more=True):
            return _answered(own[0], "dont_know", body)
        return Parsed(
            "missing", (), "dont_know", "dont_know", tuple(_letters(body, table)), comment=body
        )
    if says_refused(body):
        own = [i for i, o in enumerate(table.options) if key(o.text) in normalised(body)]
        own = [i for i in own if says_refused(table.options[i].text)]
        if len(own) == 1:
            return _answered(own[0], "refusal_option")
        if _sentence(body, table) is None or not re.search(r"\b(?:choose|pick|select)\b", body):
            return Parsed("refused", (), "refusal", "refused", comment=body)
    return None


def _starts_with(line: str, table: Shown) -> int | None:
    """The option whose text begins the line, where the text ends there or is set off."""
    plain = normalised(line.lstrip("*_`\"'“([$ "))
    for text, index, _ in table.phrases:
        if plain.startswith(text) and (len(plain) == len(text) or _GOES_ON.match(plain, len(text))):
            return index
    return None


def _start(body: str, table: Shown) -> Parsed | None:
    """The reply begins with one option's text, or is the unique beginning of one."""
    index = _starts_with(body, table)
    if index is not None:
        text = table.item.match(body.lstrip(DECOR))
        others = set(table.mentioned(body)) - {index}
        if text is not None:
            others |= _next_label(text.string[text.end() :], table) - {index}
        if others:
            return _ambiguous([index, *others], "prefix", body)
        return _answered(index, "prefix", body)
    cut = key(body)
    if len(cut) < _MIN_PREFIX:
        return None
    fitting = [i for text, i in table.texts.items() if text.startswith(cut)]
    if len(fitting) > 1:
        return _ambiguous(fitting, "prefix", body)
    return _answered(fitting[0], "prefix") if fitting else None


def _before(match: re.Match[str]) -> str:
    """What stands before a label: no more than the rules look at."""
    return match.string[max(0, match.start() - _LOOK_BACK) : match.start()]


def _is_word(match: re.Match[str], body: str) -> bool:
    """Whether a token is the article A, the pronoun I, or a number that counts something."""
    label = match[1]
    if label == "A":
        return bool(_ARTICLE.match(body, match.end()))
    if label == "I":
        is_object = _BEFORE.search(_before(match)) and _ENDS.match(body, match.end())
        return not (is_object or _AFTER.match(body, match.end()))
    return label.isdigit()


def _is_named(match: re.Match[str], body: str) -> bool:
    """Whether a token after ``option`` or ``answer:`` is a label: ``2``, not ``2 times``."""
    if match[1].isdigit():
        end = match.end()
        return bool(end == len(body) or _GOES_ON.match(body, end) or _AFTER.match(body, end))
    return bool(_OPTION.search(_before(match))) or not _is_word(match, body)


def _letters(body: str, table: Shown) -> list[int]:
    """Options whose labels stand in a text as labels, not as words."""
    found = [
        table.letters[match[1]]
        for match in table.token.finditer(body)
        if not _is_word(match, body) or (_NAMES.search(_before(match)) and _is_named(match, body))
    ]
    return sorted(set(found))


def _sentence(body: str, table: Shown) -> Parsed | None:
    """The one label of a reply, if a sentence chooses it: ``I pick C because …``, ``…: B``."""
    found = _letters(body, table)
    if len(found) > 1:
        return _ambiguous(found, "sentence", body)
    for match in table.token.finditer(body):
        before, index = _before(match), table.letters[match[1]]
        if index not in found or _NEGATED.search(before.rpartition(".")[2].lower()):
            continue
        if _REJECTED.match(body, match.end()):
            continue
        if _BEFORE.search(before) or _AFTER.match(body, match.end()):
            text = _first_text(body[match.end() :].lstrip(" ):.-–—("), table)
            if text - {index}:
                return _ambiguous([index, *text], "sentence", body)
            return _answered(index, "sentence", body)
    return None


def _unparsed(body: str, table: Shown) -> Parsed:
    named = table.mentioned(body)
    if len(named) > 1:
        return _ambiguous(named, "none", body)
    number = bare(body)
    is_beyond = table.is_numeric and number.isdigit()
    return Parsed(
        "missing", (), "none", "out_of_range" if is_beyond else "unparsed", named, comment=body
    )
