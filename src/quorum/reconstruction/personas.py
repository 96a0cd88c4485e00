"""Personas: who a model is asked to be, as attributes drawn from a bank.

Every draw is a SHA-256 of the seed, the persona's id and the names of what is drawn: neither the
order of the bank nor what was drawn before changes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from quorum.digests import digest
from quorum.reconstruction.bank import GROUPS, Attribute, Bank, Pair

ENDOWMENT_COLUMNS = ("persona_id", "mode", "aimed_at", "attribute", "value")
_MAX_TRIES = 50  # draws of one persona before its mode counts as used up
_ENDS = (".", "!", "?", "…", "”", '"')


@dataclass(frozen=True, slots=True)
class Persona:
    """One synthetic respondent.

    Args:
        id: ``p0001``, ``p0002``, … in the order in which they were made.
        mode: How it was made: core, thematic, theoretical, survey, question, mixed.
        attributes: Pairs of attribute id and value, in the order of the text.
        aimed_at: The question whose agreement it is to break (mode ``question``), else None.
    """

    id: str
    mode: str
    attributes: tuple[Pair, ...]
    aimed_at: str | None = None

    def as_json(self) -> dict[str, object]:
        """The persona as JSON-able values."""
        return {
            "id": self.id,
            "mode": self.mode,
            "attributes": [list(pair) for pair in self.attributes],
            "aimed_at": self.aimed_at,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Persona:
        """The persona that ``as_json`` gave."""
        pairs = cast("list[list[str]]", value["attributes"])
        aimed_at = cast("str | None", value["aimed_at"])
        attributes = tuple((attribute, of) for attribute, of in pairs)
        return cls(str(value["id"]), str(value["mode"]), attributes, aimed_at)


@dataclass(frozen=True, slots=True)
class Draft:
    """What a persona is drawn from.

    Args:
        id: The persona's id; with the seed, all that its draws depend on.
        mode: Its mode.
        candidates: Attributes to draw from.
        first: Attributes of which one is taken before all others; empty for none.
        avoided: Values of ``first`` that are not taken.
        aimed_at: The question aimed at.
    """

    id: str
    mode: str
    candidates: Sequence[Attribute]
    first: Sequence[Attribute] = ()
    avoided: Collection[str] = ()
    aimed_at: str | None = None


def fraction(*parts: object) -> float:
    """A number in [0, 1) that depends on the parts alone (52 bits of their SHA-256)."""
    return float(int(digest(list(parts))[:13], 16)) / float(16**13)


def choose(probabilities: Mapping[str, float], *parts: object) -> str:
    """One of the keys, drawn with its probability by ``fraction(*parts)``; keys are sorted."""
    rest = fraction(*parts)
    for name in sorted(probabilities):
        rest -= probabilities[name]
        if rest < 0:
            return name
    return max(probabilities, key=lambda name: (probabilities[name], name))  # rounding


def draw_persona(
    draft: Draft, bank: Bank, n_attributes: int, seed: int, taken: Collection[frozenset[Pair]]
) -> Persona | None:
    """A persona that none of the others equals and whose attributes can stand together.

    Attributes are drawn without replacement, in turn from each group that the candidates have;
    a value that is incompatible with what was drawn before gives way to another one.

    Args:
        draft: What it is drawn from.
        bank: Says which pairs are incompatible.
        n_attributes: How many attributes it gets, fewer where the candidates are fewer.
        seed: Seed of the pool.
        taken: The sets of pairs that other personas have.

    Returns:
        None where 50 draws gave only personas that exist already.
    """
    for attempt in range(_MAX_TRIES):
        salt = (seed, draft.id, attempt)
        pairs: list[Pair] = []
        for attribute in _shuffled(draft.first, salt)[:1]:
            values = [v for v in attribute.values if v not in draft.avoided]
            _add(pairs, attribute, values or attribute.values, bank, salt)
        for attribute in _shuffled(draft.candidates, salt):
            if len(pairs) >= n_attributes:
                break
            if attribute.id not in {a for a, _ in pairs}:
                _add(pairs, attribute, attribute.values, bank, salt)
        if pairs and frozenset(pairs) not in taken:
            ordered = _in_text_order(pairs, bank)
            return Persona(draft.id, draft.mode, ordered, draft.aimed_at)
    return None


def persona_text(persona: Persona, bank: Bank) -> str:
    """The persona as sentences in the second person; an empty value leaves no sentence.

    A value stands literally where its attribute's phrase says ``{value}``.
    """
    by_id = {attribute.id: attribute for attribute in bank.attributes}
    sentences = []
    for attribute, value in persona.attributes:
        if value.strip():
            sentence = by_id[attribute].sentence(value.strip()).strip()
            sentences.append(sentence if sentence.endswith(_ENDS) else sentence + ".")
    return " ".join(sentences)


def endowment_rows(personas: Iterable[Persona]) -> list[dict[str, str]]:
    """One row an attribute of a persona, by ``ENDOWMENT_COLUMNS``; an empty one without any."""
    return [
        {
            "persona_id": persona.id,
            "mode": persona.mode,
            "aimed_at": persona.aimed_at or "",
            "attribute": attribute,
            "value": value,
        }
        for persona in personas
        for attribute, value in persona.attributes or (("", ""),)
    ]


def _shuffled(attributes: Sequence[Attribute], salt: tuple[object, ...]) -> list[Attribute]:
    """In the order of their digests, one of each group in turn."""
    drawn = sorted(attributes, key=lambda a: (digest([*salt, "attribute", a.id]), a.id))
    place: dict[str, int] = defaultdict(int)
    ranks = {}
    for attribute in drawn:
        ranks[attribute.id] = place[attribute.group]
        place[attribute.group] += 1
    return sorted(drawn, key=lambda a: (ranks[a.id], digest([*salt, "group", a.group])))


def _add(
    pairs: list[Pair],
    attribute: Attribute,
    values: Sequence[str],
    bank: Bank,
    salt: tuple[object, ...],
) -> None:
    """Adds the attribute with the first value, in the order of digests, that conflicts not."""
    for value in sorted(values, key=lambda v: digest([*salt, attribute.id, v])):
        if not bank.conflicts([*pairs, (attribute.id, value)]):
            pairs.append((attribute.id, value))
            return


def _in_text_order(pairs: Sequence[Pair], bank: Bank) -> tuple[Pair, ...]:
    groups = {attribute.id: GROUPS.index(attribute.group) for attribute in bank.attributes}
    return tuple(sorted(pairs, key=lambda pair: (groups[pair[0]], pair)))
