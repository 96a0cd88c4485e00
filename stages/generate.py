"""Stage generate: see quorum.pipeline.generate."""

import sys

from quorum.pipeline.entry import run_stage
from quorum.pipeline.generate import run

if __name__ == "__main__":
    sys.exit(run_stage(run))
