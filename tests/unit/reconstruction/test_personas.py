from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from quorum.reconstruction.bank import Attribute, Bank
from quorum.reconstruction.derived import (
    attribute_ids,
    question_attributes,
    quoted,
    topic_attributes,
)
from quorum.reconstruction.personas import (
    Draft,
    Persona,
    choose,
    draw_persona,
    endowment_rows,
    fraction,
    persona_text,
)
from quorum.reconstruction.survey import Option, Question

AGE = Attribute("age", "age", "You are {value}", ("under 30", "over 64"), "core")
JOB = Attribute(
    "job",
    "job",
    "You are a {value}.",
    ("student", "pensioner"),
    "core",
    {"pensioner": ("age=under 30",)},
)
NEWS = Attribute("news", "news", "You read {value} news.", ("much", "no"), "thematic")
BANK = Bank((AGE, JOB, NEWS))


def draw(persona_id: str, n: int = 3, bank: Bank = BANK, seed: int = 0, taken=frozenset()):
    return draw_persona(Draft(persona_id, "mixed", bank.attributes), bank, n, seed, taken)


def test_a_persona_reads_as_sentences():
    persona = Persona("p0001", "core", (("age", "over 64"), ("job", "pensioner")))
    assert persona_text(persona, BANK) == "You are over 64. You are a pensioner."


def test_an_empty_value_leaves_no_sentence():
    """Case 52: never "nan" or "None" in a prompt."""
    persona = Persona("p0001", "core", (("age", "over 64"), ("job", " ")))
    assert persona_text(persona, BANK) == "You are over 64."
    assert persona_text(Persona("p0001", "core", ()), BANK) == ""


def test_template_marks_in_data_are_passed_literally():
    """Case 53."""
    bank = Bank(
        (Attribute("love", "love", "You love {value} and {# music", ("{{cake}}",), "core"),)
    )
    persona = Persona("p0001", "core", (("love", "{{cake}}"),))
    assert persona_text(persona, bank) == "You love {{cake}} and {# music."


def test_incompatible_values_never_meet():
    seen = Counter(draw(f"p{i:04d}").attributes for i in range(200))
    pairs = [dict(attributes) for attributes in seen]
    assert {"age": "under 30", "job": "pensioner"}.items() not in [p.items() for p in pairs]
    assert len(seen) == 6  # 2 × 2 × 2 less the 2 with a young pensioner
    assert all(set(p) == {"age", "job", "news"} for p in pairs)
    assert all(not (p["age"] == "under 30" and p["job"] == "pensioner") for p in pairs)


def test_no_two_personas_are_the_same_and_a_used_up_bank_gives_none():
    taken: set[frozenset[tuple[str, str]]] = set()
    for i in range(6):
        persona = draw(f"p{i:04d}", taken=taken)
        assert frozenset(persona.attributes) not in taken
        taken.add(frozenset(persona.attributes))
    assert draw("p0007", taken=taken) is None


def test_the_order_of_the_bank_and_of_values_changes_no_persona():
    turned = Bank(tuple(replace(a, values=a.values[::-1]) for a in reversed(BANK.attributes)))
    for i in range(50):
        assert draw(f"p{i:04d}", 2) == draw(f"p{i:04d}", 2, turned)
    assert any(draw("p0001", seed=s) != draw("p0001") for s in range(1, 5))


def test_a_draw_takes_from_each_group_in_turn():
    many = tuple(
        Attribute(f"question_{i}", "q", "{value}", ("yes", "no"), "question") for i in range(40)
    )
    bank = BANK.with_attributes(many)
    for i in range(30):
        persona = draw(f"p{i:04d}", 3, bank)
        assert Counter(bank[a].group for a, _ in persona.attributes) == {
            "core": 1,
            "thematic": 1,
            "question": 1,
        }


def test_a_persona_that_is_aimed_does_not_say_what_the_pool_says():
    question = Attribute(
        "question_q1", "q", "You say: {value}.", ("yes", "no", "maybe"), "question"
    )
    bank = BANK.with_attributes([question])
    values = set()
    for i in range(40):
        draft = Draft(f"p{i:04d}", "question", bank.of_group("core"), [question], ("yes",), "q1")
        persona = draw_persona(draft, bank, 2, 0, frozenset())
        assert persona.aimed_at == "q1"
        assert [a for a, _ in persona.attributes][-1] == "question_q1"  # text order: core first
        values.add(dict(persona.attributes)["question_q1"])
    assert values == {"no", "maybe"}


def test_draws_are_even_and_hang_on_their_parts_alone():
    drawn = [fraction(7, "x", i) for i in range(2000)]
    assert drawn == [fraction(7, "x", i) for i in range(2000)]
    assert sum(drawn) / 2000 == pytest.approx(0.5, abs=0.02)  # 3 standard errors: 0.019
    counts = Counter(choose({"a": 0.25, "b": 0.75}, i) for i in range(2000))
    assert counts["b"] / 2000 == pytest.approx(0.75, abs=0.03)  # 3 standard errors: 0.029
    assert choose({"a": 0.0, "b": 1.0}, 1) == "b"


def test_a_persona_survives_json_and_lists_its_endowment():
    persona = Persona("p0001", "question", (("age", "over 64"), ("news", "no")), "q1")
    assert Persona.from_json(persona.as_json()) == persona
    assert endowment_rows([persona])[1] == {
        "persona_id": "p0001",
        "mode": "question",
        "aimed_at": "q1",
        "attribute": "news",
        "value": "no",
    }


# -- attributes that follow from the survey -------------------------------------------------------

YES_NO = (Option("A", "Yes"), Option("B", "No"))


def test_topics_and_options_become_attributes_without_a_model():
    questions = [
        Question("Q-1", "Do you vote?", YES_NO, "good_american"),
        Question("Q2", "Is {value} right?", YES_NO, "good_american"),
        Question("q-1", "Do you cycle?", YES_NO),
    ]
    topics = topic_attributes(questions)
    persona = Persona("p0001", "survey", ((topics[0].id, "somewhat"), (topics[1].id, "somewhat")))
    assert persona_text(persona, Bank(topics)) == (
        "You care somewhat about good american. You care somewhat about “Do you cycle?”."
    )
    patches = question_attributes(questions)
    assert set(patches) == {"Q-1", "Q2", "q-1"}
    assert len({a.id for a in patches.values()}) == 3  # though two ids differ in case alone
    assert patches["Q2"].sentence("Yes") == "On “Is value right?” you say: Yes."


def test_ids_of_any_script_become_ids_of_attributes():
    ids = attribute_ids("question", ["Q1", "q1", "問一", "Q 1.2"])
    assert ids["Q1"] == "question_q1"
    assert ids["Q 1.2"] == "question_q_1_2"
    assert len(set(ids.values())) == 4
    assert ids == attribute_ids("question", ["Q 1.2", "問一", "q1", "Q1"])


def test_of_a_long_question_the_end_is_quoted():
    text = "In your view, how important is each of the following to being a good American? " * 2
    short = quoted(text + "Voting in elections")
    assert short.startswith("…")
    assert short.endswith("American? Voting in elections")
    assert len(short) <= 91
    assert quoted("  Do you\nvote? ") == "Do you vote?"
