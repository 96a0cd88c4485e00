"""Keeps what a long run in the workspace gave, for the tables of README.md.

    python tests/repository/docs_record.py NAME    writes docs/runs/NAME.json

The record holds the settings' digest: a test says when the settings of a record have changed
since, so that no page shows numbers of other settings.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from docs_pages import ROOT

from quorum.config.compose import compose, read_params
from quorum.config.parts import settings_digest

RUNS = ROOT / "docs" / "runs"


def main(name: str, workspace: Path) -> None:
    """Writes the record of the run in a workspace."""
    found = json.loads((workspace / "data/aggregate/result/diagnostics.json").read_text("utf-8"))
    log = json.loads((workspace / "data/generate/log/generation.json").read_text("utf-8"))
    params = {k: v for k, v in read_params(workspace / "params.yaml").items() if v is not None}
    record = {
        "params": params,
        "settings": settings_of(params),
        "label": found["label"],
        "n_personas": found["cleaning"]["n_personas_kept"],
        "n_requests": found["n_requests"],
        "n_train": found["split"]["n_train"],
        "n_test": found["split"]["n_test"],
        "minutes": round(log.get("wall_s", 0.0) / 60, 1),
        "position_bias": found["position_bias"],
        "mean_mass": found["elicitation"]["mean_mass"],
        "targets": [row_of(target) for target in found["targets"]],
    }
    RUNS.mkdir(exist_ok=True)
    text = json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False)
    (RUNS / f"{name}.json").write_text(text + "\n", encoding="utf-8", newline="\n")


def settings_of(params: dict[str, Any]) -> str:
    """Digest of the settings that these parameters mean at this moment."""
    return settings_digest(compose(ROOT, params))


def row_of(target: dict[str, Any]) -> dict[str, object]:
    """The numbers of a target that a table shows."""

    def mse(split: str, source: str) -> object:
        return next(
            r["value"]
            for r in target["records"]
            if (r["metric"], r["unit"], r["split"], r["source"]) == ("mse", "cell", split, source)
        )

    against = {r["against"]: r for r in target["paired"] if r["split"] == "test"}
    return {
        "target": target["target"],
        "cv_mse": mse("cv", "fit"),
        "test_mse": mse("test", "fit"),
        "pool_mean": mse("test", "pool_mean"),
        "uniform": mse("test", "uniform"),
        "coverage": target["interval_coverage"]["test"],
        "n_active": target["fit"]["n_active"],
        "paired": {
            name: {key: row[key] for key in ("difference", "low", "high")}
            for name, row in against.items()
        },
    }


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT)
