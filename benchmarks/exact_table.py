"""Exact Shapley and Banzhaf values of a full table of 20 players: time and memory.

    python benchmarks/exact_table.py

Aim: both within one second and 400 MB in all, the process itself included.
"""

from __future__ import annotations

import resource
import time

import numpy as np

from quorum.attribution.coalitions import banzhaf_from_table, shapley_from_table

N_PLAYERS = 20
MAX_SECONDS, MAX_MB = 1.0, 400.0


def main() -> None:
    """Times the two transforms and prints the table."""
    weights = np.arange(1.0, N_PLAYERS + 1)
    table = np.zeros(1)
    for weight in weights:  # an additive game, whose values are its weights
        table = np.concatenate([table, table + weight])
    start = time.perf_counter()
    shapley = shapley_from_table(table)
    shapley_s = time.perf_counter() - start
    start = time.perf_counter()
    banzhaf = banzhaf_from_table(table)
    banzhaf_s = time.perf_counter() - start
    error = max(np.abs(shapley - weights).max(), np.abs(banzhaf - weights).max())
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("| what, n = 20 (1,048,576 payoffs) | measured | aim | |")
    print("|---|---|---|---|")
    for what, value, aim, unit in (
        ("Shapley", shapley_s, MAX_SECONDS, "s"),
        ("Banzhaf", banzhaf_s, MAX_SECONDS, "s"),
        ("peak memory of the process", peak_mb, MAX_MB, "MB"),
        ("largest error", error, 1e-9, ""),
    ):
        verdict = "met" if value <= aim else "missed"
        print(f"| {what} | {value:.3g} {unit} | ≤ {aim:g} {unit} | {verdict} |")


if __name__ == "__main__":
    main()
