"""How a stage script starts and ends: one line for an error a user can mend, and an exit code."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

from quorum.errors import QuorumError

INTERRUPTED = 130


def run_stage(stage: Callable[[Path], None]) -> int:
    """Runs a stage in the current folder.

    Returns:
        0, or the error's exit code: 2 settings or input, 3 refused, 4 budget, 5 backend,
        130 interrupted.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    try:
        stage(Path.cwd())
    except QuorumError as error:
        if os.environ.get("QUORUM_DEBUG"):
            raise
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what is done is kept; run the same command again\n")
        return INTERRUPTED
    return 0
