"""What all readers of a reply share: the record of the result, hidden thoughts, JSON fields."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Literal

from quorum.reconstruction.texts import normalised

Status = Literal["answered", "missing", "refused"]

_THOUGHT = re.compile(
    r"<(think|thinking|thought|reasoning)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE
)
_END_OF_THOUGHT = re.compile(
    r"\A.*</(?:think|thinking|thought|reasoning)>", re.DOTALL | re.IGNORECASE
)
_FIELDS = "answer|choice|option|label|letter|response|selected|selection|value|answers|choices"
_FIELD = re.compile(
    rf"""["'](?:{_FIELDS})["']\s*:\s*"""
    r"""("(?:[^"\\]|\\.)*"|'[^']*'|-?\d+(?:\.\d+)?|null|\[[^\]\[]{0,2000}\])""",
    re.IGNORECASE,
)
_COMMENT = re.compile(
    r""""(?:comment|reason|reasoning|explanation|rationale|because)"\s*:\s*("(?:[^"\\]|\\.)*")""",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"""\b(?:
        (?:i|we)(?:\ am|'m)?\ (?:can't|cannot|can\ not|won't|will\ not|unable\ to|not\ able\ to
            |must\ decline|decline|refuse|do\ not\ wish)\b
            (?!\ (?:say|tell|wait|remember)\b)
        | (?:prefer|rather)\ not\ (?:to\ )?(?:say|answer|respond|disclose)
        | as\ an?\ (?:ai|artificial|large|language)\b
        | no\ comment
        | (?:don't|do\ not)\ have\ (?:personal|any\ personal)
    )""",
    re.VERBOSE,
)
_REFUSED_WORD = re.compile(r"(?:i )?(?:refuse|refused|refusal|decline|declined)[.! ]*")
_DONT_KNOW = re.compile(
    r"""(?:(?:sorry|well|honestly|hm+|oh|um+)[,.\ ]*)*
    (?:
        (?:i\ )?(?:really\ |honestly\ |just\ |simply\ )?(?:do\ not|don't|dont)\ (?:really\ )?know\b
        | (?:i\ am\ |i'm\ )?(?:really\ )?not\ (?:really\ |entirely\ |quite\ )?(?:sure|certain)\b
        | (?:i\ have\ )?no\ (?:idea|opinion|clue)\b
        | (?:i\ am\ |i'm\ )?(?:unsure|uncertain|undecided)\b
        | (?:it\ is\ |it's\ )?(?:hard|difficult)\ to\ say\b
        | (?:i\ )?(?:can't|cannot)\ (?:say|tell|remember)\b
        | idk\b | dk\b
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a reply to a closed question says.

    Args:
        status: ``answered``, ``missing`` or ``refused``.
        options: Indices into the list of options as shown; empty unless answered.
        rule: The rule that decided.
        reason: Why there is no answer: ``empty``, ``unfinished_thought``, ``unparsed``,
            ``ambiguous``, ``dont_know``, ``out_of_range``, ``refused``; None where there is one.
        candidates: Indices that were thought of, where it is ambiguous.
        comment: What stands beside the answer, all its lines; of a reply without an answer, all.
    """

    status: Status
    options: tuple[int, ...] = ()
    rule: str = "none"
    reason: str | None = None
    candidates: tuple[int, ...] = ()
    comment: str | None = None


def without_thoughts(text: str) -> tuple[str, bool]:
    """The reply without ``<think>…</think>``, and whether a thought was cut off at the end."""
    if "<" not in text:
        return text.strip(), False
    rest = _THOUGHT.sub("", text)
    rest = _END_OF_THOUGHT.sub("", rest).strip()  # a template may have opened the thought
    return rest, not rest and bool(text.strip())


def free_text(text: str) -> str | None:
    """The answer to an open question: all lines of the reply, without thoughts; None if empty."""
    return without_thoughts(text)[0] or None


def json_fields(text: str) -> tuple[list[object], str | None]:
    """The values of answer fields in a reply's JSON, cut off or not, and the comment beside them.

    A value is a text, a number, None for ``null``, or a list of such.
    """
    values: list[object] = []
    for match in _FIELD.finditer(text):
        raw = match[1]
        if raw.startswith("'"):
            values.append(raw[1:-1])
            continue
        try:
            values.append(json.loads(raw, strict=False))
        except json.JSONDecodeError:  # a list in single quotes, or an unknown escape
            values.append(raw.strip("[]\"'"))
    note = _COMMENT.search(text)
    try:
        comment = json.loads(note[1], strict=False) if note else None
    except json.JSONDecodeError:
        comment = None
    return values, comment


def says_refused(text: str) -> bool:
    """Whether a reply declines to answer."""
    plain = normalised(text)
    return bool(_REFUSED_WORD.fullmatch(plain) or _REFUSAL.search(plain))


def says_dont_know(text: str) -> bool:
    """Whether a reply begins by saying that it does not know."""
    return bool(_DONT_KNOW.match(normalised(text)))
