"""A survey: its closed questions and the shares that a population and its groups gave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from quorum.errors import SettingsError

POPULATION = "population"


@dataclass(frozen=True, slots=True)
class Option:
    """One answer of a closed question: its label in the file and its text."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """A closed question with at least two options, in the file's order.

    Args:
        id: Identifier, kept as the file writes it (``007`` stays ``007``).
        text: What is asked.
        options: The answers to choose from.
        topic: The block of related items that the question belongs to, if the file says so.
        ordinal: Whether the options are a scale, so that their order carries meaning.
        split: ``train`` or ``test`` where the file fixes the side.
    """

    id: str
    text: str
    options: tuple[Option, ...]
    topic: str | None = None
    ordinal: bool = False
    split: str | None = None


@dataclass(frozen=True, slots=True)
class Shares:
    """How one target answered one question.

    Args:
        shares: One share an option, in the order of ``Question.options``; ≥ 0, sum 1.
        n: Number of answers behind the shares: n_eff where given, else from se, else n.
        n_source: Which of the three it is: ``n_eff``, ``se``, ``n``; None where none is given.
        raw_sum: What the file's shares summed to before they were renormalised.
    """

    shares: tuple[float, ...]
    n: float | None = None
    n_source: str | None = None
    raw_sum: float = 1.0


@dataclass(frozen=True, slots=True)
class Survey:
    """Questions and the targets to be matched.

    Args:
        questions: In the file's order; ids are unique.
        targets: Target (``population``, ``party=Republican``) → question id → shares.
        notes: What the reader recognised: percentages, rounding, groups that were skipped.
        skipped: Ids of questions that were left out by a stated rule: select-all, or blank in
            every target. Other files may name them.
        dropped: Question id → the refusals that a stated rule took out of its options.
    """

    questions: tuple[Question, ...]
    targets: Mapping[str, Mapping[str, Shares]]
    notes: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    dropped: Mapping[str, tuple[Option, ...]] = field(default_factory=dict)


def chosen_targets(known: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """Targets by name, in the order wanted: ``population``, a whole grouping, or one group of it.

    Raises:
        SettingsError: The survey has no such target.
    """
    names = sorted(known)
    groupings = sorted({name.partition("=")[0] for name in names})
    found: dict[str, None] = {}
    for name in wanted:
        matching = [t for t in names if t == name or t.startswith(f"{name}=")]
        if not matching:
            near = get_close_matches(name, [*groupings, *names], n=1)
            groups = [t for t in names if t.startswith(f"{name.partition('=')[0]}=")]
            raise SettingsError(
                "target.groups",
                "the survey has no such group",
                got=name,
                allowed=", ".join(groups or groupings),
                mend=f"Did you mean {near[0]}?" if near else "",
            )
        found |= dict.fromkeys(matching)
    return list(found)
