"""Runs all benchmarks one after the other and writes what they print to docs/benchmarks.md.

    make bench                          # all of them; under half an hour on two cores
    python benchmarks/run.py overhead   # one of them; the others keep their place in the page

Times on a shared machine are noisy: read the ratios, which come from one run on one machine.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
PARTS = {
    "accuracy": "Accuracy at equal calls",
    "exact_table": "Exact values of a full table",
    "estimation": "Time of an estimate",
    "overhead": "Own work for each coalition",
    "makespan": "Makespan of the scheduler",
    "latency": "Latencies and requests a second",
    "embedded": "The embedded model",
    "fits": "Fitting weights",
    "parsing": "Reading answers",
    "dvc_noop": "Nothing to do, and starting up",
}
HEAD = """# Benchmarks

Made by `make bench`. Ratios come from one run on one machine; absolute times are noisy.
"""


def cpu_name() -> str:
    """The processor, where the system tells."""
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found.group(1) if found else platform.processor() or platform.machine()


def old_sections() -> dict[str, str]:
    """What the page holds already, by part."""
    if not PAGE.exists():
        return {}
    pieces = re.split(r"\n## ", PAGE.read_text(encoding="utf-8"))[1:]
    titles = {title: part for part, title in PARTS.items()}
    return {titles[p.split("\n", 1)[0]]: p.split("\n", 1)[1].strip() for p in pieces}


def main() -> None:
    """Runs the chosen parts and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="parts to run; default all")
    chosen = parser.parse_args().parts or list(PARTS)
    sections = old_sections()
    for part in chosen:
        print(f"== {PARTS[part]}", flush=True)
        script = HERE / f"{part}.py"
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{script.name} failed:\n{done.stderr}")
        print(done.stdout, flush=True)
        where = f"Python {platform.python_version()}, {platform.system()}, {cpu_name()}."
        command = f"`python benchmarks/{part}.py`, {where}"
        sections[part] = f"{command}\n\n{done.stdout.strip()}"
    body = "".join(f"\n## {PARTS[p]}\n\n{sections[p]}\n" for p in PARTS if p in sections)
    PAGE.write_text(HEAD + body, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
