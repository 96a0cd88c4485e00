from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from dataclasses import replace

import pytest

from quorum.backends.embedded import Embedded
from quorum.errors import InputError, SettingsError
from quorum.reconstruction.asking import option_orders
from quorum.reconstruction.elicitation import (
    NOT_ASKED,
    Choice,
    Logprob,
    Verbalised,
    probabilities_from_top,
)
from quorum.reconstruction.survey import Option, Question
from quorum.records import Generation

CYCLE = Question(
    "Q1",
    "How often do you cycle?",
    (Option("1", "Never"), Option("2", "Sometimes"), Option("3", "Often")),
)
SCALE = replace(CYCLE, ordinal=True)
PERSONA = "You are over 64."
PARTS = {"logprob": Logprob(), "choice": Choice(), "verbalised": Verbalised()}


def text(reply: str, finish_reason: str = "stop") -> Generation:
    return Generation(reply, finish_reason)


def probs(*values: float, mass: float | None = None) -> Generation:
    return Generation("", "scored", choice_probs=values, choice_mass=mass)


# -- orders ---------------------------------------------------------------------------------------


def test_a_scale_is_shown_forward_and_reversed_and_only_so():
    assert set(option_orders(SCALE, "p1", 0, 2)) == {(0, 1, 2), (2, 1, 0)}
    assert len(option_orders(SCALE, "p1", 0, 3)) == 2
    first = Counter(option_orders(SCALE, f"p{i}", 0, 1)[0] for i in range(400))
    assert abs(first[(0, 1, 2)] - 200) < 60  # 3 standard deviations: 30


def test_other_options_are_rotated_so_that_each_stands_everywhere():
    orders = option_orders(CYCLE, "p1", 0, 3)
    assert all({order[place] for order in orders} == {0, 1, 2} for place in range(3))
    assert len(option_orders(CYCLE, "p1", 0, 9)) == 3
    four = replace(CYCLE, options=(*CYCLE.options, Option("4", "Always")))
    one, two = option_orders(four, "p1", 0, 2)
    assert two == one[2:] + one[:2]  # two rotations of four stand two steps apart


def test_all_rotations_come_first_for_someone():
    assert len({option_orders(CYCLE, f"p{i}", 0, 1) for i in range(60)}) == 3
    assert {o for i in range(60) for o in option_orders(CYCLE, f"p{i}", 0, 2)} == set(
        option_orders(CYCLE, None, 0, 2)
    )


def test_a_retry_and_a_resumed_run_show_the_same_order():
    """Case 29: seed from ids; the order of the options in the file counts as little."""
    assert option_orders(CYCLE, "p1", 5, 3) == option_orders(CYCLE, "p1", 5, 3)
    assert len({option_orders(CYCLE, "p1", seed, 3) for seed in range(20)}) > 1
    turned = replace(CYCLE, options=CYCLE.options[::-1])
    for i in range(20):
        labels = [CYCLE.options[o].label for o in option_orders(CYCLE, f"p{i}", 0, 1)[0]]
        assert labels == [turned.options[o].label for o in option_orders(turned, f"p{i}", 0, 1)[0]]


# -- prompts --------------------------------------------------------------------------------------


def test_persona_first_puts_what_stays_the_same_before_the_question():
    ask = Logprob().asks(PERSONA, SCALE, "p0001", 0)[0]
    system, user = ask.request.messages
    assert (system.role, system.content) == ("system", "You are over 64. Answer with one letter.")
    texts = ["Never", "Sometimes", "Often"]
    lines = [f"{letter}. {texts[o]}" for letter, o in zip("ABC", ask.order, strict=True)]
    assert (user.role, user.content) == ("user", "\n".join(["How often do you cycle?", *lines]))
    assert ask.request.choices == ("A", "B", "C")
    assert ask.group == "p0001"


def test_before_a_text_the_instruction_is_read_last():
    for part in (Choice(), Verbalised()):
        system, user = part.asks(PERSONA, SCALE, "p0001", 0)[0].request.messages
        assert system.content == PERSONA
        assert "Answer with one l" in user.content.splitlines()[-1]
        assert part.asks(None, SCALE, "p0001", 0)[0].request.messages[0].content  # never empty


def test_persona_last_puts_question_and_options_before_the_persona():
    asks = [Logprob(layout="persona_last").asks(PERSONA, SCALE, p, 0) for p in ("p1", "p2")]
    assert {a.group for a in asks[0]} == {a.group for a in asks[1]}
    system, user = asks[0][0].request.messages
    assert PERSONA not in system.content
    assert user.content.endswith("You are over 64.\nAnswer with one letter.")


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_without_a_persona_every_order_is_asked_and_no_id_is_in_the_request(part):
    blank = part.asks(None, CYCLE, "blank", 0)
    assert {ask.order for ask in blank} == set(option_orders(CYCLE, None, 0, 1))
    assert [a.request for a in blank] == [a.request for a in part.asks(None, CYCLE, "other", 0)]
    assert all(PERSONA not in m.content for a in blank for m in a.request.messages)


def test_a_respondent_of_a_table_is_marked_with_what_was_shown():
    (ask,) = Choice(orders=1).asks("", CYCLE, "r0001", 0, respondent="r0001")
    shown = "\n".join(CYCLE.options[o].label for o in ask.order)
    assert ask.request.options["respondent"] == "r0001"
    assert ask.request.options["question"] == "Q1"
    assert ask.request.options["shown"] == shown
    plain = Choice(orders=1).asks("", CYCLE, "r0001", 0)[0].request
    assert "respondent" not in plain.options


def test_draws_are_requests_of_their_own():
    asks = Choice(orders=2, draws=3, temperature=1.0).asks(PERSONA, CYCLE, "p1", 0)
    assert len({(a.order, a.request.sample) for a in asks}) == 6
    assert {a.draw for a in asks} == {0, 1, 2}
    with pytest.raises(SettingsError, match=r"elicitation\.draws: temperature 0 gives the same"):
        Choice(draws=3)


def test_more_options_than_letters_are_refused():
    many = replace(CYCLE, options=tuple(Option(str(i), f"text {i}") for i in range(27)))
    with pytest.raises(InputError, match="question Q1: has more options than letters, got 27"):
        Logprob().asks(PERSONA, many, "p1", 0)


# -- reading --------------------------------------------------------------------------------------


def test_the_shown_letter_is_scored_by_the_order_in_which_it_was_shown():
    """Case 28: shown Often, Never, Sometimes; B is Never."""
    answer = Choice().read(CYCLE, [((2, 0, 1), 0, text("B"))])
    assert answer.shares == (1.0, 0.0, 0.0)
    assert answer.status == "answered"
    (reading,) = answer.readings
    assert reading.order == (2, 0, 1)
    assert reading.shown == (0.0, 1.0, 0.0)


def test_orders_are_averaged_in_the_question_s_order():
    # A always has .6: .6/.3/.1 forward, reversed .1/.3/.6; the mean is .35/.3/.35
    replies = [
        ((0, 1, 2), 0, probs(0.6, 0.3, 0.1, mass=0.8)),
        ((2, 1, 0), 0, probs(0.6, 0.3, 0.1, mass=0.9)),
    ]
    answer = Logprob().read(SCALE, replies)
    assert answer.shares == pytest.approx((0.35, 0.3, 0.35), abs=1e-12)
    assert answer.mass == pytest.approx(0.85)
    assert answer.rule == "probabilities"
    assert Logprob().read(SCALE, replies[::-1]) == answer


def test_contextual_calibration_takes_out_what_nobody_would_answer_too():
    # p / p_blank = (1, 2, 1) → (.25, .5, .25) in the order of the list
    part = Logprob(calibration="contextual")
    assert part.needs_blank
    assert not Logprob().needs_blank
    order = (2, 0, 1)
    replies = [(order, 0, probs(0.6, 0.3, 0.1, mass=0.7))]
    blank = [((0, 1, 2), 0, probs(1.0, 0.0, 0.0)), (order, 0, probs(0.6, 0.15, 0.1))]
    answer = part.read(CYCLE, replies, blank)
    assert answer.shares == pytest.approx((0.5, 0.25, 0.25), abs=1e-12)
    assert answer.rule == "calibrated"
    assert answer.mass == 0.7
    assert part.read(CYCLE, replies).rule == "probabilities"  # in the loop there is no blank yet
    assert Logprob().read(CYCLE, replies, blank).rule == "probabilities"


def test_a_calibrated_answer_by_two_orders_is_what_the_persona_adds():
    """A persona that changes nothing is calibrated to a uniform answer, whatever the bias."""
    part = Logprob(calibration="contextual")
    bias = (0.7, 0.2, 0.1)
    both = [((0, 1, 2), 0, probs(*bias)), ((2, 1, 0), 0, probs(*bias))]
    assert part.read(SCALE, both, both).shares == pytest.approx((1 / 3,) * 3)


def test_draws_are_counted_and_unreadable_ones_left_out():
    order = (0, 1, 2)
    texts = ["A", "B", "**B**", "Often", "I like cars."]
    replies = [(order, d, text(t)) for d, t in enumerate(texts)]
    answer = Choice(draws=5, temperature=1.0).read(CYCLE, replies)
    assert answer.shares == pytest.approx((0.25, 0.5, 0.25))
    assert answer.n_readings == 4
    assert [r.status for r in answer.readings] == ["answered"] * 4 + ["missing"]


def test_a_refusal_stays_a_refusal_and_missing_is_missing():
    """Cases 34 and 35: a third state, known from the stop reason as well."""
    order = (0, 1, 2)
    for part in PARTS.values():
        answer = part.read(CYCLE, [(order, 0, text("", "refusal"))])
        assert (answer.status, answer.reason, answer.shares) == ("refused", "refusal", None)
    missing = Choice().read(CYCLE, [(order, 0, text("I like cars."))])
    assert (missing.status, missing.reason) == ("missing", "unparsed")
    mixed = Choice().read(CYCLE, [(order, 0, text("?")), (order, 1, text("", "refusal"))])
    assert mixed.status == "refused"
    half = Choice().read(CYCLE, [(order, 0, text("A")), (order, 1, text("", "refusal"))])
    assert half.shares == (1.0, 0.0, 0.0)
    assert Logprob().read(CYCLE, [(order, 0, text("A"))]).reason == "no_probabilities"


def test_none_is_no_answer_where_no_option_says_it():
    """Case 37."""
    answer = Choice().read(CYCLE, [((0, 1, 2), 0, text("None"))])
    assert (answer.status, answer.reason) == ("missing", "unparsed")


def test_not_asked_differs_from_missing():
    """Case 38."""
    for part in PARTS.values():
        assert part.read(CYCLE, []) == NOT_ASKED
    assert NOT_ASKED.status == "not_asked"


def test_percentages_are_read_in_the_shown_order():
    answer = Verbalised().read(CYCLE, [((2, 0, 1), 0, text("A: 50%\nB: 30%\nC: 20%"))])
    assert answer.shares == pytest.approx((0.3, 0.2, 0.5))
    bad = Verbalised().read(CYCLE, [((0, 1, 2), 0, text("A: 50%\nB: 90%\nC: 20%"))])
    assert bad.status == "missing"


def test_answers_sum_to_1_and_the_order_of_replies_changes_no_bit():
    rng = random.Random(0)
    for _ in range(100):
        replies = []
        for order in option_orders(CYCLE, f"p{rng.random()}", 0, 3):
            raw = [rng.random() for _ in order]
            replies.append((order, 0, probs(*(r / math.fsum(raw) for r in raw))))
        answer = Logprob().read(CYCLE, replies)
        assert math.fsum(answer.shares) == pytest.approx(1.0, abs=1e-15)
        assert Logprob().read(CYCLE, rng.sample(replies, 3)) == answer


# -- lists of the likeliest tokens ----------------------------------------------------------------


def test_a_label_with_and_without_a_space_is_one_answer():
    """Case 31: A .301 and " A" .407 against B .223."""
    found = probabilities_from_top(
        [("A", -1.2), (" A", -0.9), ("B", -1.5), ("The", -3)], ["A", "B"]
    )
    a, b = math.exp(-1.2) + math.exp(-0.9), math.exp(-1.5)
    assert found.shares == pytest.approx((a / (a + b), b / (a + b)))
    assert found.shares == pytest.approx((0.7603, 0.2397), abs=1e-4)
    assert found.mass == pytest.approx(0.9309, abs=1e-4)
    assert found.is_censored == (False, False)


def test_an_option_outside_the_list_is_censored_not_impossible():
    """Case 32: five options, three of them listed."""
    top = [("A", math.log(0.5)), ("B", math.log(0.3)), ("C", math.log(0.1))]
    found = probabilities_from_top(top, list("ABCDE"))
    assert found.shares == pytest.approx((5 / 9, 3 / 9, 1 / 9, 0, 0))
    assert found.is_censored == (False, False, False, True, True)
    assert found.upper == pytest.approx((0.5, 0.3, 0.1, 0.1, 0.1))
    assert probabilities_from_top(top, ["X", "Y"]) is None
    assert probabilities_from_top([], ["A", "B"]) is None


@pytest.mark.embedded
def test_the_embedded_model_answers_in_probabilities():
    async def answered():
        backend = Embedded(engines=1)
        try:
            asks = Logprob().asks(PERSONA, SCALE, "p0001", 0)
            return [(a.order, a.draw, await backend.complete(a.request)) for a in asks]
        finally:
            await backend.close()

    answer = Logprob().read(SCALE, asyncio.run(answered()))
    assert answer.status == "answered"
    assert math.fsum(answer.shares) == pytest.approx(1.0)
    assert answer.n_readings == 2
    assert 0.3 < answer.mass <= 1
