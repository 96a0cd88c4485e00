"""A run that is killed, stopped or refused goes on later, and pays for nothing twice."""

from __future__ import annotations

import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
from collections import Counter

from quorum.runtime.store import GenerationStore

PROMPTS = ["one two three four five six", "a b c d e f g h"]
MAX_INFLIGHT = 4
N_CRASHES = 20
KILLED = -signal.SIGKILL

# A process that has everything imported and runs the stage in a fork of its own for each crash:
# what is killed is a whole process, and the test does not pay for 40 starts of Python.
FORKS = """
import json, os, sys
from pathlib import Path
from quorum.attribution.estimators import neyman_cc
from quorum.attribution.values import word_weights
from quorum.backends import scripted
from quorum.pipeline.attribution import generate

root = Path.cwd()
changed = json.loads((root / "data/settings/runtime.json").read_text())
for k in map(int, sys.argv[1:]):
    changed["backend"] |= {"crash_after": k, "call_log": str(root / f"calls-{k}")}
    codes = []
    for crash_after in (k, None):
        changed["backend"]["crash_after"] = crash_after
        (root / "data/settings/runtime.json").write_text(json.dumps(changed))
        os.environ["QUORUM_STORE"] = str(root / f"store-{k}.sqlite")
        child = os.fork()
        if child == 0:
            generate.run(root)
            os._exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    os.rename(root / "data/generate/result", root / f"result-{k}")
    print(k, *codes)
"""


def prepare(project, **params: object) -> None:
    project.write_prompts(PROMPTS)
    runtime = {"max_inflight": MAX_INFLIGHT, **params.pop("runtime", {})}
    project.write_params(**{"budget": {"fraction": 0.25}, "runtime": runtime, **params})
    project.run("config", "partition")


def generations(project) -> dict[str, bytes]:
    return project.results("data/generate/result")


def test_killed_at_any_point_a_run_goes_on_and_repeats_only_what_was_in_flight(
    make_project, project
):
    straight = make_project("straight")
    for each in (straight, project):
        prepare(
            each,
            estimator={"use": "neyman_cc", "control_variate": "none"},
            value={"use": "word_weights", "weights": {"one": 1.0, "c": 2.0, "d": -1.0}},
        )
    straight.run("generate")
    n_events = 2 * len(straight.calls())  # start and end of each call
    assert n_events > 100
    points = sorted(random.Random(11).sample(range(1, n_events), N_CRASHES))
    run = subprocess.run(
        [sys.executable, "-c", FORKS, *map(str, points)],
        cwd=project.root,
        env=project.environ(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert run.stdout.splitlines() == [f"{k} {KILLED} 0" for k in points]
    expected = {p.removeprefix("data/generate/result"): b for p, b in generations(straight).items()}
    for k in points:
        lines = (project.root / f"calls-{k}").read_text().split("\n")[:-1]
        counts = Counter(line.split()[0] for line in lines)
        assert set(counts) == set(straight.calls())
        assert len(lines) - len(counts) <= MAX_INFLIGHT
        assert max(counts.values()) <= 2
        found = project.results(f"result-{k}")
        assert {p.removeprefix(f"result-{k}"): b for p, b in found.items()} == expected


def test_a_stage_that_was_killed_ends_as_if_it_had_not_been(make_project, project):
    straight = make_project("straight")
    prepare(straight)
    straight.run("generate", "score", "aggregate")
    prepare(project, backend={"crash_after": 41})
    code, _ = project.finish("generate")
    assert code == KILLED
    assert not (project.root / "data/generate/result").exists()
    prepare(project)
    assert project.finish("generate") == (0, "")
    project.run("score", "aggregate")
    assert project.results() == straight.results()
    with GenerationStore(project.store) as store:
        assert len(store) == len(set(project.calls()))


def test_usage_after_a_kill_is_the_sum_over_both_runs(project):
    prepare(project, backend={"crash_after": 41})
    assert project.finish("generate")[0] == KILLED
    prepare(project)
    project.run("generate")
    rows = (project.root / "data/generate/log/usage.csv").read_text().splitlines()[1:]
    n_in_flight = len(project.calls()) - len(set(project.calls()))
    # a call that the kill cut off has no row: nobody knows what it cost
    assert len(set(project.calls())) - n_in_flight <= len(rows) <= len(project.calls())


def test_three_processes_on_one_store_make_each_call_once(make_project):
    projects = [make_project(f"p{i}") for i in range(3)]
    shared = projects[0]
    projects = [type(shared)(p.root, shared.store, shared.call_log) for p in projects]
    for project in projects:
        project.write_prompts(["a b c d e f g h"])
        slow = {"latency_s": 0.002}
        project.write_params(budget={"fraction": 0.78}, backend=slow)  # ⌈0.78·2^8⌉ = 200
        project.run("config", "partition")
    started = [project.start("generate") for project in projects]
    ends = [(process.communicate(timeout=120)[1], process.returncode) for process in started]
    assert ends == [("", 0)] * 3
    assert len(shared.calls()) == len(set(shared.calls())) == 200
    found = [generations(project) for project in projects]
    assert found[0] == found[1] == found[2]


def test_where_calls_are_forbidden_a_miss_is_refused_by_name(project):
    prepare(project, runtime={"calls": "forbid"})
    code, errors = project.finish("generate")
    assert code == 3
    assert errors.count("\n") == 1
    assert errors.startswith("error: request ")
    assert "'a b c d e f g h'" in errors or "'one two three four five six'" in errors
    assert project.calls() == []


def test_where_calls_are_forbidden_a_warm_store_is_enough(project):
    prepare(project)
    project.run("generate")
    before, n_calls = generations(project), len(project.calls())
    prepare(project, runtime={"calls": "forbid"})
    assert project.finish("generate") == (0, "")
    assert generations(project) == before
    assert len(project.calls()) == n_calls


def test_the_first_failing_call_ends_the_run_in_one_line_and_what_is_done_stays(project):
    rules = [{"equals": "one three five", "error": "permanent", "times": 9}]
    prepare(project, budget={"fraction": 1.0}, backend={"fail": rules})
    code, errors = project.finish("generate")
    assert code == 5
    assert errors.count("\n") == 1
    assert errors.startswith("error: scripted: failed as scripted")
    assert "Traceback" not in errors
    with GenerationStore(project.store) as store:
        n_kept = len(store)
    assert 0 < n_kept < 318
    assert len(project.calls()) - MAX_INFLIGHT <= n_kept <= len(project.calls()) - 1
    paid = Counter(project.calls())
    prepare(project, budget={"fraction": 1.0})
    project.run("generate")
    repeated = Counter(project.calls()) - Counter(set(project.calls()))
    assert sum(repeated.values()) == sum(paid.values()) - n_kept  # those that had not finished
    assert len(set(project.calls())) == 64 + 256 - 1  # "" is asked once for both prompts


def test_a_passing_failure_is_tried_again_and_shows_in_no_result(make_project):
    found = []
    for name, fail in (("calm", []), ("rough", [{"error": "transient", "times": 5}])):
        project = make_project(name)
        prepare(project, backend={"fail": fail}, runtime={"backoff_base_s": 0.001})
        project.run("generate")
        found.append(generations(project))
    assert found[0] == found[1]


def test_ctrl_c_ends_with_130_in_one_line_and_the_run_goes_on_later(make_project, project):
    straight = make_project("straight")
    prepare(straight)
    straight.run("generate")
    prepare(project, backend={"latency_s": 0.01})
    os.mkfifo(project.call_log)  # the test reads along, so it knows when calls are in flight
    end = os.open(project.call_log, os.O_RDWR)  # a pipe of its own: it never ends and never waits
    with project.start("generate") as process:
        keys = b""
        while keys.count(b"\n") < 10:
            assert select.select([end], [], [], 60)[0], "no call within a minute"
            keys += os.read(end, 4096)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
    keys += os.read(end, 65536) if select.select([end], [], [], 0)[0] else b""
    os.close(end)
    n_started = keys.count(b"\n")
    assert process.returncode == 130
    assert errors == "interrupted: what is done is kept; run the same command again\n"
    with sqlite3.connect(project.store) as store:
        (n_kept,) = store.execute("SELECT count(*) FROM generation").fetchone()
        assert store.execute("SELECT count(*) FROM lease").fetchone() == (0,)
    store.close()
    assert n_started - MAX_INFLIGHT <= n_kept < len(set(straight.calls()))
    project.call_log.unlink()
    prepare(project)
    assert project.finish("generate") == (0, "")
    assert generations(project) == generations(straight)
    assert len(project.calls()) == len(set(straight.calls())) - n_kept
