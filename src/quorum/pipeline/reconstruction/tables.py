"""The tables of ``generate``: endowments, the resolved bank, and how entropies went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from quorum.pipeline import artifacts
from quorum.reconstruction.bank import Bank, bank_yaml
from quorum.reconstruction.personas import ENDOWMENT_COLUMNS, Persona, endowment_rows
from quorum.reconstruction.trajectories import (
    AGGREGATE_COLUMNS,
    MODE_COLUMNS,
    QUESTION_COLUMNS,
    SUMMARY_COLUMNS,
    Trajectories,
)

AGGREGATE = "aggregate_entropy_trajectory.csv"
MODES = "persistent_mode_entropy.csv"
QUESTIONS = "question_entropy_trajectories.csv"
SUMMARY = "mode_summary.csv"
ENDOWMENTS = "endowments.csv"
BANK = "attribute_bank.resolved.yaml"


def write_tables(
    folder: Path, personas: Sequence[Persona], bank: Bank, tables: Trajectories
) -> None:
    """Writes the tables, rows in a fixed order."""
    rows: dict[str, tuple[Sequence[str], Sequence[Mapping[str, object]]]] = {
        ENDOWMENTS: (ENDOWMENT_COLUMNS, endowment_rows(personas)),
        AGGREGATE: (AGGREGATE_COLUMNS, tables.aggregate),
        MODES: (MODE_COLUMNS, tables.modes),
        QUESTIONS: (QUESTION_COLUMNS, tables.questions),
        SUMMARY: (SUMMARY_COLUMNS, tables.mode_summary(personas)),
    }
    for name, (columns, found) in rows.items():
        artifacts.write_text(folder / name, artifacts.csv_text(columns, found))
    artifacts.write_text(folder / BANK, bank_yaml(bank))
