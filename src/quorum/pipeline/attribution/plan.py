"""The plan between the stages: players of every snapshot, and which coalitions are asked.

Stands in ``players.jsonl`` (a line a snapshot) and ``plan.json`` (coalitions as little-endian hex,
what limits them, and how many distinct prompts they are).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from quorum.attribution.coalitions import BoolArray, from_hex, to_hex
from quorum.attribution.snapshots import Snapshot, Span
from quorum.pipeline import artifacts
from quorum.records import Message


@dataclass(frozen=True)
class Planned:
    """A snapshot with its players and the coalitions that are asked.

    Args:
        snapshot: The conversation.
        players: Spans that can be absent, in order of appearance.
        partitioner: The partitioner that was used.
        coarsened_from: The one that gave too many players; None where it did not.
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
    coarsened_from: str | None
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
        "coarsened_from": planned.coarsened_from,
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
        coarsened_from=cast("str | None", player["coarsened_from"]),
        protected_share=cast("float", player["protected_share"]),
        n_coalitions=cast("int", row["n_coalitions"]),
        binding=str(row["binding"]),
        seed=cast("int", row["seed"]),
        coalitions=from_hex(cast("list[str]", row["coalitions"]), n),
        n_requests=cast("int", row["n_requests"]),
    )
