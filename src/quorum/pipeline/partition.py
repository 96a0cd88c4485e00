"""Stage ``partition``: snapshots become players, and a plan says which coalitions are asked.

Writes ``players.jsonl`` (a line a snapshot) and ``plan.json`` (coalitions as little-endian hex,
what limits them, and how many distinct prompts they are).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from quorum.attribution.absence import AbsencePolicy
from quorum.attribution.coalitions import budget_for, from_hex, to_hex
from quorum.attribution.estimators.base import Estimator
from quorum.attribution.partitioners import Overflow, Partitioner, partition_all
from quorum.attribution.snapshots import Snapshot, Span, read_snapshots
from quorum.config.families import make, nearest, option_fields, part_class
from quorum.config.view import PartitionView
from quorum.digests import digest
from quorum.errors import InputError
from quorum.pipeline import artifacts
from quorum.records import Message

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Planned:
    """A snapshot with its players and the coalitions that are asked.

    Args:
        snapshot: The conversation.
        players: Spans that can be absent, in order of appearance.
        partitioner: The partitioner that was used, after coarsening.
        protected_share: Share of the characters that are always present, 0 to 1.
        n_coalitions: The budget, ∅ and N included.
        binding: Which limit sets the budget.
        seed: The snapshot's own seed.
        coalitions: (m, n); for an estimator with two phases those of the first.
        n_requests: Distinct prompts among them.
    """

    snapshot: Snapshot
    players: tuple[Span, ...]
    partitioner: str
    protected_share: float
    n_coalitions: int
    binding: str
    seed: int
    coalitions: BoolArray
    n_requests: int

    @property
    def id(self) -> str:
        """The snapshot's id."""
        return self.snapshot.id


@dataclass(frozen=True)
class Plan:
    """All planned snapshots, sorted by id, and those that were skipped with the reason."""

    snapshots: tuple[Planned, ...]
    skipped: Mapping[str, str]


def run(root: Path) -> None:
    """Reads the chosen input and writes players and plan."""
    view = PartitionView.read(root)
    path = root / view.input.path
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(view.input.path, "no such file", mend="git checkout, or dvc pull") from error
    plan = make_plan(read_snapshots(content, view.input.path), view)
    write(plan, artifacts.fresh_folder(root / artifacts.PARTITION))


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
                protected_share=part.protected_share,
                n_coalitions=budget.n_coalitions,
                binding=budget.binding,
                seed=seed,
                coalitions=coalitions,
                n_requests=count_distinct(render, coalitions),
            )
        )
    if not planned:
        raise InputError(view.input.path, "every snapshot was skipped", mend="Raise max_players")
    return Plan(tuple(planned), skipped)


def _make_partitioner(spec: Mapping[str, object]) -> Partitioner:
    """The partitioner of a specification; a snapshot may carry its own."""
    options = {key: value for key, value in spec.items() if key != "name"}
    known = option_fields(part_class("partition", str(spec["name"])))
    for key in options:
        if key not in known:
            raise InputError(
                f"partition {spec['name']}",
                "unknown option of a snapshot's own partition",
                got=key,
                allowed=", ".join(known) or "none",
                mend=nearest(key, list(known)),
            )
    return cast("Partitioner", make("partition", str(spec["name"]), options))


def count_distinct(
    render: Callable[[Sequence[bool]], tuple[Message, ...]], coalitions: BoolArray
) -> int:
    """How many distinct prompts the coalitions are, once rendered."""
    return len({render(row.tolist()) for row in coalitions})


def _with_ends(coalitions: BoolArray, n: int) -> BoolArray:
    """The plan with ∅ and N, which a part from outside may have left out."""
    keys = set(to_hex(coalitions))
    ends = [row for row in (np.zeros(n, bool), np.ones(n, bool)) if to_hex(row[None])[0] not in keys]
    return np.vstack([*ends, coalitions]) if ends else coalitions


def write(plan: Plan, folder: Path) -> None:
    """Writes ``players.jsonl`` and ``plan.json``."""
    artifacts.write_text(
        folder / "players.jsonl", artifacts.jsonl_text(_player_row(p) for p in plan.snapshots)
    )
    rows = [
        {
            "snapshot": p.id,
            "n_players": len(p.players),
            "n_coalitions": p.n_coalitions,
            "binding": p.binding,
            "seed": p.seed,
            "n_requests": p.n_requests,
            "coalitions": to_hex(p.coalitions),
        }
        for p in plan.snapshots
    ]
    artifacts.write_text(
        folder / "plan.json",
        artifacts.json_text({"snapshots": rows, "skipped": dict(sorted(plan.skipped.items()))}),
    )


def read(folder: Path) -> Plan:
    """The plan as ``write`` left it."""
    players = artifacts.read_jsonl(folder / "players.jsonl")
    plan = artifacts.read_json(folder / "plan.json")
    rows = cast("list[dict[str, object]]", plan["snapshots"])
    planned = [_planned(player, row) for player, row in zip(players, rows, strict=True)]
    return Plan(tuple(planned), cast("dict[str, str]", plan["skipped"]))


def player_dicts(snapshot: Snapshot, players: Iterable[Span]) -> list[dict[str, object]]:
    """Players with their spans, roles and texts, as they stand in the outputs."""
    out: list[dict[str, object]] = []
    for index, span in enumerate(players):
        message = snapshot.messages[span.message]
        out.append(
            {
                "index": index,
                "message": span.message,
                "start": span.start,
                "end": span.end,
                "role": message.role,
                "text": message.content[span.start : span.end],
            }
        )
    return out


def _player_row(planned: Planned) -> dict[str, object]:
    snapshot = planned.snapshot
    return {
        "snapshot": snapshot.id,
        "digest": snapshot.digest,
        "messages": [{"role": m.role, "content": m.content} for m in snapshot.messages],
        "target": snapshot.target,
        "partitioner": planned.partitioner,
        "protected_share": planned.protected_share,
        "players": player_dicts(snapshot, planned.players),
    }


def _planned(player: Mapping[str, object], row: Mapping[str, object]) -> Planned:
    messages = cast("list[dict[str, str]]", player["messages"])
    spans = cast("list[dict[str, int]]", player["players"])
    snapshot = Snapshot(
        id=str(player["snapshot"]),
        messages=tuple(Message(m["role"], m["content"]) for m in messages),
        target=cast("str | None", player["target"]),
    )
    n = cast("int", row["n_players"])
    return Planned(
        snapshot=snapshot,
        players=tuple(Span(s["message"], s["start"], s["end"]) for s in spans),
        partitioner=str(player["partitioner"]),
        protected_share=cast("float", player["protected_share"]),
        n_coalitions=cast("int", row["n_coalitions"]),
        binding=str(row["binding"]),
        seed=cast("int", row["seed"]),
        coalitions=from_hex(cast("list[str]", row["coalitions"]), n),
        n_requests=cast("int", row["n_requests"]),
    )

