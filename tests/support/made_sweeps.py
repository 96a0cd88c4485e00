"""A made-up sweep for the report's tests: every number can be checked by hand."""

from __future__ import annotations

SHOWN = {
    "headline": "nmse",
    "is_log": True,
    "baselines": [],
    "across": ["budget", "n_players"],
    "marks": "estimator",
}
ERRORS = {"mc": (0.1, 0.01), "gp <b>": (0.01, 0.0)}


def statistics(mean: float | None, half: float = 0.0, n: int = 4) -> dict[str, object]:
    empty = mean is None
    return {
        "mean": mean,
        "sd": None if empty else half,
        "se": None if empty else half / 2,
        "low": None if empty else mean - half,
        "high": None if empty else mean + half,
        "n": 0 if empty else n,
        "n_null": n if empty else 0,
        "reason": "every true value is 0" if empty else None,
    }


def summary(games=("textsim", "glove")) -> dict[str, object]:
    cells = [
        {
            "cell": f"{game}-{name}-{budget}",
            "varied": {"budget": budget, "estimator": name, "game": game},
            "parameters": {},
            "metrics": {
                "nmse": statistics(means[k], half=means[k] / 2),
                "coverage": statistics(None),
            },
        }
        for game in games
        for name, means in ERRORS.items()
        for k, budget in enumerate(("3n", "all"))
    ]
    return {
        "sweep": "own",
        "kind": "attribution",
        "level": 0.9,
        "n_cells": len(cells),
        "n_simulations": 4 * len(cells),
        "n_worlds": 8,
        "replicates": 4,
        "cells": cells,
    }
