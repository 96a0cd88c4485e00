"""What a snapshot's page and its row in the index show, as texts and coordinates."""

from __future__ import annotations

from quorum.errors import InputError
from quorum.report.charts import bar, bar_scale, curve_chart, decimal, digits_for, percent
from quorum.report.document import Attribution, Player
from quorum.report.escape import visible_label, visible_text

View = dict[str, object]

BINDING = {
    "fraction": "fraction",
    "floor": "floor 2n + 2",
    "max_coalitions": "coalition cap",
    "all": "all coalitions",
    "calls_per_player": "calls per player",
}
_FINISH = {
    "length": "The reply was cut at the token limit.",
    "refusal": "The model refused to answer.",
}
CURVES = (
    ("deletion", "Deletion", "players removed"),
    ("insertion", "Insertion", "players inserted"),
)


def stated(value: float | None, digits: int, reason: str, *, signed: bool = False) -> str:
    """A number as text, or that it is not available and why."""
    if value is None:
        return f"not available: {visible_text(reason)}"
    return decimal(value, digits, signed=signed)


def first_words(attribution: Attribution) -> str:
    """The beginning of the first message that holds a player."""
    message = min((player.message for player in attribution.players), default=0)
    content = attribution.messages[message][1] if attribution.messages else ""
    return visible_label(content, limit=70)


def index_row(attribution: Attribution, slug: str, digits: int) -> View:
    """A row of the index: cells as texts and the numbers to sort by (None sorts last)."""
    top = attribution.ranking()[0] if attribution.n_players else None
    top_value = None if top is None else attribution.raw_values[top]
    binding = attribution.texts["budget_binding"]
    share, residual = attribution.protected_share, attribution.efficiency_residual
    return {
        "href": f"snapshots/{slug}.html",
        "snapshot": visible_label(attribution.snapshot),
        "words": first_words(attribution),
        "top": "" if top_value is None or top is None else _label(attribution.players[top]),
        "top_value": stated(top_value, digits, attribution.values_reason, signed=True),
        "counts": [
            (count, "not available" if count is None else str(count))
            for count in (attribution.n_players, attribution.n_coalitions, attribution.n_requests)
        ],
        "payoffs": [
            (value, "not available" if value is None else decimal(value, digits))
            for value in (attribution.base_value, attribution.grand_value)
        ],
        "top_sort": top_value,
        "residual_sort": residual,
        "residual": "not available" if residual is None else decimal(residual, digits, signed=True),
        "protected_sort": share,
        "protected": "not available" if share is None else percent(share),
        "binding": BINDING.get(binding, visible_text(binding)) or "not available",
        "notes": [visible_text(note) for note in attribution.notes],
    }


def snapshot_view(attribution: Attribution) -> View:
    """All that a snapshot's page shows, apart from links and run facts."""
    digits, largest = digits_for(attribution.raw_values), _largest(attribution)
    payoff_digits = digits_for((attribution.base_value, attribution.grand_value))
    share = attribution.protected_share
    reason = attribution.values_reason if None in attribution.raw_values else "not recorded"
    binding = attribution.texts["budget_binding"]
    finish = attribution.texts["base_finish_reason"]
    return {
        "snapshot": visible_label(attribution.snapshot, limit=120),
        "n_players": attribution.n_players,
        "messages": _messages(attribution, digits),
        "largest": decimal(largest, digits) if largest else "",
        "rows": _ranking_rows(attribution, digits),
        "is_normalised": attribution.texts["normaliser"] not in ("", "identity"),
        "level": percent(attribution.level),
        "missing": _missing(attribution),
        "base_generation": visible_text(attribution.texts["base_generation"]),
        "empty_generation": visible_text(attribution.texts["empty_generation"]),
        "finish": _FINISH.get(finish, ""),
        "base_value": stated(attribution.base_value, payoff_digits, reason),
        "grand_value": stated(attribution.grand_value, payoff_digits, reason),
        "residual": stated(attribution.efficiency_residual, payoff_digits, reason, signed=True),
        "protected": "not available" if share is None else percent(share),
        "binding": BINDING.get(binding, visible_text(binding)) or "not available",
        "n_coalitions": _count(attribution.n_coalitions),
        "n_requests": _count(attribution.n_requests),
        "noise": [
            (name.replace("_", " "), _scalar(attribution.noise[name]))
            for name in sorted(attribution.noise)
        ],
        "curves": [
            _curve(attribution, name, title, axis)
            for name, title, axis in CURVES
            if name in attribution.curves
        ],
        "notes": [visible_text(note) for note in attribution.notes],
    }


def _largest(attribution: Attribution) -> float:
    return max((abs(value) for value in attribution.raw_values if value is not None), default=0.0)


def _count(value: int | None) -> str:
    return "not available" if value is None else f"{value:,}"


def _scalar(value: object) -> str:
    if isinstance(value, float):
        return decimal(value, digits_for([value]))
    return "not available" if value is None else visible_text(str(value))


def _label(player: Player) -> str:
    return visible_label(player.text, limit=40)


def _missing(attribution: Attribution) -> list[str]:
    """Why values or standard errors are missing: a sentence each; none where nothing is."""
    found = []
    if None in attribution.raw_values:
        found.append(f"Values are not available: {visible_text(attribution.values_reason)}.")
    elif None in attribution.values:
        found.append(
            f"Normalised values are not available: {visible_text(attribution.values_reason)}."
        )
    if None in attribution.standard_errors:
        found.append(
            "Standard errors and intervals are not available:"
            f" {visible_text(attribution.standard_errors_reason)}."
        )
    return [sentence.replace("..", ".") for sentence in found]


def _messages(attribution: Attribution, digits: int) -> list[View]:
    """Every message, cut into plain stretches and players; nothing of the text is left out.

    Raises:
        InputError: Players overlap, or lie outside their message.
    """
    largest = _largest(attribution)
    views: list[View] = []
    for number, (role, content) in enumerate(attribution.messages):
        pieces: list[View] = []
        position = 0
        inside = [player for player in attribution.players if player.message == number]
        for player in sorted(inside, key=lambda player: (player.start, player.end)):
            if not position <= player.start <= player.end <= len(content):
                where = f"attributions, snapshot {attribution.snapshot!r}"
                raise InputError(where, "player overlaps or leaves its message", got=player.index)
            if player.start > position:
                pieces.append({"text": visible_text(content[position : player.start])})
            text = content[player.start : player.end]
            pieces.append(_heat(attribution, player, text, digits, largest))
            position = player.end
        if position < len(content):
            pieces.append({"text": visible_text(content[position:])})
        views.append({"role": role, "pieces": pieces, "is_protected": not inside})
    return views


def _heat(attribution: Attribution, player: Player, text: str, digits: int, largest: float) -> View:
    index = player.index
    value = attribution.raw_values[index]
    shown = stated(value, digits, attribution.values_reason, signed=True)
    tip = f"{visible_label(text, limit=40)}  {shown}"
    interval = attribution.interval(index)
    if interval is not None:
        low, high = (decimal(end, digits, signed=True) for end in interval)
        tip += f"  [{low}, {high}]"
    strength = 0.0 if value is None or largest == 0.0 else abs(value) / largest
    sign = "none" if value is None else "pos" if value > 0 else "neg" if value < 0 else "zero"
    is_blank = text.strip(" \t\r\n") == ""
    return {
        "player": index,
        "text": visible_label(text) if is_blank else visible_text(text),
        "after": text if is_blank and "\n" in text else "",
        "value": "n/a" if value is None else decimal(value, max(2, digits - 1), signed=True),
        "tip": tip,
        "is_whole": len(text) <= 24 and not any(letter.isspace() for letter in text),
        "sign": sign,
        "strength": f"{strength:.2f}",
    }


def _ranking_rows(attribution: Attribution, digits: int) -> list[View]:
    intervals = [attribution.interval(index) for index in range(attribution.n_players)]
    scale = bar_scale(attribution.raw_values, intervals)
    normalised = digits_for(attribution.values)
    rows: list[View] = []
    for rank, index in enumerate(attribution.ranking(), start=1):
        value, interval = attribution.raw_values[index], intervals[index]
        ends = [decimal(end, digits, signed=True) for end in interval or ()]
        rows.append(
            {
                "rank": "" if value is None else rank,
                "player": index,
                "text": _label(attribution.players[index]),
                "role": attribution.players[index].role,
                "value": stated(value, digits, attribution.values_reason, signed=True),
                "sign": "neg" if (value or 0.0) < 0 else "pos",
                "interval": f"[{', '.join(ends)}]" if ends else "",
                "normalised": stated(attribution.values[index], normalised, "", signed=True)
                if attribution.values[index] is not None
                else "not available",
                "bar": None if value is None else bar(scale, value, interval),
            }
        )
    return rows


def _curve(attribution: Attribution, name: str, title: str, axis: str) -> View:
    curve = attribution.curves[name]
    payoffs = [payoff for _, payoff in curve.points]
    digits = digits_for(payoffs)
    n_missing = payoffs.count(None)
    why = f"{n_missing} of {len(payoffs)} points were not paid for"
    coverage = "not recorded" if curve.coverage is None else percent(curve.coverage)
    return {
        "name": name,
        "title": title,
        "axis": axis,
        "chart": curve_chart(curve),
        "is_empty": n_missing == len(payoffs),
        "n_missing": n_missing,
        "coverage": coverage,
        "area": stated(curve.area, digits_for([curve.area]), why),
        "points": [
            (k, "not paid for" if payoff is None else decimal(payoff, digits))
            for k, payoff in curve.points
        ],
    }
