from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from quorum.backends.scripted import Scripted
from quorum.errors import BackendError, SettingsError, TransientBackendError
from quorum.records import Generation, Message, Request, Usage

SYSTEM = Message("system", "Be brief.")


def ask(text: str, **more: object) -> Request:
    return Request((SYSTEM, Message("user", text)), **more)


def reply(backend: Scripted, request: Request) -> Generation:
    return asyncio.run(backend.complete(request))


def test_the_first_rule_that_fits_answers():
    backend = Scripted(
        rules=(
            {"equals": "Be brief.\nhello", "reply": "equal"},
            {"contains": "hello", "reply": "contained"},
            {"regex": r"^Be.*\n\d+ apples$", "reply": "matched {prompt}!"},
            {"contains": "secret", "reply": "no", "finish_reason": "refusal"},
            {"contains": "say", "echo": True},
            {"reply": "else"},
        )
    )
    found = [
        reply(backend, ask(t)).text for t in ("hello", "oh hello", "12 apples", "say it", "what?")
    ]
    assert found == ["equal", "contained", "matched 12 apples!", "say it", "else"]
    assert reply(backend, ask("secret")).finish_reason == "refusal"


def test_without_rules_the_users_text_is_echoed_and_words_are_counted():
    generation = reply(Scripted(), ask("one two  three"))
    assert generation.text == "one two  three"
    assert generation.usage == Usage(input_tokens=5, output_tokens=3)
    assert generation.finish_reason == "stop"


def test_max_tokens_cuts_the_reply():
    generation = reply(Scripted(), ask("a b c d", options={"max_tokens": 2}))
    assert (generation.text, generation.finish_reason) == ("a b", "length")
    assert generation.usage.output_tokens == 2


def test_choices_are_drawn_by_the_request_and_its_sample():
    backend = Scripted(rules=({"reply": {"choices": ["x", "y", "z"]}},))
    warm = [ask("q", options={"temperature": 1.0}, sample=i) for i in range(60)]
    drawn = [reply(backend, request).text for request in warm]
    assert set(drawn) == {"x", "y", "z"}
    assert drawn == [reply(backend, request).text for request in reversed(warm)][::-1]
    cold = {reply(backend, ask("q", sample=i)).text for i in range(60)}
    assert cold == {"x"}


def test_a_continuation_is_scored_by_whether_its_words_stand_in_the_prompt():
    generation = reply(Scripted(), ask("Paris is big", continuation="Paris is small"))
    assert generation.token_logprobs == (-0.1, -0.1, -3.0)
    assert generation.finish_reason == "scored"
    assert generation.usage == Usage(input_tokens=8)


def test_the_choice_that_the_rules_reply_is_favoured():
    backend = Scripted(rules=({"contains": "cycle", "reply": "B"},))
    generation = reply(backend, ask("cycle?", choices=("A", "B", "C")))
    assert generation.choice_probs == pytest.approx((0.05, 0.9, 0.05))
    assert generation.choice_mass == 1.0
    undecided = reply(backend, ask("walk?", choices=("A", "B", "C", "D")))
    assert undecided.choice_probs == (0.25, 0.25, 0.25, 0.25)
    assert reply(backend, ask("cycle?", choices=("B",))).choice_probs == (1.0,)


def test_another_script_is_another_model_but_delays_and_failures_are_not():
    plain = Scripted(rules=({"reply": "a"},))
    other = Scripted(rules=({"reply": "b"},))
    slow = Scripted(rules=({"reply": "a"},), latency_s=0.1, call_log="x", crash_after=3)
    assert plain.target != other.target
    assert plain.target == slow.target
    assert ask("q").key(plain.target) != ask("q").key(other.target)


def test_failures_come_so_often_as_scripted_and_then_it_answers():
    failure = {"contains": "bad", "error": "transient", "times": 2, "retry_after_s": 7}
    backend = Scripted(fail=(failure,))
    assert reply(backend, ask("good")).text == "good"
    for _ in range(2):
        with pytest.raises(TransientBackendError) as raised:
            reply(backend, ask("bad"))
        assert raised.value.retry_after_s == 7.0
    assert reply(backend, ask("bad")).text == "bad"


def test_a_permanent_failure_is_not_a_transient_one():
    backend = Scripted(fail=({"error": "permanent"},))
    with pytest.raises(BackendError, match=r"backend.fail\[0\]") as raised:
        reply(backend, ask("x"))
    assert not isinstance(raised.value, TransientBackendError)


def test_the_call_log_has_a_line_for_each_call_that_started(tmp_path):
    log = tmp_path / "calls"
    backend = Scripted(call_log=str(log), fail=({"contains": "bad", "error": "permanent"},))
    good, bad = ask("good"), ask("bad")
    reply(backend, good)
    with pytest.raises(BackendError):
        reply(backend, bad)
    keys = [request.key(backend.target) for request in (good, bad)]
    assert log.read_text().splitlines() == [f"{key} {os.getpid()}" for key in keys]


@pytest.mark.parametrize(("crash_after", "n_printed"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_the_process_dies_at_the_scripted_event(crash_after, n_printed):
    code = (
        "import asyncio\nfrom quorum.backends.scripted import Scripted\n"
        "from quorum.records import Message, Request\n"
        f"backend = Scripted(crash_after={crash_after})\n"
        "for _ in range(3):\n"
        "    asyncio.run(backend.complete(Request((Message('user', 'x'),))))\n"
        "    print('done', flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -9
    assert done.stdout.splitlines() == ["done"] * n_printed


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (
            {"contians": "a", "reply": "b"},
            r"backend.rules\[0\]: has an unknown key, got 'contians'",
        ),
        ({"contains": "a"}, "does not say what to reply; allowed reply or echo: true"),
        ({"contains": "a", "echo": False}, "does not say what to reply"),
        ({"echo": True, "reply": "a"}, "does not say what to reply"),
        ({"contains": "a", "equals": "b", "reply": "c"}, "has several matchers"),
        ({"contains": 3, "reply": "c"}, "contains: is no text, got 3"),
        ({"regex": "(", "reply": "c"}, r"regex: is no regular expression \(.*got '\('"),
        ({"reply": 3}, "reply: is no reply, got 3"),
        ({"reply": {"choices": []}}, "reply: is no reply"),
        ({"reply": {"choices": [1]}}, "reply: is no reply"),
        ({"reply": {"options": ["a"]}}, "reply: is no reply"),
        ({"reply": "a", "finish_reason": "done"}, "finish_reason: is unknown, got 'done'"),
    ],
)
def test_a_bad_rule_is_one_line_with_its_place(rule, message):
    with pytest.raises(SettingsError, match=message) as raised:
        Scripted(rules=(rule,))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ({"contains": "a"}, r"backend.fail\[0\].error: is unknown; allowed transient"),
        ({"error": "odd"}, "error: is unknown, got 'odd'"),
        ({"error": "transient", "times": 0}, "times: is no count, got 0"),
        ({"error": "transient", "times": True}, "times: is no count"),
        ({"error": "transient", "retry_after_s": float("nan")}, "retry_after_s: is no time"),
        ({"error": "transient", "reply": "a"}, "has an unknown key, got 'reply'"),
    ],
)
def test_a_bad_failure_is_one_line_with_its_place(failure, message):
    with pytest.raises(SettingsError, match=message):
        Scripted(fail=(failure,))
