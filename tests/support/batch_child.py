"""A run of batches in a process of its own, which kills itself at a step of its choice.

A step is whatever leaves a trace outside of the process: a request and its answer, a line of the
journal (before it, in the middle of it, after it), a row of the ledger, a reservation, a reply in
the store. ``run`` is the target of a process; one that is not killed writes how many steps it took.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from quorum.backends.anthropic import Anthropic
from quorum.backends.anthropic_batch import AnthropicBatch
from quorum.backends.openai import OpenAI
from quorum.backends.openai_batch import OpenAIBatch
from quorum.records import Message, Request
from quorum.runtime import batch_journal
from quorum.runtime.batch import BatchOptions, run_batches
from quorum.runtime.batch_journal import Journal
from quorum.runtime.caps import Account, Amount, Caps
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job
from quorum.runtime.store import GenerationStore

RATE = Decimal("0.0001")
WORST = 30  # tokens that a line may cost at most
N_FIRST = 11  # requests of the first phase; the first three bring another one each
TEXTS = sorted([f"q{i}" for i in range(N_FIRST)] + [f"q{i}+" for i in range(3)])


def price(tokens: int) -> Amount:
    """What so many tokens cost."""
    return Amount(tokens * RATE, 1, tokens)


def account(store: GenerationStore, max_tokens: int) -> Account:
    """The account of all processes."""
    return Account(
        store,
        "run",
        Caps(max_tokens=max_tokens, max_usd=max_tokens * RATE),
        lambda request: price(WORST),
        lambda usage: price(usage.input_tokens + usage.output_tokens),
    )


class Steps:
    """Counts steps and kills this process at one of them."""

    def __init__(self, kill_at: int) -> None:
        self.n = 0
        self._kill_at = kill_at

    def reach(self) -> bool:
        """The next step; whether it is the last one."""
        self.n += 1
        return self.n == self._kill_at

    def step(self) -> None:
        """The next step, which may be the last one."""
        if self.reach():
            die()

    def around(self, owner: object, name: str) -> None:
        """A step before and one after a function."""
        whole = getattr(owner, name)

        @functools.wraps(whole)
        def plain(*args: object, **more: object) -> object:
            self.step()
            result = whole(*args, **more)
            self.step()
            return result

        @functools.wraps(whole)
        async def waiting(*args: object, **more: object) -> object:
            self.step()
            result = await whole(*args, **more)
            self.step()
            return result

        setattr(owner, name, waiting if asyncio.iscoroutinefunction(whole) else plain)

    def in_journal(self) -> None:
        """Steps before, within and after what is appended to a journal."""
        whole = batch_journal._append

        def append(file: int, *rows: object) -> None:
            self.step()
            if self.reach():
                os.write(file, b'{"event":"reserved","tick')
                die()
            whole(file, *rows)
            self.step()

        batch_journal._append = append


def die() -> None:
    """As by kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


def run(kind: str, url: str, folder: str, ledger: str, kill_at: int, max_tokens: int) -> None:
    """One process: asks everything, and is killed at its ``kill_at``-th step."""
    os.environ["OPENAI_API_KEY"] = os.environ["ANTHROPIC_API_KEY"] = "sk-child-0123456789"
    steps = Steps(kill_at)
    adapter = OpenAIBatch if kind == "openai" else AnthropicBatch
    for name in ("upload", "create", "find", "status", "results"):
        steps.around(adapter, name)
    for owner, name in (
        (UsageLedger, "append"),
        (Account, "reserve"),
        (Account, "settle"),
        (GenerationStore, "put"),
        (Journal, "finish"),
        (Journal, "drop"),
    ):
        steps.around(owner, name)
    steps.in_journal()
    asyncio.run(_work(kind, url, Path(folder), ledger, max_tokens))
    Path(folder, "steps").write_text(str(steps.n), encoding="ascii")


async def _work(kind: str, url: str, folder: Path, ledger: str, max_tokens: int) -> None:
    backend = (
        OpenAIBatch(OpenAI(base_url=f"{url}/v1"))
        if kind == "openai"
        else AnthropicBatch(Anthropic(base_url=url))
    )
    replies: dict[str, str] = {}

    def keep(job: Job, generation: object, from_store: bool) -> list[list[Job]]:
        text = str(job.tag)
        assert generation.text == f"re: {text.removesuffix('/again')}"
        replies[text] = generation.text
        brings = text in ("q0", "q1", "q2")
        return [[_job(f"{text}+")]] if brings else []

    rows = UsageLedger(folder / ledger)
    with GenerationStore(folder / "store.sqlite") as store:
        await run_batches(
            backend,
            store,
            _groups(),
            on_result=keep,
            options=RuntimeOptions(backoff_base_s=0.001),
            ledger=rows,
            spending=account(store, max_tokens),
            batch=BatchOptions(
                poll_first_s=0.001, poll_ceiling_s=0.005, grace_s=0.0, stall_s=0.05, max_requests=5
            ),
        )
    rows.close()
    await backend.close()
    assert sorted({text.removesuffix("/again") for text in replies}) == TEXTS


def _job(text: str, tag: str = "") -> Job:
    return Job(Request((Message("user", text),), {"max_tokens": 20}), tag or text)


def _groups() -> Iterator[list[Job]]:
    for i in range(N_FIRST):
        yield [_job(f"q{i}"), _job(f"q{i}", f"q{i}/again")]
