"""Stage partition: see the study's own, quorum.pipeline.STUDY.partition."""

import sys

from quorum.pipeline.entry import of_study, run_stage

if __name__ == "__main__":
    sys.exit(run_stage(of_study("partition")))
