"""Phases follow from complete phases, in whatever order replies come."""

from __future__ import annotations

import sys
import types
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from quorum.attribution.estimators.base import Estimate
from quorum.config.attribution_views import GenerateView
from quorum.config.families import FAMILIES
from quorum.pipeline import artifacts
from quorum.pipeline.attribution import plan as plan_file
from quorum.pipeline.attribution.pool import Pool
from quorum.records import Generation, Target


@dataclass(frozen=True)
class OneAtATime:
    """Asks for one more coalition after each round, three times."""

    plan_fields: ClassVar[tuple[str, ...]] = ()
    two_phase: ClassVar[bool] = True
    estimands: ClassVar[tuple[str, ...]] = ("shapley",)
    estimand: str = "shapley"

    def plan(self, n, budget, seed):
        return np.array([[False] * n, [True] * n])

    def refine(self, n, budget, seed, coalitions, payoffs):
        k = len(coalitions) - 2
        return np.eye(n, dtype=bool)[k : k + 1] if k < 3 else np.zeros((0, n), bool)

    def attribute(self, coalitions, payoffs, budget, seed):
        return Estimate(np.zeros(coalitions.shape[1]), None, "none are computed")


def test_an_estimator_may_ask_again_until_it_has_enough(project, monkeypatch):
    module = types.ModuleType("rounds")
    module.OneAtATime = OneAtATime
    monkeypatch.setitem(sys.modules, "rounds", module)
    monkeypatch.setitem(FAMILIES["estimator"], "rounds", "rounds:OneAtATime")
    (project.root / "conf/estimator/rounds.yaml").write_text("name: rounds\n")
    project.write_prompts(["a b c d", "e f g h"])
    project.write_params(estimator="rounds", value="exact_match")
    project.run()
    for found in project.attributions().values():
        assert found["n_coalitions"] == 5  # ∅, N and the first three players alone
    assert len(project.calls()) == 2 * 5 - 1  # ∅ is one request for both prompts


@pytest.mark.parametrize("reference", ["base", "target"])
@pytest.mark.parametrize("is_base_last", [True, False])
def test_a_second_phase_waits_for_the_base_generation_and_for_all_scores(
    project, reference, is_base_last
):
    message = {"role": "user", "content": "a b c d e f"}
    project.write_prompts([{"id": "p", "messages": [message], "target": "a b"}])
    value = {"use": "logprob", "reference": reference}
    project.write_params(estimator="neyman_cc", value=value, budget={"fraction": 0.5})
    project.run("config", "partition")
    plan = plan_file.read(project.root / artifacts.PARTITION)
    view = GenerateView.read(project.root)
    pool = Pool(plan, view, Target("scripted", "scripted"), group_by_prefix=False)
    jobs = [job for group in pool.groups() for job in group]
    base = next(job for job in jobs if job.request.continuation is None)
    scores = [job for job in jobs if job is not base]
    assert bool(scores) is (reference == "target")
    n_first = len(plan.snapshots[0].coalitions)
    if reference == "base":
        (more,) = [list(pool.accept(base, Generation("a b"), False))]
        scores, base = [job for group in more for job in group], None
    order = [*scores, base] if is_base_last else [base, *scores]
    order = [job for job in order if job is not None]
    followed = []
    for i, job in enumerate(order):
        reply = Generation("a b")
        if job is not base:
            reply = Generation("", "scored", token_logprobs=(-0.1 * i, -1.0))
        new = [job for group in pool.accept(job, reply, False) for job in group]
        assert bool(new) is (i == len(order) - 1)
        followed += new
    assert len(scores) == n_first
    assert len(followed) == plan.snapshots[0].n_coalitions - n_first
    assert not {job.tag for job in followed} & {job.tag for job in scores}
