"""Sweeps over survey worlds: an ensemble is fitted, and judged on questions it has not seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from quorum.config.families import make
from quorum.pipeline.simulation.kinds import Outcome, Parameters, WorldRecord, array_digest
from quorum.reconstruction.ensembles.base import Ensemble, FloatArray, Problem, uniform_shares
from quorum.reconstruction.entropy import normalised_entropy
from quorum.reconstruction.policies import PolicyName
from quorum.reconstruction.reconstruct import Evaluation, Reconstruction, evaluate, reconstruct
from quorum.simulation.recovery import Metric, recovery
from quorum.simulation.worlds import TRUTHS, Answers, Truth, World, survey_world

SOURCES = {"fit": "", "uniform": "_uniform", "pool_mean": "_pool_mean"}


def draw(parameters: Parameters, seed: int) -> World:
    """A survey and a pool; the training questions come first."""
    n_train, n_test = (cast("int", parameters[name]) for name in ("n_train", "n_test"))
    choice = cast("Mapping[str, object]", parameters["truth"])
    truth = TRUTHS[str(choice["name"])](**cast("Mapping[str, object]", choice["options"]))
    return survey_world(
        seed,
        n_personas=cast("int", parameters["n_personas"]),
        n_questions=n_train + n_test,
        s=cast("float", parameters["s"]),
        b=cast("float", parameters["b"]),
        answers=cast("Answers", parameters["answers"]),
        n_humans=cast("int", parameters["n_humans"]),
        truth=cast("Truth", truth),
    )


def record(world: World) -> WorldRecord:
    """Digest, true weights, and how far the baselines are off over all questions."""
    weights = world.weights
    truths: dict[str, object] = {
        "true_weights": None
        if weights is None
        else {world.persona_ids[i]: float(weights[i]) for i in np.flatnonzero(weights > 0)}
    }
    facts = {
        "n_rows": len(world.y),
        "mse_uniform": _mse(uniform_shares(world.sizes), world.y),
        "mse_pool_mean": _mse(world.x.mean(axis=1), world.y),
        "pool_entropy": pool_entropy(world),
    }
    arrays = [world.x, world.y, *([] if weights is None else [weights])]
    return WorldRecord(array_digest(arrays), truths, facts)


def simulate(parameters: Parameters, world: World, seed: int, level: float) -> Outcome:
    """Weights from the training questions, and all that is measured of them."""
    whole = Problem(world.x, world.y, world.question_ids, world.sizes, world.persona_ids)
    n_train = cast("int", parameters["n_train"])
    train = whole.of_questions(np.arange(n_train))
    test = whole.of_questions(np.arange(n_train, len(world.sizes)))
    choice = cast("Mapping[str, object]", parameters["ensemble"])
    options = cast("Mapping[str, object]", choice["options"])
    found = reconstruct(
        train,
        test.x,
        test.sizes,
        test.question_ids,
        cast("Ensemble", make("ensemble", str(choice["name"]), options)),
        (cast("PolicyName", parameters["policy"]),),
        level,
        seed,
    )
    # The bootstrap of a paired difference plays no part here: differences are over replicates.
    shown = evaluate(found, test.y, n_resamples=1)
    fit = found.fit
    metrics = [
        *_errors(shown),
        Metric("pool_entropy", pool_entropy(world)),
        *_weights(found, shown),
        *recovery(fit.weights, world.weights),
    ]
    details = {
        "anchor": fit.anchor,
        "lam": fit.lam,
        "solver": fit.solver.solver,
        "gap": fit.solver.gap,
        "notes": list(fit.notes),
        "weights": {
            world.persona_ids[i]: float(fit.weights[i]) for i in np.flatnonzero(fit.weights)
        },
    }
    return Outcome(metrics, details)


def pool_entropy(world: World) -> float:
    """Mean over questions of the entropy of the pool's mean answer, 0 to 1 each."""
    mean = world.x.mean(axis=1)
    parts = np.split(mean, np.cumsum(world.sizes)[:-1])
    return float(np.mean([normalised_entropy(part.tolist()) for part in parts]))


def _errors(shown: Evaluation) -> list[Metric]:
    """Mean squared errors by cell: train, cv and test of the fit, train and test of baselines."""
    found = []
    for split in ("test", "cv", "train"):
        for source, ending in SOURCES.items():
            if split == "cv" and source != "fit":
                continue
            found.append(_of(shown, f"{split}_mse{ending}", "mse", split, source))
    found.append(_of(shown, "test_skill", "skill", "test", "fit"))
    return found


def _of(shown: Evaluation, name: str, metric: str, split: str, source: str) -> Metric:
    wanted = (metric, "cell", split, source)
    record = next(
        r for r in shown.records if (r["metric"], r["unit"], r["split"], r["source"]) == wanted
    )
    return Metric(name, cast("float | None", record["value"]), cast("str | None", record["reason"]))


def _weights(found: Reconstruction, shown: Evaluation) -> list[Metric]:
    named = {r["metric"]: r for r in shown.records if r["unit"] == "persona"}
    metrics = [
        Metric(
            name,
            cast("float | None", named[name]["value"]),
            cast("str | None", named[name]["reason"]),
        )
        for name in ("n_active", "effective_size", "mass")
    ]
    coverage = shown.interval_coverage
    reason = cast("str | None", coverage["reason"])
    for name, key in (("test_coverage", "test"), ("cv_coverage", "train_cv")):
        value = cast("float | None", coverage[key])
        metrics.append(Metric(name, value, reason if value is None else None))
    lam = found.fit.lam
    metrics.append(Metric("lam", lam, None if lam is not None else "it has no penalty"))
    return metrics


def _mse(prediction: FloatArray, y: FloatArray) -> float:
    return float(np.mean((prediction - y) ** 2))
