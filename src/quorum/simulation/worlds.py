"""Synthetic survey worlds: a population whose shares are known, and a pool of agents like a model.

Humans z ~ N(δ_h, I₆), δ_h ~ N(0, 0.3²); a question has 2 to 5 options with probabilities .35, .2,
.35, .1 and shares y = mean softmax(A z + β), A ~ 0.5 N(0, 1), β ~ 1.5 N(0, 1). Agents
z ~ N(δ, 0.8²), δ ~ 0.5 N(0, 1), answer softmax(s (A' z + β')) with A' = A + 0.25 N(0, 1) and
β' = β + b · 1.5 N(0, 1).
So agents are sharper than people (s), lean the wrong way (b), and are less varied.

With s = 2, b = 0.5 the errors of baselines and fits are those of real surveys answered by models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from quorum.digests import digest
from quorum.errors import SettingsError

FloatArray = NDArray[np.float64]
Answers = Literal["probabilities", "choice"]

N_TRAITS = 6
OPTION_COUNTS = (2, 3, 4, 5)
OPTION_PROBABILITIES = (0.35, 0.20, 0.35, 0.10)


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A survey and the answers of a pool; rows are (question, option).

    Args:
        x: Answers of the agents, shape (R, N); columns sum to 1 inside a question.
        y: Shares of the population, shape (R,).
        sizes: Number of options of each question.
        question_ids: ``q001`` and on.
        persona_ids: ``p0001`` and on.
    """

    x: FloatArray
    y: FloatArray
    sizes: tuple[int, ...]
    question_ids: tuple[str, ...]
    persona_ids: tuple[str, ...]


def survey_world(
    seed: int,
    *,
    n_personas: int = 300,
    n_questions: int = 100,
    s: float = 2.0,
    b: float = 0.5,
    answers: Answers = "probabilities",
    n_humans: int = 2000,
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

    Raises:
        SettingsError: A number is out of range.
    """
    _check(n_personas, n_questions, s, b, answers, n_humans)
    people = _rng(seed, "people")
    humans = people.normal(0.0, 0.3, N_TRAITS) + people.normal(size=(n_humans, N_TRAITS))
    pool = _rng(seed, "pool")
    agents = 0.5 * pool.normal(size=N_TRAITS) + 0.8 * pool.normal(size=(n_personas, N_TRAITS))
    xs, ys, sizes = [], [], []
    for question in range(n_questions):
        rng = _rng(seed, f"question {question}")
        size = int(rng.choice(OPTION_COUNTS, p=OPTION_PROBABILITIES))
        slopes, levels = 0.5 * rng.normal(size=(size, N_TRAITS)), 1.5 * rng.normal(size=size)
        ys.append(_softmax(humans @ slopes.T + levels).mean(axis=0))
        own_slopes = slopes + 0.25 * rng.normal(size=slopes.shape)
        own_levels = levels + b * 1.5 * rng.normal(size=size)
        chances = _softmax(s * (agents @ own_slopes.T + own_levels))
        xs.append((chances if answers == "probabilities" else _drawn(chances, rng)).T)
        sizes.append(size)
    return World(
        np.vstack(xs),
        np.concatenate(ys),
        tuple(sizes),
        tuple(f"q{question + 1:03d}" for question in range(n_questions)),
        tuple(f"p{agent + 1:04d}" for agent in range(n_personas)),
    )


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
