"""Stage ``partition``: snapshots become players, and a plan says which coalitions are asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from quorum.attribution.absence import AbsencePolicy
from quorum.attribution.coalitions import BoolArray, budget_for, to_hex
from quorum.attribution.estimators.base import Estimator
from quorum.attribution.partitioners import Overflow, Partitioner, partition_all
from quorum.attribution.snapshots import Snapshot, read_snapshots
from quorum.config.attribution_views import PartitionView
from quorum.config.families import make
from quorum.digests import digest
from quorum.errors import InputError
from quorum.pipeline import artifacts
from quorum.pipeline.attribution.plan import Plan, Planned, write
from quorum.records import Message


def run(root: Path) -> None:
    """Reads the chosen input and writes players and plan."""
    plan = plan_of_file(root, PartitionView.read(root))
    write(plan, artifacts.fresh_folder(root / artifacts.PARTITION))


def plan_of_file(root: Path, view: PartitionView) -> Plan:
    """The plan for the chosen input file."""
    try:
        content = (root / view.input.path).read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            view.input.path, "no such file", mend="git checkout, or dvc pull"
        ) from error
    return make_plan(read_snapshots(content, view.input.path), view)


def make_plan(snapshots: Sequence[Snapshot], view: PartitionView) -> Plan:
    """Players and coalitions of every snapshot.

    Raises:
        InputError: A snapshot has no player, or more than ``max_players``.
    """
    chosen = {"name": view.partitioner.name, **view.partitioner.options}
    parts = partition_all(
        snapshots,
        chosen,
        view.roles,
        view.max_players,
        cast("Overflow", view.overflow),
        _make_partitioner,
    )
    estimator = cast("Estimator", view.estimator.make())
    policy = cast("AbsencePolicy", view.absence.make())
    planned, skipped = [], {}
    for snapshot, part in sorted(zip(snapshots, parts, strict=True), key=lambda pair: pair[0].id):
        if part.skipped is not None:
            skipped[snapshot.id] = part.skipped
            continue
        seed = int(digest([view.seed, snapshot.digest])[:8], 16)
        budget = budget_for(
            len(part.players),
            view.budget.fraction,
            view.budget.max_coalitions,
            view.budget.calls_per_player,
        )
        coalitions = _with_ends(
            estimator.plan(len(part.players), budget.n_coalitions, seed), len(part.players)
        )
        render = policy.prepare(snapshot, part.players)
        planned.append(
            Planned(
                snapshot=snapshot,
                players=tuple(part.players),
                partitioner=part.partitioner,
                coarsened_from=part.coarsened_from,
                protected_share=part.protected_share,
                n_coalitions=budget.n_coalitions,
                binding=budget.binding,
                seed=seed,
                coalitions=coalitions,
                n_requests=count_distinct(render, coalitions),
            )
        )
    if not planned:
        raise InputError(
            view.input.path, "every snapshot was skipped", mend="Raise partition.max_players"
        )
    return Plan(tuple(planned), skipped)


def _make_partitioner(spec: Mapping[str, object]) -> Partitioner:
    """The partitioner of a specification; ``config`` has checked a snapshot's own one."""
    options = {key: value for key, value in spec.items() if key != "name"}
    return cast("Partitioner", make("partition", str(spec["name"]), options))


def count_distinct(
    render: Callable[[Sequence[bool]], tuple[Message, ...]], coalitions: BoolArray
) -> int:
    """How many distinct prompts the coalitions are, once rendered."""
    return len({render(row.tolist()) for row in coalitions})


def _with_ends(coalitions: BoolArray, n: int) -> BoolArray:
    """The plan with ∅ and N, which a part from outside may have left out."""
    keys = set(to_hex(coalitions))
    ends = [
        row for row in (np.zeros(n, bool), np.ones(n, bool)) if to_hex(row[None])[0] not in keys
    ]
    return np.vstack([*ends, coalitions]) if ends else coalitions
