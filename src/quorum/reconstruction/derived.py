"""Attributes that follow from the survey itself, without any model: by topic and by question."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from quorum.digests import digest
from quorum.reconstruction.bank import Attribute
from quorum.reconstruction.survey import Question

_MAX_QUOTE = 90  # characters of a question that a persona quotes
_CONCERN = ("a great deal", "somewhat", "not at all")


def topic_attributes(questions: Sequence[Question]) -> tuple[Attribute, ...]:
    """Group ``survey``: how much a person cares about each topic; a question without one is one."""
    names = {q.topic or f"“{quoted(q.text)}”": q.topic for q in questions}
    keys = {name: topic or _first(questions, name).id for name, topic in names.items()}
    ids = attribute_ids("survey", keys.values())
    return tuple(
        Attribute(
            id=ids[keys[name]],
            label=_literal(_words(name)),
            phrase=f"You care {{value}} about {_literal(_words(name) if topic else name)}.",
            values=_CONCERN,
            group="survey",
            source="topics of the survey",
        )
        for name, topic in sorted(names.items())
    )


def question_attributes(questions: Sequence[Question]) -> dict[str, Attribute]:
    """Group ``question``, by question id: what a person answers to one question of the survey."""
    ids = attribute_ids("question", (q.id for q in questions))
    return {
        q.id: Attribute(
            id=ids[q.id],
            label=_literal(quoted(q.text)),
            phrase=f"On “{_literal(quoted(q.text))}” you say: {{value}}.",
            values=tuple(option.text for option in q.options),
            group="question",
            source=f"options of {q.id}",
        )
        for q in sorted(questions, key=lambda q: q.id)
    }


def attribute_ids(prefix: str, names: Iterable[str]) -> dict[str, str]:
    """An id an attribute can have for each name: lower case, and a digest where two coincide."""
    ids: dict[str, str] = {}
    for name in sorted(set(names)):
        slug = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")
        wanted = f"{prefix}_{slug}" if slug else f"{prefix}_{digest(name)[:8]}"
        ids[name] = f"{wanted}_{digest(name)[:8]}" if wanted in ids.values() else wanted
    return ids


def quoted(text: str, limit: int = _MAX_QUOTE) -> str:
    """A question on one line; of a long one the end, where the items of one grid differ."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return "…" + line[-limit:].partition(" ")[2]


def _first(questions: Sequence[Question], name: str) -> Question:
    same = [q for q in questions if q.topic is None and f"“{quoted(q.text)}”" == name]
    return min(same, key=lambda q: q.id)


def _words(topic: str) -> str:
    return " ".join(topic.replace("_", " ").split())


def _literal(text: str) -> str:
    """A phrase has one place for the value: the survey's own braces are none."""
    return text.replace("{value}", "value")
