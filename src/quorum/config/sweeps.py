"""The settings of a sweep in their canonical form, every cell of it checked before anything runs.

A parameter is a plain value or a *choice*: the name of a part, or ``{use: NAME, option: value}``.
``choice.option`` in the grid varies one option of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

from annotated_types import Interval

from quorum.attribution.estimators.base import Estimator
from quorum.config.compose import Settings
from quorum.config.families import class_options, make, nearest, part_class
from quorum.config.schema import Policy, check_options, check_value
from quorum.config.sweep_choices import choice_class, label_of, read_choice
from quorum.config.view import Options
from quorum.digests import canonical_json
from quorum.errors import SettingsError
from quorum.simulation.games import GAMES, MAX_PLAYERS, GameSpec, n_coalitions
from quorum.simulation.sweep import Cell, cell_id, expand
from quorum.simulation.worlds import Mixture, check_mixture

MAX_SIMULATIONS = 20_000
_BUDGET = re.compile(r"[1-9]\d{0,5}n|(?:100|[1-9]?\d(?:\.\d{1,6})?)%|all")

PLAIN: dict[str, dict[str, object]] = {
    "survey": {
        "n_personas": Annotated[int, Interval(ge=2, le=5000)],
        "n_train": Annotated[int, Interval(ge=2, le=5000)],
        "n_test": Annotated[int, Interval(ge=1, le=5000)],
        "n_humans": Annotated[int, Interval(ge=1, le=1_000_000)],
        "answers": Literal["probabilities", "choice"],
        "s": Annotated[float, Interval(ge=0, le=100)],
        "b": Annotated[float, Interval(ge=0, le=100)],
        "policy": Policy,
    },
    "attribution": {
        "n_players": Annotated[int, Interval(ge=1, le=MAX_PLAYERS)],
        "noise": Annotated[float, Interval(ge=0, le=1000)],
        "estimand": Literal["shapley", "banzhaf"],
        "budget": Annotated[int, Interval(ge=2, le=1 << MAX_PLAYERS)] | str,
    },
}
CHOICES: dict[str, tuple[str, ...]] = {
    "survey": ("truth", "ensemble"),
    "attribution": ("game", "estimator"),
}
FAMILIES_USED = {"survey": "ensemble", "attribution": "estimator"}


@dataclass(frozen=True, slots=True)
class Axes:
    """A sweep in its canonical form.

    Args:
        kind: Which worlds.
        replicates: Of each cell.
        fixed: Parameters that do not vary.
        grid: Parameter → its values, each ``{label, value}``.
    """

    kind: str
    replicates: int
    fixed: Mapping[str, object]
    grid: Mapping[str, Sequence[Options]]

    def cells(self) -> list[Cell]:
        """All cells."""
        return list(expand(self.fixed, self.grid))


def read_axes(settings: Settings) -> Axes:
    """The chosen sweep; every cell is a simulation that can be done.

    Raises:
        SettingsError: A parameter is unknown, missing or wrong, two do not go together, or the
            sweep is too large.
    """
    section = cast("Mapping[str, object]", settings["sweep"])
    kind = str(section["kind"])
    given = cast("Mapping[str, list[object] | None]", section["grid"])
    varied = {name: values for name, values in given.items() if values is not None}
    base = cast("Mapping[str, object]", section["fixed"])
    plain_fixed = {k: v for k, v in base.items() if k not in varied and v is not None}
    for where, names in (("fixed", plain_fixed), ("grid", varied)):
        for name in names:
            _check_name(kind, where, name)
    fixed = {k: _value(kind, f"sweep.fixed.{k}", k, v) for k, v in plain_fixed.items()}
    for name in (*PLAIN[kind], *CHOICES[kind]):
        if name not in fixed and name not in varied:
            raise SettingsError(
                f"sweep.fixed.{name}",
                "is missing",
                mend=f"Give it a value there, or values in sweep.grid.{name}",
            )
    grid = {name: _values(kind, name, values, fixed, varied) for name, values in varied.items()}
    axes = Axes(kind, cast("int", section["replicates"]), fixed, grid)
    _check_size(axes)
    return _checked(axes)


def parts_used(axes: Axes) -> tuple[Options, ...]:
    """The parts that the cells use, by family and name: their code counts."""
    family = FAMILIES_USED[axes.kind]
    names = {str(cast("Options", cell.parameters[family])["name"]) for cell in axes.cells()}
    return tuple({"family": family, "name": name, "options": {}} for name in sorted(names))


def check_sweep(root: Path, settings: Settings) -> None:  # noqa: ARG001 - no file is read
    """Makes every plan of an attribution sweep once, so that no budget is too small for it.

    Raises:
        SettingsError: A budget does not do for an estimator, or a package is missing.
    """
    axes = read_axes(settings)
    if axes.kind != "attribution":
        return
    seen: set[tuple[str, int, int]] = set()
    for cell in axes.cells():
        options = cast("Options", cell.parameters["estimator"])
        n = cast("int", cell.parameters["n_players"])
        budget = n_coalitions(cast("int | str", cell.parameters["budget"]), n)
        key = (canonical_json(options), n, budget)
        if key in seen:
            continue
        seen.add(key)
        try:
            _estimator(cell.parameters).plan(n, budget, 0)
        except SettingsError as error:
            raise type(error)(
                f"sweep, cell with {_told(cell)}: {error.where}",
                error.what,
                got=error.got,
                allowed=error.allowed,
                mend=error.mend,
            ) from error


def _estimator(parameters: Mapping[str, object]) -> Estimator:
    choice = cast("Mapping[str, object]", parameters["estimator"])
    options = {**cast("Options", choice["options"]), "estimand": parameters["estimand"]}
    return cast("Estimator", make("estimator", str(choice["name"]), options))


def _check_name(kind: str, where: str, name: str) -> None:
    choice, _, option = name.partition(".")
    names = [*PLAIN[kind], *CHOICES[kind]]
    if choice in CHOICES[kind] and (not option or where == "grid"):
        return
    if name in names:
        return
    known = [*names, *(f"{c}.OPTION" for c in CHOICES[kind] if where == "grid")]
    raise SettingsError(
        f"sweep.{where}.{name}",
        f"unknown parameter of kind={kind}",
        allowed=", ".join(known),
        mend=nearest(name, names),
    )


def _values(
    kind: str,
    name: str,
    values: Sequence[object],
    fixed: Mapping[str, object],
    varied: Mapping[str, Sequence[object]],
) -> list[Options]:
    """The values of one parameter of the grid with their labels, each once."""
    where = f"sweep.grid.{name}"
    choice, _, option = name.partition(".")
    found: list[Options] = []
    for value in values:
        if option:
            part = _first_choice(kind, choice, fixed, varied)
            checked: object = check_options(where.rpartition(".")[0], part, {option: value})[option]
        else:
            checked = _value(kind, where, name, value)
        found.append({"label": label_of(name, checked), "value": checked})
    if not found:
        raise SettingsError(where, "has no value", mend="Give it one, or null to take it out")
    texts = [canonical_json(entry["value"]) for entry in found]
    if len(set(texts)) < len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        raise SettingsError(where, "a value stands twice", got=twice)
    return found


def _first_choice(
    kind: str,
    choice: str,
    fixed: Mapping[str, object],
    varied: Mapping[str, Sequence[object]],
) -> type:
    """The part whose option is varied; of several, the first: each cell is checked on its own."""
    value = varied[choice][0] if choice in varied else fixed[choice]
    name = _value(kind, f"sweep.grid.{choice}", choice, value) if choice in varied else value
    return choice_class(choice, str(cast("Options", name)["name"]))


def _value(kind: str, where: str, name: str, value: object) -> object:
    if name in CHOICES[kind]:
        return read_choice(where, name, value)
    checked = check_value(where, PLAIN[kind][name], value)
    if name == "budget" and isinstance(checked, str) and not _BUDGET.fullmatch(checked):
        raise SettingsError(
            where,
            "is no budget",
            got=checked,
            allowed="a number of coalitions, such as 100 | 5n (times the players) | "
            "10% (of all coalitions) | all",
        )
    return checked


def _check_size(axes: Axes) -> None:
    total = axes.replicates
    for values in axes.grid.values():
        total *= len(values)
    if total > MAX_SIMULATIONS:
        raise SettingsError(
            "sweep",
            "too many simulations",
            got=total,
            allowed=f"up to {MAX_SIMULATIONS:,}",
            mend="Take values out of sweep.grid, or lower sweep.replicates",
        )


def _checked(axes: Axes) -> Axes:
    """Refuses a cell that cannot be simulated, or that is another one."""
    seen: dict[str, Cell] = {}
    done: set[str] = set()
    for cell in axes.cells():
        for choice in CHOICES[axes.kind]:
            value = cast("Mapping[str, object]", cell.parameters[choice])
            text = canonical_json([choice, value])
            if text not in done:
                part = choice_class(choice, str(value["name"]))
                where = f"sweep.{choice}={value['name']}"
                check_options(where, part, cast("Options", value["options"]))
                done.add(text)
        _CHECKS[axes.kind](cell)
        name = cell_id(axes.kind, cell.parameters)
        if name in seen:
            raise SettingsError(
                "sweep.grid",
                f"two cells are the same: {_told(seen[name])}; and {_told(cell)}",
                mend="Take one of the values out",
            )
        seen[name] = cell
    return axes


def _check_survey(cell: Cell) -> None:
    parameters = cast("dict[str, Mapping[str, object]]", cell.parameters)
    n_personas = cast("int", cell.parameters["n_personas"])
    truth, ensemble = parameters["truth"], parameters["ensemble"]
    if truth["name"] == "mixture":
        check_mixture(Mixture(**cast("dict[str, int]", truth["options"])), n_personas)
    options = cast("Options", ensemble["options"])
    if "file" in cast("Sequence[str]", options.get("anchors") or ()):
        raise SettingsError(
            "sweep: ensemble.anchors",
            "a world has no file of shares",
            got="file",
            allowed="none, uniform, pool",
        )
    reference = options.get("reference")
    if reference is not None and reference not in {f"p{i + 1:04d}" for i in range(n_personas)}:
        raise SettingsError(
            "sweep: ensemble.reference",
            "no persona has this id",
            got=reference,
            allowed=f"p0001 to p{n_personas:04d}",
        )


def _check_attribution(cell: Cell) -> None:
    parameters = cast("dict[str, Mapping[str, object]]", cell.parameters)
    n = cast("int", cell.parameters["n_players"])
    game, estimator = parameters["game"], parameters["estimator"]
    spec = cast("GameSpec", GAMES[str(game["name"])](**cast("Options", game["options"])))
    spec.check_players(n)
    name, estimand = str(estimator["name"]), str(cell.parameters["estimand"])
    estimands = class_options(part_class("estimator", name), "estimands")
    if estimand not in estimands:
        raise SettingsError(
            "sweep: estimand",
            f"{name} does not compute it",
            got=estimand,
            allowed=" | ".join(estimands),
            mend=f"Take {name} out of the sweep, or vary estimators in a sweep of their own",
        )
    budget = n_coalitions(cast("int | str", cell.parameters["budget"]), n)
    if name == "exact" and budget < 1 << n:
        raise SettingsError(
            "sweep: budget",
            "exact needs every coalition",
            got=cell.parameters["budget"],
            allowed=f"all, which is {1 << n} for n_players={n}",
            mend="Use exact in a sweep of its own with budget: all",
        )


_CHECKS = {"survey": _check_survey, "attribution": _check_attribution}


def _told(cell: Cell) -> str:
    return ", ".join(f"{key} {value}" for key, value in cell.varied.items()) or "fixed values"
