"""A fresh clone that pulls what others have paid for pays only for what is new."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from quorum.errors import RefusedError
from quorum.pipeline.keeping import replies_of, roots
from quorum.runtime.store import GenerationStore

N_TENTH = 2 * 26 - 1  # ⌈0.1·2^8⌉ coalitions for each of two prompts; the empty one is shared
N_FIFTH = 2 * 52 - 1
SHARD = "data/generate/log/store.jsonl.gz"


def stages(clone, *names: str) -> tuple[int, str]:
    """Exit code and standard error of the last of some stages; the others must succeed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUORUM_", "DVC_"))}
    for name in names:
        run = subprocess.run(
            [sys.executable, f"stages/{name}.py"],
            cwd=clone.root,
            env={**kept, "PYTHONPATH": str(clone.root / "src")},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0 or name == names[-1], run.stderr
    return run.returncode, run.stderr


@pytest.fixture(scope="module")
def clone(repository, tmp_path_factory):
    """A clone of a repository in which a run was made and pushed; all of it is pulled."""
    folder = tmp_path_factory.mktemp("clone")
    repository.dvc("remote", "add", "-q", "-d", "shelf", str(folder / "shelf"))
    repository.dvc("repro", "generate")
    assert len(repository.calls()) == N_TENTH
    repository.git("add", "-A")
    repository.git("commit", "-qm", "A run")
    repository.dvc("push", "-q")
    repository.git("clone", "-q", str(repository.root), str(folder / "clone"))
    cloned = type(repository)(folder / "clone", repository.call_log)  # the settings name one log
    cloned.dvc("pull", "-q", "-d", "generate")
    assert not (cloned.root / ".cache").exists()
    return cloned


def n_kept(clone) -> int:
    with GenerationStore(clone.root / ".cache/quorum/store.sqlite") as store:
        return len(store)


def test_a_fresh_clone_that_has_pulled_pays_only_the_difference(clone):
    # in a copy of the clone, for good measure: the store that is filled is the clone's
    out = clone.dvc("exp", "run", "--temp", "generate", "-S", "budget.fraction=0.2")
    assert "Running stage 'generate'" in out
    assert len(clone.calls()) == N_FIFTH
    assert n_kept(clone) == N_FIFTH


def test_what_was_pulled_is_enough_where_calls_are_forbidden(clone):
    shutil.rmtree(clone.root / ".cache")
    n_before = len(clone.calls())
    clone.params(runtime={"progress": "off", "calls": "forbid"})
    assert stages(clone, "config") == (0, f"store: {N_TENTH} replies came from {SHARD}\n")
    assert stages(clone, "config") == (0, ""), "a shard is read once"
    assert stages(clone, "partition", "generate") == (0, "")
    assert len(clone.calls()) == n_before

    clone.params(runtime={"progress": "off", "calls": "forbid"}, budget={"fraction": 0.3})
    code, errors = stages(clone, "config", "partition", "generate")
    assert code == 3
    assert errors.count("\n") == 1
    assert errors.startswith("error: request ")
    assert "is not in the store, and runtime.calls is forbid" in errors


def test_commits_and_experiments_keep_their_replies_also_without_a_shard(clone):
    store = clone.root / ".cache/quorum/store.sqlite"
    before = roots(clone.root, store, force=False)
    # the branch and the experiment, whose plans are nested; 0.3 ended without a reply
    assert (len(before.keys), before.n_commits) == (N_FIFTH, 2)
    with replies_of("main", clone.root) as found:
        assert len(found.keys()) == N_TENTH

    # as a version that knew no shards would have left it
    clone.git("checkout", "-q", ".")
    clone.dvc("checkout", "-q", "-f", "generate")
    (clone.root / SHARD).unlink()
    clone.dvc("commit", "-q", "-f", "generate")
    clone.git("checkout", "-q", "-b", "old")
    clone.git("commit", "-qam", "Without a shard")
    with replies_of("old", clone.root) as found:
        assert found.shard is None
        assert len(found.keys()) == N_TENTH
    assert roots(clone.root, store, force=False).n_commits == 3


def test_a_commit_whose_replies_are_lost_forbids_pruning_by_name(clone):
    store = clone.root / ".cache/quorum/store.sqlite"
    kept = roots(clone.root, store, force=False)
    shutil.rmtree(clone.root / ".dvc/cache")
    shutil.rmtree(clone.root.parent / "shelf")
    with pytest.raises(RefusedError, match=r"^commit [0-9a-f]{10}: its replies are neither in"):
        roots(clone.root, store, force=False)
    forced = roots(clone.root, store, force=True)
    assert forced.n_commits == 0
    assert forced.keys < kept.keys, "the workspace's are kept"
    assert len(forced.keys) == N_TENTH
