"""Coalitions as boolean matrices: their text form, how many to ask for, values of a full table.

A coalition matrix has shape (m, n), a row a coalition, True = the player is present. A *table*
holds all 2^n payoffs, indexed by the little-endian bitmask (player 0 is the lowest bit).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from quorum.errors import InputError, SettingsError

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Binding = Literal["fraction", "floor", "max_coalitions", "all", "calls_per_player"]

MAX_TABLE_PLAYERS = 24  # 2^24 payoffs are 128 MB, their coalitions 400 MB


@dataclass(frozen=True, slots=True)
class Budget:
    """How many distinct coalitions to ask for, ∅ and N included, and which limit decided it."""

    n_coalitions: int
    binding: Binding


def budget_for(
    n: int,
    fraction: float | str | Fraction,
    max_coalitions: int,
    calls_per_player: int | None = None,
) -> Budget:
    """The number of coalitions for n players, in exact integers for any n.

    clamp(⌈fraction·2^n⌉, 2n+2, min(2^n, max_coalitions)); ``calls_per_player`` k, if given,
    replaces ⌈fraction·2^n⌉ by k·n+2. "all" is reported where every coalition is asked for.

    Raises:
        SettingsError: n < 1, fraction outside (0, 1], max_coalitions < 2, calls_per_player < 1.
    """
    share = Fraction(str(fraction))
    if n < 1:
        raise SettingsError("players", "there is nobody to credit", got=n, allowed="1 or more")
    if not 0 < share <= 1:
        raise SettingsError("budget.fraction", "out of range", got=fraction, allowed="0 < x <= 1")
    if max_coalitions < 2:
        raise SettingsError(
            "budget.max_coalitions",
            "the empty and the grand coalition alone are two",
            got=max_coalitions,
            allowed="2 or more",
        )
    if calls_per_player is not None and calls_per_player < 1:
        raise SettingsError(
            "budget.calls_per_player", "out of range", got=calls_per_player, allowed="1 or more"
        )
    n_all = 1 << n
    binding: Binding
    if calls_per_player is None:
        wanted, binding = -((-share.numerator * n_all) // share.denominator), "fraction"
    else:
        wanted, binding = calls_per_player * n + 2, "calls_per_player"
    if wanted < 2 * n + 2:
        wanted, binding = 2 * n + 2, "floor"
    if wanted > max_coalitions:
        wanted, binding = max_coalitions, "max_coalitions"
    if wanted >= n_all:
        wanted, binding = n_all, "all"
    return Budget(wanted, binding)


def to_hex(coalitions: BoolArray) -> list[str]:
    """Each row as the lowercase hex of its bitmask, without 0x and padding; "0" is ∅."""
    rows = np.packbits(np.asarray(coalitions, dtype=bool), axis=1, bitorder="little")
    return [format(int.from_bytes(row.tobytes(), "little"), "x") for row in rows]


def from_hex(texts: Iterable[str], n: int) -> BoolArray:
    """The coalition matrix (m, n) of hex bitmasks.

    Raises:
        InputError: A text is no hex number or names a player past n-1.
    """
    width = (n + 7) // 8
    rows = []
    for text in texts:
        try:
            mask = int(text, 16)
        except ValueError:
            raise InputError("coalition", "no hexadecimal bitmask", got=text) from None
        if mask < 0 or mask >> n:
            raise InputError("coalition", f"names players that {n} players do not have", got=text)
        rows.append(np.frombuffer(mask.to_bytes(width, "little"), dtype=np.uint8))
    if not rows:
        return np.zeros((0, n), dtype=bool)
    return np.unpackbits(np.stack(rows), axis=1, bitorder="little", count=n).astype(bool)


def all_coalitions(n: int) -> BoolArray:
    """All 2^n coalitions (2^n, n) in ascending order of the bitmask.

    Raises:
        SettingsError: n is over 24, a table too large for memory.
    """
    _check_table_size(n)
    masks = np.arange(1 << n, dtype="<u4").view(np.uint8).reshape(-1, 4)
    return np.unpackbits(masks, axis=1, bitorder="little", count=n).astype(bool)


def table_indices(coalitions: BoolArray) -> IntArray:
    """The little-endian bitmask of each row, as int64; for at most 62 players."""
    packed = np.packbits(coalitions, axis=1, bitorder="little")
    words = np.zeros((len(packed), 8), dtype=np.uint8)
    words[:, : packed.shape[1]] = packed
    return words.view("<i8")[:, 0].astype(np.int64)


def canonical_order(coalitions: BoolArray) -> IntArray:
    """Row indices in ascending order of the bitmask: the one order of a set of coalitions."""
    if coalitions.shape[1] <= 62:
        return np.argsort(table_indices(coalitions), kind="stable")
    packed = np.packbits(coalitions, axis=1, bitorder="little")
    return np.lexsort(packed.T)


def log_shapley_weights(n: int) -> FloatArray:
    """Logarithm of 1/(n·C(n-1, s)) for s = 0..n-1: a coalition's weight in the Shapley value."""
    s = np.arange(n, dtype=np.float64)
    log_choose = gammaln(n) - gammaln(s + 1) - gammaln(n - s)
    return np.asarray(-math.log(n) - log_choose, dtype=np.float64)


def log_banzhaf_weights(n: int) -> FloatArray:
    """Logarithm of C(n-1, s)/2^(n-1) for s = 0..n-1: a size's share in the Banzhaf value."""
    s = np.arange(n, dtype=np.float64)
    log_choose = gammaln(n) - gammaln(s + 1) - gammaln(n - s)
    return np.asarray(log_choose - (n - 1) * math.log(2), dtype=np.float64)


def shapley_from_table(table: FloatArray) -> FloatArray:
    """Exact Shapley values (n,) of a full table (2^n,).

    φ_i = Σ_{S∌i} (v(S∪i) - v(S)) / (n·C(n-1, |S|)). Differences come first, so a player who
    changes nothing gets exactly 0.

    Raises:
        InputError: The table's length is no power of two from 2 on.
    """
    n = _table_players(table)
    by_size = np.array([1.0 / (n * math.comb(n - 1, s)) for s in range(n)])
    sizes = _sizes(n - 1)
    return _marginal_sums(table, n, by_size[sizes])


def banzhaf_from_table(table: FloatArray) -> FloatArray:
    """Exact Banzhaf values (n,) of a full table (2^n,): mean of v(S∪i) - v(S) over S∌i.

    Raises:
        InputError: The table's length is no power of two from 2 on.
    """
    n = _table_players(table)
    return _marginal_sums(table, n, None) / (1 << (n - 1))


def _marginal_sums(table: FloatArray, n: int, weights: FloatArray | None) -> FloatArray:
    """Σ_{S∌i} w(S)·(v(S∪i) - v(S)) for each i.

    The coalitions of the n-1 others are numbered alike for each i (drop bit i), so one weight
    array over 2^(n-1) masks serves all players.
    """
    out = np.empty(n)
    values = np.asarray(table, dtype=np.float64)
    for i in range(n):
        split = values.reshape(-1, 2, 1 << i)
        marginal = (split[:, 1] - split[:, 0]).ravel()
        out[i] = np.sum(marginal if weights is None else marginal * weights)
    return out


def _sizes(n: int) -> NDArray[np.uint8]:
    sizes = np.zeros(1, dtype=np.uint8)
    for _ in range(n):
        sizes = np.concatenate([sizes, sizes + np.uint8(1)])
    return sizes


def _table_players(table: FloatArray) -> int:
    n = len(table).bit_length() - 1
    if n < 1 or len(table) != 1 << n:
        raise InputError("payoff table", "its length is no power of two", got=len(table))
    _check_table_size(n)
    return n


def _check_table_size(n: int) -> None:
    if n > MAX_TABLE_PLAYERS:
        raise SettingsError(
            "players",
            "too many for a table of every coalition",
            got=n,
            allowed=f"at most {MAX_TABLE_PLAYERS}",
            mend="Lower budget.max_coalitions or use a coarser partition",
        )
