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
_MARKUP = re.compile(
    r"<\|[^|<>]{1,40}\|>|</?(?:answer|final_answer|choice|response|b|i|em|strong|p|br)\s*/?>",
    re.IGNORECASE,
)
# Of several fields in one reply, those of the first name count.
_FIELDS = [
    "answer", "answers", "choice", "choices", "selected", "selection", "option", "options",
    "response", "label", "letter", "value",
]  # fmt: skip
_FIELD = re.compile(
    rf"""["']({"|".join(_FIELDS)})["']\s*:\s*"""
    r"""("(?:[^"\\]|\\.)*"|'[^']*'|-?\d+(?:\.\d+)?|null|\[[^\]\[]{0,2000}\])""",
    re.IGNORECASE,
)
_COMMENT = re.compile(
    r""""(?:comment|reason|reasoning|explanation|rationale|because)"\s*:\s*("(?:[^"\\]|\\.)*")""",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"""\b(?:
        (?:i|we)(?:\ am|'m)?\ (?:can't|cannot|can\ not|won't|will\ not|unable\ to|not\ able\ to)
            \ (?:answer|assist|help|provide|respond|reply|comply|participate|share|give|offer|engage
                |choose|select|pick|disclose|discuss|comment|express|complete|continue
                |do\ (?:that|this))\b
        | (?:i|we)\ (?:must\ |have\ to\ )?(?:decline|refuse)\b
        | (?:declined?|refused?)\ to\ (?:answer|say|respond)\b
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
    """The reply without ``<think>…</think>`` and marks, and whether it is a thought cut off.

    Marks are those of chat templates (``<|im_end|>``) and tags around an answer (``<b>``).
    """
    if "<" not in text:
        return text.strip(), False
    rest = _THOUGHT.sub("", text)
    rest = _END_OF_THOUGHT.sub("", rest)  # a template may have opened the thought
    rest = _MARKUP.sub("", rest).strip()
    return rest, not rest and bool(_MARKUP.sub("", text).strip())


def free_text(text: str) -> str | None:
    """The answer to an open question: all lines of the reply, without thoughts; None if empty."""
    return without_thoughts(text)[0] or None


def json_fields(text: str) -> tuple[list[object], str | None]:
    """The values of answer fields in a reply's JSON, cut off or not, and the comment beside them.

    A value is a text, a number, None for ``null``, or a list of such.
    """
    matches = [*_FIELD.finditer(text)]
    first = min((_FIELDS.index(m[1].lower()) for m in matches), default=0)
    values = [_value(m[2]) for m in matches if m[1].lower() == _FIELDS[first]]
    note = _COMMENT.search(text)
    try:
        comment = json.loads(note[1], strict=False) if note else None
    except json.JSONDecodeError:
        comment = None
    return values, comment


def _value(raw: str) -> object:
    if raw.startswith("'"):
        return raw[1:-1]
    try:
        return json.loads(raw, strict=False)
    except json.JSONDecodeError:  # a list in single quotes, or an unknown escape
        return raw.strip("[]\"'")


def says_refused(text: str) -> bool:
    """Whether a reply declines to answer."""
    plain = normalised(text)
    return bool(_REFUSED_WORD.fullmatch(plain) or _REFUSAL.search(plain))


def says_dont_know(text: str, *, and_no_more: bool = False) -> bool:
    """Whether a reply begins by saying that it does not know, and goes on only after a stop."""
    plain = normalised(text)
    match = _DONT_KNOW.match(plain)
    if match is None:
        return False
    after = plain[match.end() : match.end() + 1]
    return not and_no_more or not (after.isalnum() or after == " ")
