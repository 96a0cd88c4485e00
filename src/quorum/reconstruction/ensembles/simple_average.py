"""Equal weights: the pool as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from quorum.reconstruction.ensembles.base import Fit, Problem, SolverReport


@dataclass(frozen=True, slots=True)
class SimpleAverage:
    """w = 1/N; nothing is fitted, so shares of the population play no part."""

    def check_ready(self) -> None:
        """Nothing is needed."""

    def fit(
        self,
        problem: Problem,
        seed: int,  # noqa: ARG002 - nothing is drawn
    ) -> Fit:
        """See `Ensemble.fit`."""
        n = len(problem.persona_ids)
        weights = np.full(n, 1.0 / n)
        rest = problem.y - problem.x @ weights
        report = SolverReport(
            solver="none",
            version=np.__version__,
            iterations=0,
            objective=float(rest @ rest / len(rest)),
            gap=0.0,
            raw_sum=float(weights.sum()),
            raw_min=1.0 / n,
            clip=0.0,
            tolerance=0.0,
            n_active=n,
            effective_size=float(n),
            is_unique=True,
        )
        return Fit(weights, None, None, "none", (), report)

    def chosen(self, fit: Fit) -> Self:  # noqa: ARG002 - nothing is chosen
        """See `Ensemble.chosen`."""
        return self
