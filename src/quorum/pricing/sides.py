"""One side of a forecast: input or output tokens of a request, learned from earlier runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from quorum.pricing.history import RunUsage
from quorum.pricing.regression import Floats, Predicted, Runs, predict
from quorum.pricing.structural import Features, name_of, structural_tokens

MIN_LOG_LINEAR = 6  # runs from which on slopes are learned, besides the ratio
CALL_VARIATION = 0.5  # standard deviation of a call's tokens over their mean, where unknown

_INPUT_SD = 0.25  # of the log ratio before any run: the margin of 1.3 on text length
_OUTPUT_SD = 0.5
_KNOWN_SD = 0.02  # where the structural forecast counts output that is fixed
_LEARNED_SD = 0.6  # once there are runs: they overrule the structural forecast
_COEFFICIENT_SD = {"log_length": 0.2, "log_max_tokens": 0.4, "reasoning": 0.6}
_MARKS = ("one", "reasoning")  # columns that say what is, not how much


class Side:
    """The forecast of one side's tokens per request; ``base`` is the best guess."""

    def __init__(
        self, name: str, features: Features, runs: Sequence[RunUsage], pilot: RunUsage | None
    ) -> None:
        self.name = name
        self.features = features
        self.columns, rows = _design(name, features, runs)
        self._centre = rows.mean(axis=0) if len(runs) else np.zeros(len(self.columns))
        self._centre[[name in _MARKS for name in self.columns]] = 0.0
        variation = [v for run in runs if (v := self._variation(run)) is not None]
        self.variation = median(variation) if variation else CALL_VARIATION
        names = list(dict.fromkeys(map(name_of, runs)))
        own = names.index(name_of(features)) if name_of(features) in names else -1
        self._offset = self._log_structural(features)
        learned = Runs(
            x=rows - self._centre,
            y=np.array([self._ratio(run) for run in runs], dtype=np.float64),
            models=np.array([names.index(name_of(run)) for run in runs], dtype=np.int64),
            sampling_var=np.array([self._sampling_var(run) for run in runs], dtype=np.float64),
        )
        x = _row(self.columns, features) - self._centre
        found = predict(learned, x, own, self._prior_sd(n_runs=len(runs)))
        if pilot is not None and pilot.n_requests > 1:
            found = found.updated(self._ratio(pilot), self._sampling_var(pilot))
            self.variation = self._variation(pilot) or self.variation
        self.predicted: Predicted = found
        self.least, self.most = self._limits(runs, is_known=bool(runs) or pilot is not None)
        self.base = float(self.tokens(np.array([found.mean]))[0])

    def tokens(self, y: Floats) -> Floats:
        """Tokens per request at these log ratios."""
        raw: Floats = np.clip(np.exp(self._offset + y) - 1.0, self.least, self.most)
        return raw

    def _limits(self, runs: Sequence[RunUsage], *, is_known: bool) -> tuple[float, float]:
        """Least and most that a request uses: the reply's limit, times what was paid for twice."""
        if self.name == "input":
            return 0.0, math.inf
        if self.features.output_tokens is not None and not is_known:
            return self.features.output_tokens, self.features.output_tokens
        if self.features.max_tokens is None:
            return 0.0, math.inf
        repeats = [run.n_calls / run.n_requests for run in runs]
        return 0.0, self.features.max_tokens * max([1.0, *repeats])

    def _log_structural(self, run: RunUsage | Features) -> float:
        """Of a run, with what its ledger does not tell taken from the run to come."""
        asked = self.features
        at = replace(
            asked,
            length=asked.length if run.length is None else run.length,
            max_tokens=asked.max_tokens if run.max_tokens is None else run.max_tokens,
            is_reasoning=_reasons(run),
        )
        return math.log(structural_tokens(at)[self.name == "output"] + 1.0)

    def _ratio(self, run: RunUsage) -> float:
        used = run.input_tokens if self.name == "input" else run.output_tokens
        return math.log(used / run.n_requests + 1.0) - self._log_structural(run)

    def _variation(self, run: RunUsage) -> float | None:
        return run.input_variation if self.name == "input" else run.output_variation

    def _sampling_var(self, run: RunUsage) -> float:
        variation = self._variation(run)
        spread = self.variation if variation is None else variation
        few = 1.0 + 2.0 / run.n_requests  # the spread itself is a guess from few calls
        return max(spread**2 / run.n_requests * few, 1e-8)

    def _prior_sd(self, n_runs: int) -> Floats:
        if self.name == "input":
            first = _INPUT_SD
        else:
            first = _OUTPUT_SD if self.features.output_tokens is None else _KNOWN_SD
        first = max(first, _LEARNED_SD) if n_runs else first
        others = [_COEFFICIENT_SD[name] for name in self.columns[1:]]
        return np.array([first, *others], dtype=np.float64)


def _design(
    name: str, features: Features, runs: Sequence[RunUsage]
) -> tuple[tuple[str, ...], Floats]:
    """Names of the columns, and a row a run."""
    columns = ["one"]
    is_free = name == "output" and features.output_tokens is None
    if is_free and (_reasons(features) or any(map(_reasons, runs))):
        columns.append("reasoning")
    if len(runs) >= MIN_LOG_LINEAR:
        if _varies([run.length for run in runs]):
            columns.append("log_length")
        if is_free and features.max_tokens and _varies([run.max_tokens for run in runs]):
            columns.append("log_max_tokens")
    rows = [_row(columns, run) for run in runs]
    return tuple(columns), np.array(rows, dtype=np.float64).reshape(len(runs), len(columns))


def _row(columns: Sequence[str], run: RunUsage | Features) -> Floats:
    values = {
        "one": 1.0,
        "reasoning": float(_reasons(run)),
        "log_length": math.log(max(run.length or 1.0, 1.0)),
        "log_max_tokens": math.log(max(run.max_tokens or 1.0, 1.0)),
    }
    return np.array([values[name] for name in columns], dtype=np.float64)


def _reasons(run: RunUsage | Features) -> bool:
    return run.is_reasoning if isinstance(run, Features) else run.reasoning_tokens > 0


def _varies(values: Sequence[float | None]) -> bool:
    known = [math.log(value) for value in values if value]
    return len(known) == len(values) and max(known) - min(known) > 0.1
