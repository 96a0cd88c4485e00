"""Stage ``partition``: the sweep becomes a grid, a row a simulation, with its seeds."""

from __future__ import annotations

from pathlib import Path

from quorum.config.simulation_views import PartitionView
from quorum.pipeline import artifacts
from quorum.pipeline.simulation import grid as grid_file
from quorum.pipeline.simulation.grid import Grid
from quorum.simulation.sweep import expand, simulations


def run(root: Path) -> None:
    """Writes grid.csv and grid.json."""
    made = make_grid(PartitionView.read(root))
    grid_file.write(made, artifacts.fresh_folder(root / artifacts.PARTITION))


def make_grid(view: PartitionView) -> Grid:
    """Every replicate of every cell."""
    cells = list(expand(view.fixed, view.grid))
    found = simulations(view.kind, cells, view.replicates, view.seed)
    return Grid(view.kind, tuple(sorted(view.grid)), tuple(found))
