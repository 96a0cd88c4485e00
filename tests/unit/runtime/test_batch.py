"""Batches against a provider on loopback that counts lines, by both SDKs."""

from __future__ import annotations

import asyncio
import csv
import json
import signal
import time
from decimal import Decimal
from pathlib import Path

import pytest
from batch_stub import EXPIRED, Batch, BatchStub, text_of
from provider_stub import Failure, Raw, Reply

from quorum.backends.anthropic import Anthropic
from quorum.backends.anthropic_batch import AnthropicBatch
from quorum.backends.openai import OpenAI
from quorum.backends.openai_batch import OpenAIBatch
from quorum.errors import (
    BackendError,
    BudgetError,
    RefusedError,
    SettingsError,
    TransientBackendError,
)
from quorum.records import Message, Request, Target, Usage
from quorum.runtime.batch import BatchOptions, batch_folder, n_unfinished, run_batches
from quorum.runtime.caps import Account, Amount, Caps
from quorum.runtime.ledger import UsageLedger
from quorum.runtime.options import RuntimeOptions
from quorum.runtime.scheduler import Job
from quorum.runtime.store import GenerationStore

RATE = Decimal("0.001")
NOT_FOUND = Raw({"error": {"message": "no such batch", "type": "not_found_error"}}, 404)
PARAMS = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
REPLY = 12  # tokens of the stub's replies: 10 in, 2 out


@pytest.fixture(params=["openai", "responses", "anthropic"])
def kind(request):
    return request.param


@pytest.fixture
def stub(provider):
    return BatchStub(provider)


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-canary-0123456789")


def backend_of(kind: str, provider):
    if kind == "anthropic":
        return AnthropicBatch(Anthropic(base_url=provider.url))
    api = "responses" if kind == "responses" else "chat"
    return OpenAIBatch(OpenAI(base_url=provider.openai_url, api=api))


def job(text: str, tag: object = None, **more: object) -> Job:
    return Job(Request((Message("user", text),), {"max_tokens": 20}, **more), tag or text)


def groups(*texts: str) -> list[list[Job]]:
    return [[job(text)] for text in texts]


def numbered(n: int) -> list[list[Job]]:
    return groups(*(f"q{i}" for i in range(n)))


class Runner:
    """Runs batches in a folder and keeps what came."""

    def __init__(self, kind: str, provider, folder: Path) -> None:
        self.kind, self.provider, self.folder = kind, provider, folder
        self.replies: dict[object, str] = {}
        self.finish: dict[object, str] = {}
        self.from_store: dict[object, bool] = {}
        self.more = lambda job: ()
        self.notes: list[str] = []

    # Progress
    def advance(self, *, from_store: bool) -> None: ...

    def note(self, text: str) -> None:
        self.notes.append(text)

    def keep(self, job, generation, from_store):
        assert job.tag not in self.replies
        self.replies[job.tag] = generation.text
        self.finish[job.tag] = generation.finish_reason
        self.from_store[job.tag] = from_store
        return self.more(job)

    async def work(self, jobs, *, spending=None, store=None, on_cap="fail", batch=None, **options):
        batch = {"poll_first_s": 0.001, "poll_ceiling_s": 0.005, "grace_s": 0.0, "stall_s": 0.05,
                 **(batch or {})}  # fmt: skip
        backend = backend_of(self.kind, self.provider)
        ledger = UsageLedger(self.folder / "run")
        opened = store or GenerationStore(self.folder / "store.sqlite")
        try:
            return await run_batches(
                backend,
                opened,
                jobs,
                on_result=self.keep,
                options=RuntimeOptions(backoff_base_s=0.001, **options),
                ledger=ledger,
                spending=spending,
                progress=self,
                on_cap=on_cap,
                batch=BatchOptions(**batch),
            )
        finally:
            await backend.close()
            ledger.close()
            if store is None:
                opened.close()

    def run(self, jobs, **more):
        return asyncio.run(self.work(jobs, **more))

    @property
    def rows(self) -> list[dict[str, str]]:
        with (self.folder / "run/usage.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    @property
    def journal(self) -> list[Path]:
        return sorted((self.folder / "store.sqlite.batches").glob("*.jsonl"))

    @property
    def done(self) -> list[dict]:
        paths = (self.folder / "store.sqlite.batches/done").glob("*.json")
        return sorted((json.loads(p.read_text()) for p in paths), key=lambda r: r["created"])


@pytest.fixture
def runner(kind, provider, stub, tmp_path):
    return Runner(kind, provider, tmp_path)


@pytest.fixture
def openai(provider, stub, tmp_path):
    return Runner("openai", provider, tmp_path)


def account(store, **caps):
    def price(tokens: int) -> Amount:
        return Amount(tokens * RATE, 1, tokens)

    return Account(
        store,
        "run",
        Caps(**caps),
        lambda request: price(30),
        lambda usage: price(usage.input_tokens + usage.output_tokens),
    )


# What comes back


def test_results_are_joined_by_custom_id_in_any_order(runner, stub):  # case 125
    stats = runner.run(numbered(7))
    assert runner.replies == {f"q{i}": f"re: q{i}" for i in range(7)}
    assert len(stub.batches) == 1
    assert (stats.n_jobs, stats.n_distinct, stats.n_calls, stats.n_retries) == (7, 7, 7, 0)
    assert stats.usage_called == Usage(70, 0, 14)
    assert runner.journal == []


def test_equal_requests_share_one_line_and_the_store_is_asked_first(runner, stub):
    runner.run([[job("a", 1), job("b", 2)], [job("a", 3)]])
    assert sorted(stub.submitted) == ["a", "b"]
    assert (runner.from_store[1], runner.from_store[3]) == (False, True)
    stats = runner.run([[job("a", 4), job("c", 5)]])
    assert sorted(stub.submitted) == ["a", "b", "c"]
    assert (stats.n_from_store, runner.from_store[4]) == (1, True)


def test_a_reply_may_bring_further_groups_which_are_the_next_batch(runner, stub):
    runner.more = lambda job: groups(f"{job.tag}+") if "+" not in job.tag else ()
    runner.run(groups("a", "b", "c"))
    assert runner.replies == {t: f"re: {t}" for t in ("a", "b", "c", "a+", "b+", "c+")}
    assert [len(batch.lines) for batch in stub.batches] == [3, 3]


def test_batches_stay_within_the_limits_of_requests_and_bytes(runner, stub):
    runner.run(numbered(10), batch={"max_requests": 4})
    assert [len(batch.lines) for batch in stub.batches] == [4, 4, 2]
    backend = backend_of(runner.kind, runner.provider)
    size = len(backend.line(job("r0").request, "x" * 49))
    runner.run(groups(*(f"r{i}" for i in range(5))), batch={"max_bytes": 2 * size})
    assert [len(batch.lines) for batch in stub.batches[3:]] == [2, 2, 1]
    assert len(runner.replies) == 15


def test_a_request_larger_than_a_batch_is_an_error_after_the_rest(runner, stub):
    with pytest.raises(BackendError, match="one request takes"):
        runner.run(groups("a", "b" * 5000, "c"), batch={"max_bytes": 3000})
    assert set(runner.replies) == {"a", "c"}


def test_jobs_are_pulled_as_they_are_needed(openai, stub):
    pulled = []

    def lazy():
        for i in range(1000):
            pulled.append(i)
            yield [job(f"q{i}")]

    openai.more = lambda job: openai.notes.append(len(pulled)) or ()
    openai.run(lazy(), batch={"max_requests": 300, "max_in_flight": 1})
    assert min(n for n in openai.notes if isinstance(n, int)) < 1000
    assert len(openai.replies) == 1000


def test_a_refusal_is_an_answer(runner, stub):
    declined = Failure(400, "content_filter", "declined")
    stub.answer = lambda text, n: declined if text == "bad" else Reply()
    runner.run(groups("bad", "good"))
    assert runner.finish == {"bad": "refusal", "good": "stop"}


# Usage


def test_usage_is_booked_once_at_the_mode_batch_however_often_it_is_polled(runner, stub):
    stub.n_polls = 9  # case 106
    runner.run(numbered(3))
    assert [(row["mode"], row["status"], row["attempt"]) for row in runner.rows] == [
        ("batch", "ok", "1")
    ] * 3
    assert sum(int(row["input_tokens"]) for row in runner.rows) == 30


def test_cached_tokens_of_a_batch_are_a_bucket_of_their_own(runner, stub):  # case 107
    stub.answer = lambda text, n: Reply(input_tokens=1000, cached_tokens=800, output_tokens=5)
    stats = runner.run(numbered(1))
    row = runner.rows[0]
    assert (row["input_tokens"], row["cached_input_tokens"], row["mode"]) == (
        "1000",
        "800",
        "batch",
    )
    assert stats.usage_called == Usage(1000, 800, 5)


# Lines that fail


def test_an_expired_batch_keeps_what_was_done_and_sends_the_rest_again(runner, stub):  # case 127
    late = {"q2", "q5", "q8"}
    stub.answer = lambda text, n: EXPIRED if text in late and n == 0 else Reply(text)
    stats = runner.run(numbered(10))
    assert [len(batch.lines) for batch in stub.batches] == [10, 3]
    assert {text_of(line) for line in stub.batches[1].lines} == late
    assert runner.replies == {f"q{i}": f"q{i}" for i in range(10)}
    assert stats.n_retries == 3
    assert stub.charged == 10
    failed = [row for row in runner.rows if row["status"] == "failed"]
    assert [(row["finish_reason"], row["attempt"]) for row in failed] == [("expired", "1")] * 3


def test_a_batch_of_errors_only_gives_its_errors_and_no_shifted_reply(runner, stub):  # case 128
    stub.answer = lambda text, n: Failure(400, "invalid_request_error", f"no: {text}")
    with pytest.raises(BackendError, match=r"9 requests failed for good, the first: .*no: q8"):
        runner.run(numbered(9))
    assert runner.replies == {}
    assert len(stub.batches) == 1
    assert [row["status"] for row in runner.rows] == ["failed"] * 9
    errors = runner.done[0]["errors"]
    assert sorted(error["error"].split("no: ")[1] for error in errors) == [
        f"q{i})" for i in range(9)
    ]


def test_a_failure_for_good_is_raised_when_the_rest_is_kept(runner, stub):
    stub.answer = lambda text, n: Failure(400, "invalid_request_error", "no") if text == "q1" else (
        Reply(text)
    )  # fmt: skip
    with pytest.raises(BackendError, match="invalid_request_error"):
        runner.run(numbered(6), batch={"max_requests": 3})
    assert set(runner.replies) == {"q0", "q2", "q3", "q4", "q5"}
    with GenerationStore(runner.folder / "store.sqlite") as store:
        assert len(store) == 5


def test_errors_that_may_pass_are_tried_again_but_not_for_ever(runner, stub):
    stub.answer = lambda text, n: Failure(500, "server_error") if n < 2 else Reply(text)
    assert runner.run(numbered(2)).n_retries == 4
    stub.answer = lambda text, n: Failure(500, "server_error")
    with pytest.raises(TransientBackendError):
        runner.run(groups("x"), max_attempts=3)
    assert stub.submitted.count("x") == 3


def test_a_line_that_is_in_no_file_is_sent_again(openai, stub, monkeypatch):
    whole = BatchStub._results
    monkeypatch.setattr(
        BatchStub,
        "_results",
        lambda self, batch, *more: b"\n".join(
            row
            for row in whole(self, batch, *more).split(b"\n")
            if not (batch is self.batches[0] and b"re: q1" in row)
        ),
    )
    openai.run(numbered(3))
    assert openai.replies == {f"q{i}": f"re: q{i}" for i in range(3)}
    assert stub.submitted == ["q0", "q1", "q2", "q1"]


def test_a_batch_that_is_turned_away_as_a_whole_says_why(openai, stub):
    stub.failures = [("invalid_json_line", "This line is not parseable")]
    with pytest.raises(BackendError, match="invalid_json_line This line is not parseable"):
        openai.run(numbered(2))
    assert stub.submitted == []
    assert openai.journal == []


def test_a_full_queue_is_waited_for_with_smaller_batches(openai, stub):
    stub.failures = [("token_limit_exceeded", "Enqueued token limit reached")] * 2
    openai.run(numbered(8))
    assert len(openai.replies) == 8
    assert sorted(stub.submitted) == [f"q{i}" for i in range(8)]
    assert [len(batch.lines) for batch in stub.batches] == [8, 4, 4, 4]


# Submitting, once


def test_a_create_whose_answer_is_lost_is_looked_up_and_not_repeated(runner, stub):
    stub.n_lost = 2
    runner.run(numbered(9), batch={"max_requests": 3})
    assert sorted(stub.submitted) == sorted(f"q{i}" for i in range(9))
    assert len(runner.replies) == 9


def test_a_batch_that_shows_up_late_in_the_list_is_waited_for(runner, stub):
    stub.n_lost, stub.is_slow_to_list = 1, True
    looks = []

    def listed(seen):
        if seen.path.endswith("/batches"):
            looks.append(seen)
            stub.is_slow_to_list = len(looks) < 4
        return stub._get(seen)

    for path in ("/v1/batches", "/v1/messages/batches"):
        runner.provider.route("GET", path + "/", listed)
        runner.provider._routes.insert(0, ("GET", path, listed))
    runner.run(numbered(2), batch={"grace_s": 3600.0})
    assert len(looks) == 4
    assert sorted(stub.submitted) == ["q0", "q1"]


@pytest.mark.parametrize("status", [429, 503])
def test_a_create_that_was_turned_away_is_repeated(runner, stub, status):
    stub.refusals = [Failure(status, headers={"retry-after-ms": "2"})] * 2
    runner.run(numbered(3))
    assert len(runner.replies) == 3
    assert len(stub.submitted) == 3


def test_a_create_that_was_rejected_ends_the_run_and_leaves_nothing(runner, stub):
    stub.refusals = [Failure(400, "insufficient_quota", "no credit", kind="billing_error")]
    with pytest.raises(BackendError, match="no credit"):
        runner.run(numbered(3))
    assert runner.journal == []
    runner.run(numbered(3))
    assert len(stub.submitted) == 3


def test_a_key_that_is_not_set_leaves_nothing_behind(runner, stub, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with GenerationStore(tmp_path / "store.sqlite") as store:
        spending = account(store)
        with pytest.raises(SettingsError, match="API_KEY"):
            runner.run(numbered(2), spending=spending, store=store)
        assert runner.journal == []
        assert spending.totals().booked == Amount()


def test_batches_of_others_on_the_same_account_are_left_alone(runner, stub, tmp_path):
    other = Runner(runner.kind, runner.provider, tmp_path / "other")
    other.run(groups("x", "y", "z"))
    stub.n_lost = 1
    runner.run(numbered(3))
    assert runner.replies == {f"q{i}": f"re: q{i}" for i in range(3)}
    assert sorted(stub.submitted) == ["q0", "q1", "q2", "x", "y", "z"]


def test_a_create_that_never_arrived_is_sent_again_when_that_is_sure(runner, stub):
    anothers = Batch("batch_x", [{"custom_id": f"x{i}", "params": PARAMS, "body": PARAMS, "url": ""}
                                 for i in range(3)], time.time())  # fmt: skip
    stub.batches.append(anothers)  # of the same size and time, and not ended yet
    stub.n_polls = 4
    stub.refusals = [Failure(is_dropped=True)]
    runner.run(numbered(3))
    assert sorted(stub.submitted) == ["q0", "q1", "q2", "x", "x", "x"]
    assert len(runner.replies) == 3
    if runner.kind == "anthropic":
        assert anothers.fates is not None  # it might have been ours until it ended


def test_a_batch_that_the_provider_has_lost_names_the_file_to_delete(runner, stub):
    runner.provider.route("GET", "/v1/batches/", lambda seen: NOT_FOUND)
    runner.provider.route("GET", "/v1/messages/batches/", lambda seen: NOT_FOUND)
    with pytest.raises(BackendError, match="delete ") as caught:
        runner.run(numbered(2))
    (path,) = runner.journal
    assert str(path) in str(caught.value)
    target = backend_of(runner.kind, runner.provider).target
    assert n_unfinished(path.parent, target) == 2
    assert n_unfinished(path.parent, Target("other", "m")) == 0
    path.unlink()
    runner.provider._routes[-2:] = []
    runner.run(numbered(2))
    assert stub.submitted == ["q0", "q1", "q0", "q1"]


def test_two_runs_on_one_store_share_the_work(runner, stub, tmp_path):
    other = Runner(runner.kind, runner.provider, tmp_path)
    stub.n_polls = 3

    async def both():
        with GenerationStore(tmp_path / "store.sqlite") as second:
            await asyncio.gather(
                runner.work(numbered(20), batch={"max_requests": 5}),
                other.work(numbered(20), store=second, batch={"max_requests": 5}),
            )

    asyncio.run(both())
    assert runner.replies == other.replies
    assert len(runner.replies) == 20
    assert sorted(stub.submitted) == sorted(f"q{i}" for i in range(20))


def test_what_the_store_lacks_is_an_error_where_calls_are_forbidden(runner, stub):
    with pytest.raises(RefusedError, match="forbid"):
        runner.run(numbered(1), calls="forbid")
    assert runner.provider.seen == []


# The cap


def test_lines_are_reserved_at_their_worst_and_settled_at_their_cost(runner, stub, tmp_path):
    with GenerationStore(tmp_path / "store.sqlite") as store:
        spending = account(store, max_calls=100)
        runner.run(numbered(5), spending=spending, store=store)
        totals = spending.totals()
        assert totals.known == Amount(5 * REPLY * RATE, 5, 5 * REPLY)
        assert totals.spent == totals.booked == totals.known


def test_a_cap_that_fits_part_of_the_worst_case_sends_batch_after_batch(runner, stub, tmp_path):
    with GenerationStore(tmp_path / "store.sqlite") as store:
        spending = account(store, max_tokens=10 * REPLY + 30)
        runner.run(numbered(8), spending=spending, store=store)
        assert len(runner.replies) == 8
        assert len(stub.batches[0].lines) == 5
        assert spending.totals().known.tokens == 8 * REPLY


def test_a_cap_that_is_reached_says_what_is_done_and_what_is_left(runner, stub, tmp_path):
    with GenerationStore(tmp_path / "store.sqlite") as store:
        spending = account(store, max_usd=100 * RATE)
        with pytest.raises(BudgetError, match="6 requests are answered, 4 are left"):
            runner.run(numbered(10), spending=spending, store=store)
        stats = runner.run(
            [[job(f"q{i}", ("again", i)) for i in range(10)]],
            spending=spending,
            store=store,
            on_cap="partial",
        )
        assert (stats.stopped, stats.n_left, stats.n_distinct) == ("cap", 4, 6)
        assert spending.totals().booked.usd <= 100 * RATE
        spending = account(store, max_usd=1000 * RATE)
        runner.run([[job(f"q{i}", ("more", i)) for i in range(10)]], spending=spending, store=store)
        assert len(stub.submitted) == 10


def test_expired_lines_cost_nothing(runner, stub, tmp_path):
    stub.answer = lambda text, n: EXPIRED if n == 0 else Reply(text)
    with GenerationStore(tmp_path / "store.sqlite") as store:
        spending = account(store)
        runner.run(numbered(4), spending=spending, store=store)
        assert spending.totals().booked == Amount(4 * REPLY * RATE, 4, 4 * REPLY)


# How it ends early


def test_ctrl_c_leaves_batches_at_the_provider_and_the_next_run_collects_them(
    runner, stub, monkeypatch
):
    stub.n_polls = 10**9

    interrupted_run(runner, monkeypatch, 4)
    assert any("go on at the provider" in note for note in runner.notes)
    assert len(runner.journal) == 1
    stub.n_polls = 1
    stats = runner.run(numbered(4))
    assert len(runner.replies) == 4
    assert stub.submitted == ["q0", "q1", "q2", "q3"]
    assert (stats.n_calls, len(runner.rows)) == (4, 4)


def interrupted_run(runner, monkeypatch, n):
    """Leaves a batch of n requests at the provider."""

    def note(text):
        runner.notes.append(text)
        if text.endswith("requests"):
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(runner, "note", note)
        with pytest.raises(KeyboardInterrupt):
            runner.run(numbered(n))


def test_what_others_have_left_is_waited_for_only_where_it_is_needed(runner, stub, monkeypatch):
    interrupted_run(runner, monkeypatch, 3)
    stub.batches[0].n_polls = -(10**9)  # never ends
    runner.run(groups("z"))
    assert runner.replies == {"z": "re: z"}
    runner.run([[job("z", "again")]])
    stub.batches[0].n_polls = 0
    runner.run([[job("q1")]])
    assert runner.replies["q1"] == "re: q1"
    assert stub.submitted == ["q0", "q1", "q2", "z"]
    assert len(runner.rows) == 4
    assert runner.journal == []


def test_what_is_in_the_store_needs_no_provider_whatever_others_have_left(
    runner, stub, monkeypatch
):
    runner.run(groups("z"))
    interrupted_run(runner, monkeypatch, 3)
    n_seen = len(runner.provider.seen)
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    runner.run([[job("z", "again")]])
    assert len(runner.provider.seen) == n_seen


def test_looks_that_fail_for_now_are_repeated(openai, stub):
    whole, drops = stub._get, iter([True, True, False, True])
    openai.provider.route(
        "GET",
        "/v1/batches/",
        lambda seen: Failure(is_dropped=True) if next(drops, False) else whole(seen),
    )
    openai.run(numbered(2))
    assert len(openai.replies) == 2


def test_no_key_stands_in_anything_that_is_written(runner, stub, tmp_path):
    stub.answer = lambda text, n: Failure(400, "invalid_request_error", "key sk-canary-0123456789")
    with pytest.raises(BackendError) as caught:
        runner.run(numbered(2))
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"canary" not in path.read_bytes()


def test_the_journal_lies_beside_the_store(tmp_path):
    with GenerationStore(tmp_path / "s.sqlite") as store:
        assert batch_folder(store) == tmp_path / "s.sqlite.batches"
