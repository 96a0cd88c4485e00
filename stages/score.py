"""Stage score: see quorum.pipeline.score."""

import sys

from quorum.pipeline.entry import run_stage
from quorum.pipeline.score import run

if __name__ == "__main__":
    sys.exit(run_stage(run))
