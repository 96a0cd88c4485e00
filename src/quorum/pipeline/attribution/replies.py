"""Replies between the stages: a line a reply, sorted by coalition and repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from quorum.pipeline import artifacts
from quorum.records import Generation
from quorum.report.escape import file_slug


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """A reply where it belongs."""

    coalition: int
    sample: int
    key: str
    generation: Generation

    def order(self) -> tuple[int, int, bool]:
        """Where the reply stands in the outputs: by coalition, repeat, text before score."""
        return self.coalition, self.sample, self.generation.token_logprobs is not None


def write_rows(folder: Path, snapshot_id: str, rows: Sequence[ReplyRow]) -> None:
    """Writes the replies of one snapshot: results only, no time, no count of what was paid now."""
    path = folder / "generations" / f"{file_slug(snapshot_id)}.jsonl"
    artifacts.write_text(path, artifacts.jsonl_text(_row_dict(row) for row in rows))


def read_rows(folder: Path, snapshot_id: str) -> list[ReplyRow]:
    """The replies of one snapshot as ``write`` left them."""
    rows = artifacts.read_jsonl(folder / "generations" / f"{file_slug(snapshot_id)}.jsonl")
    return [_reply_row(row) for row in rows]


def _row_dict(row: ReplyRow) -> dict[str, object]:
    generation = row.generation
    out: dict[str, object] = {
        "coalition": f"{row.coalition:x}",
        "sample": row.sample,
        "key": row.key,
        "finish_reason": generation.finish_reason,
        "input_tokens": generation.usage.input_tokens,
        "output_tokens": generation.usage.output_tokens,
        "reasoning_tokens": generation.usage.reasoning_tokens,
        "model_version": generation.model_version,
    }
    if generation.token_logprobs is None:
        return {**out, "text": generation.text}
    return {**out, "token_logprobs": list(generation.token_logprobs)}


def _reply_row(row: Mapping[str, object]) -> ReplyRow:
    logprobs = cast("list[float] | None", row.get("token_logprobs"))
    generation = Generation(
        text=str(row.get("text", "")),
        finish_reason=str(row["finish_reason"]),
        token_logprobs=None if logprobs is None else tuple(logprobs),
        model_version=str(row["model_version"]),
    )
    return ReplyRow(
        int(str(row["coalition"]), 16), cast("int", row["sample"]), str(row["key"]), generation
    )
