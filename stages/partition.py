"""Stage partition: see quorum.pipeline.partition."""

import sys

from quorum.pipeline.entry import run_stage
from quorum.pipeline.partition import run

if __name__ == "__main__":
    sys.exit(run_stage(run))
