"""What the tests of the executor let workers do; other processes find it by this file's name."""

from __future__ import annotations

import os
import signal

import numpy as np
from threadpoolctl import threadpool_info

from quorum.errors import InputError


def squared(x: int) -> int:
    return x * x


def numbers(seed: int) -> bytes:
    """Linear algebra whose last bits hang on the number of threads."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(300, 300))
    return (a @ a.T @ rng.normal(size=300)).tobytes()


def blas_threads(_: int) -> list[int]:
    return [row["num_threads"] for row in threadpool_info() if row["user_api"] == "blas"]


def refused_at_three(x: int) -> int:
    if x == 3:
        raise InputError("item 3", "is odd", got=3, allowed="even numbers", mend="Double it")
    return x


def broken_at_three(x: int) -> int:
    if x == 3:
        raise ValueError("no three")
    return x


def killed_at_three(x: int) -> int:
    if x == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return x
