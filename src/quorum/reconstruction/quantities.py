"""Replies that hold numbers: a point of a scale, and shares in words (verbalised distributions)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from quorum.reconstruction.replies import (
    Status,
    json_fields,
    says_dont_know,
    says_refused,
    without_thoughts,
)
from quorum.reconstruction.shown import bare, key, shown
from quorum.reconstruction.survey import Option
from quorum.reconstruction.texts import normalised

_ONES = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen", "twenty",
]  # fmt: skip
_TENS = [
    "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred",
]  # fmt: skip
_WORDS = {word: i for i, word in enumerate(_ONES)} | {w: 10 * (i + 1) for i, w in enumerate(_TENS)}
_NUMBER = r"[+-]?\d+(?:\.\d+)?"
_OF = re.compile(rf"({_NUMBER})\s*(?:/|out of|of)\s*({_NUMBER})")
_WORD = re.compile(rf"\b(?:{'|'.join(sorted(set(_WORDS) - {'one'}))})\b")  # "no one" is no 1
_ANY = re.compile(rf"(?<![\w.]){_NUMBER}(?![\w%]|\.\d)")
_SUM_TOLERANCE = 0.02  # of a share: whole percentages sum to 98–102
_SHARE = re.compile(r"\s*(?:[:=–—-]|\bis\b)?\s*[\"'*_]*([+-]?\d*\.?\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ParsedScale:
    """A point of a scale: ``value`` is a whole number where answered, else None with a reason."""

    status: Status
    value: int | None = None
    rule: str = "none"
    reason: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class ParsedShares:
    """Verbalised shares, in the order shown, sum 1; None with a reason where they cannot be read.

    ``raw_sum`` is what the reply's shares summed to.
    """

    status: Status
    shares: tuple[float, ...] | None = None
    rule: str = "none"
    reason: str | None = None
    raw_sum: float | None = None
    comment: str | None = None


def parse_scale(text: str, low: int, high: int) -> ParsedScale:
    """The point of the scale from low to high that a reply names.

    ``7``, ``ten``, ``7 out of 10`` (only of the scale's own end), ``I'd say 7``. A number
    beyond the ends is missing (``out_of_range``), two numbers are ambiguous, a broken one is
    unparsed.
    """
    body, is_unfinished = without_thoughts(text)
    if not body:
        return ParsedScale("missing", reason="unfinished_thought" if is_unfinished else "empty")
    values, comment = json_fields(body)
    if len(values) == 1 and values[0] is not None:
        return _point(str(values[0]), "json", low, high, comment)
    first, _, rest = body.partition("\n")
    for candidate, note in ((body, ""), (first, rest)):
        plain = _digits(normalised(bare(candidate)))
        if match := _OF.fullmatch(plain):
            if float(match[2]) != high:
                return ParsedScale("missing", None, "fraction", "unparsed", body)
            return _point(match[1], "fraction", low, high, note)
        if plain in _WORDS or re.fullmatch(_NUMBER, plain):
            return _point(plain, "number", low, high, note)
    if says_dont_know(body):
        return ParsedScale("missing", None, "dont_know", "dont_know", body)
    return _point_in_sentence(body, low, high)


def _digits(plain: str) -> str:
    """The text with number words as digits: ``seven out of ten`` → ``7 out of 10``."""
    return _WORD.sub(lambda match: str(_WORDS[match[0]]), plain)


def _point_in_sentence(body: str, low: int, high: int) -> ParsedScale:
    ends = rf"(?:from |of |between )?{low}\s*(?:to|-|and)\s*{high}"
    plain = re.sub(ends, " ", _digits(normalised(body)))
    plain = re.sub(rf"({_NUMBER})\s*(?:/|out of|of)\s*{high}(?![\d.])", r"\1 ", plain)
    marked = re.search(rf"\b(?:answer|rating|score)\b\s*(?:is|:|=)+\s*\W*({_NUMBER})(?!\w)", plain)
    found = {marked[1]} if marked else set(_ANY.findall(plain))
    if len(found) == 1:
        return _point(found.pop(), "sentence", low, high, body)
    if says_refused(body):
        return ParsedScale("refused", None, "refusal", "refused", body)
    return ParsedScale("missing", None, "none", "ambiguous" if found else "unparsed", body)


def _point(number: str, rule: str, low: int, high: int, comment: str | None) -> ParsedScale:
    note = (comment or "").strip() or None
    plain = normalised(bare(number))
    if plain not in _WORDS and not re.fullmatch(_NUMBER, plain):
        match = _OF.fullmatch(plain)
        if match is None or float(match[2]) != high:
            return ParsedScale("missing", None, rule, "unparsed", note)
        plain = match[1]
    value = float(_WORDS.get(plain, math.nan)) if plain in _WORDS else float(plain)
    if not value.is_integer():
        return ParsedScale("missing", None, rule, "unparsed", note)
    if not low <= value <= high:
        return ParsedScale("missing", None, rule, "out_of_range", note)
    return ParsedScale("answered", int(value), rule, comment=note)


def parse_distribution(text: str, options: Sequence[Option]) -> ParsedShares:
    """The shares that a reply gives the options: a JSON object, or lines such as ``A: 40%``.

    Labels, texts, or both name the options. All shares are in one scale, 1 or 100, told by their
    sum, which may be off by 2 %: it is then renormalised. An option that is not named has share 0
    where the others sum up; else the reply is missing (``incomplete``).
    """
    body, is_unfinished = without_thoughts(text)
    if not body:
        return ParsedShares("missing", reason="unfinished_thought" if is_unfinished else "empty")
    found, is_twice = _named_shares(body, tuple(options))
    if is_twice:
        return ParsedShares("missing", None, "named", "ambiguous", comment=body)
    if not found:
        if says_refused(body):
            return ParsedShares("refused", None, "refusal", "refused", comment=body)
        reason = "dont_know" if says_dont_know(body) else "unparsed"
        return ParsedShares("missing", None, "none", reason, comment=body)
    total = math.fsum(found.values())
    if min(found.values()) < 0:
        return ParsedShares("missing", None, "named", "out_of_range", total, body)
    scale = 100 if total > 10 else 1
    if abs(total / scale - 1) > _SUM_TOLERANCE + 1e-9:
        reason = "sum" if len(found) == len(options) else "incomplete"
        return ParsedShares("missing", None, "named", reason, total, body)
    shares = tuple(found.get(i, 0.0) / total for i in range(len(options)))
    return ParsedShares("answered", shares, "named", raw_sum=total)


def _named_shares(body: str, options: tuple[Option, ...]) -> tuple[dict[int, float], bool]:
    """Index → number as written, and whether an option has two different ones."""
    table = shown(options)
    found: dict[int, float] = {}
    position = 0
    while match := table.named.search(body, position):
        position = match.end()
        share = _SHARE.match(body, position)
        if share is None:
            continue
        name = match[1]
        index = table.letters.get(bare(name))
        if index is None:
            index = table.texts.get(key(name), table.letters.get(re.split(r"\W", name)[0]))
        if index is None:
            continue
        value = float(share[1])
        if found.setdefault(index, value) != value:
            return found, True
        position = share.end()
    return found, False
