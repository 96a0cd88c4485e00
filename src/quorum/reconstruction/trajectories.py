"""How the entropies of a pool went, round by round, and what each mode came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorum.reconstruction.entropy import mean_entropy, normalised_entropy, shrunken_entropies
from quorum.reconstruction.personas import Persona

Row = dict[str, object]
AGGREGATE_COLUMNS = ("round", "n_personas", "entropy")
MODE_COLUMNS = ("round", "mode", "n", "entropy", "shrunken", "probability")
QUESTION_COLUMNS = ("round", "question", "entropy")
SUMMARY_COLUMNS = ("mode", "n_personas", "mean_entropy", "total_weight")

_POOL = ""  # stands for all modes together


class Totals:
    """Sums of answers by mode and question; what they give depends on the order of adding alone.

    Args:
        questions: Ids; their order is the tables'.
        modes: Modes that take part.

    Attributes:
        n_personas: Personas added, by mode.
    """

    def __init__(self, questions: Iterable[str], modes: Sequence[str]) -> None:
        self._questions = tuple(questions)
        self._sums: dict[tuple[str, str], list[float]] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self.n_personas = dict.fromkeys(modes, 0)

    def add(self, mode: str, answers: Mapping[str, Sequence[float] | None]) -> None:
        """Adds one persona's answers; a missing one adds nothing."""
        self.n_personas[mode] += 1
        for question in self._questions:
            answer = answers[question]
            if answer is None:
                continue
            for cell in ((_POOL, question), (mode, question)):
                sums = self._sums.setdefault(cell, [0.0] * len(answer))
                for option, share in enumerate(answer):
                    sums[option] += share
                self._counts[cell] += 1

    def mean_answer(self, question: str, mode: str = _POOL) -> tuple[float, ...] | None:
        """p̂ of the pool or of a mode; None without an answer."""
        sums = self._sums.get((mode, question))
        if sums is None:
            return None
        return tuple(s / self._counts[mode, question] for s in sums)

    def question_entropies(self, mode: str = _POOL) -> dict[str, float | None]:
        """H_q of each question over the pool or over a mode."""
        means = {q: self.mean_answer(q, mode) for q in self._questions}
        return {q: None if m is None else normalised_entropy(m) for q, m in means.items()}

    def mode_entropies(self) -> dict[str, float | None]:
        """V_m of each mode: the mean over questions of H_q over its personas."""
        return {m: mean_entropy(list(self.question_entropies(m).values())) for m in self.n_personas}


@dataclass(slots=True)
class Trajectories:
    """Tables that grow by a round; columns are the module's constants of the same names.

    Args:
        aggregate: Entropy of the pool, H = mean over questions of H_q.
        modes: V_m, cumulative; shrunken; and the mode's probability in the next round.
        questions: H_q over the pool.
    """

    aggregate: list[Row] = field(default_factory=list)
    modes: list[Row] = field(default_factory=list)
    questions: list[Row] = field(default_factory=list)

    def add_round(
        self, number: int, totals: Totals, shrinkage: float, chances: Mapping[str, float]
    ) -> None:
        """Adds the rows of a round that has been answered."""
        by_question = totals.question_entropies()
        by_mode = totals.mode_entropies()
        shrunken = shrunken_entropies(by_mode, totals.n_personas, shrinkage)
        self.aggregate.append(
            {
                "round": number,
                "n_personas": sum(totals.n_personas.values()),
                "entropy": mean_entropy(list(by_question.values())),
            }
        )
        self.modes += [
            {
                "round": number,
                "mode": mode,
                "n": totals.n_personas[mode],
                "entropy": entropy,
                "shrunken": shrunken[mode],
                "probability": chances[mode],
            }
            for mode, entropy in by_mode.items()
        ]
        self.questions += [
            {"round": number, "question": question, "entropy": entropy}
            for question, entropy in by_question.items()
        ]

    def mode_summary(
        self, personas: Sequence[Persona], weights: Mapping[str, float] | None = None
    ) -> list[Row]:
        """One row a mode: personas, V_m at the end, and the ensemble weight that they got.

        Args:
            personas: The pool.
            weights: Persona id → ensemble weight; None before a fit: the total is None.
        """
        last = {row["mode"]: row for row in self.modes}
        ids = {m: [p.id for p in personas if p.mode == m] for m in last}
        return [
            {
                "mode": mode,
                "n_personas": row["n"],
                "mean_entropy": row["entropy"],
                "total_weight": None
                if weights is None
                else sum(weights.get(persona, 0.0) for persona in ids[mode]),
            }
            for mode, row in last.items()
        ]
