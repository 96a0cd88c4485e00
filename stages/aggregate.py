"""Stage aggregate: see quorum.pipeline.aggregate."""

import sys

from quorum.pipeline.aggregate import run
from quorum.pipeline.entry import run_stage

if __name__ == "__main__":
    sys.exit(run_stage(run))
