"""Elicitation: how a persona is asked a closed question, and what its replies say.

Each question is asked in several orders of its options, because a model's answer follows their
place on the list; answers are mapped back to the question's order and averaged. The orders hang on
the seed, the persona's id and the question's id alone, so a retry or a resumed run shows the same.

Prompts are short. With ``persona_first`` the persona is the system message and comes first in all
prompts of one persona, for probabilities with the instruction; with ``persona_last`` question and
options come first, for all personas. A backend that reuses prefixes wants requests in runs of one
``Ask.group``. Measured on the embedded model (24 personas in rounds, 12 questions, 2 orders):
persona_first makes 7 % more calls a CPU second, personas differ more, and less of an answer is
position bias; persona_last pays from about 20 personas at a time. So persona_first is the default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

from annotated_types import Ge, Le

from quorum.errors import SettingsError
from quorum.reconstruction.asking import (
    LETTERS,
    Ask,
    Layout,
    Prompt,
    decoding,
    option_orders,
)
from quorum.reconstruction.readings import (
    NOT_ASKED,
    Answer,
    Reading,
    Reply,
    mean_answer,
    read_letter,
    read_percentages,
    read_probabilities,
)
from quorum.reconstruction.survey import Question
from quorum.reconstruction.toplists import TopShares, probabilities_from_top
from quorum.records import Generation

__all__ = [
    "NOT_ASKED",
    "Answer",
    "Ask",
    "Choice",
    "Elicitation",
    "Logprob",
    "Reading",
    "Reply",
    "TopShares",
    "Verbalised",
    "probabilities_from_top",
]

Replies = Sequence[tuple[tuple[int, ...], int, Generation]]  # order, draw, reply: see ``Reply``
_LETTER = "Answer with one letter."
_SHARES = (
    "Out of 100 people like you, how many would choose each option? "
    "Answer with one line an option, such as A: 40%."
)


class Elicitation(Protocol):
    """A way of asking."""

    needs: ClassVar[Literal["choice_probs", "text"]]

    @property
    def needs_blank(self) -> bool:
        """Whether ``read`` wants the replies to nobody's prompts as well."""

    def asks(
        self,
        persona_text: str | None,
        question: Question,
        persona_id: str,
        seed: int,
        respondent: str | None = None,
    ) -> tuple[Ask, ...]:
        """The requests; without a text they are nobody's, in every order that may be shown.

        ``respondent`` marks the requests for a backend that looks answers up in a table: option
        ``respondent``, ``question`` (id) and ``shown`` (the options' labels in the file, in the
        order in which they are shown, one a line).
        """

    def read(self, question: Question, replies: Replies, blank: Replies | None = None) -> Answer:
        """The answer that the replies amount to, in any order of the replies.

        Args:
            question: What was asked.
            replies: Order as shown, repeat and reply of each request.
            blank: The same of nobody's prompts; without them nothing is calibrated.
        """


@dataclass(frozen=True, slots=True)
class Logprob:
    """Probabilities of the options' letters, one forward pass an order.

    Args:
        orders: Orders of the options; a scale has two, a list of |O| options has |O|.
        calibration: ``contextual`` divides by what the same prompt without a persona gives, in
            the same order, and renormalises (Zhao et al. 2021, Calibrate Before Use).
        layout: What comes first in the prompt.
    """

    needs: ClassVar[Literal["choice_probs", "text"]] = "choice_probs"

    orders: Annotated[int, Ge(1), Le(26)] = 2
    calibration: Literal["none", "contextual"] = "none"
    layout: Layout = "persona_first"

    @property
    def needs_blank(self) -> bool:
        """See `Elicitation.needs_blank`."""
        return self.calibration == "contextual"

    def asks(
        self,
        persona_text: str | None,
        question: Question,
        persona_id: str,
        seed: int,
        respondent: str | None = None,
    ) -> tuple[Ask, ...]:
        """See `Elicitation.asks`."""
        prompt = Prompt(persona_text, question, persona_id, self.layout, _LETTER, respondent, False)
        letters = tuple(LETTERS[: len(question.options)])
        orders = _orders(persona_text, question, persona_id, seed, self.orders)
        return tuple(prompt.ask(order, 0, {}, choices=letters) for order in orders)

    def read(self, question: Question, replies: Replies, blank: Replies | None = None) -> Answer:
        """See `Elicitation.read`."""
        del question  # the letters' order says all
        priors = {r.order: r.generation.choice_probs for r in _replies(blank or ())}
        if not self.needs_blank:
            priors = {}
        found = [(reply, priors.get(reply.order)) for reply in _replies(replies)]
        return mean_answer([read_probabilities(r, prior) for r, prior in found])


@dataclass(frozen=True, slots=True)
class Choice:
    """A letter in the reply's text, drawn several times.

    Args:
        orders: Orders of the options.
        draws: Replies an order; above 1 only with a temperature above 0.
        temperature: Of the replies.
        max_tokens: Longest reply; room for a letter and a few words.
        layout: What comes first in the prompt.

    Raises:
        SettingsError: Several draws at temperature 0, which would be one reply paid several times.
    """

    needs: ClassVar[Literal["choice_probs", "text"]] = "text"

    orders: Annotated[int, Ge(1), Le(26)] = 2
    draws: Annotated[int, Ge(1)] = 1
    temperature: Annotated[float, Ge(0), Le(2)] = 0.0
    max_tokens: Annotated[int, Ge(1)] = 16
    layout: Layout = "persona_first"

    def __post_init__(self) -> None:
        """Refuses draws that cannot differ."""
        if self.draws > 1 and self.temperature == 0:
            raise SettingsError(
                "elicitation.draws",
                "temperature 0 gives the same reply each time",
                got=self.draws,
                allowed="1, or a temperature above 0",
            )

    @property
    def needs_blank(self) -> bool:
        """See `Elicitation.needs_blank`."""
        return False

    def asks(
        self,
        persona_text: str | None,
        question: Question,
        persona_id: str,
        seed: int,
        respondent: str | None = None,
    ) -> tuple[Ask, ...]:
        """See `Elicitation.asks`."""
        prompt = Prompt(persona_text, question, persona_id, self.layout, _LETTER, respondent, True)
        options = decoding(self.temperature, self.max_tokens, seed)
        orders = _orders(persona_text, question, persona_id, seed, self.orders)
        return tuple(prompt.ask(o, d, options) for o in orders for d in range(self.draws))

    def read(self, question: Question, replies: Replies, blank: Replies | None = None) -> Answer:
        """See `Elicitation.read`; a letter is the whole share of a reply."""
        del blank
        return mean_answer([read_letter(question, reply) for reply in _replies(replies)])


@dataclass(frozen=True, slots=True)
class Verbalised:
    """Percentages that the model writes down.

    Args:
        orders: Orders of the options.
        temperature: Of the replies.
        max_tokens: Longest reply.
        layout: What comes first in the prompt.
    """

    needs: ClassVar[Literal["choice_probs", "text"]] = "text"

    orders: Annotated[int, Ge(1), Le(26)] = 1
    temperature: Annotated[float, Ge(0), Le(2)] = 0.0
    max_tokens: Annotated[int, Ge(1)] = 64
    layout: Layout = "persona_first"

    @property
    def needs_blank(self) -> bool:
        """See `Elicitation.needs_blank`."""
        return False

    def asks(
        self,
        persona_text: str | None,
        question: Question,
        persona_id: str,
        seed: int,
        respondent: str | None = None,
    ) -> tuple[Ask, ...]:
        """See `Elicitation.asks`."""
        prompt = Prompt(persona_text, question, persona_id, self.layout, _SHARES, respondent, True)
        options = decoding(self.temperature, self.max_tokens, seed)
        orders = _orders(persona_text, question, persona_id, seed, self.orders)
        return tuple(prompt.ask(order, 0, options) for order in orders)

    def read(self, question: Question, replies: Replies, blank: Replies | None = None) -> Answer:
        """See `Elicitation.read`."""
        del blank
        return mean_answer([read_percentages(question, reply) for reply in _replies(replies)])


def _orders(
    persona_text: str | None, question: Question, persona_id: str, seed: int, n_orders: int
) -> tuple[tuple[int, ...], ...]:
    who = persona_id if persona_text is not None else None
    return option_orders(question, who, seed, n_orders)


def _replies(replies: Replies) -> list[Reply]:
    return [Reply(*reply) for reply in replies]
