"""Runs the peers' estimators on payoff tables, in the peers' own Python 3.12 environment.

    python peers.py JOBS.json ROWS.csv

JOBS is a list of {"table": npz path, "n": players, "budget": distinct coalitions, "seed": int}.
Each row of ROWS has the job's number, the peer, its values' mean squared error over the mean
squared true value, how many distinct coalitions it asked for, and its CPU seconds. Imports nothing
of Quorum: true values come with the table.
"""

from __future__ import annotations

import csv
import json
import logging
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import numpy as np  # noqa: E402 - after the number of threads is set

Game = Callable[[np.ndarray], np.ndarray]
Peer = Callable[[Game, int, int, int], np.ndarray]

SHAPIQ: dict[str, tuple[str, dict[str, object], str]] = {
    "shapiq PermutationSamplingSV": ("PermutationSamplingSV", {}, ""),
    "shapiq SVARM": ("SVARM", {}, ""),
    "shapiq KernelSHAP (paired)": ("KernelSHAP", {"pairing_trick": True}, ""),
    "shapiq LeverageSHAP": ("LeverageSHAP", {}, ""),
    "shapiq OddSHAP": ("OddSHAP", {}, ""),
    "shapiq RegressionMSR (xgboost)": ("RegressionMSR", {"index": "SV"}, "xgboost"),
    "shapiq ProxySHAP (lightgbm, adjusted)": (
        "ProxySHAP",
        {"index": "SV", "max_order": 1, "adjustment": True},
        "lightgbm",
    ),
    "shapiq ProxySHAP (xgboost, adjusted)": (
        "ProxySHAP",
        {"index": "SV", "max_order": 1, "adjustment": True},
        "xgboost",
    ),
}
MLLM_SHAP = {
    "mllm-shap complementary": ("mllm_shap.estimation", "ComplementaryEstimator"),
    "mllm-shap neyman_cc": ("mllm_shap.estimation", "NeymanEstimator"),
    "mllm-shap leverage": ("mllm_shap.estimation", "LeverageEstimator"),
    "mllm-shap proxy": ("mllm_shap.estimation.proxy", "ProxyEstimator"),
}


def shapiq_peer(class_name: str, options: dict[str, object], booster: str) -> Peer:
    """One of shapiq's approximators, its trees on one thread."""

    def run(game: Game, n: int, budget: int, seed: int) -> np.ndarray:
        kind = getattr(import_module("shapiq.approximator"), class_name)
        extra: dict[str, object] = {}
        if booster == "xgboost":
            model = import_module("xgboost").XGBRegressor
            extra = {"proxy_model": model(n_jobs=1, random_state=seed)}
        elif booster == "lightgbm":
            model = import_module("lightgbm").LGBMRegressor
            extra = {"proxy_model": model(n_jobs=1, verbose=-1, random_state=seed)}
        empty = float(game(np.zeros((1, n), bool))[0])
        found = kind(n=n, random_state=seed, **options, **extra).approximate(
            budget=budget, game=lambda rows: game(np.asarray(rows, bool)) - empty
        )
        return np.array([found[(i,)] for i in range(n)], float)

    return run


def mllm_shap_peer(module: str, class_name: str) -> Peer:
    """One of mllm-shap's estimators, through its own plan and allocation."""

    def run(game: Game, n: int, budget: int, seed: int) -> np.ndarray:
        shared = import_module("mllm_shap.estimation")
        players = import_module("mllm_shap.domain.players")
        estimator = getattr(import_module(module), class_name)()
        everyone = players.PlayerSet(player_ids=tuple(str(i) for i in range(n)))
        masks = list(estimator.sample_masks(everyone, min(1.0, budget / 2**n), False, seed))
        payoffs = game(np.array([mask.present for mask in masks], bool)).tolist()
        if hasattr(estimator, "begin_allocation"):
            estimator.begin_allocation(masks, payoffs)
            more = list(estimator.sample_allocation_masks())
            if more:
                payoffs += game(np.array([mask.present for mask in more], bool)).tolist()
            masks += more
        aggregate = shared.ShapleyAggregator()
        return np.array(estimator.estimate_attributions(masks, payoffs, aggregate))

    return run


PEERS: dict[str, Peer] = {
    **{name: shapiq_peer(*what) for name, what in SHAPIQ.items()},
    **{name: mllm_shap_peer(*what) for name, what in MLLM_SHAP.items()},
}


def run_job(numbered: tuple[int, dict[str, object]]) -> list[list[object]]:
    """All peers on one table at one budget."""
    number, job = numbered
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    with np.load(str(job["table"]), allow_pickle=False) as data:
        table, truth = data["payoffs"], data["shapley"]
    n, budget, seed = int(str(job["n"])), int(str(job["budget"])), int(str(job["seed"]))
    weights = 1 << np.arange(n, dtype=np.int64)
    rows: list[list[object]] = []
    for name, peer in PEERS.items():
        asked = np.zeros(len(table), bool)

        def game(coalitions: np.ndarray, asked: np.ndarray = asked) -> np.ndarray:
            indices = np.atleast_2d(coalitions).astype(np.int64) @ weights
            asked[indices] = True
            return table[indices]

        start = time.process_time()
        values = peer(game, n, budget, seed)
        seconds = time.process_time() - start
        error = float(np.mean((values - truth) ** 2) / np.mean(truth**2))
        rows.append([number, name, f"{error:.4g}", int(asked.sum()), f"{seconds:.3f}"])
    return rows


def main() -> None:
    """Runs all jobs on two processes."""
    with open(sys.argv[1], encoding="utf-8") as file:  # noqa: PTH123 - no need of pathlib here
        jobs = list(enumerate(json.load(file)))
    with (
        open(sys.argv[2], "w", encoding="utf-8", newline="\n") as file,  # noqa: PTH123
        multiprocessing.get_context("fork").Pool(2) as pool,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["job", "peer", "nmse", "n_coalitions", "cpu_s"])
        for rows in pool.imap(run_job, jobs):
            writer.writerows(rows)
            file.flush()


if __name__ == "__main__":
    main()
