"""Weights that are shares of a population: Σw = 1, or up to 1 with the rest on an anchor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from quorum.reconstruction.ensembles.base import AnchorName
from quorum.reconstruction.ensembles.penalised import Penalised
from quorum.reconstruction.ensembles.system import Total


@dataclass(frozen=True, slots=True)
class Simplex(Penalised):
    """w ≥ 0, Σw = 1, with a ridge of λ/2; every prediction is a distribution.

    With an anchor Σw ≤ 1 and the anchor takes the rest, (1−m)p⁰ + Xw, without penalty. With Σw = 1
    no anchor and no absolute penalty makes a difference, so there is no α here.

    The default, with anchor and λ by cross-validation: without a ridge the solution is a vertex of
    few personas that overfits (2.5 to 20 times the error on a pool of real people), and without an
    anchor what no persona answers cannot be predicted.

    Source: convex combinations as in synthetic control, Abadie, Diamond and Hainmueller 2010; the
    ridge and the anchors are ours.
    """

    total: ClassVar[Total] = "at_most_one"

    lam: float | Literal["cv"] = "cv"
    anchors: tuple[AnchorName, ...] = ("none", "uniform", "pool")

    @property
    def _alpha(self) -> float:
        return 0.0
