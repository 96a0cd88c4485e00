"""The attribute bank: what a persona can be made of, and what does not go together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import combinations

import yaml

from quorum.errors import InputError

GROUPS = ("core", "thematic", "theoretical", "survey", "question")
PLACE = "{value}"
Pair = tuple[str, str]

_ID = re.compile(r"[^\s=](?:[^=\r\n]*[^\s=])?")
_KEYS = ("id", "label", "phrase", "values", "group", "incompatible_with", "source")
_NEEDED = ("id", "label", "phrase", "values", "group")
# Characters that YAML would read as line breaks or refuse, even between double quotes.
_ESCAPED = {ord(c): f"\\u{ord(c):04x}" for c in "\x7f\x85\u2028\u2029\ufeff"}


@dataclass(frozen=True, slots=True)
class Attribute:
    """One trait of a persona.

    Args:
        id: Identifier, without an equals sign; in files lower-case words with underscores.
        label: Its name for people.
        phrase: What is said of a persona, with ``{value}`` where the value stands. No other mark
            has a meaning: braces and the like are passed on as they are.
        values: What it can be; distinct texts.
        group: Given: ``core``, ``thematic``, ``theoretical``; derived: ``survey``, ``question``.
        incompatible_with: Own value → what it excludes: ``attribute=value``, or ``attribute`` for
            all of its values. It holds in both directions.
        source: Where it comes from, as free text.

    Raises:
        InputError: A field does not fit.
    """

    id: str
    label: str
    phrase: str
    values: tuple[str, ...]
    group: str
    incompatible_with: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        at = f"attribute {self.id!r}"
        if not _ID.fullmatch(self.id):
            raise InputError(at, "no usable id", allowed="one line without an equals sign")
        if not self.label.strip():
            raise InputError(at, "has no label")
        if PLACE not in self.phrase:
            raise InputError(at, f"its phrase has no {PLACE}", got=self.phrase)
        if self.group not in GROUPS:
            raise InputError(at, "no such group", got=self.group, allowed=", ".join(GROUPS))
        if not self.values:
            raise InputError(at, "has no values")
        seen: dict[str, str] = {}
        for value in self.values:
            if not value.strip():
                raise InputError(at, "a value is empty", got=value)
            if (first := seen.setdefault(value.strip().casefold(), value)) is not value:
                raise InputError(at, "two values are the same", got=[first, value])
        for value in self.incompatible_with:
            if value not in self.values:
                raise _unknown(at, "incompatible_with names a value it does not have", value,
                               self.values)  # fmt: skip

    def sentence(self, value: str) -> str:
        """The phrase with the value in its place, both taken literally."""
        return self.phrase.replace(PLACE, value)


@dataclass(frozen=True, slots=True)
class Bank:
    """Attributes with distinct ids, whose incompatibilities name attributes and values there are.

    Raises:
        InputError: An id stands twice, or an incompatibility names something unknown.
    """

    attributes: tuple[Attribute, ...]
    _excluded: Mapping[Pair, frozenset[Pair | str]] = field(
        init=False, repr=False, compare=False, hash=False
    )

    def __post_init__(self) -> None:
        by_id: dict[str, Attribute] = {}
        for attribute in self.attributes:
            if by_id.setdefault(attribute.id, attribute) is not attribute:
                raise InputError(
                    f"attribute {attribute.id!r}", "the id stands twice in the bank",
                    mend="Rename one of the two",
                )  # fmt: skip
        excluded: dict[Pair, set[Pair | str]] = {}
        for attribute in self.attributes:
            for value, others in attribute.incompatible_with.items():
                pairs = (_pair(other, attribute.id, by_id) for other in others)
                excluded.setdefault((attribute.id, value), set()).update(pairs)
        object.__setattr__(self, "_excluded", {k: frozenset(v) for k, v in excluded.items()})

    def __getitem__(self, attribute_id: str) -> Attribute:
        for attribute in self.attributes:
            if attribute.id == attribute_id:
                return attribute
        raise _unknown(
            "bank", "no such attribute", attribute_id, [a.id for a in self.attributes]
        )  # fmt: skip

    def of_group(self, group: str) -> tuple[Attribute, ...]:
        """The attributes of a group, in the bank's order."""
        return tuple(a for a in self.attributes if a.group == group)

    def with_attributes(self, more: Iterable[Attribute]) -> Bank:
        """A bank with further attributes at its end.

        Raises:
            InputError: An id is there already, or an incompatibility names something unknown.
        """
        return Bank((*self.attributes, *more))

    def conflicts(self, pairs: Sequence[Pair]) -> tuple[tuple[Pair, Pair], ...]:
        """Which of the pairs (attribute id, value) do not go together; empty if all do.

        One attribute with two values is a conflict too.
        """
        return tuple((a, b) for a, b in combinations(pairs, 2) if self._is_conflict(a, b))

    def _is_conflict(self, a: Pair, b: Pair) -> bool:
        if a[0] == b[0]:
            return True
        of_a, of_b = self._excluded.get(a, frozenset()), self._excluded.get(b, frozenset())
        return b in of_a or b[0] in of_a or a in of_b or a[0] in of_b


def _pair(text: str, own: str, by_id: Mapping[str, Attribute]) -> Pair | str:
    """What ``attribute=value`` or ``attribute`` names."""
    name, has_value, value = text.partition("=")
    at = f"attribute {own!r}"
    if name not in by_id or name == own:
        raise _unknown(at, "incompatible_with names no other attribute", name,
                       [other for other in by_id if other != own])  # fmt: skip
    if not has_value:
        return name
    if value not in by_id[name].values:
        raise _unknown(at, f"incompatible_with names no value of {name}", value, by_id[name].values)
    return (name, value)


def _unknown(at: str, what: str, got: str, allowed: Sequence[str]) -> InputError:
    near = get_close_matches(got, allowed, n=1)
    return InputError(
        at, what, got=got, allowed=", ".join(allowed),
        mend=f"Did you mean {near[0]}?" if near else "",
    )  # fmt: skip


# -- the file ------------------------------------------------------------------------------------


def read_bank(text: str, where: str) -> Bank:
    """The bank of a YAML file with ``attributes`` (and ``name``); JSON is YAML too.

    Every scalar must be a text to every reader of YAML: ``no``, ``1``, ``null`` need quotes.

    Raises:
        InputError: It is no such file; the error names the line.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = f"{where}:{mark.line + 1}" if mark else where
        raise InputError(at, f"not YAML: {getattr(error, 'problem', None) or error}") from None
    top = dict(_items(node, where, ("name", "attributes")))
    if "attributes" not in top:
        raise InputError(where, "no attributes in it", mend="Begin with: attributes:")
    nodes = _sequence(top["attributes"], where, "attributes")
    attributes = tuple(_attribute(item, where) for item in nodes)
    if not attributes:
        raise InputError(where, "no attributes in it")
    try:
        return Bank(attributes)
    except InputError as error:
        raise _placed(error, where, _lines(nodes, attributes)) from None


def _attribute(node: yaml.Node, where: str) -> Attribute:
    fields = dict(_items(node, where, _KEYS))
    at = _at(node, where)
    for key in _NEEDED:
        if key not in fields:
            raise InputError(
                at, f"an attribute has no {key}", mend=f"It needs {', '.join(_NEEDED)}"
            )
    texts = {
        key: _text(fields[key], where, key)
        for key in ("id", "label", "phrase", "group", "source")
        if key in fields
    }
    incompatible = {
        value: tuple(_text(n, where, value) for n in _sequence(others, where, value))
        for value, others in _items(fields["incompatible_with"], where, None)
    } if "incompatible_with" in fields else {}  # fmt: skip
    values = tuple(_text(n, where, "values") for n in _sequence(fields["values"], where, "values"))
    try:
        return Attribute(**texts, values=values, incompatible_with=incompatible)
    except InputError as error:
        raise _placed(error, where, {error.where: node.start_mark.line + 1}) from None


def _at(node: yaml.Node, where: str) -> str:
    return f"{where}:{node.start_mark.line + 1}"


def _lines(nodes: Sequence[yaml.Node], attributes: Sequence[Attribute]) -> dict[str, int]:
    return {
        f"attribute {attribute.id!r}": node.start_mark.line + 1
        for node, attribute in zip(nodes, attributes, strict=True)
    }


def _placed(error: InputError, where: str, lines: Mapping[str, int]) -> InputError:
    """The error with file and line before the attribute that it is about."""
    line = f":{lines[error.where]}" if error.where in lines else ""
    return InputError(
        f"{where}{line}, {error.where}", error.what, got=error.got, allowed=error.allowed,
        mend=error.mend,
    )  # fmt: skip


def _items(
    node: yaml.Node | None, where: str, known: Sequence[str] | None
) -> Iterator[tuple[str, yaml.Node]]:
    """Keys and nodes of a mapping; unknown keys and those that stand twice are errors."""
    if not isinstance(node, yaml.MappingNode):
        at = where if node is None else _at(node, where)
        raise InputError(at, "no mapping of keys to values", allowed=", ".join(known or ()))
    seen: set[str] = set()
    for key_node, value in node.value:
        key = _text(key_node, where, "a key")
        if known is not None and key not in known:
            raise _unknown(_at(key_node, where), "unknown key", key, known)
        if key in seen:
            raise InputError(_at(key_node, where), "the key stands twice", got=key)
        seen.add(key)
        yield key, value


def _sequence(node: yaml.Node, where: str, what: str) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise InputError(_at(node, where), f"{what} is no list", mend="Write it as [a, b]")
    return list(node.value)


def _text(node: yaml.Node, where: str, what: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise InputError(_at(node, where), f"{what} is no text")
    if node.tag != "tag:yaml.org,2002:str":
        raise InputError(
            _at(node, where), f"{what} is no text to a reader of YAML", got=node.value,
            mend="Put it between quotes",
        )  # fmt: skip
    return str(node.value)


def bank_yaml(bank: Bank) -> str:
    """The canonical YAML of a bank, the same to every reader; `read_bank` gives the bank back."""
    lines = ["attributes:"]
    for a in bank.attributes:
        lines += [f"- id: {_quoted(a.id)}", f"  label: {_quoted(a.label)}"]
        lines += [f"  phrase: {_quoted(a.phrase)}", f"  group: {_quoted(a.group)}", "  values:"]
        lines += [f"  - {_quoted(value)}" for value in a.values]
        if a.incompatible_with:
            lines.append("  incompatible_with:")
        for value in sorted(a.incompatible_with):
            others = ", ".join(_quoted(other) for other in a.incompatible_with[value])
            lines.append(f"    {_quoted(value)}: [{others}]")
        if a.source:
            lines.append(f"  source: {_quoted(a.source)}")
    return "\n".join(lines) + "\n" if bank.attributes else "attributes: []\n"


def _quoted(text: str) -> str:
    """A double-quoted scalar, the same in YAML 1.1, YAML 1.2 and JSON."""
    return json.dumps(text, ensure_ascii=False).translate(_ESCAPED)
