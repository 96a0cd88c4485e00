"""Accuracy of the estimators at equal numbers of coalitions, next to the best of the peers.

    python benchmarks/accuracy.py                    # peers live where Python 3.12 is found
    python benchmarks/accuracy.py --python PATH      # the Python 3.12 to build their environment of
    python benchmarks/accuracy.py --rows             # the peers' committed rows, no 3.12 needed
    python benchmarks/accuracy.py --write-rows       # live only where a row is lacking; writes them

Error = mean squared error over the mean squared true value. Ratios are geometric means: over the
games of a cell (kind, n, budget), paired game by game, then over the cells. Games 100 to 111 of
each kind: the calibration of the intervals was found on games 0 to 11.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import multiprocessing
import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from games_yardstick import SYNTHETIC, measured, synthetic
from quorum.attribution.coalitions import shapley_from_table, table_indices
from quorum.attribution.estimators.complementary import Complementary
from quorum.attribution.estimators.mc import Mc
from quorum.attribution.estimators.neyman_cc import NeymanCc
from quorum.attribution.estimators.regression import Regression

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parent / ".cache" / "peers"
LOCK = HERE / "requirements-peers.lock"
ROWS, VERSIONS = HERE / "rows" / "peers.csv", HERE / "rows" / "versions.json"

FIRST_GAME = 100
BUDGETS = {8: ("3n",), 12: ("5n", "5%", "10%"), 16: ("5n", "10n", "20n")}  # all ≤ 10 % of 2^n
MEASURED_BUDGETS = ("5n", "10n", "20n")
MEASURED_SEEDS = 5  # real tables are few: five plans of each
OWN = {
    "complementary, gp (default)": Complementary(),
    "neyman_cc, gp": NeymanCc(),
    "complementary, linear": Complementary(control_variate="linear"),
    "regression": Regression(),
    "mc": Mc(),
    "complementary, none": Complementary(control_variate="none"),
}
DEFAULT = next(iter(OWN))
BAR = 0.55  # of the best single peer's error
BAR_MEASURED = 0.95  # the same on full tables of a real model
GOALS = {"5n": 0.017, "5%": 1e-3, "10%": 2e-4}  # median error on textsim, n = 12
COVERAGE = (0.85, 0.95)
Z90 = 1.6448536269514722

TELL_VERSIONS = """
import json
from importlib.metadata import version
names = ("shapiq", "mllm-shap", "lightgbm", "xgboost", "numpy")
print(json.dumps({name: version(name) for name in names}))
"""

Cell = tuple[str, int, str]
Errors = dict[tuple[Cell, int], dict[str, float]]


@dataclass(frozen=True)
class Job:
    """One game at one budget: the kind and number of the game, its table, the coalitions."""

    cell: Cell
    index: int
    table: np.ndarray
    n_coalitions: int
    is_synthetic: bool

    @property
    def digest(self) -> str:
        """First 12 digits of the SHA-256 of the payoffs at six decimals."""
        return hashlib.sha256((np.round(self.table, 6) + 0.0).tobytes()).hexdigest()[:12]


def coalitions_of(label: str, n: int) -> int:
    """``5n`` → 5·n, ``10%`` → a tenth of 2^n, rounded."""
    if label.endswith("%"):
        return round(float(label[:-1]) / 100 * 2**n)
    return int(label[:-1]) * n


def all_jobs(n_games: int, tables: Path) -> list[Job]:
    """The synthetic games and the tables of a real model, at their budgets."""
    jobs = [
        Job((kind, n, label), index, table, coalitions_of(label, n), is_synthetic=True)
        for kind in SYNTHETIC
        for n, labels in BUDGETS.items()
        for index in range(FIRST_GAME, FIRST_GAME + n_games)
        for table in (synthetic(kind, n, index),)
        for label in labels
    ]
    for name, table in measured(tables):
        n = len(table).bit_length() - 1
        kind = "measured " + name.rsplit("_", 1)[-1]
        start = int(hashlib.sha256(name.encode()).hexdigest()[:5], 16) * 10
        jobs += [
            Job((kind, n, label), start + seed, table, coalitions_of(label, n), is_synthetic=False)
            for label in MEASURED_BUDGETS
            for seed in range(MEASURED_SEEDS)
        ]
    return jobs


def run_own(job: Job) -> tuple[dict[str, float], dict[str, tuple[int, int]]]:
    """Each own estimator's error, and how many of its 90 % intervals hold the true value."""
    n, budget, seed = job.cell[1], job.n_coalitions, job.index
    truth = shapley_from_table(job.table)
    errors, covered = {}, {}
    for name, estimator in OWN.items():
        rows = estimator.plan(n, budget, seed)
        more = estimator.refine(n, budget, seed, rows, job.table[table_indices(rows)])
        rows = np.concatenate([rows, more])
        if len(rows) > budget:
            raise SystemExit(f"{name} asked for {len(rows)} of {budget} coalitions")
        found = estimator.attribute(rows, job.table[table_indices(rows)], budget, seed)
        off = found.values - truth
        errors[name] = float(np.mean(off**2) / np.mean(truth**2))
        if found.standard_errors is not None:
            inside = int((np.abs(off) <= Z90 * found.standard_errors).sum())
            covered[name] = (inside, n)
    return errors, covered


def peers_python(given: str) -> Path | None:
    """Python of the peers' environment, built from the lock if need be; None without 3.12."""
    python = ENVIRONMENT / "bin" / "python"
    stamp = ENVIRONMENT / "lock.sha256"
    wanted = hashlib.sha256(LOCK.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    base = given or shutil.which("python3.12")
    check = "import sys; sys.exit(sys.version_info[:2] < (3, 12))"
    if not base or subprocess.run([base, "-c", check], capture_output=True, check=False).returncode:
        return None
    subprocess.run([base, "-m", "venv", "--clear", str(ENVIRONMENT)], check=True)
    install = ["-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(LOCK)]
    done = subprocess.run([str(python), *install], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"The peers could not be installed: {done.stderr.strip().splitlines()[-1]}\n")
        return None
    stamp.write_text(wanted, encoding="utf-8")
    return python


def run_peers(python: Path, jobs: Sequence[Job]) -> tuple[Errors, dict[str, str]]:
    """The peers' errors, live, and the versions that gave them."""
    with tempfile.TemporaryDirectory() as folder:
        listed, saved = [], {}
        for job in jobs:
            key = (job.cell[:2], job.index)
            if key not in saved:
                saved[key] = str(Path(folder) / f"{len(saved)}.npz")
                np.savez(saved[key], payoffs=job.table, shapley=shapley_from_table(job.table))
            listed.append(
                {
                    "table": saved[key],
                    "n": job.cell[1],
                    "budget": job.n_coalitions,
                    "seed": job.index,
                }
            )
        todo, rows = Path(folder) / "jobs.json", Path(folder) / "rows.csv"
        todo.write_text(json.dumps(listed), encoding="utf-8")
        subprocess.run([str(python), str(HERE / "peers.py"), str(todo), str(rows)], check=True)
        with rows.open(encoding="utf-8", newline="") as file:
            found: Errors = defaultdict(dict)
            for row in csv.DictReader(file):
                job = jobs[int(row["job"])]
                # A peer that asks for more than the budget is no peer at equal calls.
                if int(row["n_coalitions"]) <= job.n_coalitions:
                    found[job.cell, job.index][row["peer"]] = float(row["nmse"])
    told = subprocess.run(
        [str(python), "-c", TELL_VERSIONS], capture_output=True, text=True, check=True
    )
    return dict(found), json.loads(told.stdout)


def write_rows(jobs: Sequence[Job], peers: Errors, versions: dict[str, str]) -> None:
    """The peers' errors as committed rows: one a game and budget, one column a peer."""
    names = sorted({name for errors in peers.values() for name in errors})
    ROWS.parent.mkdir(exist_ok=True)
    with ROWS.open("w", encoding="utf-8", newline="\n") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["game", "n", "budget", "index_and_seed", "table", *names])
        for job in jobs:
            errors = peers.get((job.cell, job.index), {})
            cells = [f"{errors[name]:.4g}" if name in errors else "" for name in names]
            writer.writerow([*job.cell, job.index, job.digest, *cells])
    VERSIONS.write_text(json.dumps(versions, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def fill_rows(python: Path, jobs: Sequence[Job]) -> None:
    """Runs the peers on what the committed rows lack, and writes all rows."""
    peers, versions = read_rows(jobs) if ROWS.exists() else ({}, {})
    lacking = [job for job in jobs if (job.cell, job.index) not in peers]
    more, now = run_peers(python, lacking)
    if versions and versions != now:
        raise SystemExit(f"{ROWS} was made with {versions}, not {now}: delete it first")
    write_rows(jobs, {**peers, **more}, now)


def read_rows(jobs: Sequence[Job]) -> tuple[Errors, dict[str, str]]:
    """The committed rows of these very tables, and the versions that made them."""
    found: Errors = {}
    known = {(job.cell, job.index): job.digest for job in jobs}
    with ROWS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = ((row["game"], int(row["n"]), row["budget"]), int(row["index_and_seed"]))
            if known.get(key) == row["table"]:
                names = list(row)[5:]
                found[key] = {name: float(row[name]) for name in names if row[name]}
    return found, json.loads(VERSIONS.read_text(encoding="utf-8"))


def geometric(values: Iterable[float]) -> float:
    """Geometric mean, of numbers that may be as small as round-off."""
    return math.exp(float(np.mean([math.log(max(value, 1e-14)) for value in values])))


def cell_ratios(errors: Errors, reference: str) -> dict[str, dict[Cell, float]]:
    """Per estimator and cell: the geometric mean of its error over the reference's."""
    per_cell: dict[str, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for (cell, _), found in errors.items():
        for name, error in found.items():
            ratio = max(error, 1e-12) / max(found[reference], 1e-12)
            per_cell[name][cell].append(ratio)
    return {
        name: {cell: geometric(values) for cell, values in cells.items()}
        for name, cells in per_cell.items()
    }


def ratios(errors: Errors, reference: str) -> dict[str, tuple[float, float, int, int]]:
    """Per estimator: its error over the reference's, the worst cell, cells won, cells in all."""
    out = {}
    for name, cells in cell_ratios(errors, reference).items():
        means = list(cells.values())
        out[name] = (geometric(means), max(means), sum(m < 1 for m in means), len(means))
    return dict(sorted(out.items(), key=lambda item: item[1][0]))


def ranking(title: str, errors: Errors, bar: float | None = None) -> str:
    """The table of ratios, and how the best single peer compares, to a bar if one is given."""
    found = ratios(errors, DEFAULT)
    lines = [
        f"### {title}\n",
        "| estimator | error / ours | worst cell | cells where better than ours |",
        "|---|---|---|---|",
    ]
    for name, (ratio, worst, won, n_cells) in found.items():
        shown = f"**{name}**" if name in OWN else name
        lines.append(f"| {shown} | {ratio:.2f} | {worst:.1f} | {won}/{n_cells} |")
    peers = {name: row[0] for name, row in found.items() if name not in OWN}
    if peers:
        best = min(peers, key=lambda name: peers[name])
        ours = 1 / peers[best]
        line = f"\nOurs / best single peer ({best}): **{ours:.2f}**"
        if bar is not None:
            line += f" (bar {bar}: {'met' if ours <= bar else 'missed'})"
        lines.append(line + ".")
        lines.append(f"\nWhere a peer is ahead of us: {behind(errors)}.")
    return "\n".join(lines) + "\n"


def behind(errors: Errors) -> str:
    """The cells in which a peer's error is smaller than ours, with the best peer of each."""
    best: dict[Cell, tuple[float, str]] = {}
    for name, cells in cell_ratios(errors, DEFAULT).items():
        for cell, ratio in cells.items():
            if name not in OWN and ratio < 1:
                best[cell] = min(best.get(cell, (1.0, "")), (ratio, name))
    found = [
        f"{game}, n = {n}, {budget} ({name}, {ratio:.2f} of our error)"
        for (game, n, budget), (ratio, name) in sorted(best.items())
    ]
    return "; ".join(found) or "in no cell"


def goals(errors: Errors) -> str:
    """Median error on textsim, n = 12, against what was aimed at."""
    lines = ["### textsim, n = 12: median error\n", "| budget | ours | goal |", "|---|---|---|"]
    for label, goal in GOALS.items():
        cell = ("textsim", 12, label)
        median = float(np.median([e[DEFAULT] for (c, _), e in errors.items() if c == cell]))
        lines.append(
            f"| {label} | {median:.1e} ({'met' if median <= goal else 'missed'}) | {goal} |"
        )
    return "\n".join(lines) + "\n"


def coverage(hits: dict[str, dict[str, list[tuple[int, int]]]]) -> str:
    """Share of true values inside the 90 % intervals, per kind of game."""
    kinds = list(next(iter(hits.values())))
    lines = [
        f"### Coverage of 90 % intervals (aim {COVERAGE[0]:.0%} to {COVERAGE[1]:.0%})\n",
        "| estimator | " + " | ".join(kinds) + " | all |",
        "|---|" + "---|" * (len(kinds) + 1),
    ]
    for name, by_kind in hits.items():
        counts = [[sum(x) for x in zip(*by_kind[k], strict=True)] for k in kinds if by_kind.get(k)]
        shares = [f"{inside / total:.1%}" for inside, total in counts]
        whole = sum(c[0] for c in counts) / sum(c[1] for c in counts)
        lines.append(f"| {name} | " + " | ".join([*shares, f"{whole:.1%}"]) + " |")
    return "\n".join(lines) + "\n"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--games", type=int, default=12, help="games of each kind and size")
    parser.add_argument("--python", default="", help="a Python 3.12 or later for the peers")
    parser.add_argument("--rows", action="store_true", help="use the committed rows of the peers")
    parser.add_argument("--write-rows", action="store_true", help="write the committed rows anew")
    parser.add_argument("--tables", type=Path, default=HERE / "tables", help="measured payoffs")
    return parser.parse_args()


def main() -> None:
    """Runs everything and prints the tables."""
    args = arguments()
    jobs = all_jobs(args.games, args.tables)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        own = pool.map(run_own, jobs, chunksize=4)
    python = None if args.rows else peers_python(args.python)
    if args.write_rows:
        if python is None:
            raise SystemExit("--write-rows needs Python 3.12 or later: give it with --python")
        fill_rows(python, jobs)
    if python and not args.write_rows:
        peers, versions = run_peers(python, jobs)
        print(f"Peers were run live: {versions}.\n")
    else:
        peers, versions = read_rows(jobs)
        print(f"Peers: committed rows (benchmarks/rows), made with {versions}.")
        n_missing = len(jobs) - len(peers)
        print(f"{n_missing} of {len(jobs)} games and budgets have no row for this very table.\n")
    errors: dict[bool, Errors] = {True: {}, False: {}}
    hits: dict[str, dict[str, list[tuple[int, int]]]] = {n: defaultdict(list) for n in OWN}
    for job, (mine, covered) in zip(jobs, own, strict=True):
        key = (job.cell, job.index)
        errors[job.is_synthetic][key] = {**mine, **peers.get(key, {})}
        for name, counts in covered.items():
            hits[name][job.cell[0]].append(counts)
    n_cells = len({cell for cell, _ in errors[True]})
    print(ranking(f"Synthetic games, {n_cells} cells of at most 10 % of 2^n", errors[True], BAR))
    if errors[False]:
        n_tables = len({(cell[0], index // 10) for cell, index in errors[False]})
        title = f"{n_tables} full tables of the embedded model, {MEASURED_SEEDS} plans of each"
        print(ranking(f"{title} (5n, 10n, 20n)", errors[False], BAR_MEASURED))
    print(goals(errors[True]))
    print(coverage(hits))


if __name__ == "__main__":
    main()
