"""Stage score: see quorum.pipeline.score."""

import sys

from quorum.pipeline.score import run
from quorum.pipeline.entry import run_stage

if __name__ == "__main__":
    sys.exit(run_stage(run))
