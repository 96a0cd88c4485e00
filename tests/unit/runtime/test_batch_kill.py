"""Processes killed (SIGKILL) at seeded steps of a run of batches pay for nothing twice."""

from __future__ import annotations

import csv
import multiprocessing
import random
import signal
from collections import Counter

import batch_child
import pytest
from batch_child import RATE, TEXTS, WORST, account
from batch_stub import EXPIRED, BatchStub
from provider_stub import ProviderStub, Reply

from quorum.runtime.caps import Amount, Totals
from quorum.runtime.store import GenerationStore

N_POINTS = 24
LATE = {"q4", "q1+"}  # expire once
COST = 12  # tokens of a reply
KINDS = ["openai", "anthropic"]
PRELOAD = [  # what takes long to import
    "pytest",
    "openai.resources.files",
    "anthropic",
    "httpx2",
    "quorum.backends.anthropic_batch",
    "quorum.backends.openai_batch",
    "quorum.runtime.batch",
]


@pytest.fixture(scope="module")
def forks():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


class Scene:
    """A provider, a folder, and processes that ask it everything."""

    def __init__(self, kind, provider, folder, forks) -> None:
        self.kind, self.provider, self.folder, self.forks = kind, provider, folder, forks
        self.stub = BatchStub(provider)
        self.stub.answer = lambda text, n: (
            EXPIRED if text in LATE and n == 0 else Reply(f"re: {text}")
        )
        self.max_tokens = 7 * WORST + len(TEXTS) * COST

    def start(self, kill_at: int, ledger: str = "run"):
        arguments = (self.kind, self.provider.url, str(self.folder), ledger, kill_at)
        process = self.forks.Process(target=batch_child.run, args=(*arguments, self.max_tokens))
        process.start()
        return process

    def run(self, kill_at: int = 0, ledger: str = "run") -> int | None:
        """Steps of a process that came to its end; None of one that was killed."""
        process = self.start(kill_at, ledger)
        process.join(60)
        assert process.exitcode in (0, -signal.SIGKILL)
        with GenerationStore(self.folder / "store.sqlite") as store:
            booked = account(store, self.max_tokens).totals().booked
        assert booked.tokens <= self.max_tokens
        return int((self.folder / "steps").read_text()) if process.exitcode == 0 else None

    def check(self) -> None:
        """Every line once, and again where it had expired; all of it booked once."""
        expected = Counter(TEXTS) + Counter(LATE)
        assert Counter(self.stub.submitted) == expected
        assert self.stub.charged == len(TEXTS)
        rows = []
        for path in self.folder.glob("*/usage.csv"):
            with path.open(encoding="utf-8", newline="") as file:
                rows += list(csv.DictReader(file))
        done = [row for row in rows if row["status"] == "ok"]
        assert len({row["key"] for row in done}) == len(done) == len(TEXTS)
        assert {row["mode"] for row in rows} == {"batch"}
        assert len(rows) == len(TEXTS) + len(LATE)
        assert sum(int(r["input_tokens"]) + int(r["output_tokens"]) for r in rows) == (
            COST * self.stub.charged
        )
        with GenerationStore(self.folder / "store.sqlite") as store:
            assert len(store) == len(TEXTS)
            totals = account(store, self.max_tokens).totals()
        known = Amount(len(TEXTS) * COST * RATE, len(TEXTS), len(TEXTS) * COST)
        assert totals == Totals(known=known)
        assert not list((self.folder / "store.sqlite.batches").glob("*.jsonl"))


@pytest.fixture(params=KINDS)
def scene(request, provider, tmp_path, forks):
    return Scene(request.param, provider, tmp_path, forks)


@pytest.fixture(scope="module")
def n_steps(forks, tmp_path_factory):
    """How many steps a run takes, by provider; counted once."""
    found = {}

    def count(kind):
        if kind not in found:
            provider = ProviderStub()
            try:
                whole = Scene(kind, provider, tmp_path_factory.mktemp(kind), forks)
                found[kind] = whole.run()
                whole.check()
            finally:
                provider.close()
        return found[kind]

    return count


@pytest.mark.parametrize("point", range(N_POINTS))
def test_a_run_that_was_killed_twice_sends_and_books_every_line_once(scene, n_steps, point):
    total = n_steps(scene.kind)
    seeded = random.Random(f"{scene.kind} {point}")
    first = round((point + seeded.random()) / N_POINTS * total)  # spread over the whole run
    second = "run" if point % 2 else "other"  # the next process has a ledger of its own
    scene.run(max(first, 1))
    scene.run(seeded.randrange(1, max(total - first, 2) + 8), second)
    assert scene.run(0, second) is not None
    scene.check()


@pytest.mark.parametrize("seed", range(3))
def test_a_process_beside_one_that_is_killed_takes_over(scene, seed):
    seeded = random.Random(seed)
    scene.stub.n_polls = 3
    dying = scene.start(seeded.randrange(10, 120))
    living = scene.start(0, "other")
    dying.join(60)
    living.join(60)
    assert (dying.exitcode, living.exitcode) in ((-signal.SIGKILL, 0), (0, 0))
    scene.check()
