"""Games that behave like a language model's payoffs, as full tables with known Shapley values.

Each generator takes (n, rng) and returns a table (2^n,) indexed by the little-endian bitmask:

- textsim: cosine of the masked prompt's answer with the full prompt's. Answer terms fire when one
  of their clauses (1 to 3 players) is present, otherwise a distractor picked by three players may
  come; players have Zipf importance; without its gate (1 or 2 players) the answer collapses.
- textsim_noisy: the same with a fixed N(0, 0.08) jitter per coalition (decoding that jumps).
- logprob: mean log-probability of a fixed answer, log-sigmoid of sparse linear and pair terms.
- soum: 5n unanimity games of any size with coefficients uniform in [-1, 1].
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from quorum.attribution.coalitions import all_coalitions

Table = NDArray[np.float64]
N_TERMS, N_DISTRACTORS = 24, 12
JITTER_SD = 0.08


def textsim(n: int, rng: np.random.Generator) -> Table:
    """Cosine with the full answer, without jitter."""
    present = all_coalitions(n)
    importance = 1.0 / np.arange(1, n + 1) ** 0.9
    importance = rng.permutation(importance / importance.sum())
    idf = rng.lognormal(0, 0.6, N_TERMS + N_DISTRACTORS)
    bags = np.zeros((1 << n, N_TERMS + N_DISTRACTORS), dtype=np.float32)
    for term in range(N_TERMS):
        fires = np.zeros(1 << n, dtype=bool)
        for _ in range(int(rng.integers(1, 3))):
            clause = rng.choice(n, int(rng.integers(1, 4)), replace=False, p=importance)
            fires |= present[:, clause].all(axis=1)
        bags[:, term] = fires * idf[term]
        if rng.random() < 0.5:
            pickers = rng.choice(n, 3, replace=False)
            slots = rng.integers(0, N_DISTRACTORS, 8)[present[:, pickers] @ np.array([1, 2, 4])]
            silent = np.flatnonzero(~fires)
            bags[silent, N_TERMS + slots[silent]] += idf[N_TERMS + slots[silent]]
    gate = rng.choice(n, int(rng.integers(1, 3)), replace=False, p=importance)
    reference = bags[-1].copy()
    generic = np.zeros_like(reference)
    generic[N_TERMS:] = idf[N_TERMS:]
    generic[int(rng.integers(N_TERMS))] = 1.0
    bags[~present[:, gate].any(axis=1)] = generic
    norms = np.linalg.norm(bags, axis=1) * np.linalg.norm(reference)
    return np.divide(bags @ reference, norms, out=np.zeros(1 << n), where=norms > 0)


def textsim_noisy(n: int, rng: np.random.Generator) -> Table:
    """The cosine plus jitter on every coalition but N."""
    table = textsim(n, rng)
    jitter = rng.normal(0, JITTER_SD, 1 << n)
    jitter[-1] = 0.0
    return table + jitter


def logprob(n: int, rng: np.random.Generator) -> Table:
    """Mean over eight tokens of log σ(linear + pair terms), likelier with everyone present."""
    present = all_coalitions(n).astype(np.float64)
    signs = 2 * present - 1
    table = np.zeros(1 << n)
    for _ in range(8):
        weights = rng.normal(0, 1, n) * (rng.random(n) < 0.5) * 1.6 / math.sqrt(n / 8)
        logits = rng.normal(0.5, 0.7) + signs @ weights
        for _ in range(n // 2):
            i, j = rng.choice(n, 2, replace=False)
            logits += rng.normal(0, 0.5) * present[:, i] * present[:, j]
        logits = logits if logits[-1] > 0 else -logits
        table -= np.logaddexp(0, -logits) / 8
    return table


def soum(n: int, rng: np.random.Generator) -> Table:
    """A sum of 5n unanimity games."""
    masks = np.arange(1 << n)
    table = np.zeros(1 << n)
    for _ in range(5 * n):
        members = rng.choice(n, int(rng.integers(1, n + 1)), replace=False)
        bits = int((1 << members.astype(np.int64)).sum())
        table += rng.uniform(-1, 1) * ((masks & bits) == bits)
    return table


SYNTHETIC: dict[str, Callable[[int, np.random.Generator], Table]] = {
    "textsim": textsim,
    "textsim_noisy": textsim_noisy,
    "logprob": logprob,
    "soum": soum,
}


def synthetic(kind: str, n: int, index: int) -> Table:
    """Game number ``index`` of a kind."""
    return SYNTHETIC[kind](n, np.random.default_rng([index, n, sum(map(ord, kind))]))


def measured(folder: Path) -> list[tuple[str, Table]]:
    """Full payoff tables of a real model: npz with ``payoffs`` (2^n,), or CSV (mask, payoff).

    An npz may carry ``meta``, a JSON text whose ``name`` labels the game. In a CSV the mask is
    the hexadecimal bitmask of the coalition.
    """
    games: list[tuple[str, Table]] = []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as data:
            table = np.asarray(data["payoffs"], dtype=np.float64)
            meta = json.loads(str(data["meta"])) if "meta" in data else {}
        games.append((str(meta.get("name", path.stem)), _checked(table, path)))
    for path in sorted(folder.glob("*.csv")):
        lines = path.read_text(encoding="utf-8").split()[1:]
        cells = [line.split(",") for line in lines]
        table = np.full(len(cells), np.nan)
        for mask, payoff in cells:
            table[int(mask, 16)] = float(payoff)
        games.append((path.stem, _checked(table, path)))
    return games


def _checked(table: Table, path: Path) -> Table:
    if len(table) < 2 or len(table) & (len(table) - 1) or not np.isfinite(table).all():
        raise SystemExit(f"{path}: not a full table of finite payoffs (2^n of them)")
    return table
