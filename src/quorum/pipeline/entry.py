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
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what is done is kept; run the same command again\n")
        return INTERRUPTED
    return 0
