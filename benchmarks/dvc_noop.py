"""What a reproduction with nothing to do costs, and how long each stage takes to start.

Run: ``python benchmarks/dvc_noop.py`` in a reproduced project (about a minute). The peer is DVC's
own no-op on a pipeline of five stages that only write a text. Target: at most 1.2 times its CPU.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPEATS = 5
TARGET = 1.2
STAGES = ("config", "partition", "generate", "score", "aggregate", "budget")


def cpu_of(command: list[str], folder: Path) -> float:
    """CPU seconds of a command, children included; the median of a few."""
    times = []
    for _ in range(REPEATS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(times)


def empty_pipeline(folder: Path) -> None:
    """Five stages in a row, each of which writes one text."""
    lines = ["stages:"]
    for i in range(5):
        lines += [f"  s{i}:", f"    cmd: echo {i} > {i}.txt", f"    outs: [{i}.txt]"]
        lines += [f"    deps: [{i - 1}.txt]"] if i else []
    (folder / "dvc.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for command in (["git", "init", "-q"], ["dvc", "init", "-q"], ["dvc", "repro", "-q"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


def main() -> None:
    """Prints both tables."""
    with tempfile.TemporaryDirectory() as name:
        empty = Path(name)
        empty_pipeline(empty)
        peer = cpu_of(["dvc", "repro"], empty)
    own = cpu_of(["dvc", "repro"], ROOT)
    print("| dvc repro with nothing to do | CPU s | ratio |\n|---|---|---|")
    print(f"| five empty stages | {peer:.2f} | 1.00 |")
    print(f"| Quorum, six stages | {own:.2f} | {own / peer:.2f} |")
    verdict = "met" if own / peer <= TARGET else "MISSED"
    print(f"\nTarget: at most {TARGET}: {verdict}.\n")
    print("| start-up: import of | CPU s |\n|---|---|")
    bare = cpu_of([sys.executable, "-c", "pass"], ROOT)
    print(f"| (Python alone) | {bare:.2f} |")
    for stage in STAGES:
        module = "config" if stage == "config" else f"attribution.{stage}"
        seconds = cpu_of([sys.executable, "-c", f"import quorum.pipeline.{module}"], ROOT)
        print(f"| stage {stage} | {seconds:.2f} |")


if __name__ == "__main__":
    main()
