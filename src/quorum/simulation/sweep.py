"""A sweep: every cell of a grid, some replicates of each, and where their seeds come from.

A cell is what its parameters say and nothing else: its identity is a digest of them. Seeds are
digests too, so a larger grid or more replicates leave every simulation that there is as it was,
and neither order nor place of work can touch a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, cast

from quorum.digests import digest

Kind = Literal["survey", "attribution"]
Value = object  # a plain value, or a choice {name, options}

# What a world is drawn from; all other parameters say what is done in it.
WORLD_PARAMETERS: dict[str, tuple[str, ...]] = {
    "survey": ("n_personas", "n_train", "n_test", "answers", "truth", "s", "b", "n_humans"),
    "attribution": ("game", "n_players", "noise"),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of the grid.

    Args:
        parameters: Every parameter of a simulation, in its canonical form.
        varied: What tells this cell from the others: parameter of the grid → label.
    """

    parameters: Mapping[str, Value]
    varied: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Simulation:
    """One replicate of one cell.

    Args:
        id: ``<cell>-r<replicate>``.
        cell: First 12 hex digits of the digest of the parameters.
        replicate: From 1 on.
        world_seed: The same for all cells that differ only in what is done in the world.
        seed: Of what is done in it.
        parameters: Of the cell.
        varied: Of the cell.
    """

    id: str
    cell: str
    replicate: int
    world_seed: int
    seed: int
    parameters: Mapping[str, Value]
    varied: Mapping[str, str]


def expand(
    fixed: Mapping[str, Value], grid: Mapping[str, Sequence[Mapping[str, Value]]]
) -> Iterator[Cell]:
    """All cells, the last parameter (by name) varying fastest.

    Args:
        fixed: Values of the parameters that do not vary.
        grid: Parameter → its values, each ``{label, value}``. ``choice.option`` is an option of
            the choice of that name.
    """
    names = sorted(grid)  # settings files sort their keys, so an order of parameters is not told
    for values in product(*(grid[name] for name in names)):
        parameters = dict(fixed)
        chosen = dict(zip(names, values, strict=True))
        for name in sorted(chosen, key=lambda name: "." in name):  # a choice before its options
            _put(parameters, name, chosen[name]["value"])
        yield Cell(parameters, {name: str(chosen[name]["label"]) for name in names})


def simulations(
    kind: str, cells: Sequence[Cell], replicates: int, base_seed: int
) -> list[Simulation]:
    """Every replicate of every cell, cell by cell.

    Args:
        kind: Of the sweep.
        cells: From `expand`.
        replicates: Of each cell.
        base_seed: The run's.
    """
    found = []
    for cell in cells:
        name = cell_id(kind, cell.parameters)
        for replicate in range(1, replicates + 1):
            world = world_parameters(kind, cell.parameters)
            found.append(
                Simulation(
                    id=f"{name}-r{replicate:03d}",
                    cell=name,
                    replicate=replicate,
                    world_seed=_seed("world", kind, base_seed, world, replicate),
                    seed=_seed("simulation", kind, base_seed, cell.parameters, replicate),
                    parameters=cell.parameters,
                    varied=cell.varied,
                )
            )
    return found


def cell_id(kind: str, parameters: Mapping[str, Value]) -> str:
    """First 12 hex digits of the digest of a cell's parameters."""
    return digest([kind, dict(parameters)])[:12]


def world_parameters(kind: str, parameters: Mapping[str, Value]) -> dict[str, Value]:
    """Those parameters that the world is drawn from."""
    return {name: parameters[name] for name in WORLD_PARAMETERS[kind]}


def world_id(simulation: Simulation, kind: str) -> str:
    """First 12 hex digits of the digest of what a world is drawn from, its seed included."""
    world = world_parameters(kind, simulation.parameters)
    return digest([kind, world, simulation.world_seed])[:12]


def _seed(what: str, kind: str, base_seed: int, parameters: object, replicate: int) -> int:
    return int(digest([what, kind, base_seed, parameters, replicate])[:8], 16)


def _put(parameters: dict[str, Value], name: str, value: Value) -> None:
    choice, _, option = name.partition(".")
    if not option:
        parameters[name] = value
        return
    before = cast("Mapping[str, Mapping[str, Value]]", parameters[choice])
    parameters[choice] = {"name": before["name"], "options": {**before["options"], option: value}}
