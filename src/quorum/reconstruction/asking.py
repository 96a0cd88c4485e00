"""How a question is put to a persona: the orders of its options and the words of the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quorum.digests import digest
from quorum.errors import InputError
from quorum.reconstruction.survey import Question
from quorum.records import Message, Request, Scalar

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
Layout = Literal["persona_first", "persona_last"]
_NOBODY = "You answer a survey."  # without any system message a template puts its own


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to one persona about one question.

    Args:
        persona_id: Who is asked.
        question_id: What is asked.
        order: Index of the option that stands at each position; position 0 is letter A.
        draw: Index of the repeat.
        request: What is sent.
        group: Requests of one group share the beginning of their prompt.
    """

    persona_id: str
    question_id: str
    order: tuple[int, ...]
    draw: int
    request: Request
    group: str


def option_orders(
    question: Question, persona_id: str | None, seed: int, n_orders: int
) -> tuple[tuple[int, ...], ...]:
    """The orders in which a persona sees the options: distinct, at most ``n_orders``.

    A scale is shown forward and reversed. Other options are shuffled by seed and question, and
    the shuffled list is rotated by |O|/n steps each time, so that an option stands at places far
    apart. Where a persona starts hangs on its id as well. Options are shuffled by label, so their
    order in the file changes nothing.

    Args:
        question: Its options, by index, are what is ordered.
        persona_id: Who is asked; None gives every order that any persona may see.
        seed: Seed of the orders.
        n_orders: Orders wanted; 2 at most for a scale, |O| otherwise.
    """
    n = len(question.options)
    if question.ordinal:
        forward = tuple(range(n))
        orders = [forward, forward[::-1]]
    else:
        labels = [option.label for option in question.options]
        salt = [seed, question.id]
        shuffled = sorted(range(n), key=lambda o: (digest([*salt, labels[o]]), labels[o]))
        orders = [tuple(shuffled[s:] + shuffled[:s]) for s in range(n)]
    if persona_id is None:
        return tuple(orders)
    start = int(digest([seed, persona_id, question.id])[:8], 16)
    wanted = min(n_orders, len(orders))
    return tuple(orders[(start + k * len(orders) // wanted) % len(orders)] for k in range(wanted))


@dataclass(frozen=True, slots=True)
class Prompt:
    """What does not change from one order of a question to another.

    Args:
        persona_text: Who is asked; None for nobody.
        question: What is asked.
        persona_id: Id of who is asked.
        layout: What comes first in the prompt.
        instruction: What kind of reply is wanted.
        respondent: Id in a table of answers; None where a model answers.
        is_text: Whether a text is wanted, and not the probabilities of letters.
    """

    persona_text: str | None
    question: Question
    persona_id: str
    layout: Layout
    instruction: str
    respondent: str | None
    is_text: bool

    def ask(
        self,
        order: tuple[int, ...],
        draw: int,
        options: Mapping[str, Scalar],
        choices: tuple[str, ...] = (),
    ) -> Ask:
        """The request that shows the options in an order."""
        question = self.question
        if len(order) > len(LETTERS):
            raise InputError(
                f"question {question.id}",
                "has more options than letters",
                got=len(order),
                allowed=f"at most {len(LETTERS)}",
            )
        if self.respondent is not None:
            shown = "\n".join(question.options[o].label for o in order)
            mark = {"respondent": self.respondent, "question": question.id, "shown": shown}
            options = {**options, **mark}
        request = Request(self.messages(order), options, sample=draw, choices=choices)
        group = self.persona_id if self.layout == "persona_first" else f"{question.id} {order}"
        return Ask(self.persona_id, question.id, order, draw, request, group)

    def messages(self, order: tuple[int, ...]) -> tuple[Message, ...]:
        """The conversation that shows the options in an order."""
        lines = [self.question.text]
        texts = [self.question.options[o].text for o in order]
        lines += [f"{letter}. {text}" for letter, text in zip(LETTERS, texts, strict=False)]
        if self.layout == "persona_first":
            # before a text a small model must have read the instruction last; for the letters'
            # probabilities it may stand with what is shared, which is cheaper
            opening = [self.persona_text] if self.is_text else [self.persona_text, self.instruction]
            lines += [self.instruction] if self.is_text else []
            system = " ".join(filter(None, opening)) or _NOBODY
            return Message("system", system), Message("user", "\n".join(lines))
        lines += filter(None, (self.persona_text, self.instruction))
        return Message("system", "Answer as this person."), Message("user", "\n".join(lines))


def decoding(temperature: float, max_tokens: int, seed: int) -> dict[str, Scalar]:
    """Options of a request for a text."""
    return {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
