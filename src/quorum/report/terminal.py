"""One snapshot's attribution in a terminal: what ``quorum explain`` prints.

Model text is printed as text: escape sequences are stripped, markup is never read. Where the
stream's encoding has no block characters, everything is ASCII and foreign letters are escapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from quorum.report.charts import decimal, digits_for, percent
from quorum.report.document import Attribution, Player, read_attribution
from quorum.report.escape import strip_terminal, visible_label
from quorum.report.views import BINDING

_BAR_CELLS = 25
_POSITIVE, _NEGATIVE = (74, 158, 230), (240, 150, 40)


@dataclass(frozen=True, slots=True)
class Signs:
    """The characters that a stream can take."""

    encoding: str
    is_ascii: bool

    @property
    def bar(self) -> str:
        """A filled cell of a bar."""
        return "#" if self.is_ascii else "█"

    @property
    def overlap(self) -> str:
        """A cell of a bar that its error bar covers."""
        return "=" if self.is_ascii else "▒"

    @property
    def error(self) -> str:
        """A cell of an error bar, outside its bar."""
        return "-" if self.is_ascii else "─"

    @property
    def zero(self) -> str:
        """The cell of the axis."""
        return "|" if self.is_ascii else "│"

    @property
    def empty(self) -> str:
        """The empty coalition."""
        return "v(empty)" if self.is_ascii else "v(∅)"

    def text(self, text: str) -> str:
        """Foreign text, stripped of escapes and limited to what the encoding can say."""
        return (
            strip_terminal(text)
            .encode(self.encoding, "backslashreplace")
            .decode(self.encoding)
            .expandtabs(4)
        )

    def label(self, text: str, limit: int) -> str:
        """Foreign text on one line."""
        return self.text(visible_label(strip_terminal(text) or " ", limit))

    def number(self, value: float, digits: int, *, signed: bool = True) -> str:
        """A number; with a plain minus sign in ASCII."""
        text = decimal(value, digits, signed=signed)
        return text.replace("−", "-") if self.is_ascii else text


def print_attribution(
    attribution: Mapping[str, object], stream: TextIO, *, width: int | None = None
) -> None:
    """Writes one attribution: prompt, values with bars and intervals, replies, what it rests on.

    Colour only where the stream is a terminal and ``NO_COLOR`` is not set.

    Args:
        attribution: One object of ``attributions.jsonl``.
        stream: Where to; its encoding decides between Unicode and ASCII.
        width: Columns; None takes the terminal's, or 80.

    Raises:
        InputError: The object is not an attribution.
    """
    console = Console(file=stream, width=width, highlight=False, emoji=False, markup=False)
    console.print(render_attribution(attribution, encoding=stream.encoding or "ascii"))


def render_attribution(
    attribution: Mapping[str, object], *, encoding: str = "utf-8"
) -> RenderableType:
    """What ``print_attribution`` prints, for any rich console.

    Raises:
        InputError: The object is not an attribution.
    """
    read = read_attribution(attribution)
    signs = Signs(encoding, is_ascii=not _can_say(encoding, "█▒─│∅−…␣⏎⇥"))
    parts: list[RenderableType] = [
        Text(signs.label(read.snapshot, 100), style="bold"),
        *_prompt(read, signs),
        Text(),
        _values(read, signs),
        *_replies(read, signs),
        _heading("What it rests on"),
        *_facts(read, signs),
    ]
    return Group(*parts)


def _can_say(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _heading(title: str) -> Text:
    return Text(f"\n{title}", style="bold")


def _prompt(read: Attribution, signs: Signs) -> list[RenderableType]:
    """Each message, players coloured by value on a scale that is symmetric around 0."""
    largest = max((abs(value) for value in read.raw_values if value is not None), default=0.0)
    parts: list[RenderableType] = []
    for number, (role, content) in enumerate(read.messages):
        line = Text(f"{signs.text(role)}: ", style="bold dim")
        position = 0
        inside = (player for player in read.players if player.message == number)
        for player in sorted(inside, key=lambda player: player.start):
            line.append(signs.text(content[position : player.start]), style="not bold not dim")
            style = _style(read.raw_values[player.index], largest)
            line.append(signs.text(content[player.start : player.end]), style=style)
            position = player.end
        line.append(signs.text(content[position:]), style="not bold not dim")
        parts.append(line)
    return parts


def _style(value: float | None, largest: float) -> str:
    strength = 0.0 if value is None or largest == 0.0 else abs(value) / largest
    if strength < 0.05:
        return "not bold not dim"
    hue = _POSITIVE if (value or 0.0) > 0 else _NEGATIVE
    red, green, blue = (round(255 + strength * (part - 255)) for part in hue)
    return f"not bold not dim rgb(0,0,0) on rgb({red},{green},{blue})"


def _values(read: Attribution, signs: Signs) -> Table:
    """The ranking: a row a player, with bar, value and interval; raw values throughout."""
    digits = digits_for(read.raw_values)
    intervals = [read.interval(index) for index in range(read.n_players)]
    has_intervals = any(interval is not None for interval in intervals)
    ends = [abs(end) for interval in intervals for end in interval or ()]
    ends += [abs(value) for value in read.raw_values if value is not None]
    reach = max(ends, default=0.0) or 1.0
    table = Table(box=box.ASCII if signs.is_ascii else box.SIMPLE, pad_edge=False)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("player", overflow="fold", max_width=30)
    table.add_column("value", justify="right", no_wrap=True)
    if has_intervals:
        table.add_column(f"{percent(read.level)} interval", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, width=_BAR_CELLS)
    for rank, index in enumerate(read.ranking(), start=1):
        value, interval = read.raw_values[index], intervals[index]
        shown = "" if value is None else signs.number(value, digits)
        row = ["" if value is None else str(rank), _player(read.players[index], signs), shown]
        if has_intervals:
            low_high = (signs.number(end, digits) for end in interval or ())
            row.append(f"[{', '.join(low_high)}]" if interval else "")
        table.add_row(*map(Text, row), _bar(value, interval, reach, signs))
    return table


def _player(player: Player, signs: Signs) -> str:
    return signs.label(player.text, 30)


def _bar(
    value: float | None, interval: tuple[float, float] | None, reach: float, signs: Signs
) -> Text:
    """A bar from the middle cell; its last stretch and the dim line behind it are the interval."""
    if value is None:
        return Text("not available", style="dim")
    middle = _BAR_CELLS // 2
    ends = (0.0, value, *(interval or (value, value)))
    zero, tip, low, high = (round(middle + end / reach * middle) for end in ends)
    hue = _POSITIVE if value > 0 else _NEGATIVE
    style = f"rgb({hue[0]},{hue[1]},{hue[2]})"
    text = Text()
    for cell in range(_BAR_CELLS):
        if cell == zero:
            text.append(signs.zero, style="dim")
        elif min(zero, tip) <= cell <= max(zero, tip):
            is_covered = interval is not None and low <= cell <= high
            text.append(signs.overlap if is_covered else signs.bar, style=style)
        elif low <= cell <= high:
            text.append(signs.error, style="dim")
        else:
            text.append(" ")
    return text


def _replies(read: Attribution, signs: Signs) -> list[RenderableType]:
    digits = digits_for((read.base_value, read.grand_value))
    parts: list[RenderableType] = []
    for title, value, text in (
        ("Base generation: the reply to the whole prompt, v(N)", read.grand_value, "base"),
        (
            f"Empty generation: the reply without any player, {signs.empty}",
            read.base_value,
            "empty",
        ),
    ):
        shown = (
            f"not available: {signs.text(read.values_reason)}"
            if value is None
            else signs.number(value, digits, signed=False)
        )
        parts.append(_heading(f"{title} = {shown}"))
        reply = signs.text(read.texts[f"{text}_generation"])
        parts.append(Text(reply) if reply else Text("(empty)", style="dim"))
    if read.texts["base_finish_reason"] not in ("", "stop"):
        parts.append(Text(f"Finish reason: {signs.text(read.texts['base_finish_reason'])}"))
    return parts


def _facts(read: Attribution, signs: Signs) -> list[RenderableType]:
    """Residual, budget, parts, and why anything is missing; each a line."""
    digits = digits_for((read.base_value, read.grand_value))
    residual, share = read.efficiency_residual, read.protected_share
    texts = read.texts
    binding = texts["budget_binding"]
    counts = f"{read.n_coalitions} coalitions, {read.n_requests} distinct requests"
    backend = read.manifest.get("backend")
    model = backend.get("model") if isinstance(backend, Mapping) else None
    lines = [
        f"model           {model or 'not recorded'} (model-generated replies)",
        f"estimator       {texts['estimator']}, {texts['estimand']}",
        f"value function  {texts['value_function']} against {texts['reference']}",
        "residual        "
        + ("not available" if residual is None else signs.number(residual, digits)),
        f"budget          {counts}; bound by {BINDING.get(binding, binding)}",
        f"protected       {'not available' if share is None else percent(share)} of the prompt",
    ]
    if None in read.raw_values:
        lines.append(f"values          not available: {read.values_reason}")
    if None in read.standard_errors:
        lines.append(f"intervals       not available: {read.standard_errors_reason}")
    lines += [f"note            {note}" for note in read.notes]
    return [Text(signs.text(line)) for line in lines]
