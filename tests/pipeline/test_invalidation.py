"""``dvc repro`` runs what a change has touched, and pays only for what is new.

One repository lives through a history of changes, as a user's does; each test is one step of it.
"""

from __future__ import annotations

import json

ALL = {"config", "partition", "generate", "score", "aggregate", "budget"}


def touch(path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def coalitions(repository) -> int:
    text = (repository.root / "data/partition/result/plan.json").read_text()
    return sum(len(s["coalitions"]) for s in json.loads(text)["snapshots"])


def test_the_life_of_a_repository(repository):
    root = repository.root
    assert repository.repro() == ALL
    assert coalitions(repository) == 2 * 26  # ⌈0.1·2^8⌉ for each prompt
    n_first = 2 * 26 - 1  # the empty prompt is the same for both
    assert len(repository.calls()) == n_first
    repository.git("add", "-A")
    repository.git("commit", "-qm", "First reproduction")
    assert repository.git("status", "--porcelain") == ""
    assert not list((root / "data").rglob(".gitignore"))

    assert repository.repro() == set(), "nothing changed"

    repository.params(value="chrf")
    assert repository.repro() == {"config", "score", "aggregate"}, "a value function"

    repository.params(value="chrf", normaliser="abs_sum")
    assert repository.repro() == {"config", "aggregate"}, "a normaliser"

    banzhaf = {"use": "complementary", "estimand": "banzhaf"}
    repository.params(value="chrf", estimator=banzhaf)
    assert repository.repro() == {"config", "aggregate"}, "an estimand"

    repository.params()
    metrics = (root / "data/report/metrics.json").read_bytes()
    assert repository.repro() <= {"config"}, "back again: from DVC's cache"
    assert (root / "data/report/metrics.json").read_bytes() != metrics
    assert repository.git("status", "--porcelain") == "", "as at the first reproduction"

    touch(root / "conf/value/exact_match.yaml", "# a comment\n")
    assert repository.repro() == {"config"}, "a comment in conf/"

    slower = {"progress": "off", "max_inflight": 2}
    repository.params(runtime=slower, backend={"latency_s": 0.001})
    assert repository.repro() == {"config"}, "how a run is carried out"
    repository.params()

    first = (root / "data/prompts/gallery.jsonl").read_text().splitlines(keepends=True)[0]
    touch(root / "data/prompts/gallery.jsonl", first.replace('"id": "', '"id": "again-'))
    assert repository.repro() == {"config"}, "an input that is not chosen"

    path = root / "data/prompts/own.jsonl"
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))))
    assert repository.repro() == {"config", "partition"}, "the order of the prompts"
    assert len(repository.calls()) == n_first, "and until here nothing was asked again"

    repository.params(budget={"fraction": 0.2})
    assert repository.repro() == ALL
    n_second = 2 * 52 - 1
    assert len(repository.calls()) == n_second, "plans are nested: the difference is paid"

    repository.params(budget={"fraction": 0.1})
    assert "generate" not in repository.repro()
    repository.params(budget={"fraction": 0.2})
    assert "generate" not in repository.repro()
    assert len(repository.calls()) == n_second, "back and forth costs nothing"

    repository.params(budget={"fraction": 0.5}, estimator="neyman_cc")
    assert repository.repro() == ALL
    repository.params(budget={"fraction": 0.5}, estimator="neyman_cc", value="chrf")
    assert repository.repro() == ALL - {"partition"}, "a second phase follows the payoffs"
    assert len(repository.calls()) == len(set(repository.calls())), "and pays for what is new"

    touch(root / "src/quorum/report/charts.py", "# a comment\n")
    assert repository.repro() == {"config", "aggregate", "budget"}, "code of the pages"
    touch(root / "src/quorum/attribution/normalisers.py", "# a comment\n")
    assert repository.repro() == {"config", "aggregate"}, "code of the normalisers"
    assert not list((root / "data").rglob(".gitignore"))


def test_a_clone_with_the_same_cache_has_nothing_to_do(repository, tmp_path):
    repository.git("add", "-A")
    repository.git("commit", "-qm", "A reproduction")
    repository.git("clone", "-q", str(repository.root), str(tmp_path / "clone"))
    clone = type(repository)(tmp_path / "clone", repository.call_log)
    n_calls = len(repository.calls())
    # without any data at all, git alone says that the lock fits the sources and settings
    assert "Running" not in clone.dvc("repro", "--dry", "--allow-missing")
    clone.dvc("cache", "dir", "--local", str(repository.root / ".dvc/cache"))
    clone.dvc("checkout", "-q")
    assert clone.repro() == set()
    assert len(clone.calls()) == n_calls
