"""Whole runs on a provider that counts: caps, forecasts, partial results, batches."""

from __future__ import annotations

import csv
import json
from decimal import Decimal

import pytest
import survey_project as small
import yaml
from batch_stub import BatchStub
from canary import KEY, files_with_key
from provider_stub import Reply

PROMPTS = ["Why do you cycle to work?", "When is tea too hot to drink?"]
PRICES = "provider,model,input,output,source,as_of\n127.0.0.1,gpt-4o-mini,100,200,test,2026-11-01\n"
REPLY = Reply("because", input_tokens=20, output_tokens=4)  # (20·100 + 4·200) / 1e6 USD
EACH = Decimal("0.0028")


@pytest.fixture
def run(project, provider, monkeypatch):
    """Settings of a run on a priced server on loopback; ``run(**changes)`` writes them."""
    monkeypatch.setenv("CANARY_KEY", KEY)
    (project.root / "data/prices").mkdir(exist_ok=True)
    (project.root / "data/prices/own.csv").write_text(PRICES, encoding="utf-8")
    project.write_prompts(PROMPTS)
    provider.answer = lambda _seen: REPLY

    def settings(max_usd: object = None, **changes: object) -> None:
        budget = {"fraction": 0.3, "max_usd": max_usd, **changes.pop("budget", {})}
        backend = {
            "use": "openai", "base_url": provider.openai_url, "key_variable": "CANARY_KEY",
            "priced": True, **changes.pop("backend", {}),
        }  # fmt: skip
        params = {
            "input": "own",
            "backend": backend,
            "partition": "words",
            "prices": {"file": "data/prices/own.csv"},
            "budget": budget,
            "absence": {"use": "delete", "empty_message": "…"},
            "generation": {"max_tokens": 4},
            "runtime": {"progress": "off", "max_inflight": 4},
            **changes,
        }
        (project.root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
        project.run("config", "partition")

    return settings


def usage(project) -> list[dict[str, str]]:
    with (project.root / "data/generate/log/usage.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def budget(project) -> dict[str, object]:
    project.run("budget")
    return json.loads((project.root / "data/budget/result/budget.json").read_text())


def test_a_priced_backend_without_a_cap_is_refused_before_any_call(run, project, provider):
    run()
    code, errors = project.finish("generate")
    assert code == 4
    assert "budget.max_usd: backend=openai costs money, and nothing says how much it may" in errors
    assert provider.seen == []


def test_a_model_without_a_price_can_be_capped_in_calls_only(run, project, provider):
    run(5, model="my-finetune-1")
    code, errors = project.finish("generate")
    assert code == 4
    assert "has no price for it, so no cap in USD can hold, got 'my-finetune-1'" in errors
    assert provider.seen == []
    run("none", model="my-finetune-1", budget={"max_calls": 5})
    code, errors = project.finish("generate")
    assert code == 4
    assert "budget.max_calls" in errors
    assert len(provider.paid) == 5


def test_a_cap_holds_and_a_higher_one_goes_on_where_it_ended(run, project, provider):
    run(0.06)
    code, errors = project.finish("generate")
    assert code == 4
    assert "budget.max_usd: the cap is reached" in errors
    assert "run the same command again" in errors
    spent = EACH * len(provider.paid)
    assert 0 < spent <= Decimal("0.06")
    run(5)
    project.run("generate", "score", "aggregate")
    n_plan = json.loads((project.root / "data/report/metrics.json").read_text())
    assert len(provider.paid) == n_plan["attribution"]["n_requests"]
    log = json.loads((project.root / "data/generate/log/generation.json").read_text())
    assert Decimal(log["cost"]["known_usd"]) == EACH * len(provider.paid)
    rows = usage(project)
    assert sum(int(r["input_tokens"]) for r in rows) == 20 * len(provider.paid)
    assert sum(int(r["output_tokens"]) for r in rows) == 4 * len(provider.paid)


def test_a_partial_run_says_what_it_lacks_and_a_higher_cap_completes_it(run, project, provider):
    run(0.1, budget={"on_cap": "partial"})
    project.run("generate", "score", "aggregate")
    first = project.attributions()
    n_first = len(provider.paid)
    assert EACH * n_first <= Decimal("0.1")
    undefined = [a for a in first.values() if a["values"] is None]
    assert undefined
    assert all("a cap was reached" in a["values_reason"] for a in undefined)
    run(5, budget={"on_cap": "partial"})
    project.run("generate", "score", "aggregate")
    assert all(a["values"] is not None for a in project.attributions().values())
    assert len(provider.paid) > n_first
    requests = {seen.raw for seen in provider.calls}
    assert len(provider.paid) == len(requests), "nothing twice"


def test_the_forecast_is_made_before_any_call_and_holds_what_the_run_costs(run, project, provider):
    run(5)
    before = budget(project)
    assert provider.seen == []
    assert before["status"] == "within"
    assert before["prices"][0]["source"] == "test"
    project.run("generate")
    cost = EACH * len(provider.paid)
    totals = before["totals"]
    assert totals["n_calls"] == len(provider.paid)
    assert Decimal(totals["usd_low"]) <= cost <= Decimal(totals["usd_high"])
    n_before = len(provider.paid)
    after = budget(project)
    assert (after["totals"]["n_calls"], after["totals"]["usd_base"]) == (0, "0.00")
    run(5, budget={"fraction": 0.6})
    more = budget(project)  # a larger plan learns from this one
    assert more["n_calls_learned_from"] == more["n_calls_of_this_run"] == n_before
    project.run("generate")
    cost = EACH * (len(provider.paid) - n_before)
    assert Decimal(more["totals"]["usd_low"]) <= cost <= Decimal(more["totals"]["usd_high"])
    assert abs(Decimal(more["totals"]["usd_base"]) / cost - 1) < Decimal("0.1")
    run(0.01, budget={"fraction": 0.9})
    small_cap = budget(project)
    assert small_cap["status"] == "exceeds"
    assert small_cap["what_fits"] < small_cap["totals"]["n_calls"]


def test_the_budget_page_shows_the_numbers_of_budget_json(run, project, provider):
    run(5)
    found = budget(project)
    page = (project.root / "data/budget/result/budget.html").read_text()
    assert found["totals"]["usd_base"] in page
    assert found["status"] in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    with (project.root / "data/budget/result/budget.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [r["scenario"] for r in rows] == ["whole", "remaining"]
    assert rows[1]["usd_base"] == found["totals"]["usd_base"]
    assert (project.root / "data/budget/result/budget_history.csv").exists()


def test_a_batch_gives_the_same_results_and_is_booked_as_one(run, project, provider, monkeypatch):
    run(5)
    project.run("generate", "score", "aggregate")
    expected = project.results("data/score/result")
    n_calls = len(provider.calls)
    for path in project.store.parent.glob(f"{project.store.name}*"):
        path.unlink()
    (project.root / "data/generate/log/store.jsonl.gz").unlink()  # or it would fill the new store
    stub = BatchStub(provider)
    stub.answer = lambda _text, _n: REPLY
    quick = {"progress": "off", "batch_poll_s": 0.01}
    run(5, backend={"mode": "batch", "batch": True}, runtime=quick)
    project.run("generate", "score", "aggregate")
    assert project.results("data/score/result") == expected
    assert len(provider.calls) == n_calls, "no call but the batch's"
    modes = {row["mode"] for row in usage(project)}
    assert "batch" in modes
    assert files_with_key(project.root) == []


def test_a_server_without_batches_is_refused_before_any_call(run, project, provider):
    run(5, backend={"mode": "batch"})
    code, errors = project.finish("generate")
    assert code == 2
    assert "backend.mode: this server takes no batches, got 'batch'" in errors
    assert provider.seen == []


def test_a_reconstruction_on_a_provider_asks_each_thing_once(run, project, provider):
    from provider_stub import usual

    provider.answer = usual
    small.write_survey(project.root)
    pool = {**small.POOL, "size": 6, "learn_every": 1, "round_size": 2}
    run(5, study="reconstruction", bank="small", pool=pool, elicitation="logprob")
    project.run("generate", "score", "aggregate")
    assert len({seen.raw for seen in provider.calls}) == len(provider.calls) > 90
    report = json.loads((project.root / "data/report/metrics.json").read_text())
    assert report["reconstruction"]["n_personas"] == 6
    n_calls = len(provider.calls)
    project.run("generate")
    assert len(provider.calls) == n_calls
    label = (project.root / "data/aggregate/result/report.html").read_text()
    assert "Model-generated answers" in label


def test_three_processes_on_one_store_make_each_call_once(run, project, make_project, provider):
    others = [make_project(f"other {i}") for i in range(2)]
    run(50, budget={"fraction": 0.98}, runtime={"progress": "off", "max_inflight": 4})
    project.write_prompts(["one two three four five six seven eight nine"])  # ⌈0.98·2^9⌉ = 502
    project.run("config", "partition")
    for other in others:
        for name in ("params.yaml", "data/prompts/own.jsonl", "conf/input/own.yaml"):
            (other.root / name).write_bytes((project.root / name).read_bytes())
        (other.root / "data/prices/own.csv").write_text(PRICES, encoding="utf-8")
        other.run("config", "partition")
    everybody = [type(project)(p.root, project.store, p.call_log) for p in (project, *others)]
    started = [each.start("generate") for each in everybody]
    for process in started:
        with process:
            assert process.communicate(timeout=120)[1] == ""
    assert len(provider.paid) == len({seen.raw for seen in provider.calls}) == 502


def test_a_pilot_forecasts_again_from_its_calls(run, project, provider):
    run(5, budget={"pilot": 20}, runtime={"progress": "plain", "max_inflight": 1})
    code, errors = project.finish("generate")
    assert code == 0
    forecasts = [line for line in errors.splitlines() if line.startswith("forecast: ")]
    assert len(forecasts) == 2
    n_all = len(provider.paid)
    assert f"forecast: {n_all} calls, 0 replies in the store, $" in forecasts[0]
    left = n_all - 20
    assert forecasts[1].startswith(f"forecast: {left} calls, 20 replies in the store, $")
    cost = EACH * left
    assert f"${cost.quantize(Decimal('0.01'))}"[:4] in forecasts[1]
