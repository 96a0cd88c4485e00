"""Stage partition: see quorum.pipeline.partition."""

import sys

from quorum.pipeline.partition import run
from quorum.pipeline.entry import run_stage

if __name__ == "__main__":
    sys.exit(run_stage(run))
