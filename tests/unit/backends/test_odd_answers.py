"""Whatever a server sends, an answer is a reply or an error of ours."""

from __future__ import annotations

import copy
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from provider_stub import Reply, anthropic_body, chat_body, responses_body

from quorum.backends.anthropic import Anthropic
from quorum.backends.failures import failure_of, read_error
from quorum.backends.openai import OpenAI
from quorum.errors import BackendError
from quorum.records import Generation, Message, Request
from quorum.runtime.codec import pack_generation

ASK = Request((Message("user", "a"),))
LETTERS = Request(ASK.messages, choices=("A", "B"))
REPLY = Reply("A", top=[("A", -0.1), ("B", -2.0)])
READERS = {
    "chat": (OpenAI(), chat_body(REPLY, {})),
    "responses": (OpenAI(api="responses"), responses_body(REPLY, {})),
    "messages": (Anthropic(), anthropic_body(REPLY, {})),
}
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


def places(node: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    inner = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


def with_odd(body: dict, place: tuple[object, ...], odd: object) -> dict:
    body = copy.deepcopy(body)
    node = body
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = odd
    return body


@pytest.mark.parametrize("name", READERS)
@given(data=st.data())
def test_an_odd_value_anywhere_makes_no_other_error(name, data):
    backend, body = READERS[name]
    place = data.draw(st.sampled_from([p for p in places(body) if p]))
    body = with_odd(body, place, data.draw(ODD))
    for request in (ASK,) if name == "messages" else (ASK, LETTERS):
        try:
            found = backend.read(body, request)
        except BackendError:
            continue
        assert isinstance(found, Generation)
        pack_generation(found)  # nothing that the store could not hold
        usage = found.usage
        assert 0 <= usage.reasoning_tokens <= usage.output_tokens
        assert 0 <= usage.cached_input_tokens + usage.cache_write_tokens <= usage.input_tokens
        if found.choice_probs is not None:
            assert math.fsum(found.choice_probs) == pytest.approx(1.0)


@given(status=st.integers(200, 599), body=ODD, wait=st.text(max_size=8))
def test_an_odd_error_is_one_line(status, body, wait):
    for whole in (body, {"error": body}, {"error": {"code": body, "type": body, "message": body}}):
        error = read_error(status, whole, {"retry-after": wait})
        assert error.retry_after_s is None or error.retry_after_s > 0
        line = str(failure_of(error, "backend x", {"key": "k", "wire": "w"}))
        assert "\n" not in line
