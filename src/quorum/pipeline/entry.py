"""How a stage script starts and ends: one line for an error a user can mend, and an exit code."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from quorum.errors import QuorumError, SettingsError
from quorum.pipeline import artifacts

INTERRUPTED = 130


def of_study(stage: str) -> Callable[[Path], None]:
    """The stage of whichever study the settings name: ``quorum.pipeline.<study>.<stage>.run``."""

    def run(root: Path) -> None:
        path = root / artifacts.SETTINGS / f"{stage}.json"
        try:
            study = json.loads(path.read_text(encoding="utf-8"))["study"]
        except FileNotFoundError as error:
            raise SettingsError(
                artifacts.shown(path), "is missing", mend="Run: dvc repro config"
            ) from error
        module = import_module(f"quorum.pipeline.{study}.{stage}")
        cast("Callable[[Path], None]", module.run)(root)

    return run


def run_stage(stage: Callable[[Path], None]) -> int:
    """Runs a stage in the current folder; its exit code as of ``guarded``."""
    return guarded(lambda: stage(Path.cwd()), is_debugging=bool(os.environ.get("QUORUM_DEBUG")))


def guarded(call: Callable[[], None], *, is_debugging: bool) -> int:
    """Runs a call; an error that a user can mend is one line on standard error.

    Args:
        call: What to run.
        is_debugging: Let such an error through, with its traceback.

    Returns:
        0, or the error's exit code: 2 settings or input, 3 refused, 4 budget, 5 backend,
        130 interrupted.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        call()
    except QuorumError as error:
        if is_debugging:
            raise
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except BrokenPipeError:  # whoever reads has enough (``| head``): what was to be done is done
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what is done is kept; run the same command again\n")
        return INTERRUPTED
    return 0
