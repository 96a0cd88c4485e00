from __future__ import annotations

import asyncio

import pytest

from quorum.runtime.limits import RateLimit, SharedPause


async def starts(limit, n, gap_s=0.0):
    """Moments at which n callers, each in a task of its own, were let through."""
    loop = asyncio.get_running_loop()
    moments = []

    async def one(i):
        await asyncio.sleep(i * gap_s)
        await limit.acquire()
        moments.append(loop.time())

    await asyncio.gather(*(one(i) for i in range(n)))
    return sorted(moments)


def most_in_a_window(moments, period_s):
    return max(sum(start <= m <= start + period_s for m in moments) for start in moments)


@pytest.mark.parametrize("gap_s", [0.0, 0.03, 0.099, 0.2])
def test_no_window_holds_more_starts_than_the_limit(run_virtual, gap_s):
    moments = run_virtual(starts(RateLimit(20, 2.0), 60, gap_s))
    assert len(moments) == 60
    assert most_in_a_window(moments, 2.0) <= 20


def test_the_limit_is_used_up(run_virtual):
    moments = run_virtual(starts(RateLimit(20, 2.0), 60))
    assert most_in_a_window(moments, 2.0) == 20
    assert moments[-1] <= 4.1  # two whole windows for the third twenty


@pytest.mark.parametrize(
    ("rate", "n", "at_least_s"), [(0.5, 3, 4.0), (2.5, 10, 3.6), (10.0, 31, 3.0)]
)
def test_a_rate_may_be_a_fraction(run_virtual, rate, n, at_least_s):
    moments = run_virtual(starts(RateLimit.per_second(rate), n))
    assert at_least_s <= moments[-1] - moments[0] <= 1.05 * at_least_s


def test_a_very_small_rate_is_one_start_in_its_inverse(run_virtual):
    moments = run_virtual(starts(RateLimit.per_second(0.001), 2))
    assert 1000.0 < moments[1] - moments[0] <= 1020.0


def test_a_rate_is_never_rounded_up(run_virtual):
    moments = run_virtual(starts(RateLimit.per_second(2.5), 40))
    assert most_in_a_window(moments, 1.2) == 3


def test_a_pause_that_is_extended_while_one_waits_holds(run_virtual):
    async def work():
        loop = asyncio.get_running_loop()
        pause = SharedPause(1.0, lambda: 0.5)
        await pause.wait()
        assert loop.time() == 0.0
        pause.extend(10.0)
        loop.call_later(5.0, pause.extend, 20.0)
        await pause.wait()
        return loop.time()

    assert run_virtual(work()) == pytest.approx(25.5)
