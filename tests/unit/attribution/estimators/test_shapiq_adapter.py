"""Replaying a library that calls its game while it computes."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from quorum.attribution import games
from quorum.attribution.estimators import shapiq_adapter
from quorum.attribution.estimators.shapiq_adapter import Shapiq
from quorum.errors import InputError, MissingExtraError, SettingsError


class LeaveOneOut:
    """Asks for N and each N∖i."""

    def __init__(self, n: int, random_state: int | None = None) -> None:
        self.n = n

    def approximate(self, budget, game):
        rows = np.concatenate([np.ones((1, self.n), bool), ~np.eye(self.n, dtype=bool)])
        payoffs = game(rows)
        return {(i,): payoffs[0] - payoffs[1 + i] for i in range(self.n)}


class Adaptive(LeaveOneOut):
    """Then asks for the two-player coalition of the two largest, one at a time."""

    def approximate(self, budget, game):
        values = super().approximate(budget, game)
        best = sorted(values, key=values.get)[-2:]
        for chosen in (best[:1], best):
            row = np.zeros((1, self.n), bool)
            row[0, [i for (i,) in chosen]] = True
            values[best[-1]] += 0 * float(game(row)[0])
        return values


class Greedy(LeaveOneOut):
    """Asks for more than its budget."""

    def approximate(self, budget, game):
        masks = np.arange(budget + 5)
        game(((masks[:, None] >> np.arange(self.n)) & 1).astype(bool))
        return super().approximate(budget, game)


class Indexed(LeaveOneOut):
    """Takes an index and an order, as most classes of the library do."""

    def __init__(self, n, index="SII", max_order=2, random_state=None, scale=1.0):
        super().__init__(n)
        if max_order != 1:
            raise ValueError("order")
        self.index, self.scale = index, scale

    def approximate(self, budget, game):
        return {k: self.scale * v for k, v in super().approximate(budget, game).items()}


class Idle(LeaveOneOut):
    """Asks for nothing but the ends."""

    def approximate(self, budget, game):
        game(np.zeros((1, self.n), bool))
        return {(i,): 0.0 for i in range(self.n)}


class Alone(LeaveOneOut):
    """Each player alone, for a game whose empty coalition is worth 0, as the library assumes."""

    def approximate(self, budget, game):
        payoffs = game(np.eye(self.n, dtype=bool))
        return {(i,): payoffs[i] for i in range(self.n)}


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    package, classes = types.ModuleType("shapiq"), types.ModuleType("shapiq.approximator")
    monkeypatch.setattr(shapiq_adapter.metadata, "version", {"shapiq": "1.4.1"}.__getitem__)
    for kind in (LeaveOneOut, Adaptive, Greedy, Indexed, Idle, Alone):
        setattr(classes, kind.__name__, kind)
    classes.__all__ = ["LeaveOneOut", "Adaptive", "Greedy", "Indexed"]
    monkeypatch.setitem(sys.modules, "shapiq", package)
    monkeypatch.setitem(sys.modules, "shapiq.approximator", classes)


GAME = games.additive([1, 5, 3, 4, 2])


def rounds(estimator: Shapiq, budget: int) -> list[int]:
    rows = estimator.plan(5, budget, 0)
    found = [len(rows)]
    while len(more := estimator.refine(5, budget, 0, rows, GAME.payoff(rows))):
        rows = np.concatenate([rows, more])
        found.append(len(more))
    estimate = estimator.attribute(rows[::-1], GAME.payoff(rows[::-1]), budget, 0)
    np.testing.assert_allclose(estimate.values, GAME.shapley, atol=1e-12)
    assert estimate.standard_errors is None
    assert estimate.se_reason
    return found


def test_a_class_that_asks_the_same_whatever_comes_back_takes_one_round(library) -> None:
    assert rounds(Shapiq(approximator="LeaveOneOut"), 20) == [2 + 5]


def test_an_adaptive_class_takes_rounds_until_it_asks_nothing_new(library) -> None:
    assert rounds(Shapiq(approximator="Adaptive"), 20) == [2 + 5, 1, 1]


def test_a_class_that_wants_more_than_the_budget_is_refused_not_fed(library) -> None:
    estimator = Shapiq(approximator="Greedy")
    rows = estimator.plan(5, 14, 0)
    assert len(rows) == 14
    assert estimator.refine(5, 14, 0, rows, GAME.payoff(rows)).shape == (0, 5)
    with pytest.raises(InputError, match="not paid for"):
        estimator.attribute(rows, GAME.payoff(rows), 14, 0)


def test_the_class_sees_a_game_whose_empty_coalition_is_worth_nothing(library) -> None:
    estimator = Shapiq(approximator="Alone")
    rows = estimator.plan(5, 20, 0)
    found = estimator.attribute(rows, GAME.payoff(rows) + 7.0, 20, 0)
    np.testing.assert_allclose(found.values, GAME.shapley, atol=1e-12)


def test_a_class_that_asks_for_nothing_is_refused_before_any_call(library) -> None:
    with pytest.raises(SettingsError, match="Idle asks for no coalition with 20 in all"):
        Shapiq(approximator="Idle").plan(5, 20, 0)


def test_options_reach_the_class_and_order_one_is_asked_for(library) -> None:
    estimator = Shapiq(approximator="Indexed", options={"scale": 3.0})
    rows = estimator.plan(5, 20, 0)
    found = estimator.attribute(rows, GAME.payoff(rows), 20, 0)
    np.testing.assert_allclose(found.values, 3 * GAME.shapley)


def test_banzhaf_goes_through_the_index(library) -> None:
    assert Shapiq(estimand="banzhaf", approximator="Indexed").plan(5, 20, 0).shape == (7, 5)
    with pytest.raises(SettingsError, match="does not compute it"):
        Shapiq(estimand="banzhaf", approximator="LeaveOneOut").plan(5, 20, 0)
    with pytest.raises(SettingsError, match="allowed banzhaf"):
        Shapiq(approximator="Indexed", options={"index": "BII"}).plan(5, 20, 0)


def test_an_option_that_the_class_lacks_is_named(library) -> None:
    with pytest.raises(SettingsError, match=r"scal.*allowed index, max_order, scale"):
        Shapiq(approximator="Indexed", options={"scal": 3.0}).plan(5, 20, 0)
    with pytest.raises(SettingsError, match="Indexed: order"):
        Shapiq(approximator="Indexed", options={"max_order": 2}).plan(5, 20, 0)


def test_a_class_that_this_version_lacks_names_python_3_12(library, monkeypatch) -> None:
    monkeypatch.setattr(shapiq_adapter.sys, "version_info", (3, 11, 7))
    with pytest.raises(MissingExtraError, match=r"shapiq 1\.4\.1.*no LeverageSHAP.*Python 3\.12"):
        Shapiq(approximator="LeverageSHAP").plan(5, 20, 0)


def test_a_class_that_no_version_has_is_an_unknown_name(library, monkeypatch) -> None:
    monkeypatch.setattr(shapiq_adapter.sys, "version_info", (3, 12, 1))
    with pytest.raises(SettingsError, match="'Nope'; allowed LeaveOneOut, Adaptive"):
        Shapiq(approximator="Nope").plan(5, 20, 0)


def test_without_the_library_the_install_command_is_given(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "shapiq", None)
    with pytest.raises(MissingExtraError, match=r"pip install -e '\.\[shapiq\]'"):
        Shapiq().plan(5, 20, 0)
