"""Small sweeps in a copy of the project, and a stage that is stopped after so many simulations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

FIXED = {
    "n_players": 4,
    "noise": 0.0,
    "estimand": "shapley",
    "game": {"use": "random_unanimity", "n_terms": 12, "max_size": 3},
    "estimator": "regression",
    "budget": "3n",
}
SURVEY = {"n_personas": 12, "n_train": 6, "n_test": 4, "n_humans": 50}
# The stage sends itself a signal as soon as that many simulations are kept in this run; Ctrl-C, as
# from a terminal, reaches its workers too.
STOPPED = """
import os, signal, sys
from pathlib import Path
from quorum.pipeline.entry import run_stage
from quorum.pipeline.simulation import score
from quorum.pipeline.simulation.kept import Kept

left, put = int(sys.argv[1]), Kept.put

def counted(self, key, result):
    global left
    put(self, key, result)
    left -= 1
    if left == 0:
        send = os.kill if sys.argv[2] == "SIGKILL" else os.killpg
        send(os.getpid(), getattr(signal, sys.argv[2]))

if __name__ == "__main__":
    Kept.put = counted
    sys.exit(run_stage(score.run))
"""


def write_sweep(project, *, runtime=None, report=None, seed=0, **sweep: object) -> None:
    """params.yaml: a sweep over games; a grid of its own, changes of what is fixed."""
    fixed = {**FIXED, **sweep.pop("fixed", {})}
    section = {"use": "quick", "replicates": 2, "fixed": fixed, **sweep}
    empty = {"budget": None, "estimator": None}  # the grid that conf/ has
    section["grid"] = {**empty, **sweep.get("grid", {})}
    params = {
        "study": "simulation",
        "seed": seed,
        "sweep": section,
        "runtime": {"progress": "off", **(runtime or {})},
        **({"report": report} if report else {}),
    }
    (project.root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")


def write_survey_sweep(project, *, runtime=None, **sweep: object) -> None:
    """params.yaml: a sweep over small survey worlds."""
    section = {"use": "survey", "replicates": 2, **sweep}
    section["fixed"] = {**SURVEY, **sweep.get("fixed", {})}
    empty = {"ensemble": None, "n_personas": None, "n_train": None}
    section["grid"] = {**empty, **sweep.get("grid", {})}
    params = {"study": "simulation", "sweep": section, "runtime": {"progress": "off"}}
    params["runtime"] |= runtime or {}
    (project.root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")


def stopped(project, after: int, name: str) -> tuple[int, str]:
    """Exit code and standard error of the stage, which gets a signal after so many simulations."""
    script = project.root / "stopped.py"
    script.write_text(STOPPED, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), str(after), name],
        cwd=project.root,
        env=project.environ(),
        capture_output=True,
        text=True,
        timeout=120,
        start_new_session=True,
    )
    return done.returncode, done.stderr


def kept_files(project) -> set[str]:
    """Names of the simulations that are kept beside the store."""
    folder: Path = project.store.parent / "simulations"
    return {path.stem for path in folder.glob("*/*.json")}
