"""Any approximator of the shapiq library, run as plan → payoffs → replay.

shapiq calls a game while it computes; here payoffs come later, from a model that is slow and paid.
So the approximator is run against a recorder. Two dry runs on made-up payoffs tell which
coalitions it asks for whatever the payoffs are: their common beginning is the plan. Replays on the
true payoffs then either finish or stop at the first coalition that is not known yet, which is the
next round (``refine``). The class is seeded, so each replay asks the same questions.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import ClassVar, Protocol, cast

import numpy as np

from quorum.attribution.coalitions import (
    MAX_TABLE_PLAYERS,
    BoolArray,
    FloatArray,
    all_coalitions,
)
from quorum.attribution.estimators.base import Estimand, Estimate, check_estimand
from quorum.attribution.estimators.design import with_ends
from quorum.attribution.estimators.pairs import exact_estimate, read_pairs
from quorum.errors import InputError, MissingExtraError, SettingsError

NO_ERRORS = "shapiq's approximators give no standard errors"
INDEX = {"shapley": "SV", "banzhaf": "BV"}
BANZHAF_INDICES = ("BV", "BII", "FBII")  # of order 1; all others are Shapley values there

Option = str | int | float | bool | None


class _Approximator(Protocol):
    def approximate(
        self, budget: int, game: Callable[[BoolArray], FloatArray]
    ) -> Mapping[tuple[int, ...], float]: ...


class _PauseError(Exception):
    """A replay met coalitions without payoffs."""


class _Recorder:
    """A game that answers from what is known, and notes what is not.

    Args:
        known: Payoffs by packed coalition.
        filler: Makes up payoffs for unknown coalitions; None pauses instead.
    """

    def __init__(
        self, known: Mapping[bytes, float], empty: float, filler: np.random.Generator | None
    ) -> None:
        self.known, self.empty, self.filler = dict(known), empty, filler
        self.asked: dict[bytes, BoolArray] = {}

    def __call__(self, coalitions: BoolArray) -> FloatArray:
        rows = np.atleast_2d(np.asarray(coalitions, dtype=bool))
        keys = [_key(row) for row in rows]
        for key, row in zip(keys, rows, strict=True):
            if key not in self.known:
                self.asked.setdefault(key, row.copy())
                if self.filler is not None:
                    self.known[key] = float(self.filler.normal())
        if any(key not in self.known for key in keys):
            raise _PauseError
        return np.array([self.known[key] for key in keys]) - self.empty


@dataclass(frozen=True, slots=True)
class Shapiq:
    """An approximator of shapiq by its class name; values as the library computes them.

    Args:
        estimand: ``shapley``, or ``banzhaf`` for classes whose ``index`` can be BV.
        approximator: Class in ``shapiq.approximator``, e.g. ``KernelSHAP``, ``SVARM``.
        options: Passed to the class as they are.

    The class gets two coalitions less than the budget, for ∅ and N, which it may not ask for.
    """

    plan_fields: ClassVar[tuple[str, ...]] = ("estimand", "approximator", "options")
    two_phase: ClassVar[bool] = True
    estimands: ClassVar[tuple[str, ...]] = ("shapley", "banzhaf")

    estimand: Estimand = "shapley"
    approximator: str = "KernelSHAP"
    options: Mapping[str, Option] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_estimand("shapiq", self.estimand, self.estimands)

    def plan(self, n: int, budget: int, seed: int) -> BoolArray:
        """∅, N, then what the class asks for whatever the payoffs; all where all are paid.

        Raises:
            MissingExtraError: shapiq is not installed, or its version lacks the class.
            SettingsError: It does not know the class or an option, or asks for nothing.
        """
        self._new(n, seed)
        if _is_full(n, budget):
            return with_ends(all_coalitions(n)[1:-1])
        first, second = (self._dry_run(n, budget, seed, k) for k in (0, 1))
        common: list[BoolArray] = []
        for (key, row), other in zip(first.items(), second, strict=False):
            if key != other:
                break
            common.append(row)
        rows = _inner(common, n)
        if n > 1 and not len(rows):
            raise SettingsError(
                "estimator.approximator",
                f"{self.approximator} asks for no coalition with {budget} in all",
                mend="Raise the budget or choose another approximator",
            )
        return with_ends(rows[: budget - 2])

    def refine(
        self, n: int, budget: int, seed: int, coalitions: BoolArray, payoffs: FloatArray
    ) -> BoolArray:
        """What a replay asks for next; (0, n) when it finishes. To be called until then."""
        if _is_full(n, budget):
            return np.zeros((0, n), dtype=bool)
        recorder = _recorder(coalitions, payoffs)
        try:
            self._new(n, seed).approximate(budget - 2, recorder)
        except _PauseError:
            return _inner(list(recorder.asked.values()), n)[: budget - len(coalitions)]
        return np.zeros((0, n), dtype=bool)

    def attribute(
        self, coalitions: BoolArray, payoffs: FloatArray, budget: int, seed: int
    ) -> Estimate:
        """Replays the class on the payoffs; exact on a full table, otherwise no standard errors.

        Raises:
            InputError: It asks for a coalition without a payoff.
        """
        pairs = read_pairs(coalitions, payoffs)
        if pairs.table is not None:
            return exact_estimate(pairs.table, self.estimand)
        try:
            found = self._new(pairs.n, seed).approximate(budget - 2, _recorder(coalitions, payoffs))
        except _PauseError:
            raise InputError(
                "estimator.approximator",
                f"{self.approximator} asks for coalitions that were not paid for",
                mend="Raise the budget or choose another approximator",
            ) from None
        values = np.array([float(found[(i,)]) for i in range(pairs.n)])
        return Estimate(values, None, NO_ERRORS)

    def _dry_run(self, n: int, budget: int, seed: int, run: int) -> dict[bytes, BoolArray]:
        recorder = _Recorder({}, 0.0, np.random.default_rng([seed, n, run]))
        self._new(n, seed).approximate(budget - 2, recorder)
        return recorder.asked

    def _new(self, n: int, seed: int) -> _Approximator:
        """A fresh, seeded instance of the class."""
        kind = _load(self.approximator)
        known = inspect.signature(kind).parameters
        given: dict[str, Option] = {}
        if "index" in known:
            given["index"] = INDEX[self.estimand]
        order = known.get("max_order")
        if order is not None and ("index" in known or order.default is order.empty):
            given["max_order"] = 1  # elsewhere it is the degree of a fit, not of the answer
        unknown = sorted(set(self.options) - set(known))
        if unknown and not any(p.kind is p.VAR_KEYWORD for p in known.values()):
            raise SettingsError(
                "estimator.options",
                f"{self.approximator} does not take it",
                got=unknown[0],
                allowed=", ".join(name for name in known if name not in ("n", "random_state")),
            )
        try:
            made = kind(**{"n": n, "random_state": seed % 2**32, **given, **self.options})
        except (TypeError, ValueError) as error:
            raise SettingsError("estimator.options", f"{self.approximator}: {error}") from error
        computes = "banzhaf" if getattr(made, "index", "SV") in BANZHAF_INDICES else "shapley"
        if computes != self.estimand:
            raise SettingsError(
                "estimator.estimand",
                f"{self.approximator} does not compute it",
                got=self.estimand,
                allowed=computes,
            )
        return cast("_Approximator", made)


def _load(name: str) -> Callable[..., object]:
    try:
        classes = importlib.import_module("shapiq.approximator")
    except ImportError as error:
        raise MissingExtraError(
            "estimator: shapiq",
            f"the package {str(error.name).partition('.')[0]} is not installed",
            mend="Run: pip install -e '.[shapiq]'",
        ) from error
    found = getattr(classes, name, None)
    if callable(found):
        return cast("Callable[..., object]", found)
    version = metadata.version("shapiq")
    if sys.version_info < (3, 12):
        raise MissingExtraError(
            "estimator.approximator",
            f"shapiq {version}, the newest for this Python, has no {name}",
            mend="Use Python 3.12, where pip installs a newer shapiq",
        )
    raise SettingsError(
        "estimator.approximator",
        f"shapiq {version} has no such class",
        got=name,
        allowed=", ".join(
            key
            for key in getattr(classes, "__all__", ())
            if isinstance(getattr(classes, key), type)
        ),
    )


def _recorder(coalitions: BoolArray, payoffs: FloatArray) -> _Recorder:
    rows = np.asarray(coalitions, dtype=bool)
    known = {_key(row): float(v) for row, v in zip(rows, payoffs, strict=True)}
    return _Recorder(known, known[_key(np.zeros(rows.shape[1], dtype=bool))], None)


def _inner(rows: list[BoolArray], n: int) -> BoolArray:
    """Rows as a matrix, without ∅ and N."""
    kept = [row for row in rows if 0 < row.sum() < n]
    return np.array(kept, dtype=bool).reshape(len(kept), n)


def _is_full(n: int, budget: int) -> bool:
    return n <= MAX_TABLE_PLAYERS and budget >= 1 << n


def _key(row: BoolArray) -> bytes:
    return np.packbits(row).tobytes()
