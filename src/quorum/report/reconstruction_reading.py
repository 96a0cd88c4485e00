"""A JSON object that knows where it stands, so that whatever is amiss is named in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from quorum.errors import Bare, InputError

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Node:
    """A mapping and its address, such as ``diagnostics.targets[2].fit``.

    ``need_*`` want the name to be there and not null; ``give_*`` read null and an absent name as
    nothing; ``number`` wants the name to be there and takes null.
    """

    where: str
    items: Mapping[str, object]

    def at(self, name: str) -> str:
        """The address of a name."""
        return f"{self.where}.{name}"

    def need_text(self, name: str) -> str:
        """A text that must be given.

        Raises:
            InputError: It is absent, null or no text.
        """
        value = self._need(name)
        if not isinstance(value, str):
            raise InputError(self.at(name), "must be a text", got=value)
        return value

    def give_text(self, name: str) -> str:
        """A text; empty where there is none.

        Raises:
            InputError: Anything else stands there.
        """
        return "" if self.items.get(name) is None else self.need_text(name)

    def need_choice(self, name: str, allowed: Sequence[str]) -> str:
        """One of a few words.

        Raises:
            InputError: It is absent or not one of them.
        """
        value = self.need_text(name)
        if value not in allowed:
            raise InputError(
                self.at(name), "is not known here", got=value, allowed=", ".join(allowed)
            )
        return value

    def number(self, name: str) -> float | None:
        """A finite number, or None for null.

        Raises:
            InputError: It is absent, or anything else.
        """
        if name not in self.items:
            raise InputError(self.where, f"{name} is missing", allowed="a number or null")
        return self.give_number(name)

    def give_number(self, name: str) -> float | None:
        """A finite number; None for null and where it is absent.

        Raises:
            InputError: Anything else stands there.
        """
        value = self.items.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise InputError(self.at(name), "must be a finite number or null", got=value)
        if not math.isfinite(value):
            raise InputError(self.at(name), "must be a finite number or null", got=value)
        return float(value)

    def need_count(self, name: str) -> int:
        """A whole number from 0 on.

        Raises:
            InputError: It is absent, null or anything else.
        """
        value = self._need(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(self.at(name), "must be a whole number from 0 on", got=value)
        return value

    def give_count(self, name: str) -> int | None:
        """A whole number from 0 on; None for null and where it is absent.

        Raises:
            InputError: Anything else stands there.
        """
        return None if self.items.get(name) is None else self.need_count(name)

    def give_flag(self, name: str) -> bool | None:
        """True or false; None for null and where it is absent.

        Raises:
            InputError: Anything else stands there; 0 and 1 of a table are taken.
        """
        value = self.items.get(name)
        if value is None or isinstance(value, bool):
            return value
        if value not in (0, 1):
            raise InputError(self.at(name), "must be true, false or null", got=value)
        return bool(value)

    def need_child(self, name: str) -> Node:
        """A mapping that must be given.

        Raises:
            InputError: It is absent, null or no mapping.
        """
        value = self._need(name)
        if not isinstance(value, Mapping):
            raise InputError(self.at(name), "must be a mapping", got=value)
        return Node(self.at(name), value)

    def give_child(self, name: str) -> Node:
        """A mapping; an empty one for null and where it is absent.

        Raises:
            InputError: Anything else stands there.
        """
        return Node(self.at(name), {}) if self.items.get(name) is None else self.need_child(name)

    def need_children(self, name: str) -> tuple[Node, ...]:
        """A list of mappings that must be given.

        Raises:
            InputError: It is absent, null or anything else.
        """
        return tuple(_child(item, where) for where, item in self._list(name))

    def give_children(self, name: str) -> tuple[Node, ...]:
        """A list of mappings; none for null and where it is absent.

        Raises:
            InputError: Anything else stands there.
        """
        return () if self.items.get(name) is None else self.need_children(name)

    def give_texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; none for null and where it is absent.

        Raises:
            InputError: Anything else stands there.
        """
        if self.items.get(name) is None:
            return ()
        for where, item in self._list(name):
            if not isinstance(item, str):
                raise InputError(where, "must be a text", got=_seen(item))
        return tuple(str(item) for _, item in self._list(name))

    def numbers(self) -> dict[str, float | None]:
        """All entries as numbers or None, in the order of their names.

        Raises:
            InputError: An entry is anything else.
        """
        return {name: self.number(name) for name in sorted(self.items)}

    def scalars(self) -> dict[str, Scalar]:
        """All entries as texts, numbers, true, false or None, in their order.

        Raises:
            InputError: An entry is a list or a mapping, or a number is not finite.
        """
        found: dict[str, Scalar] = {}
        for name, value in self.items.items():
            if isinstance(value, float):
                found[name] = self.give_number(name)
            elif value is None or isinstance(value, (str, int, bool)):
                found[name] = value
            else:
                raise InputError(self.at(name), "must be a text, a number or null", got=value)
        return found

    def _need(self, name: str) -> object:
        value = self.items.get(name)
        if value is None:
            what = f"{name} is null" if name in self.items else f"{name} is missing"
            raise InputError(self.where, what, mend="Write diagnostics.json again with score")
        return value

    def _list(self, name: str) -> list[tuple[str, object]]:
        value = self._need(name)
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise InputError(self.at(name), "must be a list", got=value)
        return [(f"{self.at(name)}[{index}]", item) for index, item in enumerate(value)]


def _child(item: object, where: str) -> Node:
    if not isinstance(item, Mapping):
        raise InputError(where, "must be a mapping", got=_seen(item))
    return Node(where, item)


def _seen(item: object) -> object:
    return Bare("null") if item is None else item
