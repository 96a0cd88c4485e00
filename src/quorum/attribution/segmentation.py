"""Segmentation: where words, marks, sentences, lines and paragraphs begin and end in a text.

Unicode-aware and without dictionaries. Functions give (start, end) pairs in characters, in text
order; white space at the ends of a piece is left to the caller.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex

# Scripts written without spaces: one grapheme cluster is a token (a run, for Katakana).
_UNSPACED = (
    r"[\p{Han}\p{Hiragana}\p{Bopomofo}[[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Javanese}"
    r"\p{Balinese}\p{Tai_Tham}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Viet}\p{Yi}]&&\p{L}]]"
)
_KATAKANA = r"[\p{Katakana}\u30FC\uFF70\uFF9E\uFF9F]"
_EXTEND = r"[\p{M}\p{GCB=Extend}\u200D]"  # what goes on a grapheme cluster
_WORD = rf"[[\p{{L}}\p{{N}}\p{{M}}_]--{_UNSPACED}--{_KATAKANA}]"
# Inside a word: apostrophes, Hebrew geresh marks, joiners, soft hyphen; between digits: . and ,
_INSIDE = rf"(?:['’\u05F3\u05F4\u200C\u200D\u00AD](?={_WORD})|(?<=\p{{Nd}})[.,](?=\p{{Nd}}))"
_TOKEN = regex.compile(
    r"(?=[0-9#*]\uFE0F?\u20E3)\X"  # keycap emoji
    rf"|(?:{_KATAKANA}{_EXTEND}*)+"
    rf"|(?={_UNSPACED})\X"
    rf"|{_WORD}+(?:{_INSIDE}{_WORD}+)*{_EXTEND}*"
    r"|(?![\s\x1C-\x1F\p{Cf}])\X",  # a punctuation mark, a symbol, an emoji with all its parts
    regex.V1,
)
_MARK = regex.compile(r"\p{P}+", regex.V1)
_CHUNK = regex.compile(
    rf"[\p{{Ps}}\p{{Pi}}]*(?:(?:{_KATAKANA}{_EXTEND}*)+|(?={_UNSPACED})\X)"
    rf"[[\p{{P}}\p{{S}}{_EXTEND}]--[\p{{Ps}}\p{{Pi}}]]*"
    rf"|(?:(?!{_UNSPACED}|{_KATAKANA})[^\s\x1C-\x1F])+",
    regex.V1,
)
VISIBLE = regex.compile(r"[^\s\x1C-\x1F\p{Cf}]", regex.V1)

NEWLINE = r"(?>\r\n|[\n\r\v\f\x85\u2028\u2029])"
_LINES = regex.compile(NEWLINE)
_BLANK_LINE = regex.compile(rf"{NEWLINE}[^\S\n\r\v\f\x85\u2028\u2029]*{NEWLINE}")
_CLOSING = r"""["'”’»)\]}」』）】]*"""
_STOP = regex.compile(
    rf"(?P<stop>[.!?…؟۔।॥]+){_CLOSING}(?=\s|$)|(?P<wide>[。！？｡]+){_CLOSING}|(?P<line>{NEWLINE}\s*+)"
)
_LIST_MARK = regex.compile(r"\s*[(]?(?:\p{Nd}+|\p{L})[.]")
_ABBREVIATION = regex.compile(
    r"(?:^|[\s(])(?:mr|mrs|ms|dr|prof|st|vs|e\.g|i\.e|cf|fig|approx|z\.\s?B|d\.\s?h|bzw|ca)\.$",
    regex.IGNORECASE,
)
_NEXT_LOWER = regex.compile(r"\s*\p{Ll}")


def tokens_of(text: str) -> list[str]:
    """The words and marks of a text, as the `tokens` partitioner sees them."""
    return [m[0] for m in _TOKEN.finditer(text)]


def terms_of(text: str) -> list[str]:
    """The tokens of a text without punctuation marks; only marks where it has nothing else.

    One-letter words, numbers, symbols and emoji are terms; so "A" has the term "A".
    """
    tokens = tokens_of(text)
    return [t for t in tokens if not _MARK.fullmatch(t)] or tokens


def token_spans(text: str) -> Iterator[tuple[int, int]]:
    """Words, numbers, punctuation marks, symbols and emoji."""
    return (m.span() for m in _TOKEN.finditer(text))


def word_spans(text: str) -> Iterator[tuple[int, int]]:
    """Pieces between white space; scripts without spaces are cut like tokens."""
    return (m.span() for m in _CHUNK.finditer(text))


def line_spans(text: str) -> Iterator[tuple[int, int]]:
    """Lines, blank ones too, without their breaks."""
    return _between(_LINES, text)


def paragraph_spans(text: str) -> Iterator[tuple[int, int]]:
    """Blocks of lines between blank lines."""
    return _between(_BLANK_LINE, text)


def _between(pattern: regex.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for match in pattern.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Sentences, by the rules that the `sentences` partitioner states."""
    start = 0
    for match in _STOP.finditer(text):
        end = match.end()
        goes_on = _NEXT_LOWER.match(text, end) is not None
        if match["line"]:
            if goes_on and not _BLANK_LINE.match(match["line"]):
                continue
        elif match["stop"] and match["stop"][0] in ".…":
            is_mark = _LIST_MARK.fullmatch(text, start, end)
            if goes_on or is_mark or _ABBREVIATION.search(text, max(0, end - 12), end):
                continue
        yield start, end
        start = end
    yield start, len(text)
