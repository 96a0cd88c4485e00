"""The options as they were shown, made ready for reading replies: look-up tables and patterns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from quorum.reconstruction.survey import Option
from quorum.reconstruction.texts import normalised

DECOR = " \t\r\n*_$`\"'“”‘’«»()[]{}#~>\\"
_END = ".,:;!"
_OPEN = r"[*_`\"'“‘«(\[$]"
_CLOSE = r"[*_`\"'”’»)\]$]"


def bare(text: str) -> str:
    """The text without decoration around it and without the punctuation at its end."""
    return text.strip(DECOR).rstrip(_END + DECOR).lstrip(DECOR)


def key(text: str) -> str:
    """The form in which a reply and an option's text are the same answer."""
    return normalised(bare(text)) or normalised(text)


@dataclass(frozen=True, slots=True)
class Shown:
    """Options in the order in which they were shown.

    Args:
        options: Labels are those shown.
        exact: Whole replies that need no parsing → index and rule.
        letters: Label → index, in lower case too where that is no other label.
        texts: Key of a text → index.
        leading: A label at the start, set off from what follows it.
        token: A label by itself anywhere.
        item: A label, a text, or both, for lists of answers.
        named: The same anywhere, in decoration.
        pair: A label and a text behind it, anywhere, as in a list of options.
        phrases: Each key of a text, the longest first, its index, and the key as whole words.
    """

    options: tuple[Option, ...]
    exact: dict[str, tuple[int, str]]
    letters: dict[str, int]
    texts: dict[str, int]
    leading: re.Pattern[str]
    token: re.Pattern[str]
    item: re.Pattern[str]
    named: re.Pattern[str]
    pair: re.Pattern[str]
    phrases: tuple[tuple[str, int, re.Pattern[str]], ...]

    @property
    def is_numeric(self) -> bool:
        """Whether the labels are numbers."""
        return all(option.label.isdigit() for option in self.options)

    def mentioned(self, text: str) -> tuple[int, ...]:
        """Options whose text stands in a text as whole words, longer ones first taken."""
        rest = normalised(text)
        found: list[int] = []
        for _, index, pattern in self.phrases:
            rest, count = pattern.subn(" | ", rest)
            if count:
                found.append(index)
        return tuple(sorted(found))


@lru_cache(maxsize=4096)
def shown(options: tuple[Option, ...]) -> Shown:
    """The tables and patterns of a list of options; kept, as each list is asked many times."""
    labels = [option.label for option in options]
    letters = {label.lower(): i for i, label in enumerate(labels)}
    letters |= {label: i for i, label in enumerate(labels)}
    texts: dict[str, int] = {}
    for i, option in enumerate(options):
        texts.setdefault(key(option.text), i)
    any_label = _either(labels)
    any_lower = _either([label.lower() for label in labels])
    any_text = f"(?i:{_either([option.text for option in options])})"
    item = (
        rf"(?:{any_label}|{any_lower})\s*[).:]\s*{any_text}(?!\w)"
        rf"|{any_text}(?!\w)|(?:{any_label}|{any_lower})(?!\w)[).]?"
    )
    return Shown(
        options,
        _exact(options),
        letters,
        texts,
        re.compile(
            rf"[\s>#-]*(?:{_OPEN}+({any_label}){_CLOSE}+(?!\w)"
            rf"|{_OPEN}*({any_label}){_CLOSE}*\s*(?:[):\]=]|\.(?=\s|\Z)|[-–—](?=\s)|,(?!\d)|\n|\Z)"
            rf"|({any_lower})\s*(?:[)\]]|[.:](?=\s|\Z)|\n|\Z))"
        ),
        re.compile(rf"(?<![\w'’./-])({any_label})(?![\w'’/-]|[.,]\d)"),
        re.compile(item),
        re.compile(rf"(?<!\w)[\"'*_`(\[]{{0,4}}({item})[\"'*_`)\]]{{0,4}}"),
        re.compile(rf"(?<!\w)({any_label}|{any_lower})\s*[).:]\s*({any_text})(?!\w)"),
        tuple(
            (text, texts[text], re.compile(rf"(?<!\w){re.escape(text)}(?!\w)"))
            for text in sorted(texts, key=lambda text: (-len(text), text))
        ),
    )


def _either(texts: Sequence[str]) -> str:
    """A pattern for any of the texts, the longest first; quotes may be curly."""
    ordered = sorted(set(texts), key=lambda text: (-len(text), text))
    quoted = (re.sub("['’]", "['’]", re.escape(text)) for text in ordered)
    return "(?:" + "|".join(quoted) + ")"


def _exact(options: Sequence[Option]) -> dict[str, tuple[int, str]]:
    """Frequent whole replies; a label goes before a text that looks like one."""
    exact: dict[str, tuple[int, str]] = {}
    for i, option in enumerate(options):
        for form in ("{}", "{}.", "{})", "({})", "**{}**", "[{}]", "{}:"):
            exact.setdefault(form.format(option.label), (i, "letter"))
    for i, option in enumerate(options):
        label, text = option.label, option.text
        for form in ("{}) {}", "{}. {}", "{}: {}", "({}) {}"):
            exact.setdefault(form.format(label, text), (i, "letter_text"))
            exact.setdefault(form.format(label, text) + ".", (i, "letter_text"))
        exact.setdefault(text, (i, "text"))
    return exact
