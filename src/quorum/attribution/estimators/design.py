"""The paired, nested plan: which coalitions to ask for when not all can be paid.

Coalitions come in pairs (S, N∖S). After ∅ and N come all n pairs of sizes 1 and n-1, then pairs
of the other size classes, each class at the same rate per size, until a class is exhausted. A
class is the pairs of sizes (s, n-s), s = 2..⌊n/2⌋; where 2s = n a pair covers one size instead of
two and the class gains pairs at half the rate. A larger budget continues the same sequence, so
plans are nested: every class has a random stream and *one* drawing method of its own, whatever
the number of pairs taken from it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

import numpy as np

from quorum.attribution.coalitions import BoolArray, FloatArray, IntArray
from quorum.attribution.estimators.base import OnePhase

MAX_ENUMERATED = 1 << 20  # classes up to this many pairs are permuted, larger ones drawn


class PairedPlan(OnePhase):
    """What estimators share that ask for the sequence of pairs in one batch."""

    __slots__ = ()

    def plan(self, n: int, budget: int, seed: int) -> BoolArray:
        """∅, N, then pairs: nested in the budget; an odd budget leaves one call unspent."""
        return paired_plan(n, n_pairs_for(n, budget), seed)


def class_sizes(n: int) -> range:
    """The smaller size s of each class of pairs: 1..⌊n/2⌋."""
    return range(1, n // 2 + 1)


def class_capacity(n: int, size: int) -> int:
    """How many pairs a class has: C(n, s), half of it where 2s = n."""
    return math.comb(n, size) // (2 if 2 * size == n else 1)


def n_pairs_for(n: int, budget: int) -> int:
    """How many pairs a budget of coalitions pays for, next to ∅ and N; at most all there are."""
    return max(0, min(budget - 2, (1 << n) - 2) // 2)


def paired_plan(n: int, n_pairs: int, seed: int) -> BoolArray:
    """∅, N and the first ``n_pairs`` pairs of the sequence: shape (2 + 2·n_pairs, n).

    Args:
        n: Number of players.
        n_pairs: Number of pairs, at most 2^(n-1) - 1.
        seed: Of the sequence.
    """
    sequence = class_sequence(n, n_pairs, seed)
    sides = np.zeros((n_pairs, n), dtype=bool)
    for size in sorted(set(sequence.tolist())):
        where = np.flatnonzero(sequence == size)
        sides[where] = draw_class(n, size, 0, len(where), seed)
    return with_ends(interleave(sides))


def interleave(sides: BoolArray) -> BoolArray:
    """Each side followed by its complement: (p, n) → (2p, n)."""
    return np.stack([sides, ~sides], axis=1).reshape(2 * len(sides), sides.shape[1])


def with_ends(rows: BoolArray) -> BoolArray:
    """Rows with ∅ and N put first."""
    n = rows.shape[1]
    return np.concatenate([np.zeros((1, n), dtype=bool), np.ones((1, n), dtype=bool), rows])


def class_sequence(n: int, n_pairs: int, seed: int) -> IntArray:
    """The class of each pair in turn (n_pairs,): n times 1, then the others at equal rates.

    The k-th pair of a class falls due at (k + phase)/rate with a random phase in [0, 1).
    """
    first = min(n_pairs, class_capacity(n, 1) if n > 1 else 0)
    out = np.ones(n_pairs, dtype=np.int64)
    rest = class_sizes(n)[1:]
    phases = np.random.default_rng([seed, n, 0]).random(len(rest))
    rates = [1.0 if 2 * size == n else 2.0 for size in rest]
    capacities = [class_capacity(n, size) for size in rest]
    taken = [0] * len(rest)
    due = [(phases[k] / rates[k], k) for k in range(len(rest))]
    heapq.heapify(due)
    for row in range(first, n_pairs):
        _, k = heapq.heappop(due)
        out[row] = rest[k]
        taken[k] += 1
        if taken[k] < capacities[k]:
            heapq.heappush(due, ((taken[k] + phases[k]) / rates[k], k))
    return out


def draw_class(n: int, size: int, start: int, stop: int, seed: int) -> BoolArray:
    """Pairs ``start`` to ``stop`` of a class's own sequence, one side each: (stop - start, n).

    The side is the one of ``size`` players; where 2·size = n the one without player n-1.
    Classes of at most 2^20 pairs are a random permutation of ranks, so they are never searched
    for a pair that is left; larger ones are drawn one by one, and a repeat is drawn again.
    """
    capacity = class_capacity(n, size)
    rng = np.random.default_rng([seed, n, size])
    if capacity <= MAX_ENUMERATED:
        return unrank(rng.permutation(capacity)[start:stop], n, size)
    out = np.zeros((stop - start, n), dtype=bool)
    if start == stop:
        return out
    seen: set[bytes] = set()
    for side in _endless_sides(n, size, rng):
        key = np.packbits(side).tobytes()
        if key in seen:
            continue
        if len(seen) >= start:
            out[len(seen) - start] = side
        seen.add(key)
        if len(seen) == stop:
            break
    return out


def _endless_sides(n: int, size: int, rng: np.random.Generator) -> Iterator[BoolArray]:
    """Uniform coalitions of a size, drawn in blocks of a fixed sequence of lengths."""
    block = 4
    while True:
        order = np.argpartition(rng.random((block, n)), size - 1, axis=1)[:, :size]
        sides = np.zeros((block, n), dtype=bool)
        np.put_along_axis(sides, order, values=True, axis=1)
        if 2 * size == n:
            flip = sides[:, -1].copy()
            sides[flip] = ~sides[flip]
        yield from sides
        block = min(2 * block, 1024)


def unrank(ranks: IntArray, n: int, size: int) -> BoolArray:
    """The coalitions of ``size`` with these colexicographic ranks: (len(ranks), n).

    Rank r = Σ_k C(c_k, k) for members c_1 < … < c_size. Ranks below C(n-1, size) are exactly
    the coalitions without player n-1, which is one side of each pair where 2·size = n.
    """
    out = np.zeros((len(ranks), n), dtype=bool)
    left = np.asarray(ranks, dtype=np.int64).copy()
    limit = np.iinfo(np.int64).max
    rows = np.arange(len(left))
    for k in range(size, 0, -1):
        below = np.array([min(math.comb(c, k), limit) for c in range(n)], dtype=np.int64)
        member = np.searchsorted(below, left, side="right") - 1
        out[rows, member] = True
        left -= below[member]
    return out


def class_rates(n: int) -> FloatArray:
    """How many sizes each class covers: 2, or 1 where 2s = n; shape (⌊n/2⌋,)."""
    return np.array([1.0 if 2 * size == n else 2.0 for size in class_sizes(n)])
