"""Does the interval hold what it promises? Runs are left out of synthetic histories in turn.

A history has 6 to 30 runs of up to four models; a model has its own tokens a character and its own
length of replies, a run its own share of calls that were paid for twice, its own spread around its
model, and from 30 to 3,000 calls of log-normal length.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

from quorum.pricing.cost import cost
from quorum.pricing.forecast import fit_history, forecast
from quorum.pricing.history import RunUsage
from quorum.pricing.structural import Features
from quorum.pricing.table import Price
from quorum.records import Usage

N_TRIALS = 600
PRICES = {
    f"m{i}": Price("p", f"m{i}", Decimal(first), Decimal(last))
    for i, (first, last) in enumerate([("0.15", "0.6"), ("0.25", "2"), ("1", "5"), ("1.75", "14")])
}


def synthetic_history(rng: np.random.Generator) -> list[RunUsage]:
    n_runs, spread = int(rng.integers(6, 31)), rng.uniform(0.03, 0.12)
    per_model = np.exp(rng.normal(0, 0.12, 4))
    reply = 60 * np.exp(rng.normal(0, 0.3, 4))
    typical, slope = np.exp(rng.normal(7, 0.5)), rng.normal(0.1, 0.1)
    runs = []
    for number in range(n_runs):
        which = int(rng.integers(0, 4))
        length = typical * np.exp(rng.normal(0, 0.5))
        mean_in = (length / 4 + 15) * per_model[which] * np.exp(rng.normal(0, spread))
        mean_out = reply[which] * (length / 1000) ** slope * np.exp(rng.normal(0, 1.3 * spread))
        n_requests = int(np.exp(rng.uniform(np.log(30), np.log(3000))))
        retried = rng.beta(2, 30)
        n_calls = n_requests + rng.binomial(n_requests, retried / 2)
        inputs, outputs = calls(rng, mean_in, 0.3, n_calls), calls(rng, mean_out, 0.6, n_calls)
        runs.append(
            RunUsage(
                run=f"r{number:03}",
                module="ask",
                backend="p",
                model=f"m{which}",
                mode="sync",
                n_requests=n_requests,
                n_calls=n_calls,
                n_failed=int(rng.binomial(n_requests, retried)),
                input_tokens=int(inputs.sum()),
                cached_input_tokens=0,
                cache_write_tokens=0,
                output_tokens=int(outputs.sum()),
                reasoning_tokens=0,
                input_variation=float(inputs.std(ddof=1) / inputs.mean()),
                output_variation=float(outputs.std(ddof=1) / outputs.mean()),
                length=float(length),
            )
        )
    return runs


def calls(rng: np.random.Generator, mean: float, variation: float, n: int) -> np.ndarray:
    sigma = np.sqrt(np.log(1 + variation**2))
    return np.maximum(1, np.round(mean * np.exp(rng.normal(-(sigma**2) / 2, sigma, n))))


def trials(seed: int, level: float) -> tuple[list[bool], list[float]]:
    rng = np.random.default_rng(seed)
    covered: list[bool] = []
    errors: list[float] = []
    while len(covered) < N_TRIALS:
        runs = synthetic_history(rng)
        for left_out in runs:
            price = PRICES[left_out.model]
            features = Features("ask", "p", left_out.model, left_out.n_requests, left_out.length)
            rest = fit_history(run for run in runs if run is not left_out)
            usd = forecast(features, rest, level, price=price).usd
            true = cost(Usage(left_out.input_tokens, 0, left_out.output_tokens), price)
            covered.append(usd.low <= true <= usd.high)
            errors.append(abs(float(usd.base / true) - 1))
    return covered, errors


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_90_percent_interval_covers_a_left_out_run_in_87_to_93_percent(seed):
    covered, errors = trials(seed, 0.9)
    assert len(covered) >= 400
    assert 0.87 <= np.mean(covered) <= 0.93  # 3 points are 2.4 standard errors at 600 trials
    assert np.median(errors) < 0.10


def test_the_interval_of_another_level_covers_as_much_as_it_says():
    covered, _ = trials(7, 0.5)
    assert np.mean(covered) == pytest.approx(0.5, abs=0.05)
