"""Stage budget: see quorum.pipeline.budget."""

import sys

from quorum.pipeline.budget import run
from quorum.pipeline.entry import run_stage

if __name__ == "__main__":
    sys.exit(run_stage(run))
