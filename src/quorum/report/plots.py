"""Rows for DVC's plots: values with their intervals, curves, values over the budget.

What a plot is about stands last: DVC draws the last column where it is told nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorum.report.document import Player, read_attribution
from quorum.report.escape import visible_label
from quorum.report.tables import Cell

VALUE_COLUMNS = ("snapshot", "player", "label", "rank", "low", "high", "value")
CURVE_COLUMNS = ("snapshot", "curve", "k", "share", "payoff")
CONVERGENCE_COLUMNS = ("snapshot", "player", "label", "budget", "n_coalitions", "se", "value")


def value_rows(attributions: Iterable[Mapping[str, object]]) -> list[dict[str, Cell]]:
    """A row a player, by rank: raw value and the ends of its interval (value ± z·SE).

    ``label`` is the player's index and text, unique in its snapshot; ``low`` and ``high`` are
    null where there is no standard error, ``value`` and ``rank`` where there is no value.
    """
    rows: list[dict[str, Cell]] = []
    for source in attributions:
        attribution = read_attribution(source)
        for rank, index in enumerate(attribution.ranking(), start=1):
            value = attribution.raw_values[index]
            low, high = attribution.interval(index) or (None, None)
            rows.append(
                {
                    "snapshot": attribution.snapshot,
                    "player": index,
                    "label": _label(attribution.players[index]),
                    "rank": None if value is None else rank,
                    "low": low,
                    "high": high,
                    "value": value,
                }
            )
    return rows


def _label(player: Player) -> str:
    return f"{player.index}: {visible_label(player.text, limit=24)}"


def curve_rows(attributions: Iterable[Mapping[str, object]]) -> list[dict[str, Cell]]:
    """A row a point of each curve: k players removed or inserted, the share k/n, the payoff.

    A point that was not paid for has a null payoff, so that a plot shows a gap.
    """
    rows: list[dict[str, Cell]] = []
    for source in attributions:
        attribution = read_attribution(source)
        rows.extend(
            {
                "snapshot": attribution.snapshot,
                "curve": name,
                "k": k,
                "share": k / attribution.n_players,
                "payoff": payoff,
            }
            for name, curve in sorted(attribution.curves.items())
            for k, payoff in curve.points
        )
    return rows


def convergence_rows(attributions: Iterable[Mapping[str, object]]) -> list[dict[str, Cell]]:
    """A row a budget and player: the raw value that so many coalitions would have given.

    ``value`` and ``se`` are null where that budget's coalitions were not paid for.
    """
    rows: list[dict[str, Cell]] = []
    for source in attributions:
        attribution = read_attribution(source)
        rows.extend(
            {
                "snapshot": attribution.snapshot,
                "player": player.index,
                "label": _label(player),
                "budget": point.budget,
                "n_coalitions": point.n_coalitions,
                "se": point.standard_errors[player.index],
                "value": point.values[player.index],
            }
            for point in attribution.convergence
            for player in attribution.players
        )
    return rows
