"""The attribution objects that the report shows, read from their JSON form into typed records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from quorum.errors import InputError


@dataclass(frozen=True, slots=True)
class Player:
    """A player: its span in characters of one message's content, that message's role, its text."""

    index: int
    message: int
    start: int
    end: int
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A deletion or insertion curve.

    Args:
        points: Pairs (k, payoff), k = 0..n players removed or inserted; None where not paid for.
        coverage: Share of points that have a payoff, 0..1.
        area: Area under the curve over the share k/n; None below the coverage it needs.
    """

    points: tuple[tuple[int, float | None], ...]
    coverage: float | None
    area: float | None


@dataclass(frozen=True, slots=True)
class BudgetPoint:
    """Raw values and standard errors, one a player, that a budget of coalitions gives.

    ``reason`` says why they are None; ``n_coalitions`` are those that were used.
    """

    budget: int
    n_coalitions: int | None
    values: tuple[float | None, ...]
    standard_errors: tuple[float | None, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Attribution:
    """One snapshot's attribution: names as in ``attributions.jsonl``, one item a player."""

    snapshot: str
    texts: Mapping[str, str]  # estimator, estimand, …: every field that is a plain text
    n_players: int
    n_coalitions: int | None
    n_requests: int | None
    values: tuple[float | None, ...]
    raw_values: tuple[float | None, ...]
    values_reason: str
    standard_errors: tuple[float | None, ...]
    standard_errors_reason: str
    base_value: float | None
    grand_value: float | None
    efficiency_residual: float | None
    protected_share: float | None
    level: float
    players: tuple[Player, ...]
    messages: tuple[tuple[str, str], ...]  # (role, content)
    curves: Mapping[str, Curve]  # deletion, insertion
    convergence: tuple[BudgetPoint, ...]  # by budget, ascending
    noise: Mapping[str, object]
    notes: tuple[str, ...]
    manifest: Mapping[str, object]

    def ranking(self) -> list[int]:
        """Player indices by raw value, highest first; ties by index; players without one last."""
        raw = self.raw_values
        return sorted(range(self.n_players), key=lambda i: (raw[i] is None, -(raw[i] or 0.0), i))

    def interval(self, index: int) -> tuple[float, float] | None:
        """Raw value ± z·SE at ``level`` (z = 1.645 at 0.9); None where either is undefined."""
        value, error = self.raw_values[index], self.standard_errors[index]
        if value is None or error is None:
            return None
        half = NormalDist().inv_cdf((1 + self.level) / 2) * error
        return value - half, value + half


_TEXTS = (
    "snapshot_digest",
    "run_id",
    "estimator",
    "estimand",
    "control_variate",
    "value_function",
    "reference",
    "normaliser",
    "partitioner",
    "absence",
    "budget_binding",
    "base_generation",
    "empty_generation",
    "base_finish_reason",
)


def read_attribution(source: Mapping[str, object]) -> Attribution:
    """The typed record of one object of ``attributions.jsonl``.

    Raises:
        InputError: A field is missing or of the wrong kind, a number is not finite, or a list has
            not one item a player.
    """
    snapshot = text(source, "snapshot")
    where = f"attributions, snapshot {snapshot!r}"
    players = tuple(_player(item) for item in records(source, "players"))
    n = integer(source, "n_players")
    if n != len(players):
        raise InputError(where, "n_players is not the number of players", got=n)
    if [player.index for player in players] != list(range(n)):
        raise InputError(where, "players must stand in the order of their index, from 0")
    reason = text(source, "values_reason")
    error_reason = text(source, "standard_errors_reason")
    level = number(source, "level")
    curves = table(source, "faithfulness")
    return Attribution(
        snapshot=snapshot,
        texts={name: text(source, name) for name in _TEXTS},
        n_players=n,
        n_coalitions=_count(source, "n_coalitions"),
        n_requests=_count(source, "n_requests"),
        values=_per_player(source, "values", n, where),
        raw_values=_per_player(source, "raw_values", n, where),
        values_reason=reason or "no reason was recorded",
        standard_errors=_per_player(source, "standard_errors", n, where),
        standard_errors_reason=error_reason or "no reason was recorded",
        base_value=number(source, "base_value"),
        grand_value=number(source, "grand_value"),
        efficiency_residual=number(source, "efficiency_residual"),
        protected_share=number(source, "protected_share"),
        level=0.9 if level is None else level,
        players=players,
        messages=tuple((text(m, "role"), text(m, "content")) for m in records(source, "messages")),
        curves={name: _curve(table(curves, name)) for name in curves if curves[name] is not None},
        convergence=tuple(_point(p, n, where) for p in records(source, "convergence")),
        noise=table(source, "noise"),
        notes=texts(source, "notes"),
        manifest=table(source, "manifest"),
    )


def _player(item: Mapping[str, object]) -> Player:
    index, message = integer(item, "index"), integer(item, "message")
    start, end = integer(item, "start"), integer(item, "end")
    return Player(index, message, start, end, text(item, "role"), text(item, "text"))


def _curve(item: Mapping[str, object]) -> Curve:
    points = tuple((integer(p, "k"), number(p, "payoff")) for p in records(item, "points"))
    return Curve(points, number(item, "coverage"), number(item, "area"))


def _point(item: Mapping[str, object], n: int, where: str) -> BudgetPoint:
    return BudgetPoint(
        integer(item, "budget"),
        _count(item, "n_coalitions"),
        _per_player(item, "values", n, where),
        _per_player(item, "standard_errors", n, where),
        text(item, "reason"),
    )


def _per_player(
    source: Mapping[str, object], name: str, n: int, where: str
) -> tuple[float | None, ...]:
    items = source.get(name)
    if items is None:
        return (None,) * n
    if not isinstance(items, Sequence) or isinstance(items, str) or len(items) != n:
        raise InputError(where, f"{name} must hold one number a player", got=items)
    return tuple(number({name: item}, name) for item in items)


def number(source: Mapping[str, object], name: str) -> float | None:
    """A finite number, or None where it is null or absent.

    Raises:
        InputError: Anything else stands there.
    """
    value = source.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InputError("attributions", f"{name} must be a finite number or null", got=value)
    return float(value)


def integer(source: Mapping[str, object], name: str) -> int:
    """A whole number that must be given.

    Raises:
        InputError: Anything else stands there.
    """
    value = source.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError("attributions", f"{name} must be a whole number", got=value)
    return value


def _count(source: Mapping[str, object], name: str) -> int | None:
    return None if source.get(name) is None else integer(source, name)


def text(source: Mapping[str, object], name: str) -> str:
    """A text; empty where it is null or absent.

    Raises:
        InputError: Anything else stands there.
    """
    value = source.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError("attributions", f"{name} must be a text or null", got=value)
    return value


def texts(source: Mapping[str, object], name: str) -> tuple[str, ...]:
    """The texts of a list; none where it is null or absent.

    Raises:
        InputError: Anything else stands there.
    """
    items = source.get(name) or ()
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise InputError("report", f"{name} must be a list of texts", got=items)
    return tuple(str(item) for item in items)


def table(source: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The mapping under a name; empty where it is null or absent.

    Raises:
        InputError: Anything else stands there.
    """
    value = source.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InputError("report", f"{name} must be a mapping or null", got=value)
    return value


def records(source: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    """The mappings of a list; none where it is null or absent.

    Raises:
        InputError: Anything else stands there.
    """
    items = source.get(name) or ()
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise InputError("report", f"{name} must be a list of mappings", got=items)
    for item in items:
        if not isinstance(item, Mapping):
            raise InputError("report", f"{name} must be a list of mappings", got=item)
    return list(items)
