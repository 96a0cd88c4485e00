"""Stage ``score``: replies become payoffs; no model is called.

Writes ``payoffs.csv`` (a row a coalition) and ``replies.jsonl`` (a line a snapshot: what the
outputs show of the replies, and what the payoffs rest on).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from quorum.attribution.coalitions import from_hex, to_hex
from quorum.config.view import ScoreView
from quorum.pipeline import artifacts, generate
from quorum.pipeline import partition as partition_stage
from quorum.pipeline.partition import Plan
from quorum.pipeline.payoffs import Scored, payoffs_of

COLUMNS = ("snapshot", "coalition", "n_present", "payoff", "n_samples", "sample_sd")


def run(root: Path) -> None:
    """Scores all replies of the run."""
    plan = partition_stage.read(root / artifacts.PARTITION)
    folder = root / artifacts.GENERATE
    rows = {p.id: generate.read_rows(folder, p.id) for p in plan.snapshots}
    scored = score(plan, rows, ScoreView.read(root))
    model = artifacts.read_json(folder / "model.json")
    write(scored, model, artifacts.fresh_folder(root / artifacts.SCORE))


def score(
    plan: Plan, rows: Mapping[str, list[generate.ReplyRow]], view: ScoreView
) -> dict[str, Scored]:
    """Payoffs by snapshot id."""
    return {p.id: payoffs_of(p, rows[p.id], view.value, view.reference) for p in plan.snapshots}


def write(scored: Mapping[str, Scored], model: Mapping[str, object], folder: Path) -> None:
    """Writes payoffs.csv, replies.jsonl and which model answered."""
    rows = [row for snapshot_id, s in scored.items() for row in _payoff_rows(snapshot_id, s)]
    artifacts.write_text(folder / "payoffs.csv", artifacts.csv_text(COLUMNS, rows))
    artifacts.write_text(
        folder / "replies.jsonl",
        artifacts.jsonl_text(
            {
                "snapshot": snapshot_id,
                "base_generation": s.base_generation,
                "empty_generation": s.empty_generation,
                "finish_reason": s.finish_reason,
                "n_requests": s.n_requests,
                "noise": None if s.noise is None else s.noise.tolist(),
            }
            for snapshot_id, s in scored.items()
        ),
    )
    artifacts.write_text(folder / "model.json", artifacts.json_text(dict(model)))


def read(folder: Path, plan: Plan) -> dict[str, Scored]:
    """Payoffs as ``write`` left them."""
    rows: dict[str, list[dict[str, str]]] = {}
    for row in artifacts.read_csv(folder / "payoffs.csv"):
        rows.setdefault(row["snapshot"], []).append(row)
    replies = {str(r["snapshot"]): r for r in artifacts.read_jsonl(folder / "replies.jsonl")}
    n_players = {p.id: len(p.players) for p in plan.snapshots}
    return {k: _scored(rows[k], replies[k], n) for k, n in n_players.items()}


def _payoff_rows(snapshot_id: str, scored: Scored) -> list[dict[str, object]]:
    columns = zip(
        to_hex(scored.coalitions),
        scored.coalitions.sum(axis=1).tolist(),
        scored.payoffs.tolist(),
        scored.spreads.tolist(),
        strict=True,
    )
    return [
        {
            "snapshot": snapshot_id,
            "coalition": coalition,
            "n_present": n_present,
            "payoff": payoff,
            "n_samples": scored.n_samples,
            "sample_sd": None if math.isnan(spread) else spread,
        }
        for coalition, n_present, payoff, spread in columns
    ]


def _scored(rows: list[dict[str, str]], reply: Mapping[str, object], n: int) -> Scored:
    noise = cast("list[float] | None", reply["noise"])
    return Scored(
        coalitions=from_hex([row["coalition"] for row in rows], n),
        payoffs=np.array([float(row["payoff"]) for row in rows]),
        spreads=np.array([float(row["sample_sd"] or "nan") for row in rows]),
        n_samples=int(rows[0]["n_samples"]),
        base_generation=str(reply["base_generation"]),
        empty_generation=cast("str | None", reply["empty_generation"]),
        finish_reason=str(reply["finish_reason"]),
        n_requests=cast("int", reply["n_requests"]),
        noise=None if noise is None else np.array(noise),
    )
