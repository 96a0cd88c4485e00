"""Made-up runs, as ``quorum export`` lays them out, and specifications over them."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from quorum.cli import main

Row = dict[str, object]


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def attribution_rows(values: Mapping[str, object], metric: str = "error") -> list[Row]:
    """A record a snapshot, as an attribution writes them."""
    return [
        {
            "metric": metric,
            "snapshot": snapshot,
            "value": value,
            "unit": "payoff",
            "coverage": 1.0,
            "reason": None if value is not None else "nothing was paid for",
            "settings": "0" * 12,
        }
        for snapshot, value in values.items()
    ]


def write_run(
    folder: Path,
    rows: Sequence[Mapping[str, object]],
    settings: Mapping[str, object] | None = None,
    *,
    study: str = "attribution",
    scalars: Mapping[str, object] | None = None,
    record: Mapping[str, object] | None = None,
) -> Path:
    """A run in a flat folder; its id follows from its name."""
    folder.mkdir(parents=True)
    settings_digest = digest(f"settings of {folder.name}")
    whole = {
        "run_id": digest(folder.name),
        "study": study,
        "settings_digest": settings_digest,
        "seed": 0,
        "input": {"name": "default"},
        "versions": {"quorum": "0.1.0", "numpy": "2.4.6", "scipy": "1.17.1"},
        "finished": "2026-11-30T00:00:00Z",
        "model": {"backend": "scripted", "model": "rules", "identity": {"rules": "r"}},
        "snapshots": {"a": "1", "b": "2"},
        **(record or {}),
    }
    metrics = {
        "run": {"settings": settings_digest[:12]},
        study: {"n_requests": 10, **(scalars or {})},
        "records": list(rows),
    }
    resolved = {
        "study": {"name": study},
        "backend": {"name": "scripted"},
        "estimator": {"name": "mc", "estimand": "shapley"},
        "budget": {"fraction": 0.1},
        "seed": 0,
        "model": None,
        **(settings or {}),
    }
    (folder / "run.json").write_text(json.dumps(whole), encoding="utf-8")
    (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    (folder / "config.resolved.yaml").write_text(yaml.safe_dump(resolved), encoding="utf-8")
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder that lies in no project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def make_run(here):
    """Writes a run ``runs/NAME`` with errors by snapshot."""

    def make(name: str, values: Mapping[str, object], **more: object) -> Path:
        metric = str(more.pop("metric", "error"))
        rows = more.pop("rows", None) or attribution_rows(values, metric)
        return write_run(here / "runs" / name, rows, **more)

    return make


@pytest.fixture
def write_spec(here):
    """Writes ``spec.yaml``: all runs and the metric ``error``, unless it is said otherwise."""

    def write(**keys: object) -> Path:
        spec = {"inputs": [{"glob": "runs/*"}], "metrics": ["error"], **keys}
        (here / "spec.yaml").write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
        return here / "spec.yaml"

    return write


@pytest.fixture
def aggregate(here, write_spec, capsys):
    """Runs the command; returns its exit code, the folder of the tables, the line of an error."""

    def run(**keys: object) -> tuple[int, Path, str]:
        write_spec(**keys)
        code = main(["aggregate", "--config", "spec.yaml"])
        return code, here / "tables" / "spec", capsys.readouterr().err

    return run


@pytest.fixture
def read():
    """Reads a CSV file into rows."""

    def rows(path: Path) -> list[dict[str, str]]:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    return rows
