"""Linear algebra on one thread: these matrices are small, and sums come out the same bits anywhere.

On a busy machine, threads that wait for each other made a fit of 150 pairs take ten seconds
instead of a tenth of one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache

import scipy.linalg  # noqa: F401 - loads its BLAS, so that the controller finds it
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[object]:
    """A context in which BLAS uses one thread; the former limit comes back after it."""
    context: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return context
