"""One seam for work that can be done anywhere: in this process, in others, on a dask cluster.

Items are independent and bring their own seeds; linear algebra runs on one thread everywhere. So
results have the same bits in any executor, and only their order of arrival differs.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import get_context, parent_process
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar, cast

from quorum.errors import MissingExtraError, QuorumError
from quorum.runtime.options import RuntimeOptions
from quorum.threads import one_thread

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 4  # items a worker that are handed out before one comes back


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error that a user can mend, as it travels between processes.

    Such errors take several arguments, which Python's own pickling of exceptions cannot give back.
    """

    kind: type[QuorumError]
    line: str
    state: dict[str, object]

    def error(self) -> QuorumError:
        found = self.kind.__new__(self.kind, self.line)
        found.args = (self.line,)
        found.__dict__.update(self.state)
        return found


def map_unordered(
    function: Callable[[Item], Result], items: Sequence[Item], options: RuntimeOptions
) -> Generator[tuple[int, Result], None, None]:
    """Results of a function with their positions, as they come.

    Args:
        function: Importable by its name, so that other processes can find it.
        items: What it is called with, one at a time; plain values.
        options: ``executor``, ``workers`` and ``dask_address``.

    Raises:
        MissingExtraError: ``dask`` without its package.
        QuorumError: A worker died.
        Exception: The first that the function raises. Nothing is begun after it; what other
            workers have in hand is finished and handed over before it is raised.
    """
    if options.executor == "serial":
        return _serial(function, items)
    if options.executor == "processes":
        return _processes(function, items, options)
    check_dask()
    return _dask(function, items, options)


def check_dask() -> None:
    """Refuses to go on without the package.

    Raises:
        MissingExtraError: distributed is not installed.
    """
    if importlib.util.find_spec("distributed") is None:
        raise MissingExtraError(
            "runtime.executor=dask",
            "the package distributed is not installed",
            mend="Install it with: pip install -e '.[cluster]'",
        )


def n_workers(options: RuntimeOptions) -> int:
    """How many processes work: those asked for, or one a core."""
    return options.workers or os.cpu_count() or 1


def _serial(
    function: Callable[[Item], Result], items: Sequence[Item]
) -> Generator[tuple[int, Result], None, None]:
    for position, item in enumerate(items):
        with one_thread():
            result = function(item)
        yield position, result


def _processes(
    function: Callable[[Item], Result], items: Sequence[Item], options: RuntimeOptions
) -> Generator[tuple[int, Result], None, None]:
    count = min(n_workers(options), len(items))
    if count == 0:
        return
    pool = ProcessPoolExecutor(count, get_context("spawn"), _begin)
    try:
        yield from _windowed(_PoolOf(pool), function, items, AHEAD * count)
    except BrokenProcessPool as error:
        raise _died("processes") from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _dask(
    function: Callable[[Item], Result], items: Sequence[Item], options: RuntimeOptions
) -> Generator[tuple[int, Result], None, None]:
    if not items:
        return
    with _client(options, len(items)) as client:
        ahead = AHEAD * max(1, sum(client.nthreads().values()))
        try:
            yield from _windowed(_ClusterOf(client), function, items, ahead)
        except _distributed().KilledWorker as error:
            raise _died("dask") from error


def _died(executor: str) -> QuorumError:
    return QuorumError(
        f"runtime.executor={executor}",
        "a worker died at its work, as where memory runs out",
        mend="Run the same command again, with fewer runtime.workers: what is done is kept",
    )


class _Workers(Protocol):
    """What can be handed a call, and be asked which calls have ended."""

    def submit(self, function: Callable[..., object], *args: object) -> Any:
        """A future."""

    def ended(self, futures: set[Any]) -> set[Any]:
        """Those that have ended; waits for one at least."""


@dataclass(frozen=True, slots=True)
class _PoolOf:
    pool: ProcessPoolExecutor

    def submit(self, function: Callable[..., object], *args: object) -> Future[object]:
        return self.pool.submit(function, *args)

    def ended(self, futures: set[Future[object]]) -> set[Future[object]]:
        return wait(futures, return_when=FIRST_COMPLETED).done


@dataclass(frozen=True, slots=True)
class _ClusterOf:
    client: Any
    done: SimpleQueue[Any] = field(default_factory=SimpleQueue)

    def submit(self, function: Callable[..., object], *args: object) -> Any:
        future = self.client.submit(function, *args, pure=False)
        future.add_done_callback(self.done.put)
        return future

    def ended(self, futures: set[Any]) -> set[Any]:
        # One at a time; distributed's own wait does not end well at Ctrl-C.
        return {self.done.get()} & futures


def _windowed(
    workers: _Workers,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    ahead: int,
) -> Generator[tuple[int, Result], None, None]:
    """Hands out a few items ahead; after a failure no more, and what is in hand is waited for."""
    left = iter(enumerate(items))
    running: dict[Any, int] = {}
    failure: BaseException | None = None
    while True:
        if failure is None:
            for position, item in islice(left, ahead - len(running)):
                running[workers.submit(_called, function, item)] = position
        if not running:
            break
        for future in workers.ended(set(running)):
            position = running.pop(future)
            error = future.exception()
            if error is not None:
                failure = failure or error
                continue
            result = future.result()
            if isinstance(result, _Failure):
                failure = failure or result.error()
            else:
                yield position, cast("Result", result)
    if failure is not None:
        raise failure


def _called(function: Callable[[Item], Result], item: Item) -> Result | _Failure:
    """A call in a worker."""
    with one_thread():
        try:
            return function(item)
        except QuorumError as error:
            return _Failure(type(error), str(error), dict(error.__dict__))


def _begin() -> None:
    """What a worker does first.

    Ctrl-C reaches every process of a terminal: the first one says what becomes of it. Where that
    one is killed, its workers would wait for work for ever: they end with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _client(options: RuntimeOptions, n_items: int) -> Iterator[Any]:
    """A client of the scheduler named, or of a cluster of processes that ends with it."""
    distributed = _distributed()
    if options.dask_address is not None:
        with distributed.Client(options.dask_address) as client:
            yield client
        return
    logging.getLogger("distributed").setLevel(logging.ERROR)  # it tells of every start and end
    with tempfile.TemporaryDirectory(prefix="quorum-dask-") as folder:
        quiet = {"distributed.nanny.pre-spawn-environ.DASK_LOGGING__DISTRIBUTED": "error"}
        with _without_ctrl_c(), importlib.import_module("dask").config.set(quiet):
            cluster = distributed.LocalCluster(
                n_workers=min(n_workers(options), n_items),
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                local_directory=folder,
            )
        with cluster, distributed.Client(cluster) as client:
            yield client


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Processes begun meanwhile never heed Ctrl-C: the first one says what becomes of it.

    Nor does this one for that while; where it does not decide on signals, nothing changes.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _distributed() -> Any:
    """The package, an extra whose functions have no types."""
    return importlib.import_module("distributed")
