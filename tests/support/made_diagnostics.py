"""Made-up diagnostics of a reconstruction, realistic in size and shape, for tests of the pages."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

Document = dict[str, object]

MODES = ("core", "thematic", "theoretical", "survey", "question", "mixed")
POLICIES = ("raw", "project")
SCALES = (
    ("Very important", "Somewhat important", "Not so important", "Not at all important"),
    ("Joe Biden", "Donald Trump", "Someone else, a candidate of another party or nobody at all"),
    ("Yes", "No"),
    ("Agree strongly", "Agree", "Neither", "Disagree", "Disagree strongly"),
)
TOPICS = ("good_american", "vote", "trust", "immigration", "climate", "media")
LABELS = {
    "model": "Model-generated: answers of a tiny embedded model, reweighted; no person was asked.",
    "panel": "Real people, weighted: 1,200 recorded respondents of a public survey.",
}


def make_diagnostics(
    *,
    respondents: str = "model",
    n_questions: int = 12,
    targets: Sequence[str] = ("population",),
    is_sealed: bool = False,
    seed: int = 1,
) -> Document:
    """A whole ``diagnostics.json``: the same arguments give the same document."""
    rng = random.Random(seed)
    asked = [_asked(index, n_questions) for index in range(n_questions)]
    n_train = sum(question["split"] == "train" for question in asked)
    is_model = respondents == "model"
    return {
        "schema": 1,
        "study": "reconstruction",
        "respondents": respondents,
        "label": LABELS[respondents],
        "level": 0.9,
        "policy": "project",
        "seed": 0,
        "survey": {
            "name": "us2020_voters",
            "title": "US voters 2020",
            "licence": "CC0-1.0",
            "attribution": "The Voter Project",
            "citation": "Voter Project (2021), see https://example.org/voters",
            "population": "adult voters of the United States",
            "field_dates": "2020-11-04 to 2020-12-20",
        },
        "split": {
            "by": "block",
            "train_share": 0.6,
            "n_train": n_train,
            "n_test": n_questions - n_train,
            "largest_similarity": 0.41,
            "pair": [asked[0]["id"], asked[-1]["id"]],
            "test": "sealed" if is_sealed else "open",
        },
        "cleaning": {
            "policy": "impute_pool",
            "counts": [{"reason": "ambiguous", "n": 7}, {"reason": "out_of_range", "n": 0}],
            "n_personas": 300,
            "n_personas_kept": 298,
            "n_questions_dropped": 0,
        },
        "elicitation": {
            "name": "logprob",
            "orders": 2,
            "calibration": "contextual",
            "mean_mass": 0.83 if is_model else None,
        },
        "targets": [_target(name, asked, rng, is_sealed=is_sealed) for name in targets],
        "personas": _personas(targets, rng) if is_model else None,
        "cells": None if is_model else _cells(targets, rng),
        "position_bias": _position_bias() if is_model else None,
        "entropy": _entropy(asked, rng) if is_model else None,
        "mode_summary": [
            {
                "mode": mode,
                "n_personas": 50,
                "mean_entropy": 0.5 + 0.03 * index,
                "total_weight": (0.05, 0.1, 0.15, 0.2, 0.3, 0.2)[index],
            }
            for index, mode in enumerate(MODES)
        ],
        "stop_reason": "size" if is_model else "",
        "notes": ["Shares of 2 questions were renormalised (0.9994 and 1.0004)."],
    }


def _asked(index: int, n_questions: int) -> Document:
    topic = TOPICS[index * len(TOPICS) // n_questions]
    return {
        "id": f"Q{index + 1}",
        "text": f"In your view, how much does number {index + 1} of the long list of issues"
        f" that people talk about ({topic.replace('_', ' ')}) matter to you?",
        "topic": topic,
        "split": "test" if index % 5 in (2, 4) else "train",
        "ordinal": index % 4 in (0, 3),
        "texts": SCALES[index % 4],
    }


def _shares(rng: random.Random, n: int, spread: float) -> list[float]:
    raw = [math.exp(rng.gauss(0.0, spread)) for _ in range(n)]
    return [value / sum(raw) for value in raw]


def _target(name: str, asked: list[Document], rng: random.Random, *, is_sealed: bool) -> Document:
    questions = [_question(item, rng, is_sealed=is_sealed) for item in asked]
    mses = [mse for q in questions if isinstance(mse := q["mse"], float) and q["split"] == "test"]
    test_mse = None if is_sealed else sum(mses) / len(mses)
    return {
        "target": name,
        "fit": {
            "ensemble": "simplex",
            "anchor": "uniform",
            "lam": 0.01,
            "lam_rule": "cv",
            "unit": "cell",
            "mass": 0.87,
            "n_active": 41,
            "effective_size": 23.4,
            "max_weight": 0.083,
            "intercept": None,
            "reference": None,
            "solver": {
                "solver": "nnls",
                "version": "1.15.0",
                "iterations": 187,
                "objective": 0.00412,
                "gap": 3.1e-13,
                "raw_sum": 1.0,
                "raw_min": 0.0,
                "clip": 0.0,
                "tolerance": 1e-10,
                "is_unique": None,
            },
            "cv": _cv(),
        },
        "questions": questions,
        "records": _records(test_mse, rng),
        "paired": [
            _paired("pool_mean", -0.0121 + 0.001 * rng.uniform(-5, 5), is_sealed=is_sealed),
            _paired("uniform", 0.004 if name == "party=Democrat" else -0.0302, is_sealed=is_sealed),
        ],
        "interval_coverage": {
            "train_cv": 0.9,
            "test": None if is_sealed else 0.875,
            "reason": "sealed" if is_sealed else None,
        },
        "noise_floor": 0.0001,
        "uncovered": [{"question": asked[1]["id"], "option": "C", "target": 0.031}],
        "misfit": [{"question": asked[0]["id"], "max_error": 0.083}],
    }


def _question(item: Document, rng: random.Random, *, is_sealed: bool) -> Document:
    texts = item["texts"]
    assert isinstance(texts, tuple)
    target, n = _shares(rng, len(texts), 0.9), len(texts)
    pool = [(share + other) / 2 for share, other in zip(_shares(rng, n, 0.7), target, strict=True)]
    noise = _shares(rng, n, 0.9)
    fit = [(p + 2 * t + e) / 4 for p, t, e in zip(pool, target, noise, strict=True)]
    is_hidden = is_sealed and item["split"] == "test"
    errors = [predicted - true for predicted, true in zip(fit, target, strict=True)]
    right = max(range(n), key=fit.__getitem__) == max(range(n), key=target.__getitem__)
    return {
        **{key: item[key] for key in ("id", "text", "topic", "split", "ordinal")},
        "n": None if is_hidden else 5800,
        "mse": None if is_hidden else sum(error * error for error in errors) / n,
        "total_variation": None if is_hidden else sum(abs(error) for error in errors) / 2,
        "is_modal_right": None if is_hidden else right,
        "options": [
            {
                "label": "ABCDE"[index],
                "text": text,
                "target": None if is_hidden else target[index],
                "low": max(0.0, fit[index] - 0.16),
                "high": min(1.0, fit[index] + 0.16),
                "pool_mean": pool[index],
                "predicted": {"raw": 0.97 * fit[index], "project": fit[index]},
            }
            for index, text in enumerate(texts)
        ],
    }


def _cv() -> list[Document]:
    return [
        {
            "lam": lam,
            "anchor": anchor,
            "mse": 0.014 + offset + 0.003 * (math.log10(lam + 1e-4) + 2) ** 2,
            "se": 0.002,
            "chosen": anchor == "uniform" and lam == 1e-2,
        }
        for anchor, offset in (("none", 0.004), ("uniform", 0.0), ("pool", 0.002))
        for lam in (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    ]


_BASELINES = {"fit": 1.0, "equal_weights": 2.4, "pool_mean": 2.5, "uniform": 3.6}


def _records(test_mse: float | None, rng: random.Random) -> list[Document]:
    scale = test_mse or 0.0148
    sizes = {
        "mse": scale,
        "rmse": math.sqrt(scale),
        "mae": 0.7 * math.sqrt(scale),
        "total_variation": 0.11,
        "jensen_shannon": 0.013,
        "earth_movers": 0.16,
        "modal_accuracy": 0.8,
        "skill": None,
    }
    found: list[Document] = []
    for split in ("cv", "test", "train"):
        for metric, size in sizes.items():
            for policy in POLICIES:
                for source, factor in _BASELINES.items():
                    is_hidden = split == "test" and test_mse is None
                    reason = "sealed" if is_hidden else "MSE of uniform shares is 0"
                    value = None if size is None or is_hidden else size * factor
                    if metric == "modal_accuracy" and value is not None:
                        value = (size or 0.0) / factor
                    found.append(
                        {
                            "metric": metric,
                            "value": value,
                            "reason": reason if value is None else None,
                            "split": split,
                            "unit": "cell" if metric in ("mse", "rmse", "mae") else "question",
                            "policy": policy,
                            "n_questions": 5,
                            "coverage": 1.0,
                            "group": None,
                            "seed": rng.randrange(1, 9),
                            "source": source,
                        }
                    )
    return found


def _paired(against: str, difference: float, *, is_sealed: bool) -> Document:
    ends = (difference - 0.006, difference + 0.0055)
    return {
        "against": against,
        "split": "test",
        "metric": "mse",
        "difference": None if is_sealed else difference,
        "low": None if is_sealed else ends[0],
        "high": None if is_sealed else ends[1],
        "n_blocks": 3,
        "reason": "sealed" if is_sealed else None,
    }


def _personas(targets: Sequence[str], rng: random.Random) -> list[Document]:
    weights = {name: _shares(rng, 41, 1.2) for name in targets}
    return [
        {
            "id": f"p{index + 1:04d}",
            "mode": MODES[index % 6],
            "text": f"You are {18 + index} years old. You live in the Midwest. You trust the news"
            " a little, vote in most elections and think that fairness comes first.",
            "weights": {name: weights[name][index] for name in targets},
        }
        for index in range(41)
    ]


def _cells(targets: Sequence[str], rng: random.Random) -> list[Document]:
    groups = {"party": ("Democrat", "Independent", "Republican"), "gender": ("Female", "Male")}
    found: list[Document] = []
    for attribute, values in groups.items():
        shares = _shares(rng, len(values), 0.3)
        weights = {name: _shares(rng, len(values), 0.6) for name in targets}
        found += [
            {
                "attribute": attribute,
                "value": value,
                "n": round(1200 * shares[index]),
                "share": shares[index],
                "weights": {name: weights[name][index] for name in targets},
            }
            for index, value in enumerate(values)
        ]
    return found


def _position_bias() -> Document:
    return {
        "n_answers": 7200,
        "positions": [
            {"n_options": 2, "position": 1, "n": 3600, "mean": 0.62, "expected": 0.5},
            {"n_options": 2, "position": 2, "n": 3600, "mean": 0.38, "expected": 0.5},
            {"n_options": 3, "position": 1, "n": 3600, "mean": 0.41, "expected": 1 / 3},
        ],
        "reversal": {"mean": 0.214, "n_pairs": 3600},
        "any_order": {"mean": None, "n_pairs": 0, "reason": "no question was asked in two orders"},
        "variance": {"position": 0.18, "content": 0.55},
        "by_question": [{"question": "Q1", "total_variation": 0.2, "reason": None}],
    }


def _entropy(asked: list[Document], rng: random.Random) -> Document:
    rounds = range(12)
    train = [item["id"] for item in asked if item["split"] == "train"]
    return {
        "aggregate": [
            {"round": r, "n_personas": 25 * (r + 1), "entropy": 0.7 - 0.25 * math.exp(-r / 3)}
            for r in rounds
        ],
        "modes": [
            {
                "round": r,
                "mode": mode,
                "n": 0 if r == 0 and mode == "mixed" else 4 * (r + 1),
                "entropy": None
                if r == 0 and mode == "mixed"
                else 0.5 + 0.03 * index - 0.1 * math.exp(-r) + rng.uniform(-0.01, 0.01),
                "shrunken": 0.5,
                "probability": 1 / 6,
            }
            for r in rounds
            for index, mode in enumerate(MODES)
        ],
        "questions": [
            {"round": r, "question": name, "entropy": 0.6 + rng.uniform(-0.1, 0.1)}
            for r in rounds
            for name in train
        ],
    }
