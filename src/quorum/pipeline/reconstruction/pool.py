"""Who was asked, as ``generate`` left it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quorum.pipeline import artifacts
from quorum.pipeline.reconstruction import tables
from quorum.reconstruction.bank import Bank, bank_yaml, read_bank
from quorum.reconstruction.personas import Persona, persona_text

Row = dict[str, object]


@dataclass(frozen=True, slots=True)
class Pool:
    """Personas or respondents, and how they came about.

    Args:
        personas: In the order of their ids.
        bank: The attributes that they have.
        facts: Which model answered, why the pool was enough.
        entropy: Rows of the three trajectories.
        summary: One row a mode.
    """

    personas: tuple[Persona, ...]
    bank: Bank
    facts: Mapping[str, object]
    entropy: Mapping[str, Sequence[Row]]
    summary: Sequence[Row]

    @property
    def is_panel(self) -> bool:
        """Whether people of a table answered: nothing of a single one is shown."""
        return self.facts["respondents"] == "panel"

    def text(self, persona: Persona) -> str:
        """What a persona was told to be; empty for a person."""
        return "" if self.is_panel else persona_text(persona, self.bank)


def read_pool(folder: Path) -> Pool:
    """The pool of a run."""
    facts = artifacts.read_json(folder / "model.json")
    text = (folder / tables.BANK).read_text(encoding="utf-8")
    bank = read_bank(text, tables.BANK) if text != bank_yaml(Bank(())) else Bank(())
    trajectories = {
        "aggregate": _rows(folder / tables.AGGREGATE, ints=("round", "n_personas")),
        "modes": _rows(folder / tables.MODES, ints=("round", "n"), texts=("mode",)),
        "questions": _rows(folder / tables.QUESTIONS, ints=("round",), texts=("question",)),
    }
    summary = _rows(folder / tables.SUMMARY, ints=("n_personas",), texts=("mode",))
    return Pool(_personas(folder), bank, facts, trajectories, summary)


def _personas(folder: Path) -> tuple[Persona, ...]:
    found: dict[str, list[dict[str, str]]] = {}
    for row in artifacts.read_csv(folder / tables.ENDOWMENTS):
        found.setdefault(row["persona_id"], []).append(row)
    return tuple(
        Persona(
            name,
            rows[0]["mode"],
            tuple((row["attribute"], row["value"]) for row in rows if row["attribute"]),
            rows[0]["aimed_at"] or None,
        )
        for name, rows in found.items()
    )


def _rows(path: Path, ints: Sequence[str], texts: Sequence[str] = ()) -> list[Row]:
    """Rows of a table, with numbers as numbers and an empty cell as null."""

    def value(column: str, cell: str) -> object:
        if not cell:
            return None
        if column in texts:
            return cell
        return int(cell) if column in ints else float(cell)

    return [
        {column: value(column, cell) for column, cell in row.items()}
        for row in artifacts.read_csv(path)
    ]
