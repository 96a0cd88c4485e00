"""The settings of a run that change no result: how many calls at once, how long, how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, MinLen

ProgressMode = Literal["auto", "plain", "off"]
ExecutorName = Literal["serial", "processes", "dask"]


@dataclass(frozen=True, slots=True)
class RuntimeOptions:
    """How requests are sent; no field is part of any digest."""

    max_inflight: Annotated[int, Ge(1)] = 8  # calls at once; a backend's lanes may be fewer
    max_attempts: Annotated[int, Ge(1)] = 5  # calls for one request; see Caller
    retry_after_ceiling_s: Annotated[float, Ge(0)] = 600.0  # a server that asks for more ends it
    backoff_base_s: Annotated[float, Gt(0)] = 0.5  # wait before attempt k+1: U(0, base·2^(k−1))
    backoff_ceiling_s: Annotated[float, Gt(0)] = 60.0  # never longer than this by our own choice
    timeout_s: Annotated[float, Gt(0)] = 300.0  # one call; a timed-out call is tried once more
    max_requests_per_s: Annotated[float, Gt(0)] | None = None  # starts of calls; null: no limit
    max_requests_per_min: Annotated[int, Ge(1)] | None = None  # null: what the server states
    max_tokens_per_min: Annotated[int, Ge(1)] | None = None  # input and output; null: likewise
    max_input_tokens_per_min: Annotated[int, Ge(1)] | None = None  # less what a cache had; likewise
    max_output_tokens_per_min: Annotated[int, Ge(1)] | None = None  # likewise
    batch_poll_s: Annotated[float, Gt(0)] = 10.0  # first look at a batch; later ones are rarer
    calls: Literal["allow", "forbid"] = "allow"  # forbid: what the store lacks is an error
    group_by_prefix: bool = True  # one lane works through a shared beginning, if it profits
    resume: str | None = None  # a checkpoint to go on from; null: the run's own, if there is one
    progress: ProgressMode = "auto"  # auto: a bar on a terminal, else a line every 10 %
    executor: ExecutorName = "serial"  # where simulations are computed
    workers: Annotated[int, Ge(1)] | None = None  # processes; null: one a core
    dask_address: Annotated[str, MinLen(1)] | None = None  # null: a cluster of this machine
