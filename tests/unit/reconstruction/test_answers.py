"""What replies say: every case of the table, in both directions."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
import yaml

from quorum.reconstruction.answers import (
    free_text,
    parse_choice,
    parse_distribution,
    parse_scale,
)
from quorum.reconstruction.survey import Option

TABLE = yaml.safe_load(Path(__file__).with_name("replies.yaml").read_text(encoding="utf-8"))
CYCLE = TABLE["cycle"]


def shown(texts):
    return [Option(chr(ord("A") + i), text) for i, text in enumerate(texts)]


def options_of(row):
    if "labels" in row:
        return [Option(str(i), f"o{i}") for i in range(1, row["labels"] + 1)]
    return shown(row.get("options", CYCLE))


def named(rows):
    return [pytest.param(row, id=f"{row.get('case', 'own')}:{row['reply'][:30]!r}") for row in rows]


def test_every_known_bug_of_reading_a_reply_has_its_row():
    """23 is free text, below; the numbers between are bugs of other rooms."""
    rows = [row for part in ("choices", "scales", "shares") for row in TABLE[part]]
    reading = {1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 25, 26}
    assert {row["case"] for row in rows if "case" in row} == reading | {28, 34, 37}


@pytest.mark.parametrize("row", named(TABLE["choices"]))
def test_a_reply_is_read_as_the_table_says(row):
    options = options_of(row)
    parsed = parse_choice(row["reply"], options, multiple=row.get("multiple", False))
    want = row["want"]
    if isinstance(want, str) and (want == "refused" or want.startswith("missing: ")):
        assert parsed.options == ()
        assert f"{parsed.status}: {parsed.reason}" == want.replace("refused", "refused: refused")
    else:
        assert (parsed.status, parsed.reason) == ("answered", None), parsed
        chosen = [options[i].text for i in parsed.options]
        assert chosen == (want if isinstance(want, list) else [want])
    for field in ("rule", "comment"):
        if field in row:
            assert getattr(parsed, field) == row[field]
    if "candidates" in row:
        assert parsed.candidates == tuple(row["candidates"])


@pytest.mark.parametrize("row", named(TABLE["scales"]))
def test_a_point_of_a_scale_is_read_as_the_table_says(row):
    parsed = parse_scale(row["reply"], 0, 10)
    if isinstance(row["want"], int):
        assert (parsed.status, parsed.value, parsed.reason) == ("answered", row["want"], None)
    else:
        assert parsed.value is None
        assert row["want"] in (f"{parsed.status}: {parsed.reason}", parsed.status)


@pytest.mark.parametrize("row", named(TABLE["shares"]))
def test_shares_in_words_are_read_as_the_table_says(row):
    parsed = parse_distribution(row["reply"], shown(CYCLE))
    if isinstance(row["want"], list):
        assert parsed.status == "answered", parsed
        assert parsed.shares == pytest.approx(row["want"], abs=1e-12)
        assert parsed.raw_sum == pytest.approx(row.get("raw_sum", parsed.raw_sum))
    else:
        assert parsed.shares is None
        assert row["want"] in (f"{parsed.status}: {parsed.reason}", parsed.status)


def test_a_free_answer_keeps_all_its_lines():  # case 23
    assert (
        free_text("I cycle to work.\nAlso at weekends.\n") == "I cycle to work.\nAlso at weekends."
    )
    assert free_text("<think>hm</think>\nYes.\n\nNo.") == "Yes.\n\nNo."
    assert free_text("  ") is None


def test_an_unread_reply_is_kept_whole_as_the_comment():  # case 23
    text = "I cycle to work.\nAlso at weekends."
    parsed = parse_choice(text, shown(["Yes", "No"]))
    assert (parsed.status, parsed.comment) == ("missing", text)


def test_scales_may_begin_below_zero():
    assert parse_scale("-3", -5, 5).value == -3
    assert parse_scale("-3/5", -5, 5).value == -3
    assert parse_scale("-6", -5, 5).reason == "out_of_range"


FORMS = (
    "{label}", "{label}.", "{label})", "({label})", "**{label}**", "{label}) {text}", "{text}",
    "{label}: {text}", "Answer: {label}", "The answer is {label}.", "I choose {label}.",
    "Option {label}", "{label}\nfor good reason", '{{"answer": "{label}"}}',
    '{{"answer": "{text}"}}', "<think>A or B, not C</think>{label}", "\\boxed{{{label}}}",
    "  {text}. ", "My answer: **{label}**",
    "{label} is my choice", "{label} because it is so",
)  # fmt: skip
WORDS = (
    "agree",
    "often",
    "strongly",
    "neither",
    "my own",
    "à peu près",
    "a lot",
    "never",
    "(e.g. 3)",
)


@pytest.mark.parametrize("seed", range(20))
def test_every_usual_form_of_every_option_is_read_as_that_option(seed):
    rng = random.Random(seed)
    n = rng.randint(2, 12)
    texts = rng.sample([f"{a} {b} {i}x" for i, a in enumerate(WORDS) for b in WORDS if a != b], n)
    options = shown(texts)
    for form in FORMS:
        for i, option in enumerate(options):
            reply = form.format(label=option.label, text=option.text)
            parsed = parse_choice(reply, options)
            assert parsed.options == (i,), (reply, texts, parsed)


@pytest.mark.parametrize("seed", range(20))
def test_no_reply_raises_and_an_answer_is_one_of_the_options(seed):
    rng = random.Random(seed)
    pieces = [
        *CYCLE, *"ABCDEIabci", "or", "not", "Answer:", "\n", ", ", ") ", '{"answer":', '"', "}",
        "<think>", "</think>", "\\boxed{", "10", "1e400", "%", "’", "\ud800", "\x00", "ß", " ",
    ]  # fmt: skip
    for _ in range(200):
        reply = "".join(rng.choices(pieces, k=rng.randint(0, 12)))
        for multiple in (False, True):
            parsed = parse_choice(reply, shown(CYCLE), multiple=multiple)
            assert all(0 <= i < 4 for i in (*parsed.options, *parsed.candidates))
            assert (parsed.status == "answered") == (parsed.reason is None)
            assert multiple or len(parsed.options) == (parsed.status == "answered")
        scale = parse_scale(reply, 0, 10)
        assert scale.value is None or 0 <= scale.value <= 10
        shares = parse_distribution(reply, shown(CYCLE)).shares
        assert shares is None or sum(shares) == pytest.approx(1)


@pytest.mark.parametrize(
    "piece",
    ["(", ":", '"', "<think>", "answer ", "answer: ", "A ", "A, ", "not ", "Never ", " ", "B: ",
     "-", '{"answer": [', "option ", "\n", "\\boxed{", "I cannot ", "7 ", "a"],
)  # fmt: skip
def test_a_very_long_reply_takes_no_more_than_linear_time(piece):
    """Ten times as long takes at most about ten times as long; the bound is generous."""
    options = shown(CYCLE)
    start = time.process_time()
    for text in (piece * 5000, piece * 5000 + " B x", "B " + piece * 5000):
        parse_choice(text, options)
        parse_choice(text, options, multiple=True)
        parse_distribution(text, options)
        parse_scale(text, 0, 10)
    assert time.process_time() - start < 5


def test_ordinary_replies_are_read_faster_than_a_million_a_minute():
    """In CPU time, the best of three, so that a busy machine is no failure."""
    options = shown(CYCLE)
    forms = ["{label}", "{label}) {text}", "{text}", "**{label}**", "{text}.", " {label}\n"]
    replies = [f.format(label=o.label, text=o.text) for f in forms for o in options] * 100
    best = min(_cpu_seconds(replies, options) for _ in range(3))
    assert len(replies) / best * 60 > 1e6


def _cpu_seconds(replies, options):
    start = time.process_time()
    for reply in replies:
        parse_choice(reply, options)
    return time.process_time() - start
