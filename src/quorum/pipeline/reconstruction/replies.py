"""Replies between the stages: a file a persona, a line a reply, raw as it came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from quorum.pipeline import artifacts
from quorum.records import Generation, Usage

FOLDER = "generations"
BLANK = "blank"  # stands for a persona: the prompts without one, for contextual calibration


@dataclass(frozen=True, slots=True)
class ReplyRow:
    """A reply where it belongs.

    Args:
        persona: Who answered.
        question: What was asked.
        order: Indices of the question's options, as they were shown.
        draw: Which of several draws.
        key: Address of the request in the store.
        generation: The reply.
    """

    persona: str
    question: str
    order: tuple[int, ...]
    draw: int
    key: str
    generation: Generation

    def place(self) -> tuple[str, str, tuple[int, ...], int]:
        """Where the reply stands in the outputs."""
        return self.persona, self.question, self.order, self.draw


def rows_text(rows: Iterable[ReplyRow]) -> str:
    """Replies as JSON lines, in a fixed order; no time, no count of what was paid now."""
    return artifacts.jsonl_text(_row_dict(row) for row in sorted(rows, key=ReplyRow.place))


def parse_rows(rows: Iterable[Mapping[str, object]], persona: str) -> list[ReplyRow]:
    """Replies of a persona, as ``rows_text`` wrote them."""
    return [_reply_row(row, persona) for row in rows]


def write_rows(folder: Path, replies: Mapping[str, Iterable[ReplyRow]]) -> None:
    """Writes ``generations/<persona>.jsonl``."""
    for persona, rows in replies.items():
        artifacts.write_text(folder / FOLDER / f"{persona}.jsonl", rows_text(rows))


def read_rows(folder: Path) -> dict[str, list[ReplyRow]]:
    """Replies by persona, as ``write_rows`` left them."""
    return {
        path.stem: parse_rows(artifacts.read_jsonl(path), path.stem)
        for path in sorted((folder / FOLDER).glob("*.jsonl"))
    }


def _row_dict(row: ReplyRow) -> dict[str, object]:
    generation = row.generation
    out: dict[str, object] = {
        "question": row.question,
        "order": list(row.order),
        "draw": row.draw,
        "key": row.key,
        "finish_reason": generation.finish_reason,
    }
    if generation.model_version:
        out["model_version"] = generation.model_version
    used = generation.usage
    if used.input_tokens or used.output_tokens:
        out["tokens"] = [used.input_tokens, used.output_tokens, used.reasoning_tokens]
    if generation.choice_probs is not None:
        out["choice_probs"] = list(generation.choice_probs)
        out["choice_mass"] = generation.choice_mass
    else:
        out["text"] = generation.text
    return out


def _reply_row(row: Mapping[str, object], persona: str) -> ReplyRow:
    probs = cast("list[float] | None", row.get("choice_probs"))
    tokens = cast("list[int]", row.get("tokens", [0, 0, 0]))
    return ReplyRow(
        persona=persona,
        question=str(row["question"]),
        order=tuple(cast("list[int]", row["order"])),
        draw=cast("int", row["draw"]),
        key=str(row["key"]),
        generation=Generation(
            text=str(row.get("text", "")),
            finish_reason=str(row["finish_reason"]),
            usage=Usage(tokens[0], 0, tokens[1], tokens[2]),
            choice_probs=None if probs is None else tuple(probs),
            choice_mass=cast("float | None", row.get("choice_mass")),
            model_version=str(row.get("model_version", "")),
        ),
    )
