"""Whether answers follow the place of an option on the list rather than what it says."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shown:
    """One answer as it was given.

    Args:
        persona_id: Who was asked.
        question_id: What was asked.
        order: Index of the option (in the question's order) that stood at each position.
        probabilities: Probability of each position; sums to 1.
    """

    persona_id: str
    question_id: str
    order: tuple[int, ...]
    probabilities: tuple[float, ...]


def position_audit(answers: Iterable[Shown]) -> dict[str, object]:
    """The audit as JSON-able values; what cannot be said is None with its reason.

    - ``positions``: rows {n_options, position (1 is the first), n, mean, expected = 1/|O|}.
    - ``reversal``: mean total variation, over (persona, question), between the answer under an
      order and the answer under its reversal, both in the question's order; 0 where the place of
      an option does not matter. ``any_order`` is the same over all pairs of orders.
    - ``variance``: shares of Σ (p − 1/|O|)² that the mean by position (over all questions of the
      same |O|) and the mean by content (question, option) explain, each by itself; they need not
      sum to 1, since an order that was used more often ties the two together.

    The result depends on no order among the answers.
    """
    sorted_answers = sorted(answers, key=lambda a: (a.question_id, a.persona_id, a.order))
    return {
        "n_answers": len(sorted_answers),
        "positions": _position_rows(sorted_answers),
        "reversal": _variation(sorted_answers, only_reversed=True),
        "any_order": _variation(sorted_answers, only_reversed=False),
        "variance": _explained(sorted_answers),
    }


def _position_rows(answers: Sequence[Shown]) -> list[dict[str, object]]:
    cells: dict[tuple[int, int], list[float]] = defaultdict(list)
    for answer in answers:
        for position, probability in enumerate(answer.probabilities):
            cells[len(answer.order), position].append(probability)
    return [
        {
            "n_options": n_options,
            "position": position + 1,
            "n": len(values),
            "mean": math.fsum(values) / len(values),
            "expected": 1 / n_options,
        }
        for (n_options, position), values in sorted(cells.items())
    ]


def _variation(answers: Sequence[Shown], *, only_reversed: bool) -> dict[str, object]:
    asked: dict[tuple[str, str], dict[tuple[int, ...], list[float]]] = defaultdict(dict)
    for answer in answers:
        content = _in_question_order(answer)
        asked[answer.question_id, answer.persona_id].setdefault(answer.order, content)
    distances = []
    for by_order in asked.values():
        orders = sorted(by_order)
        for k, one in enumerate(orders):
            others = [o for o in orders[k + 1 :] if not only_reversed or o == one[::-1]]
            distances += [_total_variation(by_order[one], by_order[o]) for o in others]
    if not distances:
        kind = "in an order and in its reversal" if only_reversed else "in two orders"
        return {"mean": None, "n_pairs": 0, "reason": f"no question was asked {kind}"}
    return {"mean": math.fsum(distances) / len(distances), "n_pairs": len(distances)}


def _in_question_order(answer: Shown) -> list[float]:
    content = [0.0] * len(answer.order)
    for option, probability in zip(answer.order, answer.probabilities, strict=True):
        content[option] = probability
    return content


def _total_variation(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(abs(a - b) for a, b in zip(one, other, strict=True)) / 2


def _explained(answers: Sequence[Shown]) -> dict[str, object]:
    by_position: dict[tuple[int, int], list[float]] = defaultdict(list)
    by_content: dict[tuple[str, int], list[float]] = defaultdict(list)
    for answer in answers:
        n_options = len(answer.order)
        pairs = zip(answer.order, answer.probabilities, strict=True)
        for position, (option, probability) in enumerate(pairs):
            deviation = probability - 1 / n_options
            by_position[n_options, position].append(deviation)
            by_content[answer.question_id, option].append(deviation)
    total = math.fsum(d * d for values in by_position.values() for d in values)
    if total == 0:
        reason = "every answer is uniform" if answers else "there is no answer"
        return {"position": None, "content": None, "reason": reason}
    return {
        "position": _between(by_position.values()) / total,
        "content": _between(by_content.values()) / total,
    }


def _between(cells: Iterable[Sequence[float]]) -> float:
    return math.fsum(math.fsum(values) ** 2 / len(values) for values in cells)
