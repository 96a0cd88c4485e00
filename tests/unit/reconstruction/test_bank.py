"""The attribute bank: its file, its text, and what does not go together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from quorum.digests import canonical_json
from quorum.errors import InputError
from quorum.reconstruction.bank import GROUPS, Attribute, Bank, bank_yaml, read_bank

GENERAL = (Path(__file__).parents[3] / "conf" / "bank" / "general.yaml").read_text(encoding="utf-8")
FILE = """\
name: small
attributes:
- id: age
  label: Age
  phrase: You are {value}.
  group: core
  values: [young, old]
  incompatible_with:
    young: [work=retired, pension]
  source: own
- id: work
  label: Work
  phrase: You are {value}.
  group: core
  values: [retired, at work]
- id: pension
  label: Pension
  phrase: You get {value}.
  group: thematic
  values: [a pension, nothing]
"""


def attribute(**more):
    fields = {
        "id": "a", "label": "A", "phrase": "You are {value}.", "values": ("x", "y"),
        "group": "core",
    }  # fmt: skip
    return Attribute(**(fields | more))


def plain(bank):
    """The bank as a reader of YAML without our rules would have it."""
    return {
        "attributes": [
            {
                "id": a.id, "label": a.label, "phrase": a.phrase, "group": a.group,
                "values": list(a.values),
                **({"incompatible_with": {k: list(v) for k, v in a.incompatible_with.items()}}
                   if a.incompatible_with else {}),
                **({"source": a.source} if a.source else {}),
            }
            for a in bank.attributes
        ]
    }  # fmt: skip


def test_a_bank_is_read_from_its_file():
    bank = read_bank(FILE, "small.yaml")
    assert [a.id for a in bank.attributes] == ["age", "work", "pension"]
    assert bank["age"] == Attribute(
        "age", "Age", "You are {value}.", ("young", "old"), "core",
        {"young": ("work=retired", "pension")}, "own",
    )  # fmt: skip
    assert [a.id for a in bank.of_group("core")] == ["age", "work"]
    assert bank.of_group("survey") == ()


@pytest.mark.parametrize(
    ("pairs", "n"),
    [
        ([], 0),
        ([("age", "young")], 0),
        ([("age", "young"), ("work", "at work")], 0),
        ([("age", "old"), ("work", "retired"), ("pension", "a pension")], 0),
        ([("age", "young"), ("work", "retired")], 1),
        ([("work", "retired"), ("age", "young")], 1),  # in both directions
        ([("age", "young"), ("pension", "nothing")], 1),  # the whole attribute
        ([("pension", "nothing"), ("age", "young")], 1),
        ([("age", "young"), ("work", "retired"), ("pension", "nothing")], 2),
        ([("age", "young"), ("age", "old")], 1),  # one attribute, two values
    ],
)
def test_what_does_not_go_together_is_found_in_both_directions(pairs, n):
    assert len(read_bank(FILE, "small.yaml").conflicts(pairs)) == n


def test_conflicts_are_named():
    pairs = [("work", "retired"), ("age", "young")]
    assert read_bank(FILE, "x").conflicts(pairs) == ((("work", "retired"), ("age", "young")),)


@pytest.mark.parametrize(  # case 53
    "value", ["loves {{cake}} and {# music", "{value}", "{0}", "%s", "$x ${y}", "{% if %}", "\\1"]
)
def test_marks_of_templates_in_a_value_are_passed_on_as_they_are(value):
    assert attribute(values=(value,)).sentence(value) == f"You are {value}."


def test_marks_of_templates_in_a_phrase_are_passed_on_as_they_are():  # case 53
    assert attribute(phrase="{{ {value} {x} %d").sentence("v") == "{{ v {x} %d"


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"id": ""}, "no usable id"),
        ({"id": "a=b"}, "no usable id"),
        ({"id": " a"}, "no usable id"),
        ({"label": " "}, "has no label"),
        ({"phrase": "You are value."}, "its phrase has no {value}"),
        ({"group": "kernel"}, "no such group, got 'kernel'; allowed core, thematic, theoretical"),
        ({"values": ()}, "has no values"),
        ({"values": ("x", "")}, "a value is empty"),  # case 52
        ({"values": ("x", "X ")}, "two values are the same, got ['x', 'X ']"),
        ({"incompatible_with": {"z": ("b",)}}, "a value it does not have, got 'z'; allowed x, y"),
    ],
)
def test_an_attribute_that_does_not_fit_is_refused(more, part):
    with pytest.raises(InputError) as caught:
        attribute(**more)
    assert part in str(caught.value)


def test_attributes_are_added_at_the_end_and_ids_stay_unique():
    bank = Bank((attribute(),)).with_attributes([attribute(id="b", values=("v",))])
    assert [a.id for a in bank.attributes] == ["a", "b"]
    with pytest.raises(InputError, match="attribute 'a': the id stands twice in the bank"):
        bank.with_attributes([attribute()])


def test_an_added_attribute_may_exclude_values_of_those_before_it():
    bank = Bank((attribute(),)).with_attributes(
        [attribute(id="b", values=("v",), incompatible_with={"v": ("a=x",)})]
    )
    assert bank.conflicts([("a", "x"), ("b", "v")])
    assert not bank.conflicts([("a", "y"), ("b", "v")])


@pytest.mark.parametrize(
    ("other", "part"),
    [
        ("c", "names no other attribute, got 'c'; allowed b"),
        ("a=y", "names no other attribute, got 'a'"),
        ("b=w", "names no value of b, got 'w'; allowed v"),
    ],
)
def test_an_exclusion_of_something_unknown_is_refused(other, part):
    with pytest.raises(InputError) as caught:
        Bank((attribute(incompatible_with={"x": (other,)}), attribute(id="b", values=("v",))))
    assert part in str(caught.value)


def test_an_attribute_that_is_not_there_is_named_with_the_nearest():
    with pytest.raises(InputError, match=r"no such attribute, got 'ages'.*Did you mean age"):
        read_bank(FILE, "x")["ages"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("attributes:", "attribute:", ("b.yaml:2: unknown key, got 'attribute'; allowed name, "
         "attributes. Did you mean attributes?")),
        ("  group: core\n  values: [young", "  grp: core\n  values: [young",
         "b.yaml:6: unknown key, got 'grp'"),
        ("  label: Age\n", "", "b.yaml:3: an attribute has no label. It needs id, label"),
        ("[young, old]", "[young, no]",
         "b.yaml:7: values is no text to a reader of YAML, got 'no'. Put it between quotes"),
        ("[young, old]", "[young, 7]", "b.yaml:7: values is no text to a reader of YAML, got '7'"),
        ("[young, old]", "[young, null]", "b.yaml:7: values is no text"),
        ("[young, old]", "[young, {a: b}]", "b.yaml:7: values is no text"),
        ("[young, old]", "young", "b.yaml:7: values is no list. Write it as [a, b]"),
        ("[young, old]", "[young, Young]", "b.yaml:3, attribute 'age': two values are the same"),
        ("work=retired", "wrok=retired", ("b.yaml:3, attribute 'age': incompatible_with names no "
         "other attribute, got 'wrok'; allowed work, pension. Did you mean work?")),
        ("- id: work", "- id: age", "b.yaml:11, attribute 'age': the id stands twice"),
        ("  source: own", "  source: own\n  source: other", "b.yaml:11: the key stands twice"),
        ("[young, old]", "[young, old", "b.yaml:8: not YAML: "),
        ("{value}.\n  group: core\n  values: [y", "you.\n  group: core\n  values: [y",
         "b.yaml:3, attribute 'age': its phrase has no {value}, got 'You are you.'"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_refused_with_its_line(old, new, line):
    assert old in FILE
    with pytest.raises(InputError) as caught:
        read_bank(FILE.replace(old, new, 1), "b.yaml")
    assert str(caught.value).startswith(line), str(caught.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no mapping"),
        ("[]", "no mapping"),
        ("name: x", "no attributes in it"),
        ("attributes: []", "no attributes in it"),
        ("attributes: {}", "attributes is no list"),
        ("attributes: [1]", "no mapping"),
        ("attributes: [\t", "not YAML"),
        ("a\x00b", "not YAML"),
    ],
)
def test_what_is_no_bank_is_refused(text, part):
    with pytest.raises(InputError) as caught:
        read_bank(text, "b.yaml")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


HARD = (
    "no", "7", "1e3", "null", "~", "", "a: b", "# c", "{value}", "[x]", "'", '"', "\\", "\\n",
    "a\nb", "\t", "é", "はい", "😀", "\x85", "\u2028", "\ufeff", "\x7f", "\x01", " x", "%", "@",
    "`", "- a", "012",
)  # fmt: skip


def test_the_canonical_text_gives_the_same_bank_back_whatever_its_texts_hold():
    values = tuple(f"v{text}v" if not text.strip() else text for text in HARD)
    bank = Bank(
        (
            attribute(
                values=values, label="l: #", phrase="{{ {value}\n# {", source="“s”: [",
                incompatible_with=dict.fromkeys(values[:9], ("b=w: x",)),
            ),
            attribute(id="b", values=("w: x", "v")),
        )
    )  # fmt: skip
    text = bank_yaml(bank)
    assert read_bank(text, "b.yaml") == bank
    assert yaml.safe_load(text) == plain(bank)
    assert bank_yaml(read_bank(text, "b.yaml")) == text


def test_json_is_read_too_as_settings_are_kept_in_it():
    bank = read_bank(FILE, "small.yaml")
    assert read_bank(canonical_json(plain(bank)), "b.json") == bank
    assert read_bank(json.dumps(plain(bank) | {"name": "small"}, indent=1), "b.json") == bank


# -- the bank that comes with the project ----------------------------------------------------------


def test_the_general_bank_is_large_enough_and_holds_given_groups_only():
    bank = read_bank(GENERAL, "general.yaml")
    assert len(bank.attributes) >= 25
    assert {a.group for a in bank.attributes} == set(GROUPS[:3])
    assert len(bank.of_group("core")) >= 8
    assert all(len(a.values) >= 2 and a.source for a in bank.attributes)
    assert read_bank(bank_yaml(bank), "general.yaml") == bank


def test_every_sentence_of_the_general_bank_is_short_and_ends():
    for a in read_bank(GENERAL, "general.yaml").attributes:
        for value in a.values:
            sentence = a.sentence(value)
            assert sentence.endswith(".")
            assert len(sentence) <= 80, sentence
            assert sentence.startswith(sentence[0].upper())


@pytest.mark.parametrize(
    "pair",
    [
        (("age_group", "18 to 24"), ("occupation", "retired")),
        (("education", "less than high school"), ("occupation", "a doctor, lawyer or engineer")),
        (("religion", "not religious"), ("religious_attendance", "go every week to")),
    ],
)
def test_the_general_bank_makes_no_impossible_persona(pair):
    assert read_bank(GENERAL, "general.yaml").conflicts(pair)


def test_every_value_of_the_general_bank_can_be_drawn_with_most_others():
    """No value is shut out: each goes together with some value of every other attribute."""
    bank = read_bank(GENERAL, "general.yaml")
    for a in bank.attributes:
        for value in a.values:
            for b in bank.attributes:
                fits = [v for v in b.values if not bank.conflicts([(a.id, value), (b.id, v)])]
                assert a.id == b.id or fits, (a.id, value, b.id)
