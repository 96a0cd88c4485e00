"""Stage config: see quorum.pipeline.config."""

import sys

from quorum.pipeline.config import run
from quorum.pipeline.entry import run_stage

if __name__ == "__main__":
    sys.exit(run_stage(run))
