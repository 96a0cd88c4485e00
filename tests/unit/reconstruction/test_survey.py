"""Survey files: what is read from them, and the one line of what cannot be."""

from __future__ import annotations

import contextlib
import math
import random
from pathlib import Path

import pytest
import yaml

from quorum.errors import InputError, QuorumError, SettingsError
from quorum.reconstruction.joins import read_groups, read_refused, with_groups
from quorum.reconstruction.reading import read_survey
from quorum.reconstruction.shares import ReadingRules
from quorum.reconstruction.survey import Option

SURVEYS = Path(__file__).parents[3] / "data" / "surveys"
MEN = (Path(__file__).with_name("men2018.csv")).read_bytes()
HEAD = "question_id,question_text,option_label,option_text,share"
TABLE = yaml.safe_load(Path(__file__).with_name("files.yaml").read_text(encoding="utf-8"))
TWO = f"{HEAD}\nQ1,Is it?,A,Yes,.5\nQ1,Is it?,B,No,.5\n007,Is it not?,A,Yes,.25\n007,,B,No,.75\n"


def read(text, **rules):
    return read_survey(text.encode(), "survey.csv", ReadingRules(**rules))


def test_every_known_bug_of_survey_files_has_its_row():
    """41 is a cell of a respondent, 50 an encoding, 52 and 53 are persons: tests of their own."""
    known = {40, 43, 44, 46, 47, 49, 55, 56, 58, 59, 61, 62}
    assert {row["case"] for row in TABLE if "case" in row} == known


@pytest.mark.parametrize(
    "row", [pytest.param(r, id=f"{r.get('case', 'own')}: {r['what']}") for r in TABLE]
)
def test_a_file_is_read_as_the_table_says(row):
    text = f"{row.get('head', HEAD)}\n{row['file']}"
    if "error" in row:
        with pytest.raises(InputError) as caught:
            read(text, **row.get("rules", {}))
        line = str(caught.value)
        assert "\n" not in line
        for part in row["error"]:
            assert part in line, line
        return
    survey = read(text, **row.get("rules", {}))
    found = {
        target: {id_: pytest.approx(list(shares.shares), abs=1e-12) for id_, shares in of.items()}
        for target, of in survey.targets.items()
    }
    assert row.get("shares", found) == found
    for id_, texts in row.get("texts", {}).items():
        question = next(q for q in survey.questions if q.id == id_)
        assert [option.text for option in question.options] == texts
    for id_, n in row.get("n", {}).items():
        assert survey.targets["population"][id_].n == (n if n is None else pytest.approx(n))
        assert survey.targets["population"][id_].n_source == row.get("n_source", "n")
    if "raw_sum" in row:
        assert survey.targets["population"]["Q1"].raw_sum == pytest.approx(row["raw_sum"], abs=1e-9)
    for note in row.get("notes", []):
        assert any(note in found for found in survey.notes), survey.notes
    assert list(survey.skipped) == row.get("skipped", [])
    assert all(
        sum(s.shares) == pytest.approx(1) for of in survey.targets.values() for s in of.values()
    )


def test_every_field_of_a_question_is_read():
    head = f"{HEAD},topic,ordinal,split"
    survey = read(f"{head}\nQ1,Is it?,x,Yes,.5,t,1,train\nQ1,Is it?,y,No,.5,,,\n")
    (question,) = survey.questions
    assert (question.id, question.text) == ("Q1", "Is it?")
    assert question.options == (Option("x", "Yes"), Option("y", "No"))
    assert (question.topic, question.ordinal, question.split) == ("t", True, "train")
    (bare,) = read(f"{HEAD}\nQ1,Is it?,x,Yes,.5\nQ1,,y,No,.5\n").questions
    assert (bare.topic, bare.ordinal, bare.split) == (None, False, None)


def test_options_without_labels_are_lettered_in_order():
    head = "question_id,question_text,option_text,share"
    rows = "".join(f"Q1,Which?,o{i},{1 / 32}\n" for i in range(32))
    (question,) = read(f"{head}\n{rows}").questions
    labels = [option.label for option in question.options]
    assert labels[:3] == ["A", "B", "C"]
    assert labels[25:28] == ["Z", "AA", "AB"]


def test_line_ends_and_a_byte_order_mark_change_nothing():
    plain = read_survey(TWO.encode(), "survey.csv")
    for text in (
        TWO.replace("\n", "\r\n"),
        TWO.replace("\n", "\r"),
        TWO.rstrip("\n"),
        TWO + "\n,,,,\n",
    ):
        assert read_survey(text.encode(), "survey.csv") == plain
        assert read_survey(b"\xef\xbb\xbf" + text.encode(), "survey.csv") == plain


def test_spaces_around_cells_do_not_count():
    assert read_survey(TWO.replace(",", " , ").encode(), "survey.csv") == read(TWO)


def test_a_windows_file_is_named_with_its_byte_and_read_when_told_so():  # case 50
    content = TWO.replace("No", "Don’t know").encode("cp1252")
    offset = content.index(b"\x92")
    with pytest.raises(InputError) as caught:
        read_survey(content, "survey.csv")
    line = str(caught.value)
    assert line.startswith(f"survey.csv:3: not UTF-8: byte 0x92 at byte offset {offset}")
    assert "input.encoding: cp1252 (in Windows-1252 that byte is ’)" in line
    survey = read_survey(content, "survey.csv", ReadingRules(encoding="cp1252"))
    assert survey.questions[0].options[1].text == "Don’t know"


@pytest.mark.parametrize(
    "rule", ["less_than", "asterisk", "blank", "refusals", "multi_select", "duplicates"]
)
def test_a_rule_that_does_not_exist_is_refused(rule):
    with pytest.raises(SettingsError, match=f"{rule}: no such rule, got 'guess'; allowed "):
        ReadingRules(**{rule: "guess"})


def test_an_unknown_encoding_is_refused():
    with pytest.raises(SettingsError, match="no such encoding, got 'utf-9'"):
        read_survey(TWO.encode(), "survey.csv", ReadingRules(encoding="utf-9"))


# -- files by group --------------------------------------------------------------------------------

GROUP_HEAD = "group_by,group,question_id,option_label,share"


def groups(rows, survey=None, head=GROUP_HEAD, **rules):
    return read_groups(
        f"{head}\n{rows}".encode(), "groups.csv", survey or read(TWO), ReadingRules(**rules)
    )


def test_shares_by_group_are_joined_on_ids_and_labels_in_the_surveys_order():
    found = groups("party,Democrat,007,B,.4\nparty,Democrat,007,A,.6\n")
    assert list(found) == ["party=Democrat"]
    assert found["party=Democrat"]["007"].shares == pytest.approx((0.6, 0.4))


def test_shares_by_group_may_name_options_by_their_texts():
    head = "group_by,group,question_id,option_text,share"
    assert groups("a,b,Q1,no,.4\na,b,Q1,YES,.6\n", head=head)["a=b"]["Q1"].shares == (0.6, 0.4)


def test_ids_that_do_not_match_are_listed_on_both_sides():  # case 43
    with pytest.raises(InputError) as caught:
        groups(
            "party,Democrat,7,A,.6\nparty,Democrat,7,B,.4\nparty,Democrat,Q1,A,.6\nparty,Democrat,Q1,B,.4\n"
        )
    line = str(caught.value)
    assert "here but not in the survey '7'" in line
    assert "in the survey but not here '007'" in line
    assert "7 and 007 are two ids" in line


@pytest.mark.parametrize(
    ("rows", "parts"),
    [
        (
            "a,b,Q1,C,.5\n",
            ["groups.csv:2", "question 'Q1' has no such option, got 'C'; allowed A, B"],
        ),
        ("a,b,Q1,A,.5\n", ["groups.csv:2, question 'Q1' of a=b", "no row for the option 'B'"]),
        ("a,b,Q1,A,.5\na,b,Q1,B,.4\n", ["question 'Q1' of a=b", "sum to 0.9"]),
        ("a,b,Q1,A,.5\na,b,Q1,A,.5\n", ["groups.csv:3", "'A'", "line 2 already"]),
        ("a,b,Q1,A,.5\na,b,Q1,yes,.5\n", ["groups.csv:3", "'A'", "line 2 already, with other"]),
        ("a,,Q1,A,.5\n", ["groups.csv:2", "a group needs group_by"]),
        ("a=b,c,Q1,A,.5\n", ["groups.csv:2", "without an equals sign"]),
        ("a,b,,A,.5\n", ["groups.csv:2, column question_id", "the id is empty"]),
    ],
)
def test_a_file_by_group_that_does_not_fit_is_refused(rows, parts):
    with pytest.raises(InputError) as caught:
        groups(rows)
    for part in parts:
        assert part in str(caught.value)


def test_groups_join_the_survey_with_their_notes():
    survey = read(TWO)
    text = f"{GROUP_HEAD}\na,b,Q1,A,60%\na,b,Q1,B,40%\n".encode()
    joined = with_groups(survey, text, "groups.csv")
    assert list(joined.targets) == ["population", "a=b"]
    assert joined.questions == survey.questions
    assert joined.notes[-1] == "groups.csv: percentages, read as shares of 1"
    with pytest.raises(InputError, match="the survey has shares of 'a=b' already"):
        with_groups(joined, text, "groups.csv")


def test_the_rule_for_refusals_holds_for_groups_too():  # case 59
    file = f"{HEAD}\nQ1,Is it?,A,Yes,.52\nQ1,,B,No,.4\nQ1,,C,DK/Refused,.08\n"
    survey = read(file, refusals="drop")
    found = groups("a,b,Q1,A,.6\na,b,Q1,B,.2\na,b,Q1,C,.2\n", survey, refusals="drop")
    assert found["a=b"]["Q1"].shares == pytest.approx((0.75, 0.25))
    with pytest.raises(InputError, match="no such option, got 'C'"):
        groups("a,b,Q1,A,.6\na,b,Q1,B,.2\na,b,Q1,C,.2\n", survey)


# -- refusals --------------------------------------------------------------------------------------


def test_the_share_of_refusals_is_read_from_their_rows():
    rows = b"Q1,A,answer,.5,9\nQ1,B,answer,.4,9\nQ1,REF,missing,.1,9\n"
    text = b"question_id,option_label,kind,share,n\n" + rows
    assert read_refused(text, "refused.csv", read(TWO)) == {"Q1": pytest.approx(0.1)}


def test_a_question_that_nobody_refused_has_share_0():
    text = b"question_id,option_label,kind,share\nQ1,A,answer,.5\nQ1,B,answer,.5\n"
    assert read_refused(text, "refused.csv", read(TWO)) == {"Q1": 0}


# -- a published table, and the data that come with the project ------------------------------------


def test_a_published_table_is_read_with_stated_rules():  # cases 58, 61
    """The questions M01, M03 (select-all), M21, M22 of the survey of 2018, as published."""
    rules = ReadingRules(blank="missing", multi_select="skip")
    survey = read_survey(MEN, "men2018.csv", rules)
    assert [q.id for q in survey.questions] == ["M01", "M22"]
    assert survey.skipped == ("M03", "M21")
    assert survey.targets["population"]["M01"].shares[0] == pytest.approx(0.37)
    assert "M22" not in survey.targets["age=18 - 34"]
    assert "M01" in survey.targets["age=18 - 34"]
    assert any("'M22': blank, so without shares for age=18 - 34" in note for note in survey.notes)
    assert any("'M21': blank" in note and "population" in note for note in survey.notes)


@pytest.mark.parametrize(
    ("rules", "part"),
    [({}, "'M03': is a select-all question"), ({"multi_select": "skip"}, "has no share, got ''")],
)
def test_a_published_table_without_stated_rules_is_refused(rules, part):
    with pytest.raises(QuorumError, match=part):
        read_survey(MEN, "men2018.csv", ReadingRules(**rules))


@pytest.mark.parametrize(
    ("name", "n_questions", "n_groups", "n_ordinal", "n_topics"),
    [("us2020_voters", 78, 24, 45, 14), ("ipip25", 25, 11, 25, 5)],
)
def test_the_surveys_that_come_with_the_project_are_read(
    name, n_questions, n_groups, n_ordinal, n_topics
):
    survey = read_survey((SURVEYS / f"{name}.csv").read_bytes(), f"{name}.csv")
    assert len(survey.questions) == n_questions
    assert sum(q.ordinal for q in survey.questions) == n_ordinal
    assert len({q.topic for q in survey.questions}) == n_topics
    assert all(len(q.options) > 2 for q in survey.questions if q.ordinal)
    content = (SURVEYS / f"{name}_by_group.csv").read_bytes()
    joined = with_groups(survey, content, f"{name}_by_group.csv")
    assert len(joined.targets) == 1 + n_groups
    assert all(s.n for of in joined.targets.values() for s in of.values())


def test_refusals_of_the_survey_of_voters_are_few():
    survey = read_survey((SURVEYS / "us2020_voters.csv").read_bytes(), "us2020_voters.csv")
    refused = read_refused((SURVEYS / "us2020_voters_refused.csv").read_bytes(), "r.csv", survey)
    assert list(refused) == [q.id for q in survey.questions]
    assert 0.002 < min(refused.values()) < max(refused.values()) < 0.039


# -- whatever is in a file -------------------------------------------------------------------------

PIECES = [
    b"", b",", b"\n", b'"', b"\x00", b"\xff", b"\xef\xbb\xbf", b"%", b"nan", b"-1", b"1e400",
    b"*", b"<1%", b"all", b"=", b"0", b"Q1", b"007", "’".encode(), b"\r", b";", b"missing",
    b"train", b"5e-324",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_is_read_or_refused_and_nothing_else(seed):
    rng = random.Random(seed)
    survey = read(TWO)
    whole = {
        read_survey: MEN,
        read_groups: f"{GROUP_HEAD},n\na,b,Q1,A,60%,9\na,b,Q1,B,40%,9\n".encode(),
        read_refused: b"question_id,option_label,kind,share\nQ1,A,answer,.5\nQ1,B,answer,.5\n",
    }
    rules = ReadingRules(
        less_than="half", asterisk="half", blank="missing", refusals="drop", multi_select="skip",
        duplicates="keep_one",
    )  # fmt: skip
    for reader, content in whole.items():
        for _ in range(20):
            cut = bytearray(content)
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(len(cut))
                cut[at : at + rng.randint(0, 3)] = rng.choice(PIECES)
            more = () if reader is read_survey else (survey,)
            found = None
            with contextlib.suppress(QuorumError):
                found = reader(bytes(cut), "f.csv", *more, rules)
            if found and reader is read_survey:
                for of in found.targets.values():
                    for shares in of.values():
                        assert sum(shares.shares) == pytest.approx(1)
                        assert all(math.isfinite(s) and s >= 0 for s in shares.shares)
                        assert shares.n is None or math.isfinite(shares.n)
