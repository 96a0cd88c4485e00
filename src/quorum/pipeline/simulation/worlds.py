"""Worlds between the stages: ``worlds.jsonl``, a line a world."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from quorum.digests import canonical_json
from quorum.pipeline import artifacts
from quorum.pipeline.simulation.grid import Grid
from quorum.pipeline.simulation.kinds import kind_of
from quorum.simulation.sweep import world_id, world_parameters

FILE = "worlds.jsonl"


@dataclass(frozen=True, slots=True)
class WorldTask:
    """A world to be drawn; plain values, so that any process can take it."""

    kind: str
    world: str
    seed: int
    parameters: Mapping[str, object]


def tasks(grid: Grid) -> list[WorldTask]:
    """Every world of the sweep once, by its name."""
    found = {
        world_id(s, grid.kind): WorldTask(
            grid.kind,
            world_id(s, grid.kind),
            s.world_seed,
            world_parameters(grid.kind, s.parameters),
        )
        for s in grid.simulations
    }
    return [found[name] for name in sorted(found)]


def draw_record(task: WorldTask) -> dict[str, object]:
    """Draws a world and tells of it: a line of the file."""
    found = kind_of(task.kind).record(world_of(task.kind, task.parameters, task.seed))
    return {
        "world": task.world,
        "seed": task.seed,
        "parameters": dict(task.parameters),
        "digest": found.digest,
        "truths": dict(found.truths),
        "facts": dict(found.facts),
    }


def world_of(kind: str, parameters: Mapping[str, object], seed: int) -> Any:
    """The world itself; one that was drawn a moment ago is not drawn again."""
    return _drawn(kind, canonical_json(dict(parameters)), seed)


@lru_cache(maxsize=4)
def _drawn(kind: str, parameters: str, seed: int) -> Any:
    return kind_of(kind).draw(json.loads(parameters), seed)


def write(rows: Sequence[Mapping[str, object]], folder: Path) -> None:
    """Writes the lines in the order of their names."""
    ordered = sorted(rows, key=lambda row: str(row["world"]))
    artifacts.write_text(folder / FILE, artifacts.jsonl_text(ordered))


def digests(folder: Path) -> dict[str, str]:
    """Digest of each world as ``generate`` drew it."""
    rows = artifacts.read_jsonl(folder / FILE)
    return {str(row["world"]): cast("str", row["digest"]) for row in rows}
