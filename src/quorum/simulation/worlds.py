"""Synthetic survey worlds: a population whose shares are known, and a pool of agents like a model.

Humans z ~ N(δ_h, I₆), δ_h ~ N(0, 0.3²); a question has 2 to 5 options with probabilities .35, .2,
.35, .1 and shares y = mean softmax(A z + β), A ~ 0.5 N(0, 1), β ~ 1.5 N(0, 1). Agents
z ~ N(δ, 0.8²), δ ~ 0.5 N(0, 1), answer softmax(s (A' z + β')) with A' = A + 0.25 N(0, 1) and
β' = β + b · 1.5 N(0, 1).
So agents are sharper than people (s), lean the wrong way (b), and are less varied.

With s = 2, b = 0.5 the errors of baselines and fits are those of real surveys answered by models.

Such a population has no true weights. In a ``mixture`` the shares are those of a few of the agents,
so that it is known who should get weight, and how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Interval
from numpy.typing import NDArray

from quorum.digests import digest
from quorum.errors import SettingsError

FloatArray = NDArray[np.float64]
Answers = Literal["probabilities", "choice"]

N_TRAITS = 6
OPTION_COUNTS = (2, 3, 4, 5)
OPTION_PROBABILITIES = (0.35, 0.20, 0.35, 0.10)


@dataclass(frozen=True, slots=True)
class Population:
    """Shares are those of people: no weights on the agents are true."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Shares are a mixture of a few agents' answers, with weights ~ Dirichlet(2, …, 2).

    Args:
        n_true: How many agents have weight.
        noise: Standard deviation of normal noise on each share, as a share; what falls below 0 is
            0, and a question's shares are divided by their sum.
    """

    n_true: Annotated[int, Ge(1)] = 5
    noise: Annotated[float, Interval(ge=0, le=1)] = 0.0


Truth = Population | Mixture
TRUTHS: dict[str, type] = {"population": Population, "mixture": Mixture}


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A survey and the answers of a pool; rows are (question, option).

    Args:
        x: Answers of the agents, shape (R, N); columns sum to 1 inside a question.
        y: Shares of the population, shape (R,).
        sizes: Number of options of each question.
        question_ids: ``q001`` and on.
        persona_ids: ``p0001`` and on.
        weights: True weights of the agents, shape (N,), sum 1; None in a population.
    """

    x: FloatArray
    y: FloatArray
    sizes: tuple[int, ...]
    question_ids: tuple[str, ...]
    persona_ids: tuple[str, ...]
    weights: FloatArray | None = None


def survey_world(
    seed: int,
    *,
    n_personas: int = 300,
    n_questions: int = 100,
    s: float = 2.0,
    b: float = 0.5,
    answers: Answers = "probabilities",
    n_humans: int = 2000,
    truth: Truth = Population(),
) -> World:
    """A world; the same seed gives the same one, and question k is the same for any n_questions.

    Args:
        seed: Of the world; every part of it draws from a stream of its own.
        n_personas: Agents in the pool.
        n_questions: Questions of the survey.
        s: Sharpness of the agents' answers; 1 is as people.
        b: Bias of the agents' leanings; 0 is none.
        answers: ``probabilities``, or ``choice``: one option drawn from them.
        n_humans: People over whom shares are taken.
        truth: Whose shares they are.

    Raises:
        SettingsError: A number is out of range.
    """
    _check(n_personas, n_questions, s, b, answers, n_humans)
    if isinstance(truth, Mixture):
        check_mixture(truth, n_personas)
    people = _rng(seed, "people")
    humans = people.normal(0.0, 0.3, N_TRAITS) + people.normal(size=(n_humans, N_TRAITS))
    pool = _rng(seed, "pool")
    agents = 0.5 * pool.normal(size=N_TRAITS) + 0.8 * pool.normal(size=(n_personas, N_TRAITS))
    xs, ys, sizes = [], [], []
    for question in range(n_questions):
        rng = _rng(seed, f"question {question}")
        shares, chances = _question(humans, agents, s, b, rng)
        ys.append(shares)
        xs.append((chances if answers == "probabilities" else _drawn(chances, rng)).T)
        sizes.append(len(shares))
    x, y, weights = np.vstack(xs), np.concatenate(ys), None
    if isinstance(truth, Mixture):
        weights = _true_weights(truth, n_personas, _rng(seed, "weights"))
        y = _noisy(x @ weights, tuple(sizes), truth.noise, seed)
    return World(
        x,
        y,
        tuple(sizes),
        tuple(f"q{question + 1:03d}" for question in range(n_questions)),
        tuple(f"p{agent + 1:04d}" for agent in range(n_personas)),
        weights,
    )


def _question(
    humans: FloatArray, agents: FloatArray, s: float, b: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """The people's shares (options,), and the agents' probabilities (N, options)."""
    size = int(rng.choice(OPTION_COUNTS, p=OPTION_PROBABILITIES))
    slopes, levels = 0.5 * rng.normal(size=(size, N_TRAITS)), 1.5 * rng.normal(size=size)
    shares = _softmax(humans @ slopes.T + levels).mean(axis=0)
    own_slopes = slopes + 0.25 * rng.normal(size=slopes.shape)
    own_levels = levels + b * 1.5 * rng.normal(size=size)
    return shares, _softmax(s * (agents @ own_slopes.T + own_levels))


def check_mixture(truth: Mixture, n_personas: int) -> None:
    """Refuses more true agents than there are agents.

    Raises:
        SettingsError: It says how many there may be.
    """
    if truth.n_true > n_personas:
        raise SettingsError(
            "world.truth.n_true",
            "more than there are personas",
            got=truth.n_true,
            allowed=f"up to n_personas={n_personas}",
        )


def _true_weights(truth: Mixture, n_personas: int, rng: np.random.Generator) -> FloatArray:
    weights = np.zeros(n_personas)
    chosen = rng.choice(n_personas, truth.n_true, replace=False)
    weights[chosen] = rng.dirichlet(np.full(truth.n_true, 2.0))
    return weights


def _noisy(y: FloatArray, sizes: tuple[int, ...], noise: float, seed: int) -> FloatArray:
    """Shares with noise; question k gets the same for any number of questions."""
    parts = np.split(y, np.cumsum(sizes)[:-1])
    found = []
    for question, shares in enumerate(parts):
        moved = shares
        if noise > 0:
            moved = shares + noise * _rng(seed, f"noise {question}").normal(size=len(shares))
        moved = np.maximum(moved, 0.0)
        total = moved.sum()
        found.append(moved / total if total > 0 else shares)
    return np.concatenate(found)


def _rng(seed: int, part: str) -> np.random.Generator:
    return np.random.default_rng(int(digest(["survey world", seed, part])[:16], 16))


def _softmax(logits: FloatArray) -> FloatArray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), np.float64)


def _drawn(chances: FloatArray, rng: np.random.Generator) -> FloatArray:
    below = rng.random((len(chances), 1)) > np.cumsum(chances, axis=1)
    picks = np.minimum(below.sum(axis=1), chances.shape[1] - 1)
    return np.asarray(np.eye(chances.shape[1])[picks], np.float64)


def _check(
    n_personas: int, n_questions: int, s: float, b: float, answers: str, n_humans: int
) -> None:
    counts = {"n_personas": n_personas, "n_questions": n_questions, "n_humans": n_humans}
    for name, count in counts.items():
        if count < 1:
            raise SettingsError(f"world.{name}", "too few", got=count, allowed="1 or more")
    for name, value in (("s", s), ("b", b)):
        if not 0 <= value < np.inf:
            raise SettingsError(f"world.{name}", "out of range", got=value, allowed="0 or more")
    if answers not in ("probabilities", "choice"):
        allowed = "probabilities, choice"
        raise SettingsError("world.answers", "unknown name", got=answers, allowed=allowed)
