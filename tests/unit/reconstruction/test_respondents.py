"""Tables of individual answers: whose ids are replaced, and whose answers are what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from quorum.errors import InputError, QuorumError
from quorum.reconstruction.reading import read_survey
from quorum.reconstruction.respondents import REFUSED, read_respondents
from quorum.reconstruction.shares import ReadingRules

SURVEYS = Path(__file__).parents[3] / "data" / "surveys"
SURVEY = read_survey(
    b"question_id,question_text,option_label,option_text,share\n"
    b"Q1,Where?,A,Here,.5\nQ1,,B,Don't know,.5\n"
    b"007,What?,A,None,.25\n007,,B,NA,.75\n",
    "survey.csv",
)
HEAD = "id,weight,Q1,007,age\n"


def read(rows, head=HEAD, **more):
    options = {"id_column": "id", "weight_column": "weight", "attribute_columns": ["age"]} | more
    return read_respondents(f"{head}{rows}".encode(), "people.csv", SURVEY, **options)


def by_weight(respondents):
    """Weights are the only thing in these tests that tells respondents apart."""
    return dict(zip(respondents.weights, respondents.answers, strict=True))


def test_answers_weights_and_attributes_of_each_respondent_are_read():
    found = read("a,1.5,A,B,18-34\nb,0.5,B,A,\n")
    assert found.ids == ("r0001", "r0002")
    assert by_weight(found) == {1.5: {"Q1": "A", "007": "B"}, 0.5: {"Q1": "B", "007": "A"}}
    attributes = dict(zip(found.weights, found.attributes, strict=True))
    assert attributes == {1.5: {"age": "18-34"}, 0.5: {}}  # case 52: an empty one is left out


def test_a_cell_may_be_a_label_a_text_a_refusal_or_nothing():  # case 41
    found = by_weight(read("a,1,R,None,x\nb,2,don’t know,,x\nc,3,here,na,x\n"))
    assert found[1] == {"Q1": REFUSED, "007": "A"}
    assert found[2] == {"Q1": "B", "007": None}
    assert found[3] == {"Q1": "A", "007": "B"}


def test_the_mark_of_a_refusal_can_be_chosen():
    assert by_weight(read("a,1,-1,A,x\n", refused=("-1", "77")))[1]["Q1"] == REFUSED
    with pytest.raises(
        InputError, match=r"people\.csv:2, column Q1: is no answer of that question"
    ):
        read("a,1,-1,A,x\n")


def test_ids_are_replaced_and_their_order_tells_nothing_of_the_files():
    rows = [f"person{i},{i + 1},A,A,x\n" for i in range(40)]
    found = read("".join(rows))
    assert found.ids[:2] == ("r0001", "r0002")
    assert len(set(found.ids)) == 40
    assert found.weights != tuple(sorted(found.weights))
    assert read("".join(rows)) == found
    assert "person" not in repr(found)


def test_many_respondents_get_longer_ids():
    found = read("".join(f"p{i},1,A,A,x\n" for i in range(10_000)))
    assert (found.ids[0], found.ids[-1]) == ("r00001", "r10000")


def test_without_a_column_of_weights_each_counts_as_one():
    found = read("a,9,A,A,x\nb,9,A,A,x\n", weight_column=None)
    assert found.weights == (1.0, 1.0)


def test_columns_that_are_not_named_are_not_read():
    found = read("a,1,A,A,x,secret\n", head="id,weight,Q1,007,age,name\n")
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        # case 47
        (
            "p1,1,A,A,x\np1,1,B,A,y\n",
            ["people.csv:3, column id", "line 2 already, with other cells"],
        ),
        (
            "p1,1,A,A,x\np1,1,A,A,x\n",
            ["people.csv:3", "with the same cells", "duplicates=keep_one"],
        ),
        # case 44
        ("p1,1,A,A,x\n,1,A,A,x\n", ["people.csv:3, column id", "the id is empty"]),
        # case 46
        ("p1,1,A,A,18,34\n", ["people.csv:2", "6 cells where the header has 5 columns"]),
        ("p1,1,C,A,x\n", ["people.csv:2, column Q1", "got 'C'; allowed A, B, empty"]),
        ("p1,1,A,nan,x\n", ["people.csv:2, column 007", "got 'nan'"]),
        ("p1,,A,A,x\n", ["people.csv:2, column weight", "the weight is empty"]),
        ("p1,-1,A,A,x\n", ["people.csv:2, column weight", "the weight is no number, got '-1'"]),
        ("p1,nan,A,A,x\n", ["people.csv:2, column weight", "the weight is no number, got 'nan'"]),
        ("p1,0,A,A,x\n", ["people.csv, column weight", "all weights are 0"]),
    ],
)
def test_a_table_that_does_not_fit_is_refused(rows, parts):
    with pytest.raises(InputError) as caught:
        read(rows)
    for part in parts:
        assert part in str(caught.value)


def test_one_of_two_identical_rows_is_kept_when_told_so():  # case 47
    rules = ReadingRules(duplicates="keep_one")
    assert read("p1,1,A,A,x\np1,1,A,A,x\n", rules=rules).ids == ("r0001",)
    with pytest.raises(InputError, match="with other cells"):
        read("p1,1,A,A,x\np1,2,A,A,x\n", rules=rules)


def test_question_ids_that_do_not_match_are_listed_on_both_sides():  # case 43
    with pytest.raises(InputError) as caught:
        read("a,1,A,A,x\n", head="id,weight,Q1,7,age\n")
    line = str(caught.value)
    assert "here but not in the survey '7'; in the survey but not here '007'" in line


@pytest.mark.parametrize("column", ["id_column", "weight_column"])
def test_a_column_that_is_not_there_is_named(column):
    with pytest.raises(QuorumError, match=r"people\.csv:1: no column who"):
        read("a,1,A,A,x\n", **{column: "who"})


def test_the_sample_of_voters_is_near_to_the_population():
    """Weighted shares of 1,200 people: off by 0.8 points on average, 2.9 at most."""
    survey = read_survey((SURVEYS / "us2020_voters.csv").read_bytes(), "us2020_voters.csv")
    found = read_respondents(
        (SURVEYS / "us2020_voters_respondents.csv").read_bytes(),
        "us2020_voters_respondents.csv",
        survey,
        id_column="id",
        weight_column="weight",
        attribute_columns=["age", "educ", "race", "gender", "income", "voter_category"],
    )
    complete = [a for a in found.answers if not {None, REFUSED} & set(a.values())]
    assert (len(found.ids), len(complete)) == (1200, 1016)
    off = [
        abs(share - weighted_share(found, q.id, option.label))
        for q in survey.questions
        for option, share in zip(q.options, survey.targets["population"][q.id].shares, strict=True)
    ]
    assert max(off) < 0.03
    assert sum(off) / len(off) < 0.009


def weighted_share(respondents, question, label):
    answered = [
        (weight, answers[question])
        for weight, answers in zip(respondents.weights, respondents.answers, strict=True)
        if answers[question] not in (None, REFUSED)
    ]
    chosen = sum(weight for weight, answer in answered if answer == label)
    return chosen / sum(weight for weight, _ in answered)


def test_the_sample_of_voters_holds_no_id_and_no_age_of_the_source():
    text = (SURVEYS / "us2020_voters_respondents.csv").read_text(encoding="utf-8")
    head, first, *_ = text.split("\n")
    assert head.startswith("id,weight,Q2_1,")
    assert head.endswith(",Q30,age,educ,race,gender,income,voter_category")
    assert first.startswith("r0001,")
    assert {line.split(",")[-6] for line in text.split("\n")[1:-1]} <= {
        "18-34", "35-49", "50-64", "65+", "$125k or more", "$75-125k", "$40-75k", "Less than $40k",
    }  # fmt: skip
