from __future__ import annotations

import asyncio
import json

import pytest

from quorum.backends.embedded import Embedded
from quorum.reconstruction.bank import Attribute
from quorum.reconstruction.learner import MAX_LABEL, SCHEMA, learner_request, parse_learned
from quorum.reconstruction.survey import Option, Question

Q1 = Question(
    "Q1", "Do you trust the news?", (Option("A", "A great deal"), Option("B", "Not at all"))
)
GOOD = {"label": "media diet", "values": ["newspapers", "television", "none at all"]}


KNOWN = (
    Attribute("learned_known", "other", "{value}", ("a", "b"), "question"),
    Attribute("region", "The region", "{value}", ("a", "b"), "core"),
)


def reply(*objects: object) -> str:
    return json.dumps({"attributes": list(objects)})


def request(*, known=(), is_structured=True, round_number=4):
    return learner_request(
        [Q1], known, is_structured=is_structured, seed=3, round_number=round_number
    )


def test_the_prompt_shows_the_questions_and_what_is_known():
    text = request(known=["media diet"]).messages[0].content
    assert "\n- Do you trust the news?\n" in text
    assert "Do not repeat: media diet." in text


def test_the_schema_is_sent_where_the_backend_takes_it():
    assert json.loads(request().options["schema"]) == SCHEMA
    plain = request(is_structured=False)
    assert "schema" not in plain.options
    assert '{"attributes": [{"label"' in plain.messages[0].content  # the words alone bind it


def test_a_later_request_about_the_same_questions_is_another_draw():
    one, two = request(), request(round_number=8)
    assert one.messages == two.messages
    assert one.options["temperature"] > 0
    assert one.sample != two.sample


def test_a_valid_attribute_joins_with_its_provenance():
    learned = parse_learned(reply(GOOD), source="learner: round 4, questions Q1")
    (attribute,) = learned.attributes
    assert attribute.id == "learned_media_diet"
    assert attribute.sentence("television") == "Media diet: television."
    assert attribute.values == ("newspapers", "television", "none at all")
    assert attribute.group == "question"
    assert attribute.source == "learner: round 4, questions Q1"
    assert learned.rejected == ()


@pytest.mark.parametrize(
    "text",
    [
        reply(GOOD),
        "Here you are:\n```json\n" + reply(GOOD) + "\n```\nAnything {else}?",
        json.dumps([GOOD]),
        json.dumps(GOOD),
        reply(GOOD)[:-2] + ', {"label": "cut off", "val',
    ],
)
def test_a_reply_is_parsed_as_it_comes(text):
    (attribute,) = parse_learned(text).attributes
    assert attribute.id == "learned_media_diet"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"label": "x" * (MAX_LABEL + 1), "values": ["a", "b"]}, "no text of 1 to 40 characters"),
        ({"label": None, "values": ["a", "b"]}, "label None: no text of 1 to 40 characters"),
        ({"label": " .. ", "values": ["a", "b"]}, "no text of 1 to 40 characters"),
        ({"label": "Label", "values": ["a", "b"]}, "label 'Label': a word of the prompt"),
        ({"label": "job", "values": "old"}, "label 'job': values are no list"),
        ({"label": "job", "values": ["old", "Old.", "OLD"]}, "1 usable values, not 2 to 4"),
        ({"label": "job", "values": ["old", 7, None, "]", "value"]}, "1 usable values"),
        ({"label": "job", "values": list("abcde")}, "label 'job': 5 usable values, not 2 to 4"),
        ({"values": ["a", "b"]}, "label None: no text"),
        ({"label": "Age", "values": ["old", "young"]}, "label 'Age': a word of the prompt"),
        ({"label": "Known"}, "label 'Known': known already"),
        ({"label": "The REGION"}, "label 'The REGION': known already"),
    ],
)
def test_what_does_not_fit_is_rejected_with_its_reason(value, reason):
    learned = parse_learned(reply(value, GOOD), known=KNOWN)
    assert len(learned.attributes) == 1  # the good one stays
    (line,) = learned.rejected
    assert reason in line


@pytest.mark.parametrize("text", ["", "I cannot do that.", "{", "{}", "null", '{"a":' * 5000])
def test_a_reply_without_attributes_says_so(text):
    learned = parse_learned(text)
    assert learned.attributes == ()
    assert learned.rejected == ("the reply holds no attribute",)


def test_marks_and_control_characters_never_reach_a_prompt():
    learned = parse_learned(reply({"label": "a{value}\u0007b", "values": ["c\nd {x}", "e"]}))
    (attribute,) = learned.attributes
    assert attribute.label == "a value b"
    assert attribute.values == ("c d x", "e")


def test_a_label_of_another_script_has_an_id():
    (attribute,) = parse_learned(reply({"label": "年齢", "values": ["若い", "老いた"]})).attributes
    assert attribute.id.startswith("learned_")


@pytest.mark.embedded
def test_the_embedded_model_names_attributes_under_the_schema():
    """What it names is not wise; that it has the asked-for form is what the schema gives."""
    questions = [
        Question(f"Q{i}", text, (Option("A", "Very"), Option("B", "Not at all")))
        for i, text in enumerate(["How worried are you about crime?", "Do you trust the news?"])
    ]

    async def replies() -> list[str]:
        backend = Embedded(engines=1)
        assert backend.capabilities.structured
        try:
            return [
                (
                    await backend.complete(
                        learner_request(
                            questions, [], is_structured=True, seed=0, round_number=number
                        )
                    )
                ).text
                for number in range(2)
            ]
        finally:
            await backend.close()

    texts = asyncio.run(replies())
    assert all(set(json.loads(text)) == {"attributes"} for text in texts)
    assert sum(len(parse_learned(text).attributes) for text in texts) >= 1
