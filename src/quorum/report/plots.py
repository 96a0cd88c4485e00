"""Rows for DVC's plots: values with their intervals, deletion and insertion curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from quorum.report.document import read_attribution
from quorum.report.escape import visible_label
from quorum.report.tables import Cell

VALUE_COLUMNS = ("snapshot", "player", "label", "value", "low", "high", "rank")
CURVE_COLUMNS = ("snapshot", "curve", "k", "share", "payoff")


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
            text = visible_label(attribution.players[index].text, limit=24)
            rows.append(
                {
                    "snapshot": attribution.snapshot,
                    "player": attribution.players[index].index,
                    "label": f"{attribution.players[index].index}: {text}",
                    "value": value,
                    "low": low,
                    "high": high,
                    "rank": None if value is None else rank,
                }
            )
    return rows


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
