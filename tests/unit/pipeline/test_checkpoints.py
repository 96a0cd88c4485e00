"""What a reconstruction run is: which changes make it another run, and by what name."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from quorum.config.compose import compose
from quorum.config.reconstruction_stages import generate_view
from quorum.pipeline.reconstruction.checkpoints import identity, run_folder
from quorum.pipeline.reconstruction.questions import Targets
from quorum.reconstruction import asking
from quorum.reconstruction.survey import Option, Question, Shares
from quorum.records import Target

PROJECT = Path(__file__).parents[3]
QUESTIONS = (Question("q1", "One?", (Option("A", "Yes"), Option("B", "No")), split="train"),)
TARGET = Target("scripted", "scripted", {"rules": "abc"})


@cache
def base() -> dict[str, str]:
    return what()


def what(questions=QUESTIONS, targets=None, model=TARGET, **params):
    settings = compose(
        PROJECT, {"study": "reconstruction", "backend": {"use": "scripted"}, **params}
    )
    return identity(generate_view(PROJECT, settings), questions, targets, model)


def differing(one: dict[str, str], other: dict[str, str]) -> set[str]:
    return {key for key in {*one, *other} if one.get(key) != other.get(key)}


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"pool": {"size": 30}}, {"pool.size"}),
        ({"elicitation": {"use": "logprob", "orders": 1}}, {"elicitation.options.orders"}),
        ({"seed": 7}, {"seed"}),
        ({"model": Target("scripted", "scripted", {"rules": "xyz"})}, {"model"}),
        ({"questions": (replace(QUESTIONS[0], text="Two?"),)}, {"survey"}),
        ({"questions": (replace(QUESTIONS[0], split="test"),)}, {"survey"}),
        # how a run is carried out, and what is done with the answers
        ({"runtime": {"max_inflight": 1, "resume": "x"}}, set()),
        ({"backend": {"use": "scripted", "latency_s": 1.0}}, set()),
        ({"ensemble": "lasso"}, set()),
        ({"cleaning": "strict"}, set()),
        ({"target": {"groups": ["party"]}}, set()),
        ({"report": {"level": 0.8}}, set()),
    ],
    ids=str,
)
def test_a_run_is_told_by_what_its_answers_hang_on(changes, keys):
    other = what(**changes)
    assert differing(base(), other) == keys
    same = run_folder(Path("store"), base()) == run_folder(Path("store"), other)
    assert same == (not keys)


def test_other_words_around_a_question_are_another_run(monkeypatch):
    before = base()
    plain = asking.Prompt.messages
    monkeypatch.setattr(
        asking.Prompt, "messages", lambda self, order: (*plain(self, order)[:1],) * 2
    )
    assert differing(before, what()) == {"templates"}


def test_shares_count_only_where_they_decide_who_is_asked():
    targets = Targets({"population": {"q1": Shares((0.4, 0.6))}}, {})
    moved = Targets({"population": {"q1": Shares((0.5, 0.5))}}, {})
    assert differing(what(targets=targets), what(targets=moved)) == {"targets"}
    assert "targets" not in what()
