"""Which games a sweep can draw: names, options, and who can play them.

What a game pays stands in the room of attribution; here is what there is to choose.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Protocol

from annotated_types import Interval

from quorum.errors import SettingsError

MAX_PLAYERS = 16  # every world holds the payoffs of all 2^n coalitions


class GameSpec(Protocol):
    """A game by its options."""

    def check_players(self, n_players: int) -> None:
        """Refuses a number of players that the game cannot have."""


class _AnyNumber:
    """What games share that any number of players can play."""

    __slots__ = ()

    def check_players(self, n_players: int) -> None:
        """Any number will do."""


@dataclass(frozen=True, slots=True)
class Additive(_AnyNumber):
    """Player i is worth i: 1, 2, …, n."""


@dataclass(frozen=True, slots=True)
class Constant(_AnyNumber):
    """Every coalition is worth the same."""

    payoff: Annotated[float, Interval(ge=-1e6, le=1e6)] = 7.0


@dataclass(frozen=True, slots=True)
class Unanimity:
    """Worth 1 where the first ``n_members`` players are present."""

    n_members: Annotated[int, Interval(ge=1, le=MAX_PLAYERS)] = 2

    def check_players(self, n_players: int) -> None:
        """There must be as many players as members."""
        if n_players < self.n_members:
            raise _wrong(n_players, f"{self.n_members} or more with this game's n_members")


@dataclass(frozen=True, slots=True)
class Glove:
    """A left glove and two right ones; a pair is worth 1."""

    def check_players(self, n_players: int) -> None:
        """Three players."""
        if n_players != 3:
            raise _wrong(n_players, "3 with game=glove")


@dataclass(frozen=True, slots=True)
class Majority:
    """Worth 1 where over half are present."""

    def check_players(self, n_players: int) -> None:
        """An odd number of players."""
        if n_players % 2 == 0:
            raise _wrong(n_players, "odd numbers with game=majority")


@dataclass(frozen=True, slots=True)
class Quadratic(_AnyNumber):
    """L + 0.2·L²/n, with L the sum of i over the players present."""


@dataclass(frozen=True, slots=True)
class RandomUnanimity(_AnyNumber):
    """A sum of unanimity games of random members, with coefficients uniform in [-1, 1].

    Args:
        n_terms: How many of them.
        max_size: Most members of one; sizes are uniform.
    """

    n_terms: Annotated[int, Interval(ge=1, le=1000)] = 40
    max_size: Annotated[int, Interval(ge=1, le=MAX_PLAYERS)] = 4

    def check_players(self, n_players: int) -> None:
        """No term may have more members than there are players."""
        if n_players < self.max_size:
            raise _wrong(n_players, f"{self.max_size} or more with this game's max_size")


@dataclass(frozen=True, slots=True)
class Interaction(_AnyNumber):
    """Normal weights and a normal interaction of every pair."""


@dataclass(frozen=True, slots=True)
class Textsim(_AnyNumber):
    """The tf-idf cosine of the words present with the whole of a drawn text: an echo's payoffs.

    Args:
        vocabulary: Words that the text is drawn from, by Zipf's law; few of them repeat often.
    """

    vocabulary: Annotated[int, Interval(ge=1, le=1000)] = 24


GAMES: dict[str, type] = {
    "additive": Additive,
    "constant": Constant,
    "unanimity": Unanimity,
    "glove": Glove,
    "majority": Majority,
    "quadratic": Quadratic,
    "random_unanimity": RandomUnanimity,
    "interaction": Interaction,
    "textsim": Textsim,
}


def _wrong(n_players: int, allowed: str) -> SettingsError:
    return SettingsError("n_players", "not for this game", got=n_players, allowed=allowed)


def n_coalitions(budget: int | str, n_players: int) -> int:
    """How many coalitions a budget is, ∅ and N included: at least 2n + 2, at most 2^n.

    Args:
        budget: A number, ``5n`` (a multiple of the players), ``10%`` (of 2^n, rounded up), ``all``.
        n_players: Number of players.
    """
    n_all = 1 << n_players
    if isinstance(budget, int):
        wanted = budget
    elif budget == "all":
        wanted = n_all
    elif budget.endswith("n"):
        wanted = int(budget[:-1]) * n_players
    else:
        share = Fraction(budget[:-1]) / 100
        wanted = -((-share.numerator * n_all) // share.denominator)
    return min(max(wanted, 2 * n_players + 2), n_all)
