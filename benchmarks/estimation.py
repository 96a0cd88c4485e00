"""How long an estimate takes, in CPU milliseconds a coalition; no model is called.

Run: ``python benchmarks/estimation.py`` (below a minute). Aims: 1.5 ms a coalition with the gp
control variate, 0.05 ms with the linear one.
"""

from __future__ import annotations

import time

import numpy as np

from quorum.attribution.estimators.base import Estimator
from quorum.attribution.estimators.complementary import Complementary
from quorum.attribution.estimators.mc import Mc
from quorum.attribution.estimators.regression import Regression

CASES = ((8, 26), (12, 120), (12, 410), (16, 320), (20, 400), (64, 512))
ESTIMATORS: dict[str, tuple[Estimator, float | None]] = {
    "complementary, gp": (Complementary(control_variate="gp"), 1.5),
    "complementary, linear": (Complementary(control_variate="linear"), 0.05),
    "complementary, none": (Complementary(control_variate="none"), None),
    "regression": (Regression(), None),
    "mc": (Mc(), None),
}


def cpu_ms(estimator: Estimator, n: int, budget: int) -> float:
    """CPU milliseconds a coalition, the best of three: plan once, then attribute."""
    coalitions = estimator.plan(n, budget, 0)
    rng = np.random.default_rng(n)
    weights, pair = rng.normal(size=n), rng.normal(size=(n, n))
    x = coalitions.astype(float)
    payoffs = np.tanh(x @ weights / 2) + 0.1 * np.einsum("mi,ij,mj->m", x, pair, x) / n
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        estimator.attribute(coalitions, payoffs, budget, 0)
        best = min(best, time.process_time() - start)
    return best * 1e3 / len(coalitions)


def main() -> None:
    """Prints the table."""
    print("| CPU ms a coalition | " + " | ".join(f"n = {n}, {m}" for n, m in CASES) + " | aim |")
    print("|---|" + "---|" * (len(CASES) + 1))
    for name, (estimator, aim) in ESTIMATORS.items():
        cells = [cpu_ms(estimator, n, m) for n, m in CASES]
        shown = " | ".join(f"{cell:.3f}" for cell in cells)
        print(f"| {name} | {shown} | {'' if aim is None else f'≤ {aim}'} |")


if __name__ == "__main__":
    main()
