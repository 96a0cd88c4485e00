"""Stage ``score``: every simulation of the sweep, each done once and kept.

Writes ``simulations/<id>/simulation.json`` and ``simulation.csv``. What a killed run finished lies
beside the store and is not done again; what is kept is found by the code of this stage, the cell,
the replicate and the seeds, so that no change can give back an old result.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from quorum.config.simulation_views import ScoreView
from quorum.digests import digest
from quorum.errors import RefusedError
from quorum.pipeline import artifacts
from quorum.pipeline.simulation import grid as grid_file
from quorum.pipeline.simulation import worlds
from quorum.pipeline.simulation.generate import runtime_options
from quorum.pipeline.simulation.grid import Grid
from quorum.pipeline.simulation.kept import Kept
from quorum.pipeline.simulation.kinds import SHOWN, kind_of
from quorum.runtime.executor import map_unordered
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.progress import progress_for
from quorum.simulation.recovery import Metric
from quorum.simulation.sweep import Simulation, world_id, world_parameters

METRIC_COLUMNS = ("metric", "value", "reason")
Result = Mapping[str, object]
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Task:
    """A simulation to be done; plain values, so that any process can take it.

    Args:
        kind: Of the sweep.
        simulation: Which one.
        world: Name of its world.
        world_digest: What ``generate`` drew.
        level: Of intervals.
        code: Digest of the code that does it.
    """

    kind: str
    simulation: Simulation
    world: str
    world_digest: str
    level: float
    code: str


def run(root: Path) -> None:
    """Does what is not kept yet, and writes all."""
    view = ScoreView.read(root)
    grid = grid_file.read(root / artifacts.PARTITION)
    drawn = worlds.digests(root / artifacts.GENERATE)
    tasks = [
        Task(grid.kind, s, name, drawn[name], view.level, view.codes[part_name(s, grid.kind)])
        for s in grid.simulations
        for name in (world_id(s, grid.kind),)
    ]
    found = compute(tasks, runtime_options(root), Kept.beside_the_store())
    folder = artifacts.fresh_folder(root / artifacts.SCORE)
    for result in found:
        write_simulation(result, folder / "simulations" / str(result["simulation"]))


def compute(tasks: Sequence[Task], options: RuntimeOptions, kept: Kept) -> list[Result]:
    """The results in the order of the tasks, those that are kept without doing them again.

    Args:
        tasks: What is wanted.
        options: Where they are computed, and what is shown meanwhile.
        kept: Where finished ones lie; each is there before the next one counts.
    """
    keys = [key_of(task) for task in tasks]
    results: list[Result | None] = [kept.get(key) for key in keys]
    todo = [position for position, result in enumerate(results) if result is None]
    with progress_for(options.progress, "score", len(tasks)) as progress:
        for _ in range(len(tasks) - len(todo)):
            progress.advance(from_store=True)
        for position in todo:
            if kept.is_damaged(keys[position]):
                name = tasks[position].simulation.id
                _LOG.warning("the kept simulation %s is damaged: it is done again", name)
        coming = map_unordered(simulate, [tasks[position] for position in todo], options)
        with closing(coming):  # Ctrl-C: workers end before we do
            for index, result in coming:
                kept.put(keys[todo[index]], result)
                results[todo[index]] = result
                progress.advance(from_store=False)
    return [cast("Result", result) for result in results]


def part_name(simulation: Simulation, kind: str) -> str:
    """The ensemble or estimator of a simulation."""
    return str(cast("Mapping[str, object]", simulation.parameters[SHOWN[kind].marks])["name"])


def key_of(task: Task) -> str:
    """Digest of all that a simulation rests on, the code that does it included."""
    plain = asdict(task)
    plain["simulation"].pop("varied")  # labels change no result
    return digest(plain)


def simulate(task: Task) -> dict[str, object]:
    """One simulation, as it is kept.

    Raises:
        RefusedError: The world is not the one that ``generate`` drew.
    """
    s = task.simulation
    kind = kind_of(task.kind)
    world = worlds.world_of(task.kind, world_parameters(task.kind, s.parameters), s.world_seed)
    found = kind.record(world).digest
    if found != task.world_digest:
        raise RefusedError(
            f"world {task.world}",
            "is not the one that generate drew",
            got=found[:12],
            allowed=task.world_digest[:12],
            mend="Another numpy or another machine drew it: run dvc repro -f generate",
        )
    outcome = kind.simulate(s.parameters, world, s.seed, task.level)
    return {
        "simulation": s.id,
        "cell": s.cell,
        "replicate": s.replicate,
        "kind": task.kind,
        "parameters": dict(s.parameters),
        "world": {"name": task.world, "seed": s.world_seed, "digest": task.world_digest},
        "seed": s.seed,
        "level": task.level,
        "metrics": [_metric_row(metric) for metric in outcome.metrics],
        "details": dict(outcome.details),
    }


def write_simulation(result: Result, folder: Path) -> None:
    """Writes simulation.json and simulation.csv."""
    artifacts.write_text(folder / "simulation.json", artifacts.json_text(result))
    rows = cast("list[dict[str, object]]", result["metrics"])
    artifacts.write_text(folder / "simulation.csv", artifacts.csv_text(METRIC_COLUMNS, rows))


def read_all(grid: Grid, folder: Path) -> list[Result]:
    """All results in the order of the grid."""
    return [
        artifacts.read_json(folder / "simulations" / s.id / "simulation.json")
        for s in grid.simulations
    ]


def _metric_row(metric: Metric) -> dict[str, object]:
    return {"metric": metric.name, "value": metric.value, "reason": metric.reason}
