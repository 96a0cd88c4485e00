from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum.backends.base import ObservedLimits
from quorum.errors import BackendError, SettingsError
from quorum.records import Message, Request, Usage
from quorum.runtime.limits import MinuteLimits, Need
from quorum.runtime.options import RuntimeOptions


def limits(**options):
    return MinuteLimits(RuntimeOptions(**options), "spy")


async def starts(minute, needs, settle=None):
    """Moments at which calls start, each in a task of its own; a call takes a second."""
    loop = asyncio.get_running_loop()
    moments = []

    async def one(need):
        hold = await minute.take(need)
        hold.start()
        moments.append((loop.time(), need))
        await asyncio.sleep(1.0)
        if settle is not None:
            hold.settle(settle(need))

    await asyncio.gather(*(one(need) for need in needs))
    return moments


def most_in_a_window(moments, amount, period_s=60.0):
    return max(sum(amount(n) for m, n in moments if s <= m <= s + period_s) for s, _ in moments)


@given(
    limit=st.integers(1, 30),
    needs=st.lists(st.integers(1, 30), min_size=1, max_size=40),
)
@settings(max_examples=60, deadline=None)
def test_no_window_of_a_minute_holds_more_tokens_than_the_limit(virtual_loop, limit, needs):
    needs = [Need(0, min(n, limit)) for n in needs]

    async def work():
        return await starts(limits(max_tokens_per_min=limit), needs)

    moments = virtual_loop(work())
    assert [n for _, n in moments] == needs  # first come, first served
    assert most_in_a_window(moments, lambda n: n.output_tokens) <= limit


def test_116_no_window_holds_more_requests_than_the_limit_and_it_is_used_up(run_virtual):
    moments = run_virtual(starts(limits(max_requests_per_min=20), [Need(1, 1)] * 60))
    assert most_in_a_window(moments, lambda n: 1) == 20
    assert moments[-1][0] == pytest.approx(2 * 63.0)


def test_tokens_that_were_not_used_come_back_as_a_call_ends(run_virtual):
    """100 a minute at 50 reserved and 5 used: without settling two calls a minute."""
    minute = limits(max_output_tokens_per_min=100)
    used = Usage(input_tokens=9, output_tokens=5)
    moments = run_virtual(starts(minute, [Need(0, 50)] * 10, lambda n: used))
    assert moments[-1][0] <= 10.0


def test_tokens_above_the_estimate_are_made_up_for(run_virtual):
    minute = limits(max_tokens_per_min=100)
    used = Usage(input_tokens=60, output_tokens=30)
    moments = run_virtual(starts(minute, [Need(0, 40)] * 4, lambda n: used))
    # two are let through by their estimates and turn out to be 180: those must leave first
    assert [m for m, _ in moments] == pytest.approx([0.0, 0.0, 63.0, 63.0])


def test_an_answer_without_tokens_counted_leaves_the_estimate(run_virtual):
    moments = run_virtual(
        starts(limits(max_tokens_per_min=100), [Need(0, 60)] * 2, lambda n: Usage())
    )
    assert moments[1][0] == pytest.approx(63.0)


def test_input_from_a_cache_is_no_part_of_the_limit_on_input(run_virtual):
    minute = limits(max_input_tokens_per_min=100)
    used = Usage(input_tokens=80, cached_input_tokens=75)
    moments = run_virtual(starts(minute, [Need(64, 0)] * 5, lambda n: used))
    assert moments[-1][0] == pytest.approx(4.0)  # 80 reserved, 5 left: one after the other


def test_a_call_that_waits_to_be_sent_counts_until_it_starts(run_virtual):
    async def work():
        loop = asyncio.get_running_loop()
        minute = limits(max_requests_per_min=1)
        first = await minute.take(Need(1, 1))
        loop.call_later(50.0, first.start)
        await minute.take(Need(1, 1))
        return loop.time()

    assert run_virtual(work()) == pytest.approx(50.0 + 63.0)


@pytest.mark.parametrize(("end", "until_s"), [("cancel", 5.0), ("reject", 68.0)])
def test_a_call_that_was_not_sent_gives_all_back(run_virtual, end, until_s):
    async def work():
        loop = asyncio.get_running_loop()
        minute = limits(max_requests_per_min=1)
        first = await minute.take(Need(1, 1))
        if end == "reject":
            loop.call_later(5.0, first.start)
        loop.call_later(5.0, getattr(first, end))
        await minute.take(Need(1, 1))
        return loop.time()

    assert run_virtual(work()) == pytest.approx(until_s)


def test_a_call_that_was_turned_away_gives_its_output_back(run_virtual):
    async def work():
        minute = limits(max_tokens_per_min=100)
        first = await minute.take(Need(8, 80))
        first.start()
        first.reject()
        await minute.take(Need(8, 80))
        return asyncio.get_running_loop().time()

    assert run_virtual(work()) == 0.0


def test_what_a_late_answer_took_is_no_part_of_a_later_minute(run_virtual):
    async def work():
        loop = asyncio.get_running_loop()
        minute = limits(max_tokens_per_min=100)
        first = await minute.take(Need(0, 100))
        first.start()
        await asyncio.sleep(64.0)
        second = await minute.take(Need(0, 100))
        second.start()
        first.settle(Usage(output_tokens=1))
        await minute.take(Need(0, 100))
        return loop.time()

    assert run_virtual(work()) == pytest.approx(64.0 + 63.0)


@pytest.mark.parametrize(
    ("option", "what"),
    [
        ("max_tokens_per_min", "30,010"),
        ("max_input_tokens_per_min", "30,000"),
    ],
)
def test_121_one_call_above_the_allowance_of_a_minute_fails_at_once(run_virtual, option, what):
    minute = limits(**{option: 20_000})
    with pytest.raises(SettingsError) as raised:
        run_virtual(minute.take(Need(30_000, 10)))
    assert str(raised.value) == (
        f"runtime.{option}: one request needs about {what} of them, more than a whole minute "
        "allows; allowed at most 20,000. Raise it, or shorten the prompt or generation.max_tokens"
    )


def test_121_a_stated_limit_refuses_too_also_while_a_call_waits_for_room(run_virtual):
    async def work():
        loop = asyncio.get_running_loop()
        minute = limits(max_requests_per_min=1)
        await minute.take(Need(1, 1))
        loop.call_later(5.0, minute.learn, ObservedLimits(tokens_per_min=20_000))
        try:
            await minute.take(Need(30_000, 10))
        finally:
            assert loop.time() == 5.0

    with pytest.raises(BackendError, match=r"spy: tokens a minute: .* about 30,010 .*20,000"):
        run_virtual(work())


def test_only_the_margin_of_an_estimate_is_above_the_limit_and_it_waits_for_an_empty_minute(
    run_virtual,
):
    moments = run_virtual(starts(limits(max_input_tokens_per_min=100), [Need(90, 0)] * 2))
    assert [m for m, _ in moments] == pytest.approx([0.0, 63.0])


def test_limits_that_the_server_states_hold_for_what_has_started_already(run_virtual):
    async def work():
        minute = limits()
        for _ in range(3):
            (await minute.take(Need(1, 1))).start()
        minute.learn(ObservedLimits(requests_per_min=4))
        return await starts(minute, [Need(1, 1)] * 3)

    assert [m for m, _ in run_virtual(work())] == pytest.approx([0.0, 63.0, 63.0])


def test_a_limit_that_the_user_sets_is_not_replaced(run_virtual):
    async def work():
        minute = limits(max_requests_per_min=2)
        minute.learn(ObservedLimits(requests_per_min=100, tokens_per_min=10))
        minute.learn(ObservedLimits())
        minute.learn(None)
        with pytest.raises(BackendError):
            await minute.take(Need(1, 10))
        return await starts(minute, [Need(1, 1)] * 3)

    assert run_virtual(work())[-1][0] == pytest.approx(63.0)


def test_one_that_gives_up_waiting_leaves_its_place(run_virtual):
    async def work():
        loop = asyncio.get_running_loop()
        minute = limits(max_requests_per_min=1)
        (await minute.take(Need(1, 1))).start()
        waiting = [asyncio.create_task(minute.take(Need(1, 1))) for _ in range(2)]
        await asyncio.sleep(1.0)
        waiting[0].cancel()
        await waiting[1]
        return loop.time()

    assert run_virtual(work()) == pytest.approx(63.0)


def test_a_need_is_a_quarter_of_the_bytes_and_the_longest_reply():
    long = Request((Message("user", "x" * 4000),), {"max_tokens": 50})
    assert Need.of(long) == Need(1004, 50)
    assert Need.of(long, 4146) == Need(1004, 4146)
    assert Need.of(Request((Message("user", "日本" * 100),))) == Need(154, 1024)
    assert Need.of(Request((Message("user", "abcd"),), choices=("A", "B"))) == Need(5, 16)
    assert Need.of(Request((Message("user", "abcd"),), continuation="x" * 40)) == Need(15, 0)
    schema = Request((Message("user", "abcd"),), {"schema": "{" * 400, "max_tokens": 7})
    assert Need.of(schema) == Need(105, 7)
    assert Need(100, 7).amounts(1.25) == (1, 125, 7, 132)
    assert math.isclose(sum(Need(0, 0).amounts()), 1)
