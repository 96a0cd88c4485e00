"""The choices of a sweep: parts, truths and games by name, with their options in full."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import cast

from quorum.config.families import nearest, option_fields, part_class, part_names
from quorum.config.schema import check_options
from quorum.config.view import Options
from quorum.digests import canonical_json
from quorum.errors import SettingsError
from quorum.simulation.games import GAMES
from quorum.simulation.worlds import TRUTHS

_TABLES = {"truth": TRUTHS, "game": GAMES}  # of choices that are no family of parts


def read_choice(where: str, name: str, value: object) -> dict[str, object]:
    """``NAME`` or ``{use: NAME, option: …}`` as ``{name, options}``, options in full.

    Args:
        where: The setting, for errors.
        name: Of the choice: a family of parts, ``truth`` or ``game``.
        value: As it was written, or in this form already.

    Raises:
        SettingsError: The name or an option is unknown or wrong.
    """
    options: Mapping[str, object] = {}
    chosen = value
    if isinstance(value, Mapping):
        options = {str(k): v for k, v in value.items() if k not in ("use", "name", "options")}
        chosen = value["use"] if "use" in value else value.get("name")
        if "options" in value and "use" not in value:  # the canonical form stays what it is
            options = cast("Options", value["options"])
    names = part_names(name) if name not in _TABLES else [*_TABLES[name]]
    if not isinstance(chosen, str) or chosen not in names:
        raise SettingsError(
            where,
            "unknown name",
            got=chosen,
            allowed=", ".join(names),
            mend=nearest(str(chosen), names),
        )
    part = choice_class(name, chosen)
    return {"name": chosen, "options": _full(f"{where}.{chosen}", name, part, options)}


def choice_class(choice: str, name: str) -> type:
    """The class behind the name of a choice."""
    return part_class(choice, name) if choice not in _TABLES else _TABLES[choice][name]


def _full(where: str, choice: str, part: type, options: Mapping[str, object]) -> dict[str, object]:
    """All options of a part, those left out at the part's own defaults."""
    if choice == "estimator" and "estimand" in options:
        raise SettingsError(
            f"{where}.estimand",
            "is a parameter of the sweep itself",
            mend="Give sweep.fixed.estimand or sweep.grid.estimand",
        )
    defaults = _defaults(part)
    given = {**defaults, **options}
    found: dict[str, object] = dict(check_options(where, part, given))
    if choice == "estimator":
        found = {key: value for key, value in found.items() if key != "estimand"}
    return found


def _defaults(part: type) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, field in option_fields(part).items():
        if field.default is not dataclasses.MISSING:
            default: object = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            continue
        found[name] = list(default) if isinstance(default, tuple) else default
    return found


def label_of(name: str, value: object) -> str:
    """How a value stands in tables: a choice with those options that are not its defaults."""
    if not isinstance(value, Mapping):
        return _shown(value)
    defaults = _defaults(choice_class(name, str(value["name"])))
    options = cast("Options", value["options"])
    own = [
        f"{key} {_shown(item)}"
        for key, item in sorted(options.items())
        if key not in defaults or canonical_json(defaults[key]) != canonical_json(item)
    ]
    return f"{value['name']} ({', '.join(own)})" if own else str(value["name"])


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return " + ".join(_shown(item) for item in value)
    if isinstance(value, Mapping):
        return canonical_json(value)
    if value is None or isinstance(value, bool):
        return canonical_json(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
