"""Sweeps over games: an estimator is run on a budget and held against the exact values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import cast

import numpy as np

from quorum.attribution import games
from quorum.attribution.absence import Delete
from quorum.attribution.coalitions import (
    FloatArray,
    all_coalitions,
    banzhaf_from_table,
    shapley_from_table,
    table_indices,
)
from quorum.attribution.estimators.base import Estimate, Estimator
from quorum.attribution.games import Game
from quorum.attribution.partitioners import Words
from quorum.attribution.snapshots import Snapshot
from quorum.attribution.values.base import Reply
from quorum.attribution.values.tfidf import TfidfCosine
from quorum.config.families import make
from quorum.digests import digest
from quorum.pipeline.simulation.kinds import Outcome, Parameters, WorldRecord, array_digest
from quorum.records import Message
from quorum.simulation import games as specs
from quorum.simulation.games import GAMES, n_coalitions
from quorum.simulation.recovery import Metric
from quorum.simulation.texts import drawn_text

NO_VALUE = "every true value is 0"


@dataclass(frozen=True, slots=True, eq=False)
class PlayedGame:
    """A game with all its payoffs.

    Args:
        n: Number of players.
        table: Payoffs of all coalitions, shape (2^n,), by bitmask.
        shapley: Exact Shapley values, shape (n,).
        banzhaf: Exact Banzhaf values, shape (n,).
        text: What the players are words of; None in other games.
    """

    n: int
    table: FloatArray
    shapley: FloatArray
    banzhaf: FloatArray
    text: str | None


def draw(parameters: Parameters, seed: int) -> PlayedGame:
    """The game: its payoffs, and the jitter on all of them but v(N), which is the reference's own.

    The jitter is part of the game, as a model's whims are: exact values are those of what is paid.
    """
    n = cast("int", parameters["n_players"])
    choice = cast("Mapping[str, object]", parameters["game"])
    spec = GAMES[str(choice["name"])](**cast("Mapping[str, object]", choice["options"]))
    text = None
    if isinstance(spec, specs.Textsim):
        text = drawn_text(seed, n, spec.vocabulary)
        table = echo_table(text)
    else:
        table = _game(spec, n, seed).table()
    noise = cast("float", parameters["noise"])
    if noise > 0:
        rng = np.random.default_rng(int(digest(["jitter", seed])[:16], 16))
        jitter = noise * rng.normal(size=len(table))
        jitter[-1] = 0.0
        table = table + jitter
    return PlayedGame(n, table, shapley_from_table(table), banzhaf_from_table(table), text)


def record(world: PlayedGame) -> WorldRecord:
    """Digest, exact values, and v(∅) and v(N)."""
    truths = {"shapley": world.shapley.tolist(), "banzhaf": world.banzhaf.tolist()}
    facts: dict[str, object] = {
        "n_players": world.n,
        "base_value": float(world.table[0]),
        "grand_value": float(world.table[-1]),
        "text": world.text,
    }
    return WorldRecord(array_digest([world.table]), truths, facts)


def simulate(parameters: Parameters, world: PlayedGame, seed: int, level: float) -> Outcome:
    """An estimate, and how far it is off."""
    choice = cast("Mapping[str, object]", parameters["estimator"])
    estimand = str(parameters["estimand"])
    options = {**cast("Mapping[str, object]", choice["options"]), "estimand": estimand}
    estimator = cast("Estimator", make("estimator", str(choice["name"]), options))
    budget = n_coalitions(cast("int | str", parameters["budget"]), world.n)
    found, n_used = estimate(estimator, world, budget, seed)
    truth = world.shapley if estimand == "shapley" else world.banzhaf
    details = {
        "n_allowed": budget,
        "values": found.values.tolist(),
        "true_values": truth.tolist(),
        "standard_errors": None
        if found.standard_errors is None
        else found.standard_errors.tolist(),
        "notes": list(found.notes),
    }
    return Outcome(_metrics(found, truth, world, n_used, level), details)


def estimate(
    estimator: Estimator, world: PlayedGame, budget: int, seed: int
) -> tuple[Estimate, int]:
    """Plan, payoffs, further phases until none is asked for, values; and how many were used."""
    rows = estimator.plan(world.n, budget, seed)
    while True:
        payoffs = world.table[table_indices(rows)]
        more = estimator.refine(world.n, budget, seed, rows, payoffs)
        if not len(more):
            break
        rows = np.concatenate([rows, more])
    return estimator.attribute(rows, payoffs, budget, seed), len(rows)


def echo_table(text: str) -> FloatArray:
    """Payoffs of a model that answers with its prompt: every word a player, absent ones deleted.

    Args:
        text: Words with single spaces.

    Returns:
        The tf-idf cosine of each coalition's answer with the whole text, shape (2^n,).
    """
    snapshot = Snapshot(id="text", messages=(Message("user", text),))
    players = Words().spans(snapshot, ("user",))
    render = Delete().prepare(snapshot, players)
    replies = [
        Reply("".join(message.content for message in render(present)))
        for present in all_coalitions(len(players)).tolist()
    ]
    return TfidfCosine().payoffs(replies, text)


def _metrics(
    found: Estimate, truth: FloatArray, world: PlayedGame, n_used: int, level: float
) -> list[Metric]:
    off = found.values - truth
    mse, scale = float(np.mean(off**2)), float(np.mean(truth**2))
    total = float(world.table[-1] - world.table[0])
    return [
        Metric("nmse", mse / scale) if scale > 0 else Metric("nmse", None, NO_VALUE),
        Metric("mse", mse),
        Metric("max_error", float(np.abs(off).max())),
        Metric("efficiency_residual", float(found.values.sum()) - total),
        *_uncertainty(found, off, level),
        Metric("n_coalitions", float(n_used)),
    ]


def _uncertainty(found: Estimate, off: FloatArray, level: float) -> list[Metric]:
    errors = found.standard_errors
    if errors is None:
        reason = found.se_reason or "no standard errors"
        return [Metric("coverage", None, reason), Metric("mean_standard_error", None, reason)]
    z = NormalDist().inv_cdf((1 + level) / 2)
    # Exact values come with standard errors of 0; rounding is no miss.
    slack = 1e-9 * max(1.0, float(np.abs(found.values).max()))
    inside = np.abs(off) <= z * errors + slack
    return [
        Metric("coverage", float(inside.mean())),
        Metric("mean_standard_error", float(errors.mean())),
    ]


def _game(spec: object, n: int, seed: int) -> Game:
    """The game that a spec stands for; drawn ones by their seed."""
    match spec:
        case specs.Additive():
            return games.additive([float(i + 1) for i in range(n)])
        case specs.Constant():
            return games.constant(n, spec.payoff)
        case specs.Unanimity():
            return games.unanimity(n, range(spec.n_members))
        case specs.Glove():
            return games.glove()
        case specs.Majority():
            return games.majority(n)
        case specs.Quadratic():
            return games.quadratic(n)
        case specs.RandomUnanimity():
            return games.random_unanimity(n, spec.n_terms, spec.max_size, seed)
        case _:
            return games.interaction(n, seed)
