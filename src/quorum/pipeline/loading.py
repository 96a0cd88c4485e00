"""A finished run in a notebook: its tables as data frames, its values for other libraries.

The only module that uses pandas. Undefined numbers are NaN there, as data frames have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from quorum.errors import InputError, MissingExtraError
from quorum.pipeline.inspection import attributions_of
from quorum.pipeline.runs import Run, open_run
from quorum.report.document import Attribution

if TYPE_CHECKING:
    import pandas as pd

# table → its artifact, for every study; a run has those whose files are there
CSV_TABLES = {
    "payoffs": "payoffs.csv",
    "questions": "questions.csv",
    "targets_train": "targets_train.csv",
    "targets_test": "targets_test.csv",
    "endowments": "endowments.csv",
    "responses": "responses.csv",
    "weights": "weights.csv",
    "predictions": "predictions.csv",
    "mode_summary": "mode_summary.csv",
    "entropy": "aggregate_entropy_trajectory.csv",
    "mode_entropy": "persistent_mode_entropy.csv",
    "question_entropy": "question_entropy_trajectories.csv",
    "grid": "grid.csv",
    "simulations": "simulation_summary.csv",
    "cells": "simulation_aggregate.csv",
    "usage": "usage.csv",
    "budget": "budget.csv",
}
# columns that stay text, whatever they hold: an option may be called "1", a reply "NA"
_TEXTS = frozenset(
    [
        "snapshot",
        "coalition",
        "target",
        "question_id",
        "question",
        "option_label",
        "option_text",
        "question_text",
        "topic",
        "split",
        "policy",
        "persona_id",
        "mode",
        "text",
        "status",
        "rule",
        "reason",
        "aimed_at",
        "attribute",
        "n_source",
        "time",
        "module",
        "backend",
        "model",
        "key",
        "finish_reason",
        "scenario",
        "source",
    ]
)
_MORE_TEXTS = {"endowments": frozenset({"value"})}
_INDEX = {"shapley": "SV", "banzhaf": "BV"}  # shapiq's names of the estimands


@dataclass(frozen=True, slots=True, eq=False)
class LoadedRun:
    """A run's results in memory.

    ``run["weights"]`` is a table; ``run.tables`` names all that there are.

    Args:
        name: As it was named.
        study: attribution, reconstruction or simulation.
        run_id: Digest of the settings, inputs and model.
        record: run.json.
        scalars: The numbers that ``dvc exp show`` shows.
        frames: Tables by name.
        attributions: The objects of attributions.jsonl; none for other studies.
    """

    name: str
    study: str
    run_id: str
    record: Mapping[str, object]
    scalars: Mapping[str, object]
    frames: Mapping[str, pd.DataFrame]
    attributions: tuple[Attribution, ...]

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return sorted(self.frames)

    def __getitem__(self, table: str) -> pd.DataFrame:
        """A table.

        Raises:
            InputError: The run has no such table.
        """
        if table not in self.frames:
            allowed = ", ".join(self.tables)
            raise InputError(f"run {self.name}", "no such table", got=table, allowed=allowed)
        return self.frames[table]

    def to_shapiq(self, snapshot: str | None = None) -> Any:
        """Raw values of a snapshot as shapiq's InteractionValues, for its plots.

        Order 1, index SV (Shapley) or BV (Banzhaf), baseline v(∅). ``labels`` names the players.

        Args:
            snapshot: Its id; may be left out where the run has one.

        Raises:
            InputError: The run has no such snapshot, or no values for it.
            MissingExtraError: shapiq is not installed.
        """
        found = self._snapshot(snapshot)
        if None in found.raw_values or found.base_value is None:
            raise InputError(f"snapshot {found.snapshot}", f"has no values: {found.values_reason}")
        try:
            from shapiq import InteractionValues
        except ImportError as error:
            raise MissingExtraError(
                "to_shapiq", "needs shapiq", mend="pip install -e '.[shapiq]'"
            ) from error
        import numpy as np

        lookup: dict[tuple[int, ...], int] = {(): 0}
        lookup |= {(i,): i + 1 for i in range(found.n_players)}
        return InteractionValues(
            values=np.array([found.base_value, *cast("Sequence[float]", found.raw_values)]),
            index=_INDEX[found.texts["estimand"]],
            max_order=1,
            min_order=0,
            n_players=found.n_players,
            interaction_lookup=lookup,
            estimated=found.texts["estimator"] != "exact",
            estimation_budget=found.n_coalitions,
            baseline_value=found.base_value,
        )

    def labels(self, snapshot: str | None = None) -> list[str]:
        """The players' texts, in the order of the prompt.

        Raises:
            InputError: The run has no such snapshot.
        """
        return [player.text for player in self._snapshot(snapshot).players]

    def _snapshot(self, snapshot: str | None) -> Attribution:
        names = [item.snapshot for item in self.attributions]
        if snapshot is None and len(names) == 1:
            return self.attributions[0]
        if snapshot not in names:
            raise InputError(
                f"run {self.name}: snapshot",
                "no such snapshot",
                got=snapshot,
                allowed=", ".join(names) or "none: the run has no attributions",
            )
        return self.attributions[names.index(snapshot)]


def load(run: str | Path, project: str | Path | None = None) -> LoadedRun:
    """A finished run's results.

    Args:
        run: A folder (a project, a copy of its data, an export), or, within a project, an
            experiment's name or a git revision.
        project: The project's folder; None takes the nearest one upwards.

    Raises:
        InputError: There is no such run, or a file of it cannot be used.
        RefusedError: Its files are not those of one run.
    """
    from quorum.pipeline.experiments import nearest_project

    home = nearest_project() if project is None else Path(project)
    with open_run(str(run), home) as opened:
        return _loaded(opened)


def _loaded(run: Run) -> LoadedRun:
    import pandas as pd

    frames = {"metrics": pd.DataFrame(run.records)}
    attributions = tuple(attributions_of(run) or ())
    if attributions:
        frames["attributions"] = pd.DataFrame(
            [row for item in attributions for row in _player_rows(item)]
        )
        frames["snapshots"] = pd.DataFrame(map(_snapshot_row, attributions))
        frames["curves"] = pd.DataFrame([row for item in attributions for row in _curve_rows(item)])
    for name, artifact in CSV_TABLES.items():
        rows = run.read_table(artifact)
        if rows is not None:
            frames[name] = _frame(rows, _MORE_TEXTS.get(name, frozenset()))
    return LoadedRun(run.name, run.study, run.run_id, run.record, run.scalars, frames, attributions)


def _player_rows(item: Attribution) -> list[dict[str, object]]:
    ranks = {index: rank for rank, index in enumerate(item.ranking(), start=1)}
    rows = []
    for player in item.players:
        low, high = item.interval(player.index) or (None, None)
        rows.append(
            {
                "snapshot": item.snapshot,
                "player": player.index,
                "text": player.text,
                "role": player.role,
                "value": item.values[player.index],
                "raw_value": item.raw_values[player.index],
                "se": item.standard_errors[player.index],
                "low": low,
                "high": high,
                "rank": ranks[player.index],
            }
        )
    return rows


def _snapshot_row(item: Attribution) -> dict[str, object]:
    return {
        "snapshot": item.snapshot,
        "n_players": item.n_players,
        "n_coalitions": item.n_coalitions,
        "base_value": item.base_value,
        "grand_value": item.grand_value,
        "efficiency_residual": item.efficiency_residual,
        "estimator": item.texts["estimator"],
        "estimand": item.texts["estimand"],
        "base_generation": item.texts["base_generation"],
        "empty_generation": item.texts["empty_generation"],
    }


def _curve_rows(item: Attribution) -> list[dict[str, object]]:
    return [
        {"snapshot": item.snapshot, "curve": name, "k": k, "payoff": payoff}
        for name, curve in sorted(item.curves.items())
        for k, payoff in curve.points
    ]


def _frame(rows: list[dict[str, str]], texts: frozenset[str]) -> pd.DataFrame:
    """Rows of texts: named columns stay text, others are numbers where all their cells are."""
    import pandas as pd

    columns: dict[str, object] = {}
    for name in rows[0] if rows else ():
        cells = [row[name] for row in rows]
        columns[name] = cells if name in _TEXTS | texts else _numbers(cells)
    return pd.DataFrame(columns)


def _numbers(cells: list[str]) -> list[str] | list[int] | list[float]:
    for kind in (int, float):
        try:
            found = [kind(cell) if cell or kind is int else float("nan") for cell in cells]
        except ValueError:
            continue
        return cast("list[int] | list[float]", found)
    return cells
