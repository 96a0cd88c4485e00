"""The grid between the stages: a row a simulation, with its seeds and what it varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from quorum.digests import digest
from quorum.pipeline import artifacts
from quorum.simulation.sweep import Simulation

FIRST_COLUMNS = ("simulation", "cell", "replicate", "world_seed", "seed")


@dataclass(frozen=True, slots=True)
class Grid:
    """All simulations of a sweep.

    Args:
        kind: Of the sweep.
        varied: Parameters of the grid, by name.
        simulations: Cell by cell.
    """

    kind: str
    varied: tuple[str, ...]
    simulations: tuple[Simulation, ...]

    @property
    def digest(self) -> str:
        """Of the whole sweep: 64 hex digits."""
        return digest([self.kind, [asdict(simulation) for simulation in self.simulations]])

    def cells(self) -> dict[str, list[Simulation]]:
        """Simulations by cell, in the order of the grid."""
        found: dict[str, list[Simulation]] = {}
        for simulation in self.simulations:
            found.setdefault(simulation.cell, []).append(simulation)
        return found


def columns(varied: Sequence[str]) -> tuple[str, ...]:
    """Columns of grid.csv."""
    return (*FIRST_COLUMNS, *varied)


def row(simulation: Simulation) -> dict[str, object]:
    """A simulation as a row of a table: its identity, and the labels of what varies."""
    first = (
        simulation.id,
        simulation.cell,
        simulation.replicate,
        simulation.world_seed,
        simulation.seed,
    )
    return {**dict(zip(FIRST_COLUMNS, first, strict=True)), **simulation.varied}


def write(grid: Grid, folder: Path) -> None:
    """Writes grid.csv and grid.json."""
    rows = [row(simulation) for simulation in grid.simulations]
    artifacts.write_text(folder / "grid.csv", artifacts.csv_text(columns(grid.varied), rows))
    whole = {
        "kind": grid.kind,
        "digest": grid.digest,
        "varied": list(grid.varied),
        "n_simulations": len(grid.simulations),
        "cells": [
            {
                "cell": cell,
                "varied": dict(found[0].varied),
                "parameters": dict(found[0].parameters),
                "replicates": [
                    {"replicate": s.replicate, "world_seed": s.world_seed, "seed": s.seed}
                    for s in found
                ],
            }
            for cell, found in grid.cells().items()
        ],
    }
    artifacts.write_text(folder / "grid.json", artifacts.json_text(whole))


def read(folder: Path) -> Grid:
    """The grid as ``partition`` wrote it."""
    found = artifacts.read_json(folder / "grid.json")
    cells = cast("list[dict[str, object]]", found["cells"])
    return Grid(
        kind=str(found["kind"]),
        varied=tuple(cast("list[str]", found["varied"])),
        simulations=tuple(
            Simulation(
                id=f"{cell['cell']}-r{entry['replicate']:03d}",
                cell=str(cell["cell"]),
                parameters=cast("Mapping[str, object]", cell["parameters"]),
                varied=cast("Mapping[str, str]", cell["varied"]),
                **entry,
            )
            for cell in cells
            for entry in cast("list[dict[str, int]]", cell["replicates"])
        ),
    )
