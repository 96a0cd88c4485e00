"""Stage generate: see quorum.pipeline.generate."""

import sys

from quorum.pipeline.generate import run
from quorum.pipeline.entry import run_stage

if __name__ == "__main__":
    sys.exit(run_stage(run))
