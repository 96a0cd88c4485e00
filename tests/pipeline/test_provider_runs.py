"""Whole runs on a provider: what arrives there, and that the key is nowhere but there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import yaml
from canary import KEY, files_with_key, is_in
from provider_stub import Failure, Reply

from quorum.config.families import FAMILIES

ROWS = {
    "openai": "quorum.backends.openai:OpenAI",
    "anthropic": "quorum.backends.anthropic:Anthropic",
}
WORDS = ("rain", "bus", "bicycle", "hills")


@pytest.fixture(params=ROWS)
def run(request, project, provider, monkeypatch):
    """A project whose backend is the provider on loopback; the stages of an attribution."""
    name = request.param
    monkeypatch.setitem(FAMILIES["backend"], name, ROWS[name])
    monkeypatch.setenv("CANARY_KEY", KEY)
    (project.root / f"conf/backend/{name}.yaml").write_text(f"name: {name}\n", encoding="utf-8")
    project.write_prompts(["Why do you cycle to work?"])
    backend = {
        "use": name,
        "base_url": provider.openai_url if name == "openai" else provider.url,
        "key_variable": "CANARY_KEY",
    }
    params = {
        "input": "own",
        "backend": backend,
        "partition": "words",
        "estimator": "exact",
        "budget": {"fraction": 1},
        "absence": {"use": "delete", "empty_message": "…"},
        "runtime": {"progress": "off", "max_attempts": 2, "backoff_base_s": 0.001},
    }
    (project.root / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
    return project


def git_objects(root) -> bytes:
    """All that a commit of everything holds."""

    def git(*words: str) -> bytes:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        return subprocess.run(
            ["git", *who, *words], cwd=root, check=True, capture_output=True
        ).stdout

    git("init", "-q")
    git("add", "-A", "-f")
    git("commit", "-qm", "all")
    return git("cat-file", "--batch-all-objects", "--batch")


def test_a_run_asks_each_coalition_once_and_writes_no_key(run, provider):
    provider.answer = lambda seen: Reply(" ".join(w for w in WORDS if len(seen.text) % len(w)))
    run.run()
    n_calls = len(provider.calls)
    assert n_calls == len({seen.raw for seen in provider.calls}) == 2**6
    assert all(is_in(str(seen.headers)) for seen in provider.calls)
    assert files_with_key(run.root) == []
    assert not is_in(git_objects(run.root))
    run.run()
    assert len(provider.calls) == n_calls  # case 83: all reused


@pytest.mark.parametrize(
    ("failure", "says", "most_calls"),
    [
        (Failure(401, "invalid_api_key", f"Incorrect API key provided: {KEY}"), "CANARY_KEY", 8),
        (Failure(429, "rate_limit_exceeded", f"Limit for {KEY}"), "429", 32),
    ],
)
def test_a_failed_run_with_its_traceback_shows_and_writes_no_key(
    run, provider, failure, says, most_calls
):
    provider.answer = lambda seen: failure
    run.run("config", "partition")
    script = (
        "from quorum.config.families import FAMILIES; "
        f"FAMILIES['backend'].update({ROWS!r}); "
        "from quorum.pipeline.entry import of_study, run_stage; "
        "raise SystemExit(run_stage(of_study('generate')))"
    )
    for debug in ("", "1"):
        done = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "ignore", "-c", script],
            cwd=run.root,
            env=run.environ(QUORUM_DEBUG=debug, CANARY_KEY=os.environ["CANARY_KEY"]),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert says in done.stderr
        assert ("Traceback" in done.stderr) is bool(debug)
        assert not is_in(done.stdout + done.stderr)
    assert 1 <= len(provider.calls) <= 2 * most_calls
    assert files_with_key(run.root) == []
