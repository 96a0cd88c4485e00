"""The attribute learner: a model names attributes that would split opinion on flat questions."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from quorum.digests import canonical_json
from quorum.reconstruction.bank import Attribute
from quorum.reconstruction.derived import attribute_ids, quoted
from quorum.reconstruction.survey import Question
from quorum.reconstruction.texts import normalised
from quorum.records import Message, Request, Scalar

N_ATTRIBUTES = 3  # asked for in one request
MAX_TOKENS = 256  # three attributes of four values of the longest length fit
TEMPERATURE = 0.8  # a second request about the same questions should not get the same reply
MAX_LABEL = 40  # characters
MAX_VALUE = 40
MIN_VALUES, MAX_VALUES = 2, 4

_FORM = '{"attributes": [{"label": "…", "values": ["…", "…"]}]}'
# words of the prompt: a small model copies them, and the bank has them anyway
_COPIED_LABELS = frozenset({"age", "income", "trait", "attribute", "label", "value", "values"})
_COPIED_VALUES = frozenset({"trait", "attribute", "label", "value", "values"})
_TEXT: dict[str, object] = {"type": "string", "minLength": 2}
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "attributes": {
            "type": "array",
            "minItems": 1,
            "maxItems": N_ATTRIBUTES,
            "items": {
                "type": "object",
                "properties": {
                    "label": {**_TEXT, "maxLength": MAX_LABEL},
                    "values": {
                        "type": "array",
                        "minItems": MIN_VALUES,
                        "maxItems": MAX_VALUES,
                        "items": {**_TEXT, "maxLength": MAX_VALUE},
                    },
                },
                "required": ["label", "values"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["attributes"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Learned:
    """What a reply brought.

    Args:
        attributes: Valid new attributes, in the reply's order.
        rejected: What else the reply held: why it was not taken, one line each.
    """

    attributes: tuple[Attribute, ...]
    rejected: tuple[str, ...]


def learner_request(
    questions: Sequence[Question],
    known: Sequence[str],
    *,
    is_structured: bool,
    seed: int,
    round_number: int,
) -> Request:
    """Asks for attributes on which people who answer these questions differently would differ.

    Args:
        questions: The flattest questions.
        known: Labels of what was learned before, not to be repeated.
        is_structured: Whether the backend binds a reply to a schema; else the prompt alone does.
        seed: Seed of the pool.
        round_number: Rounds done; a later request about the same questions is another draw.
    """
    lines = ["People are too much alike in their answers to these questions:"]
    lines += [f"- {quoted(question.text)}" for question in questions]
    lines.append(
        f"List {N_ATTRIBUTES} traits on which people differ, such as age (young, old) or income "
        "(low, high), and that lead to different answers here."
    )
    if known:
        lines.append(f"Do not repeat: {', '.join(known)}.")
    form = "attributes, each with a label and values" if is_structured else _FORM
    lines.append(f"Reply with JSON: {form}")
    options: dict[str, Scalar] = {
        "max_tokens": MAX_TOKENS,
        "temperature": TEMPERATURE,
        "seed": seed,
    }
    if is_structured:
        options["schema"] = canonical_json(SCHEMA)
    return Request((Message("user", "\n".join(lines)),), options, sample=round_number)


def parse_learned(text: str, known: Collection[Attribute] = (), source: str = "learner") -> Learned:
    """The attributes that a reply holds, each checked by itself.

    Objects with ``label`` and ``values`` are taken wherever they stand: in the asked-for list, in
    a fence, between prose, or whole in a reply that was cut off. An attribute is taken where its
    label is a new text of at most 40 characters and it has 2 to 4 values of at most 40 characters,
    distinct whatever their case; words of the prompt itself count as neither.

    Args:
        text: The reply.
        known: Attributes that exist: a new one has neither the id nor the label of one.
        source: Provenance, kept in ``Attribute.source``.
    """
    attributes: list[Attribute] = []
    rejected: list[str] = []
    taken = {name for a in known for name in (a.id, normalised(a.label))}
    found = list(_objects(text))
    for value in found:
        attribute, reason = _attribute(value, taken, source)
        if attribute is None:
            rejected.append(reason)
        else:
            attributes.append(attribute)
            taken.add(attribute.id)
    if not found:
        rejected.append("the reply holds no attribute")
    return Learned(tuple(attributes), tuple(rejected))


def _objects(text: str) -> Iterator[Mapping[str, object]]:
    decoder = json.JSONDecoder()
    start = 0
    while (start := text.find("{", start)) >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
            continue
        yield from _inside(value)
        start = end


def _inside(value: object) -> Iterator[Mapping[str, object]]:
    if isinstance(value, Mapping):
        if "label" in value or "values" in value:
            yield value
        else:
            for inner in value.values():
                yield from _inside(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _inside(inner)


def _attribute(
    value: Mapping[str, object], taken: Collection[str], source: str
) -> tuple[Attribute | None, str]:
    label = _clean(value.get("label"), MAX_LABEL)
    if label is None:
        return None, f"label {value.get('label')!r}: no text of 1 to {MAX_LABEL} characters"
    if normalised(label) in _COPIED_LABELS:
        return None, f"label {label!r}: a word of the prompt"
    attribute_id = attribute_ids("learned", [label])[label]
    if {attribute_id, normalised(label)} & set(taken):
        return None, f"label {label!r}: known already"
    raw = value.get("values")
    if not isinstance(raw, list):
        return None, f"label {label!r}: values are no list"
    values: dict[str, str] = {}
    for item in raw:
        if (cleaned := _clean(item, MAX_VALUE)) is not None:
            values.setdefault(normalised(cleaned), cleaned)
    for copied in _COPIED_VALUES & set(values):
        del values[copied]
    if not MIN_VALUES <= len(values) <= MAX_VALUES:
        n = len(values)
        return None, f"label {label!r}: {n} usable values, not {MIN_VALUES} to {MAX_VALUES}"
    phrase = f"{label[0].upper()}{label[1:]}: {{value}}."
    return Attribute(
        id=attribute_id,
        label=label,
        phrase=phrase,
        values=tuple(values.values()),
        group="question",
        source=source,
    ), ""


def _clean(value: object, limit: int) -> str | None:
    """One line without control characters and braces; None without a letter or if too long."""
    if not isinstance(value, str):
        return None
    kept = "".join(" " if unicodedata.category(c)[0] in "CZ" or c in "{}" else c for c in value)
    line = " ".join(kept.split()).strip(".:;, ")
    return line if len(line) <= limit and any(c.isalnum() for c in line) else None
