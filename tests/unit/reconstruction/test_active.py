"""The loop that makes personas: stoppable at every round, and no order in it but that of ids."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from quorum.digests import digest
from quorum.errors import SettingsError
from quorum.reconstruction.active import MODES, ActiveGeneration, PoolRules
from quorum.reconstruction.bank import Attribute, Bank, bank_yaml, read_bank
from quorum.reconstruction.personas import persona_text
from quorum.reconstruction.survey import Option, Question
from quorum.reconstruction.trajectories import (
    AGGREGATE_COLUMNS,
    MODE_COLUMNS,
    QUESTION_COLUMNS,
    SUMMARY_COLUMNS,
)

BANK = Bank(
    tuple(
        Attribute(f"{group}_{i}", f"{group} {i}", "You are {value}.", tuple("abcd"), group)
        for group in ("core", "thematic", "theoretical")
        for i in range(5)
    )
)
OPTIONS = (Option("A", "Yes"), Option("B", "No"), Option("C", "Both"))
QUESTIONS = tuple(
    Question(f"Q{i}", f"Question {i}?", OPTIONS, topic=f"topic_{i % 2}") for i in range(4)
)
RULES = PoolRules(size=40, burn_in=2, round_size=6, learn_every=2, learn_questions=2, attributes=3)
LEARNED = json.dumps({"attributes": [{"label": "media diet {}", "values": ["much", "little"]}]})


def answer(persona, question, text):
    """A made-up model: Q0 is agreed on by all but those who are aimed at it."""
    if question.id == "Q0" and persona.aimed_at != "Q0":
        return (1.0, 0.0, 0.0)
    raw = [int(digest([text, question.id, o])[:6], 16) + 1 for o in range(3)]
    if raw[0] % 11 == 0:
        return None
    return tuple(r / sum(raw) for r in raw)


def answers(loop, made, questions=QUESTIONS):
    return {p.id: {q.id: answer(p, q, persona_text(p, loop.bank)) for q in questions} for p in made}


def make(questions=QUESTIONS, bank=BANK, rules=RULES, seed=0, **more) -> ActiveGeneration:
    return ActiveGeneration(questions, bank, rules, seed, **more)


def step(loop) -> bool:
    """One round as the pipeline does it."""
    if (request := loop.learner_request()) is not None:
        key = digest([m.content for m in request.messages] + [request.sample])
        label = f"media diet {loop.n_rounds}"
        loop.accept_learned(LEARNED.replace("media diet {}", label), key)
    made = loop.next_round()
    if made:
        loop.accept(answers(loop, made))
    return bool(made)


def drive(loop):
    while step(loop):
        pass
    return loop


def everything(loop):
    tables = loop.tables
    return json.dumps(
        [loop.state(), tables.aggregate, tables.modes, tables.questions, bank_yaml(loop.bank),
         loop.stop_reason], allow_nan=False
    )  # fmt: skip


def test_the_burn_in_makes_each_mode_before_they_compete():
    loop = make()
    made = loop.next_round()
    assert Counter(p.mode for p in made) == dict.fromkeys(MODES, 2)
    assert [p.id for p in made] == [f"p{i:04d}" for i in range(1, 13)]
    assert loop.next_round() == made  # the same until it is answered


def test_the_pool_ends_at_its_size_with_distinct_personas():
    loop = drive(make())
    assert loop.stop_reason == "size"
    assert len(loop.personas) == 40
    assert len({frozenset(p.attributes) for p in loop.personas}) == 40
    assert {p.id: p for p in loop.personas}.keys() == loop.answers.keys()
    assert loop.next_round() == ()
    assert make(rules=replace(RULES, size=5)).next_round() == make().next_round()[:5]


def test_attributes_of_a_persona_are_those_of_its_mode():
    loop = drive(make())
    for persona in loop.personas:
        groups = {loop.bank[a].group for a, _ in persona.attributes}
        if persona.mode == "question":
            assert groups == {"core", "question"}
            assert persona.aimed_at in {q.id for q in QUESTIONS}
        elif persona.mode != "mixed":
            assert groups == {persona.mode}
            assert persona.aimed_at is None


def test_question_patching_aims_at_the_flattest_question():
    """Q0 is agreed on, so its gap 1 − H is by far the largest."""
    loop = drive(make(rules=replace(RULES, modes=("question",), size=60, learn_every=0)))
    aims = Counter(p.aimed_at for p in loop.personas[2:])
    assert aims["Q0"] == max(aims.values())
    assert aims["Q0"] > len(loop.personas) / 3
    by_round = [row["entropy"] for row in loop.tables.questions if row["question"] == "Q0"]
    assert by_round[-1] > by_round[0]  # and it worked


@pytest.mark.parametrize("n_rounds", range(7))
def test_restored_at_any_round_it_goes_on_as_if_never_interrupted(n_rounds):
    whole = drive(make())
    cut = make()
    for _ in range(n_rounds):
        step(cut)
    restored = make()
    restored.restore(json.loads(json.dumps(cut.state())))
    assert everything(restored) == everything(cut)
    assert everything(drive(restored)) == everything(whole)


def test_restored_after_the_learner_spoke_it_does_not_ask_again():
    loop = make()
    while loop.learner_request() is None:
        step(loop)
    loop.accept_learned(LEARNED, "key")
    restored = make()
    restored.restore(json.loads(json.dumps(loop.state())))
    assert restored.learner_request() is None
    assert restored.next_round() == loop.next_round()


def test_the_order_of_questions_bank_and_answers_changes_nothing():
    loop = make(QUESTIONS[::-1], Bank(BANK.attributes[::-1]))
    while made := loop.next_round():
        loop.accept(answers(loop, made[::-1], QUESTIONS[::-1]))
    plain = make()
    while made := plain.next_round():
        plain.accept(answers(plain, made))
    assert json.dumps(loop.state()) == json.dumps(plain.state())
    assert loop.tables.aggregate == plain.tables.aggregate
    assert everything(drive(make(seed=1))) != everything(drive(make()))


def test_the_learner_is_asked_every_few_rounds_about_the_flattest_questions():
    loop = make()
    assert loop.learner_request() is None  # nothing is known yet
    step(loop)
    assert loop.learner_request() is None
    step(loop)
    request = loop.learner_request()
    assert "Question 0?" in request.messages[0].content
    assert sum(q.text in request.messages[0].content for q in QUESTIONS) == 2
    loop.accept_learned(LEARNED, "0123456789abcdef0000")
    assert loop.learner_request() is None
    (learned,) = loop.learned_bank.attributes
    assert learned.source.startswith("learner: round 2, questions Q0 Q")
    assert learned.source.endswith("request 0123456789abcdef")
    assert loop.bank[learned.id] == learned
    (row,) = loop.learner_log
    assert (row["round"], row["n_accepted"], row["rejected"]) == (2, 1, [])


def test_what_was_learned_is_used_and_written():
    loop = drive(make(rules=replace(RULES, size=80)))
    learned = {a.id for a in loop.learned_bank.attributes}
    assert learned
    assert any(a in learned for p in loop.personas for a, _ in p.attributes)
    assert read_bank(bank_yaml(loop.bank), "attribute_bank.resolved.yaml") == loop.bank


def test_nonsense_from_the_learner_changes_nothing_but_its_log():
    loop, deaf = make(), make(rules=replace(RULES, learn_every=0))
    while loop.next_round():
        if loop.learner_request() is not None:
            loop.accept_learned("I cannot help with that.", "key")
        made = loop.next_round()
        loop.accept(answers(loop, made))
        deaf.accept(answers(deaf, deaf.next_round()))
    assert loop.personas == deaf.personas
    assert loop.learner_log[0]["rejected"] == ["the reply holds no attribute"]


def test_the_schema_goes_along_only_where_the_backend_takes_it():
    for is_structured in (True, False):
        loop = make(is_structured=is_structured)
        step(loop)
        step(loop)
        assert ("schema" in loop.learner_request().options) is is_structured


def test_a_plateau_ends_it():
    """Everyone says the same: the entropy never rises, so two rounds after the first suffice."""
    loop = make(rules=replace(RULES, plateau_rounds=2, plateau_tolerance=0.01))
    while made := loop.next_round():
        loop.accept({p.id: {q.id: (1.0, 0.0, 0.0) for q in QUESTIONS} for p in made})
    assert loop.stop_reason == "plateau"
    assert loop.n_rounds == 3
    assert [row["entropy"] for row in loop.tables.aggregate] == [0.0, 0.0, 0.0]


def test_a_small_bank_is_used_up_and_says_so():
    bank = Bank((Attribute("core_1", "x", "You are {value}.", ("a", "b", "c"), "core"),))
    loop = drive(make(bank=bank, rules=replace(RULES, modes=("core",), learn_every=0)))
    assert loop.stop_reason == "exhausted"
    assert len(loop.personas) == 3


def test_a_budget_ends_it_from_outside_and_a_restored_run_knows():
    loop = make()
    step(loop)
    loop.next_round()
    loop.stop("budget")
    assert loop.next_round() == ()
    assert loop.learner_request() is None
    restored = make()
    restored.restore(loop.state())
    assert restored.stop_reason == "budget"
    assert len(restored.personas) == 12


def test_a_mode_without_attributes_takes_no_part():
    bank = Bank(tuple(a for a in BANK.attributes if a.group == "core"))
    loop = drive(make(bank=bank))
    assert {p.mode for p in loop.personas} == {"core", "survey", "question", "mixed"}
    with pytest.raises(SettingsError, match=r"pool\.modes: the bank has attributes for none"):
        make(bank=bank, rules=replace(RULES, modes=("thematic",)))


def test_missing_answers_leave_null_not_nan():
    loop = make(rules=replace(RULES, learn_every=1))
    made = loop.next_round()
    loop.accept({p.id: {} for p in made})
    assert loop.tables.aggregate == [{"round": 1, "n_personas": 12, "entropy": None}]
    assert {row["entropy"] for row in loop.tables.modes} == {None}
    assert {row["probability"] for row in loop.tables.modes} == {1 / 6}
    assert loop.learner_request() is None  # no question is known to be flat
    assert len(loop.next_round()) == 6


def test_the_tables_have_their_columns_and_add_up():
    loop = drive(make())
    tables = loop.tables
    assert {tuple(row) for row in tables.aggregate} == {AGGREGATE_COLUMNS}
    assert {tuple(row) for row in tables.modes} == {MODE_COLUMNS}
    assert {tuple(row) for row in tables.questions} == {QUESTION_COLUMNS}
    last = [row for row in tables.modes if row["round"] == loop.n_rounds]
    assert sum(row["n"] for row in last) == 40
    assert sum(row["probability"] for row in last) == pytest.approx(1.0)
    entropies = [r["entropy"] for r in tables.questions if r["round"] == loop.n_rounds]
    assert tables.aggregate[-1]["entropy"] == pytest.approx(sum(entropies) / 4)
    summary = tables.mode_summary(loop.personas, {p.id: 0.025 for p in loop.personas})
    assert {tuple(row) for row in summary} == {SUMMARY_COLUMNS}
    assert sum(row["n_personas"] for row in summary) == 40
    assert sum(row["total_weight"] for row in summary) == pytest.approx(1.0)
    assert {row["total_weight"] for row in tables.mode_summary(loop.personas)} == {None}
