"""Files of a finished run: their names, and how foreign ones are read.

A file may be cut off, of another program, or written by hand: whatever is wrong is one line.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from quorum.errors import InputError
from quorum.pipeline import artifacts

MEND = "Copy the run again, or run it again: dvc repro"
SUMS = "SHA256SUMS"
_AGGREGATE, _SCORE = artifacts.AGGREGATE.as_posix(), artifacts.SCORE.as_posix()
_GENERATE, _PARTITION = artifacts.GENERATE.as_posix(), artifacts.PARTITION.as_posix()
_BUDGET, _LOG = artifacts.BUDGET.as_posix(), artifacts.GENERATE_LOG.as_posix()
# the flat list of artifacts (as an export has them) → where they stand in a project
ARTIFACTS: dict[str, str] = {
    "run.json": f"{artifacts.AGGREGATE_LOG.as_posix()}/run.json",
    "config.resolved.yaml": f"{artifacts.AGGREGATE_LOG.as_posix()}/config.resolved.yaml",
    "metrics.json": f"{artifacts.REPORT.as_posix()}/metrics.json",
    "metrics.csv": f"{_AGGREGATE}/metrics.csv",
    "report.html": f"{_AGGREGATE}/report.html",
    "plots": f"{artifacts.REPORT.as_posix()}/plots",
    "usage.csv": f"{_LOG}/usage.csv",
    "usage.json": f"{_LOG}/usage.json",
    "pipeline.log": f"{_LOG}/pipeline.log",
    "generation.json": f"{_LOG}/generation.json",
    "generations": f"{_GENERATE}/generations",
    "store.jsonl.gz": f"{_LOG}/store.jsonl.gz",
    "budget.json": f"{_BUDGET}/budget.json",
    "budget.csv": f"{_BUDGET}/budget.csv",
    "budget_history.csv": f"{_BUDGET}/budget_history.csv",
    "budget.html": f"{_BUDGET}/budget.html",
    # attribution
    "players.jsonl": f"{_PARTITION}/players.jsonl",
    "plan.json": f"{_PARTITION}/plan.json",
    "payoffs.csv": f"{_SCORE}/payoffs.csv",
    "replies.jsonl": f"{_SCORE}/replies.jsonl",
    "attributions.jsonl": f"{_AGGREGATE}/attributions.jsonl",
    "attributions.csv": f"{_AGGREGATE}/attributions.csv",
    "snapshots": f"{_AGGREGATE}/snapshots",
    # reconstruction
    "questions.csv": f"{_PARTITION}/questions.csv",
    "split.json": f"{_PARTITION}/split.json",
    "targets_train.csv": f"{_PARTITION}/targets_train.csv",
    "targets_test.csv": f"{_PARTITION}/targets_test.csv",
    "active_generation.checkpoint": f"{_GENERATE}/active_generation.checkpoint",
    "endowments.csv": f"{_GENERATE}/endowments.csv",
    "attribute_bank.resolved.yaml": f"{_GENERATE}/attribute_bank.resolved.yaml",
    "aggregate_entropy_trajectory.csv": f"{_GENERATE}/aggregate_entropy_trajectory.csv",
    "persistent_mode_entropy.csv": f"{_GENERATE}/persistent_mode_entropy.csv",
    "question_entropy_trajectories.csv": f"{_GENERATE}/question_entropy_trajectories.csv",
    "mode_summary.csv": f"{_GENERATE}/mode_summary.csv",
    "responses.csv": f"{_SCORE}/responses.csv",
    "weights.csv": f"{_SCORE}/weights.csv",
    "predictions.csv": f"{_SCORE}/predictions.csv",
    "diagnostics.json": f"{_AGGREGATE}/diagnostics.json",
    "diagnostics.html": f"{_AGGREGATE}/diagnostics.html",
    # simulation
    "grid.csv": f"{_PARTITION}/grid.csv",
    "worlds.jsonl": f"{_GENERATE}/worlds.jsonl",
    "simulations": f"{_SCORE}/simulations",
    "simulation_summary.json": f"{_AGGREGATE}/simulation_summary.json",
    "simulation_summary.csv": f"{_AGGREGATE}/simulation_summary.csv",
    "simulation_aggregate.csv": f"{_AGGREGATE}/simulation_aggregate.csv",
}


def read_object(path: Path, where: str) -> dict[str, object]:
    """A JSON object of finite numbers.

    Raises:
        InputError: It cannot be read, is no object, or holds NaN or infinity.
    """
    return parse_object(read_text(path, where), where)


def read_table(path: Path, where: str, needed: Sequence[str] = ()) -> list[dict[str, str]]:
    """The rows of a CSV file, every cell a text.

    Raises:
        InputError: It is cut off or no table, or lacks a column that is needed.
    """
    try:
        rows = list(csv.reader(io.StringIO(read_text(path, where), newline=""), strict=True))
    except csv.Error as error:
        raise InputError(where, f"is no table ({error})", mend=MEND) from error
    header = rows[0] if rows else []
    lacking = [name for name in needed if name not in header]
    if not header or lacking:
        raise InputError(where, f"lacks {', '.join(lacking) or 'a header'}", mend=MEND)
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            what = f"row {number} has another number of cells than the header"
            raise InputError(where, what, got=len(row), allowed=str(len(header)), mend=MEND)
    return [dict(zip(header, row, strict=True)) for row in rows[1:]]


def parse_object(text: str, where: str) -> dict[str, object]:
    """A JSON object of finite numbers, from its text.

    Raises:
        InputError: It is no object, or holds NaN or infinity.
    """

    def refuse(constant: str) -> NoReturn:
        raise InputError(where, f"holds {constant}", allowed="finite numbers, or null", mend=MEND)

    def finite(number: str) -> float:
        return float(number) if math.isfinite(float(number)) else refuse(number)

    try:
        loaded = json.loads(text, parse_constant=refuse, parse_float=finite)
    except (ValueError, RecursionError) as error:
        problem = error.msg if isinstance(error, json.JSONDecodeError) else "cannot be decoded"
        raise InputError(where, f"is not JSON ({problem})", mend=MEND) from error
    if not isinstance(loaded, dict):
        raise InputError(where, "must be an object", got=type(loaded).__name__, mend=MEND)
    return loaded


def read_text(path: Path, where: str) -> str:
    """A text file.

    Raises:
        InputError: It cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8", errors="surrogatepass")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(where, f"cannot be read ({reason})", mend=MEND) from error
