"""One seam for work in this process, in others, and on a dask cluster."""

from __future__ import annotations

import os

import pytest
from executor_work import (
    blas_threads,
    broken_at_three,
    killed_at_three,
    numbers,
    refused_at_three,
    squared,
)

from quorum.errors import InputError, MissingExtraError, QuorumError
from quorum.runtime import executor
from quorum.runtime.executor import map_unordered, n_workers
from quorum.runtime.options import RuntimeOptions

TWO = {
    "processes": RuntimeOptions(executor="processes", workers=2),
    "dask": RuntimeOptions(executor="dask", workers=2),
}
SERIAL = RuntimeOptions()


def test_every_item_comes_back_once_with_its_position():
    assert list(map_unordered(squared, [5, 3, 4], SERIAL)) == [(0, 25), (1, 9), (2, 16)]
    for options in (SERIAL, *TWO.values()):
        assert list(map_unordered(squared, [], options)) == []


def test_results_have_the_same_bits_in_processes_and_here():
    seeds = list(range(6))
    expected = dict(map_unordered(numbers, seeds, SERIAL))
    assert dict(map_unordered(numbers, seeds, TWO["processes"])) == expected


def test_linear_algebra_runs_on_one_thread_in_every_worker():
    for options in (SERIAL, TWO["processes"]):
        for _, threads in map_unordered(blas_threads, [0, 1], options):
            assert set(threads) == {1}


def test_serial_work_is_done_when_it_is_asked_for():
    coming = map_unordered(broken_at_three, [1, 2, 3], SERIAL)
    assert [next(coming), next(coming)] == [(0, 1), (1, 2)]
    with pytest.raises(ValueError, match="no three"):
        next(coming)


def collected(function, options) -> tuple[list[int], BaseException]:
    found: list[int] = []
    with pytest.raises((QuorumError, ValueError)) as caught:
        found.extend(result for _, result in map_unordered(function, range(400), options))
    return found, caught.value


def test_an_error_of_a_worker_arrives_whole_and_no_item_is_begun_after_it():
    options = TWO["processes"]
    found, error = collected(refused_at_three, options)
    assert type(error) is InputError
    assert str(error) == "item 3: is odd, got 3; allowed even numbers. Double it"
    assert (error.where, error.got, error.mend, error.exit_code) == ("item 3", 3, "Double it", 2)
    assert {0, 1, 2} <= set(found) <= set(range(3 + 3 * executor.AHEAD * 2))


def test_a_mistake_in_the_code_is_raised_as_it_is():
    found, error = collected(broken_at_three, TWO["processes"])
    assert type(error) is ValueError
    assert {0, 1, 2} <= set(found)


def test_a_worker_that_dies_is_one_line_that_says_what_to_do():
    _, error = collected(killed_at_three, TWO["processes"])
    assert type(error) is QuorumError
    assert "what is done is kept" in str(error)


def test_stopping_early_ends_the_workers():
    coming = map_unordered(os.getpgid, [0] * 200, TWO["processes"])
    position, group = next(coming)
    assert group == os.getpgid(0)
    assert 0 <= position < 200
    coming.close()
    assert list(coming) == []


def test_dask_without_its_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(executor.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install -e '\.\[cluster\]'"):
        map_unordered(squared, [1], TWO["dask"])


def test_one_worker_a_core_unless_told_otherwise():
    assert n_workers(RuntimeOptions(workers=7)) == 7
    assert n_workers(SERIAL) == os.cpu_count()
