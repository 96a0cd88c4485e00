"""Shares as files write them: cells to numbers, one scale a file, sums that rounding explains."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from quorum.errors import InputError, SettingsError

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.(\d*))?|\.(\d+))(?:[eE]([+-]?\d+))?")
_LESS = re.compile(r"(?:<|≤|less than |under )\s*(\S.*)", re.IGNORECASE)
_BLANKS = frozenset({"", "-", "–", "—", "−", "..", "…"})
_ASTERISK_BOUND = 0.5  # percent: what an asterisk stands for in published tables
_SUM_TOLERANCE = 1e-3  # of a share; what is off by more must be explained by rounding
_MOST_ROUNDING = 0.02  # of a share: whole percentages of many options sum to 98–102 at most
_DUST = 1e-9


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """What the reader does where a file leaves a choice; it makes none by itself.

    Args:
        encoding: How the bytes of the file are to be read.
        less_than: ``<1%``: refused, or half of the bound (0.5 %).
        asterisk: ``*``: refused, missing, or half of the customary bound of 0.5 % (0.25 %).
        blank: An empty cell or a dash: refused, or the target has no shares for that question.
        refusals: Don't know and refused, given as an option beside the answers: ``option`` keeps
            it, ``drop`` takes it out and renormalises (52, 40, 8 → 0.565, 0.435). The cleaning of
            personas' answers has to follow the same rule.
        refusal_labels: Which options these are, by label or text, besides rows whose ``kind`` is
            ``missing``.
        multi_select: A question marked as select-all, whose shares are no distribution: refused,
            or left out.
        duplicates: A row that stands twice, identical in every cell: refused, or one is kept.

    Raises:
        SettingsError: An option is none of those allowed.
    """

    encoding: str = "utf-8"
    less_than: Literal["error", "half"] = "error"
    asterisk: Literal["error", "missing", "half"] = "error"
    blank: Literal["error", "missing"] = "error"
    refusals: Literal["option", "drop"] = "option"
    refusal_labels: tuple[str, ...] = (
        "Refused",
        "Don't know",
        "DK/Refused",
        "Don't know/Refused",
        "Don't know / Refused",
        "No answer",
        "Prefer not to say",
    )
    multi_select: Literal["error", "skip"] = "error"
    duplicates: Literal["error", "keep_one"] = "error"

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise SettingsError(
                    name, "no such rule", got=getattr(self, name), allowed=" | ".join(allowed)
                )


_CHOICES: dict[str, tuple[str, ...]] = {
    "less_than": get_args(Literal["error", "half"]),
    "asterisk": get_args(Literal["error", "missing", "half"]),
    "blank": get_args(Literal["error", "missing"]),
    "refusals": get_args(Literal["option", "drop"]),
    "multi_select": get_args(Literal["error", "skip"]),
    "duplicates": get_args(Literal["error", "keep_one"]),
}


AS_GIVEN = ReadingRules()  # no rule stated: what the file leaves open is an error


@dataclass(frozen=True, slots=True)
class Cell:
    """A share as it was written.

    Args:
        value: The number, in the file's scale; None where the cell is missing by a rule.
        decimals: How many decimals were given; 0 where a rule made the value.
        percent: True with a percent sign, False without; None where the cell cannot tell.
        rule: The rule that was needed: ``less_than``, ``asterisk``, ``blank``.
    """

    value: float | None
    decimals: int = 0
    percent: bool | None = None
    rule: str | None = None


def read_cell(text: str, at: str, rules: ReadingRules) -> Cell:
    """The share that a cell holds: ``0.37``, ``37``, ``37%``, ``<1%``, ``*``, ``-``.

    Raises:
        InputError: It is no number ≥ 0, or it needs a rule that is not stated.
    """
    if text in _BLANKS:
        if rules.blank == "error":
            raise InputError(at, "has no share", got=text, mend=_mend("blank", "missing"))
        return Cell(None, rule="blank")
    if text == "*":
        if rules.asterisk == "error":
            raise InputError(
                at, "an asterisk is no share", got=text, mend=_mend("asterisk", "half or missing")
            )
        is_half = rules.asterisk == "half"
        value = _ASTERISK_BOUND / 2 if is_half else None
        return Cell(value, percent=True if is_half else None, rule="asterisk")
    if match := _LESS.fullmatch(text):
        if rules.less_than == "error":
            raise InputError(at, "a bound is no share", got=text, mend=_mend("less_than", "half"))
        bound = _number(match[1], text, at)
        half = None if bound.value is None else bound.value / 2
        return Cell(half, percent=bound.percent, rule="less_than")
    return _number(text, text, at)


def read_count(text: str, at: str, *, what: str = "n") -> float | None:
    """A number of answers, a weight or a standard error, ≥ 0 and finite; None where empty.

    Raises:
        InputError: It is something else.
    """
    if not text:
        return None
    if not _NUMBER.fullmatch(text) or not math.isfinite(value := float(text)) or value < 0:
        raise InputError(at, f"{what} is no number", got=text, allowed="a finite number, 0 or more")
    return value


def _number(text: str, shown: str, at: str) -> Cell:
    has_sign = text.endswith("%")
    bare = text.removesuffix("%").rstrip()
    match = _NUMBER.fullmatch(bare)
    value = float(bare) if match else math.nan
    if match is None or not math.isfinite(value):
        comma = _NUMBER.fullmatch(bare.replace(",", "."))
        raise InputError(
            at,
            "a share is no number",
            got=shown,
            allowed="such as 0.37 or 37%",
            mend="Write a decimal point for the comma" if comma else "",
        )
    if value < 0:
        raise InputError(at, "a share is below 0", got=shown, allowed="0 or more")
    decimals = max(0, len(match[1] or match[2] or "") - int(match[3] or 0))
    return Cell(value, decimals, percent=has_sign)


def _mend(rule: str, choice: str) -> str:
    return f"State a rule for it: {rule}={choice}"


def is_percent(cells: Sequence[Cell], at: str) -> bool | None:
    """Whether a question's cells are percentages: by their sign, else by their sum.

    None where the numbers cannot tell: no cell has a sign and the sum is 0.

    Raises:
        InputError: Some cells have a percent sign and others do not.
    """
    told = [cell for cell in cells if cell.rule != "asterisk" and cell.value is not None]
    signs = {cell.percent for cell in told}
    if len(signs) > 1:
        raise InputError(
            at,
            "some shares have a percent sign and others do not",
            mend="Write all of them in one scale",
        )
    if signs == {True}:
        return True
    total = math.fsum(cell.value or 0.0 for cell in told)
    # Between the two scales there is a factor of 100; half of it on the logarithmic scale is 10.
    return None if total == 0 else total > 10


def distribution(
    cells: Sequence[Cell], at: str, *, percent: bool
) -> tuple[tuple[float, ...], float]:
    """Shares that sum to 1, and what they summed to before: s_o / Σs.

    A sum may be off by 0.001, or by what rounding can explain: half a unit of the last decimal
    given, an option, and never more than 0.02 (whole percentages: 98 to 102).

    Raises:
        InputError: The sum is off by more.
    """
    values = [_as_share(cell, percent=percent) for cell in cells]
    total = math.fsum(values)
    decimals = max(cell.decimals for cell in cells) + (2 if percent else 0)
    rounding = min(_MOST_ROUNDING, len(values) * 0.5 * 10.0**-decimals)
    off = abs(total - 1)
    if off > max(_SUM_TOLERANCE, rounding) + _DUST:
        scale, unit = (100, "%") if percent else (1, "")
        mend = "Is an option missing?" if total < 1 else "Is it a select-all question?"
        raise InputError(
            at,
            f"the shares sum to {total * scale:.6g}{unit}, off by {off * scale:.3g}"
            f" where rounding explains {rounding * scale:.3g}",
            allowed=f"a sum of {scale}{unit}",
            mend=mend,
        )
    return tuple(value / total for value in values), total


def _as_share(cell: Cell, *, percent: bool) -> float:
    value = cell.value or 0.0
    # An asterisk is a percentage whatever the file's scale.
    return value / 100 if percent or cell.rule == "asterisk" else value
