from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import pytest
from annotated_types import Ge, Interval, Len, MinLen
from hypothesis import given
from hypothesis import strategies as st

from quorum.attribution.partitioners import Regex, Turns
from quorum.config.schema import GROUPS, LEAVES, check, check_options, check_value, describe
from quorum.errors import SettingsError

WHOLE = Annotated[int, Interval(ge=0, le=2**31 - 1)]
SHARE = Annotated[float, Interval(gt=0, le=1)]


@given(st.integers(0, 2**31 - 1))
def test_a_whole_number_stays_as_it_is_and_may_be_written_with_a_point(number):
    assert check_value("seed", WHOLE, number) == number
    as_float = check_value("seed", WHOLE, float(number))
    assert as_float == number
    assert type(as_float) is int


@given(st.floats(0, 1, exclude_min=True))
def test_a_share_keeps_every_bit(share):
    checked = check_value("x", SHARE, share)
    assert type(checked) is float
    assert math.copysign(checked, share) == share


@given(
    st.one_of(
        st.floats(max_value=0, allow_nan=False), st.floats(min_value=1, exclude_min=True),
        st.text(), st.booleans(), st.none(), st.lists(st.floats()),
        st.just(math.nan), st.binary(max_size=3),
    )
)  # fmt: skip
def test_what_is_no_share_is_one_line_that_says_what_is(value):
    with pytest.raises(SettingsError) as raised:
        check_value("budget.fraction", SHARE, value)
    line = str(raised.value)
    assert line.startswith("budget.fraction: ")
    assert "; allowed a number > 0 and <= 1" in line
    assert "\n" not in line
    assert raised.value.exit_code == 2


def test_text_is_no_number_and_a_number_no_text():
    for annotation, value in ((int, "3"), (float, "0.5"), (str, 3), (bool, 1), (bool, "true")):
        with pytest.raises(SettingsError, match="wrong value"):
            check_value("x", annotation, value)


def test_checked_settings_are_checked_settings(make_settings):
    for estimator in ("exact", "neyman_cc", "shapiq"):
        settings = make_settings(estimator=estimator, partition="turns", value="word_weights")
        assert check(settings) == settings


def test_settings_hold_every_group_and_leaf(make_settings):
    settings = make_settings()
    assert set(settings) == {*GROUPS, *LEAVES}
    for name in settings:
        less = {key: value for key, value in settings.items() if key != name}
        if name == "model":
            assert check(less) == settings
        else:
            with pytest.raises(SettingsError, match=f"^{name}: "):
                check(less)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (int, "a whole number"),
        (SHARE, "a number > 0 and <= 1"),
        (Annotated[int, Ge(1)] | None, "a whole number >= 1, or null"),
        (Annotated[int, Interval(ge=2, le=10_000_000)], "a whole number >= 2 and <= 10,000,000"),
        (Literal["a", "b"], "a | b"),
        (Annotated[str, MinLen(1)], "a text (not empty)"),
        (Annotated[str, Len(1, 1)], "a text of one character"),
        (bool, "true | false"),
        (tuple[str, ...], "a list of texts"),
        (tuple[Literal["a", "b"], ...], "a list of a | b"),
        (tuple[Mapping[str, str], ...], "a list of groups of key: value"),
        (Mapping[str, float], "a group of key: value, each value a number"),
        (object, "a value"),
    ],
)
def test_what_is_allowed_is_said_in_words(annotation, words):
    assert describe(annotation) == words


def test_options_that_stand_outside_the_settings_are_checked_alike():
    assert check_options("here", Regex, {"pattern": "x"}) == {"pattern": "x"}
    assert check_options("here", Turns, {"labels": ["a", "b"]}) == {"labels": ["a", "b"]}
    for options, line in (
        ({"patern": "x"}, "here.patern: unknown option; allowed pattern. Did you mean pattern?"),
        ({"pattern": 3}, "here.pattern: wrong value, got 3; allowed a text"),
        ({}, "here.pattern: is missing"),
    ):
        with pytest.raises(SettingsError) as raised:
            check_options("here", Regex, options)
        assert str(raised.value) == line


def test_off_is_a_choice_although_yaml_reads_it_as_false():
    assert check_value("x", Literal["auto", "plain", "off"], False) == "off"
    with pytest.raises(SettingsError, match=r"^x: wrong value, got true; allowed auto \| off$"):
        check_value("x", Literal["auto", "off"], True)
