"""What replies to a closed question say: each reply by itself, and their mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from quorum.reconstruction.answers import parse_choice, parse_distribution
from quorum.reconstruction.asking import LETTERS
from quorum.reconstruction.survey import Option, Question
from quorum.records import Generation

Status = Literal["answered", "missing", "refused", "not_asked"]


class Reply(NamedTuple):
    """A reply with what it is read by: the order of the options as shown, and the repeat."""

    order: tuple[int, ...]
    draw: int
    generation: Generation


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reply says.

    Args:
        order: Order of the options as shown.
        draw: Index of the repeat.
        status: answered, missing or refused.
        shares: In the question's order; None unless answered.
        rule: How it was read (``probabilities``, or a rule of the parser).
        reason: Why there is no answer.
        mass: Probability that the whole vocabulary gave to the options' letters, if known.
    """

    order: tuple[int, ...]
    draw: int
    status: Status
    shares: tuple[float, ...] | None
    rule: str
    reason: str | None = None
    mass: float | None = None

    @property
    def shown(self) -> tuple[float, ...] | None:
        """The shares by position on the list, for the position-bias audit."""
        return None if self.shares is None else tuple(self.shares[o] for o in self.order)


@dataclass(frozen=True, slots=True)
class Answer:
    """One persona's answer to one question: the mean over the readings that hold one.

    Args:
        shares: In the question's order, sum 1; None unless answered.
        status: answered; else refused where any reply refused, missing, or not_asked.
        rule: The rules that were used, joined by ``+``.
        reason: Why there is no answer.
        mass: Mean over the readings that know it.
        n_readings: Readings with an answer.
        readings: Every reply by itself.
    """

    shares: tuple[float, ...] | None
    status: Status
    rule: str = ""
    reason: str | None = None
    mass: float | None = None
    n_readings: int = 0
    readings: tuple[Reading, ...] = ()


NOT_ASKED = Answer(None, "not_asked", reason="not_asked")


def read_probabilities(reply: Reply, prior: tuple[float, ...] | None) -> Reading:
    """Probabilities of the letters, by position, as shares in the question's order.

    Args:
        reply: A generation with ``choice_probs``.
        prior: What nobody's prompt gave the same letters in the same order; p/prior is
            renormalised. None leaves p as it is.
    """
    if reply.generation.finish_reason == "refusal":
        return _no_answer(reply, "refused", "refusal")
    probs = reply.generation.choice_probs
    if probs is None:
        return _no_answer(reply, "missing", "no_probabilities")
    rule = "probabilities"
    if prior is not None:
        lifted = [p / q if q > 0 else 0.0 for p, q in zip(probs, prior, strict=True)]
        probs = tuple(lifted)
        rule = "calibrated"
    total = math.fsum(probs)
    if total <= 0:
        return _no_answer(reply, "missing", "no_mass")
    shares = _in_question_order([p / total for p in probs], reply.order)
    return Reading(
        reply.order, reply.draw, "answered", shares, rule, mass=reply.generation.choice_mass
    )


def read_letter(question: Question, reply: Reply) -> Reading:
    """The option that a text chooses, as the whole share."""
    if reply.generation.finish_reason == "refusal":
        return _no_answer(reply, "refused", "refusal")
    parsed = parse_choice(reply.generation.text, _shown_options(question, reply.order))
    if parsed.status != "answered":
        return _no_answer(reply, parsed.status, parsed.reason or "unparsed", parsed.rule)
    (position,) = parsed.options
    shares = [0.0] * len(reply.order)
    shares[reply.order[position]] = 1.0
    return Reading(reply.order, reply.draw, "answered", tuple(shares), parsed.rule)


def read_percentages(question: Question, reply: Reply) -> Reading:
    """The shares that a text writes down."""
    if reply.generation.finish_reason == "refusal":
        return _no_answer(reply, "refused", "refusal")
    parsed = parse_distribution(reply.generation.text, _shown_options(question, reply.order))
    if parsed.shares is None:
        return _no_answer(reply, parsed.status, parsed.reason or "unparsed", parsed.rule)
    shares = _in_question_order(parsed.shares, reply.order)
    return Reading(reply.order, reply.draw, "answered", shares, parsed.rule)


def _no_answer(reply: Reply, status: Status, reason: str, rule: str = "") -> Reading:
    return Reading(reply.order, reply.draw, status, None, rule, reason)


def _shown_options(question: Question, order: tuple[int, ...]) -> list[Option]:
    texts = [question.options[o].text for o in order]
    return [Option(letter, text) for letter, text in zip(LETTERS, texts, strict=False)]


def _in_question_order(by_position: Sequence[float], order: tuple[int, ...]) -> tuple[float, ...]:
    shares = [0.0] * len(order)
    for option, share in zip(order, by_position, strict=True):
        shares[option] = share
    return tuple(shares)


def mean_answer(readings: Sequence[Reading]) -> Answer:
    """The mean; sums are exact, so the order of the replies changes nothing."""
    readings = sorted(readings, key=lambda r: (r.order, r.draw))
    if not readings:
        return NOT_ASKED
    valid = [r.shares for r in readings if r.shares is not None]
    rule = "+".join(sorted({r.rule for r in readings if r.rule}))
    if not valid:
        is_refused = any(r.status == "refused" for r in readings)
        status: Status = "refused" if is_refused else "missing"
        reasons = sorted({r.reason for r in readings if r.status == status and r.reason})
        return Answer(None, status, rule, "+".join(reasons), readings=tuple(readings))
    sums = [math.fsum(shares[o] for shares in valid) for o in range(len(valid[0]))]
    masses = [r.mass for r in readings if r.mass is not None]
    return Answer(
        tuple(s / math.fsum(sums) for s in sums),
        "answered",
        rule,
        mass=math.fsum(masses) / len(masses) if masses else None,
        n_readings=len(valid),
        readings=tuple(readings),
    )
