"""A log-linear model of tokens per request that holds with no run, with three and with a hundred.

y = log(tokens + 1) - log(structural forecast + 1) of a run is b·x + u_model + e, where x holds 1
and the centred features, u ~ N(0, t²) is shared by the runs of one model, and e ~ N(0, s² + v²) is
a run's own: v is known from the calls' spread, t and s are integrated over a grid. The priors of b
make it the structural forecast without a run, a shrunken ratio with few, a regression with many.
Leaving a run out has a closed form, so each fit knows its own leave-one-run-out residuals, and
its intervals are as wide as those residuals are.

Source: Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, 2.2 and 5.4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_RUN_SD = np.geomspace(0.01, 0.5, 8)  # s: spread between runs of one model
_MODEL_SD = np.geomspace(0.03, 0.5, 4)  # t: spread between models
_TYPICAL_SD = 0.15  # without a run both are taken to be about this; with runs any is as likely
_PRIOR_RUNS = 20.0  # runs that the nominal width counts as, against the residuals' own


@dataclass(frozen=True, slots=True)
class Runs:
    """What a fit learns from.

    Attributes:
        x: A row a run: features, of which the first is 1.
        y: The log ratio of a run's tokens per request to the structural forecast.
        models: The model of each run, as a number.
        sampling_var: Variance of y from the calls' spread alone.
    """

    x: Floats
    y: Floats
    models: NDArray[np.int64]
    sampling_var: Floats


@dataclass(frozen=True, slots=True)
class Predicted:
    """A mixture of normal distributions of the run-level y, one for each pair of the grid.

    Attributes:
        weights: Of the components; they sum to 1.
        means: Of the components.
        variances: Of the components, without the spread from sampling calls.
        coefficients: Posterior means of b.
        residuals: Leave-one-run-out: y minus its forecast, a run.
        z: The same over the forecast's standard deviation.
    """

    weights: Floats
    means: Floats
    variances: Floats
    coefficients: Floats
    residuals: Floats
    z: Floats

    @property
    def mean(self) -> float:
        """The forecast of y."""
        return float(self.weights @ self.means)

    def updated(self, y: float, variance: float) -> Predicted:
        """The forecast after this very run was seen at ``y`` with that error variance."""
        spread = self.variances + variance
        fit = np.log(self.weights) - 0.5 * (np.log(spread) + (y - self.means) ** 2 / spread)
        gain = self.variances / spread
        return Predicted(
            weights=_normalised(fit),
            means=self.means + gain * (y - self.means),
            variances=self.variances * (1 - gain),
            coefficients=self.coefficients,
            residuals=self.residuals,
            z=self.z,
        )


def predict(runs: Runs, x: Floats, model: int, prior_sd: Floats) -> Predicted:
    """The forecast for a run with features ``x`` by the model of that number.

    Args:
        runs: Earlier runs, or none.
        x: Features of the new run; the first is 1.
        model: Its model's number; one that no run has is a new model.
        prior_sd: Standard deviation of each coefficient before any run was seen.
    """
    run_sd, model_sd = (grid.ravel() for grid in np.meshgrid(_RUN_SD, _MODEL_SD))
    run_var, model_var = run_sd**2, model_sd**2
    n = len(runs.y)
    prior = prior_sd**2
    own = float((x**2 * prior).sum()) + model_var + run_var
    if n == 0:
        none = np.zeros(0)
        before = -(run_sd + model_sd) / _TYPICAL_SD
        return Predicted(_normalised(before), np.zeros(len(own)), own, np.zeros(len(x)), none, none)
    shared = (runs.x * prior) @ runs.x.T
    same = (runs.models[:, None] == runs.models[None, :]).astype(np.float64)
    noise = run_var[:, None] + runs.sampling_var[None, :]
    covariance = shared[None] + model_var[:, None, None] * same[None]
    covariance[:, np.arange(n), np.arange(n)] += noise
    inverse = np.linalg.inv(covariance)
    solved = inverse @ runs.y
    _, log_det = np.linalg.slogdet(covariance)
    weights = _normalised(-0.5 * (log_det + solved @ runs.y))
    towards = (runs.x * prior) @ x + model_var[:, None] * (runs.models == model)
    means = (towards * solved).sum(axis=1)
    variances = own - np.einsum("ki,kij,kj->k", towards, inverse, towards)
    residuals, z = _left_out(weights, inverse, solved)
    scale = (_PRIOR_RUNS + float((z**2).sum())) / (_PRIOR_RUNS + n)
    return Predicted(
        weights=weights,
        means=means,
        variances=np.maximum(variances, run_var) * scale,
        coefficients=prior * (runs.x.T @ (weights @ solved)),
        residuals=residuals,
        z=z,
    )


def _left_out(weights: Floats, inverse: Floats, solved: Floats) -> tuple[Floats, Floats]:
    """Residuals of each run from the fit without it, and over their standard deviation.

    A component's weight without a run is its weight over the density that it gave to that run.
    """
    variance = 1 / np.diagonal(inverse, axis1=1, axis2=2)
    residual = solved * variance
    density = -0.5 * (np.log(variance) + residual**2 / variance)
    shares = _normalised(np.log(weights + 1e-300)[:, None] - density)
    mean = (shares * residual).sum(axis=0)
    spread = (shares * (variance + (residual - mean) ** 2)).sum(axis=0)
    return mean, mean / np.sqrt(spread)


def _normalised(log_weights: Floats) -> Floats:
    raw: Floats = np.exp(log_weights - log_weights.max(axis=0))
    total: Floats = raw / raw.sum(axis=0)
    return total
