"""What every way of asking promises; a part joins by its row in the table of families."""

from __future__ import annotations

import math

import pytest

from quorum.config.families import make, part_names
from quorum.reconstruction.elicitation import NOT_ASKED
from quorum.reconstruction.survey import Option, Question
from quorum.records import Generation

LIST = Question("Q1", "Which is best?", tuple(Option(x, f"Option {x}") for x in "wxyz"))
SCALE = Question("Q2", "How much?", tuple(Option(x, f"Step {x}") for x in "123"), ordinal=True)


@pytest.fixture(params=part_names("elicitation"))
def part(request):
    return make("elicitation", request.param, {})


@pytest.fixture(params=[LIST, SCALE], ids=["list", "scale"])
def question(request):
    return request.param


def generation(part, n_options: int, at: int) -> Generation:
    """The model is all for the option at one place of the list."""
    if part.needs == "choice_probs":
        probs = tuple(float(place == at) for place in range(n_options))
        return Generation("", "scored", choice_probs=probs)
    letters = "ABCD"[:n_options]
    if type(part).__name__ == "Verbalised":
        lines = [f"{letter}: {100 if i == at else 0}%" for i, letter in enumerate(letters)]
        return Generation("\n".join(lines))
    return Generation(letters[at])


def test_asks_are_distinct_requests_that_name_who_and_what(part, question):
    asks = part.asks("You are old.", question, "p0001", 0)
    assert asks == part.asks("You are old.", question, "p0001", 0)
    assert len({(ask.order, ask.draw) for ask in asks}) == len(asks)
    for ask in asks:
        assert (ask.persona_id, ask.question_id) == ("p0001", question.id)
        assert sorted(ask.order) == list(range(len(question.options)))
        prompt = "\n".join(m.content for m in ask.request.messages)
        assert all(option.text in prompt for option in question.options)
        assert "You are old." in prompt
        assert bool(ask.request.choices) is (part.needs == "choice_probs")


def test_the_content_that_is_chosen_counts_not_its_place(part, question):
    wanted = 1
    replies = [
        (ask.order, ask.draw, generation(part, len(ask.order), ask.order.index(wanted)))
        for ask in part.asks("You are old.", question, "p0001", 0)
    ]
    answer = part.read(question, replies)
    assert answer.status == "answered"
    assert answer.shares == pytest.approx(
        [float(o == wanted) for o in range(len(question.options))]
    )
    assert math.fsum(answer.shares) == pytest.approx(1.0)
    assert answer.n_readings == len(replies)
    assert answer.rule
    assert part.read(question, replies[::-1]) == answer


def test_nothing_asked_is_not_missing(part, question):
    assert part.read(question, []) == NOT_ASKED
