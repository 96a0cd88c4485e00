"""Payoffs between the stages: from the replies of one snapshot to one payoff a coalition.

Stand in ``payoffs.csv`` (a row a coalition) and ``replies.jsonl`` (a line a snapshot: what the
outputs show of the replies).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from quorum.attribution.coalitions import from_hex, to_hex
from quorum.attribution.values.base import Reply, ValueFunction
from quorum.config.view import Part
from quorum.errors import InputError
from quorum.pipeline import artifacts
from quorum.pipeline.attribution.masked import Masked, as_rows, choose, from_rows
from quorum.pipeline.attribution.plan import Plan, Planned
from quorum.pipeline.attribution.replies import ReplyRow

FloatArray = npt.NDArray[np.float64]
COLUMNS = ("snapshot", "coalition", "n_present", "payoff", "n_samples", "sample_sd")


@dataclass(frozen=True, slots=True)
class Scored:
    """Payoffs of one snapshot, coalitions in ascending order.

    Args:
        coalitions: (m, n), True where the player is present.
        payoffs: (m,), mean over the repeats.
        spreads: (m,), sample standard deviation over the repeats; NaN for a single one.
        n_samples: Repeats a coalition.
        base_generation: The reply to the whole prompt.
        empty_generation: The reply to the empty coalition; None where none was asked for.
        finish_reason: How the base generation ended.
        n_requests: Distinct requests that the payoffs rest on.
        noise: Payoffs of repeats of the whole prompt, where any were asked for.
        masked: Masked generations that the pages show.
        n_masked: Masked generations there are.
        reason: Why there are no payoffs; None where there are.
    """

    coalitions: npt.NDArray[np.bool_]
    payoffs: FloatArray
    spreads: FloatArray
    n_samples: int
    base_generation: str
    empty_generation: str | None
    finish_reason: str
    n_requests: int
    noise: FloatArray | None = None
    masked: tuple[Masked, ...] = ()
    n_masked: int = 0
    reason: str | None = None


def payoffs_of(planned: Planned, rows: Sequence[ReplyRow], value: Part, reference: str) -> Scored:
    """Scores the replies against the base generation (or the target).

    Repeats of the whole prompt beyond those that every coalition has measure noise; they are
    scored apart, so that they do not change the corpus of the others.

    Raises:
        InputError: The replies are not those that the value function needs.
    """
    function = cast("ValueFunction", value.make())
    n = len(planned.players)
    grand = (1 << n) - 1
    is_scoring = function.needs == "continuation"
    texts = [row for row in rows if row.generation.token_logprobs is None]
    base = _base(planned, texts)
    target = planned.snapshot.target if reference == "target" else base.generation.text
    assert target is not None
    if is_scoring and not target:
        return unscored(planned, [base], "the base generation is empty: it has no likelihood")
    used = [r for r in rows if r.generation.token_logprobs is not None] if is_scoring else texts
    samples = 1 + max(r.sample for r in used if r.coalition == 0)
    repeats = [r for r in used if r.coalition == grand]
    extra = [] if is_scoring else [r for r in repeats if r.sample >= samples]
    counted = [r for r in used if is_scoring or r.sample < samples]
    payoffs = function.payoffs([_reply(r) for r in counted], target)
    groups: dict[int, list[float]] = {}
    for row, payoff in zip(counted, payoffs.tolist(), strict=True):
        groups.setdefault(row.coalition, []).append(payoff)
    order = sorted(groups)
    empty = next((r for r in texts if r.coalition == 0 and r.sample == 0), None)
    noise = function.payoffs([_reply(r) for r in repeats], target) if extra else None
    means = {bits: float(np.mean(groups[bits])) for bits in order}
    masked, n_masked = choose(means, texts, n)
    return Scored(
        coalitions=from_hex([f"{bits:x}" for bits in order], n),
        payoffs=np.array(list(means.values())),
        spreads=np.array(
            [float(np.std(groups[b], ddof=1)) if len(groups[b]) > 1 else np.nan for b in order]
        ),
        n_samples=samples,
        base_generation=base.generation.text,
        empty_generation=None if empty is None else empty.generation.text,
        finish_reason=base.generation.finish_reason,
        n_requests=len({row.key for row in rows}),
        noise=noise,
        masked=masked,
        n_masked=n_masked,
    )


def _base(planned: Planned, texts: Sequence[ReplyRow]) -> ReplyRow:
    grand = (1 << len(planned.players)) - 1
    base = next((r for r in texts if r.coalition == grand and r.sample == 0), None)
    if base is None:
        raise InputError(
            f"snapshot {planned.id}", "has no base generation", mend="dvc repro -f generate"
        )
    return base


def unscored(planned: Planned, rows: Sequence[ReplyRow], reason: str) -> Scored:
    """A snapshot without payoffs, and why; with its base generation where there is one."""
    n = len(planned.players)
    grand = (1 << n) - 1
    texts = [r for r in rows if r.generation.token_logprobs is None and r.sample == 0]
    base = next((r for r in texts if r.coalition == grand), None)
    return Scored(
        coalitions=np.zeros((0, n), bool),
        payoffs=np.zeros(0),
        spreads=np.zeros(0),
        n_samples=1,
        base_generation="" if base is None else base.generation.text,
        empty_generation=None,
        finish_reason="not_asked" if base is None else base.generation.finish_reason,
        n_requests=len({row.key for row in rows}),
        reason=reason,
    )


def _reply(row: ReplyRow) -> Reply:
    return Reply(row.generation.text, row.generation.token_logprobs)


def write(scored: Mapping[str, Scored], facts: Mapping[str, object], folder: Path) -> None:
    """Writes payoffs.csv, replies.jsonl and facts.json: which model answered, how many requests."""
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
                "masked_generations": as_rows(s.masked),
                "n_masked_generations": s.n_masked,
                "reason": s.reason,
            }
            for snapshot_id, s in scored.items()
        ),
    )
    artifacts.write_text(folder / "facts.json", artifacts.json_text(dict(facts)))


def read(folder: Path, plan: Plan) -> dict[str, Scored]:
    """Payoffs as ``write`` left them."""
    rows: dict[str, list[dict[str, str]]] = {}
    for row in artifacts.read_csv(folder / "payoffs.csv"):
        rows.setdefault(row["snapshot"], []).append(row)
    replies = {str(r["snapshot"]): r for r in artifacts.read_jsonl(folder / "replies.jsonl")}
    n_players = {p.id: len(p.players) for p in plan.snapshots}
    return {k: _scored(rows.get(k, []), replies[k], n) for k, n in n_players.items()}


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
        n_samples=int(rows[0]["n_samples"]) if rows else 1,
        base_generation=str(reply["base_generation"]),
        empty_generation=cast("str | None", reply["empty_generation"]),
        finish_reason=str(reply["finish_reason"]),
        n_requests=cast("int", reply["n_requests"]),
        noise=None if noise is None else np.array(noise),
        masked=from_rows(cast("list[dict[str, object]]", reply["masked_generations"])),
        n_masked=cast("int", reply["n_masked_generations"]),
        reason=cast("str | None", reply["reason"]),
    )
