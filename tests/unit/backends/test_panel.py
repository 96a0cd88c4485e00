"""People of a table answer the questions of their table and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from quorum.backends.panel import Panel
from quorum.errors import BackendError
from quorum.records import Message, Request

ANSWERS = {"r0001": {"q1": "2", "q2": "refused", "q3": None, "q4": "a,b"}}


@pytest.fixture
def panel() -> Panel:
    empty = Panel("people.csv", "id", attributes=(), refused=("R",))
    return empty.seat(ANSWERS, table="abc")


def ask(question: str, shown: str, respondent: str = "r0001") -> Request:
    options = {"respondent": respondent, "question": question, "shown": shown}
    return Request((Message("user", "Which?"),), options)


@pytest.mark.parametrize(
    ("question", "shown", "text", "finish"),
    [
        ("q1", "1\n2\n3", "B", "stop"),
        ("q1", "2\n3\n1", "A", "stop"),
        ("q4", "x\na,b", "B", "stop"),
        ("q2", "1\n2", "", "refusal"),
        ("q3", "1\n2", "", "stop"),
    ],
)
def test_the_reply_is_the_letter_of_the_persons_option_as_it_was_shown(
    panel, question, shown, text, finish
):
    reply = asyncio.run(panel.complete(ask(question, shown)))
    assert (reply.text, reply.finish_reason) == (text, finish)
    assert reply.usage.input_tokens == 0


@pytest.mark.parametrize(
    "request_", [ask("q9", "1"), ask("q1", "1", "r0002"), Request((Message("user", "Hello"),))]
)
def test_anything_else_is_refused(panel, request_):
    with pytest.raises(BackendError, match="answers the questions of its table"):
        panel.reply(request_)


def test_another_table_is_another_identity(panel):
    assert panel.target.identity == {"table": "abc"}
    assert ask("q1", "1").key(panel.target) != ask("q1", "1").key(panel.seat({}, "x").target)
    assert panel.lanes == 1
    assert not panel.capabilities.choice_probs
    asyncio.run(panel.close())
