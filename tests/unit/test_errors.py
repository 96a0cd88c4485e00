from __future__ import annotations

import pytest

from quorum.errors import (
    BackendError,
    Bare,
    InputError,
    MissingExtraError,
    QuorumError,
    SettingsError,
    TransientBackendError,
)


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({}, "a.b: is wrong"),
        ({"got": 3}, "a.b: is wrong, got 3"),
        ({"got": "3"}, "a.b: is wrong, got '3'"),
        ({"got": 0}, "a.b: is wrong, got 0"),
        ({"got": ""}, "a.b: is wrong, got ''"),
        ({"got": True}, "a.b: is wrong, got true"),
        ({"got": Bare("null")}, "a.b: is wrong, got null"),
        ({"got": None}, "a.b: is wrong"),
        ({"allowed": "x | y"}, "a.b: is wrong; allowed x | y"),
        ({"mend": "Do it"}, "a.b: is wrong. Do it"),
        (
            {"got": [1], "allowed": "a number", "mend": "Do it"},
            "a.b: is wrong, got [1]; allowed a number. Do it",
        ),
    ],
)
def test_the_line_says_where_what_got_allowed_and_what_to_do(more, line):
    assert str(QuorumError("a.b", "is wrong", **more)) == line


def test_an_error_is_one_line_whatever_it_is_about():
    error = SettingsError("a\nb", "is\n  wrong", got="x\ny", allowed="p\tq", mend="Do\r\nit")
    assert str(error) == "a b: is wrong, got 'x\\ny'; allowed p q. Do it"


def test_a_long_value_is_cut():
    line = str(InputError("a", "is wrong", got="x" * 1000))
    assert len(line) < 150
    assert line.endswith("x…")


def test_its_parts_can_be_read():
    error = QuorumError("a", "is wrong", got=3, allowed="4", mend="Do it")
    assert (error.where, error.what, error.got, error.allowed, error.mend) == (
        "a", "is wrong", 3, "4", "Do it",
    )  # fmt: skip


def test_a_missing_extra_is_a_setting_that_can_be_mended():
    assert issubclass(MissingExtraError, SettingsError)
    assert MissingExtraError("a", "b").exit_code == SettingsError.exit_code == 2


def test_a_transient_error_says_that_nothing_is_lost_and_how_long_to_wait():
    error = TransientBackendError("api", "too many requests", retry_after_s=2.5)
    assert isinstance(error, BackendError)
    assert error.retry_after_s == 2.5
    assert str(error) == (
        "api: too many requests. Run the same command again: what is done is kept"
    )
    assert TransientBackendError("api", "timed out").retry_after_s is None
