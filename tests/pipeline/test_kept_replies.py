"""Beside its results a run leaves the rows of the store that they rest on."""

from __future__ import annotations

import json
import logging

import pytest
import survey_project as small

from quorum.errors import InputError
from quorum.pipeline.artifacts import shown
from quorum.pipeline.keeping import replies_of
from quorum.records import Generation
from quorum.runtime.shards import read_shard
from quorum.runtime.store import GenerationStore

SHARD = "data/generate/log/store.jsonl.gz"


def shard(project) -> set[str]:
    """Keys of the shard."""
    return {row.key.hex() for row in read_shard(project.root / SHARD, SHARD)}


def stored(project) -> set[str]:
    with GenerationStore(project.store) as store:
        return {row.key for row in store.rows()}


def named(project) -> set[str]:
    """Keys that the results name: of the replies, and of the learner's."""
    result = project.root / "data/generate/result"
    texts = [p.read_text(encoding="utf-8") for p in (result / "generations").glob("*.jsonl")]
    rows = [json.loads(line) for text in texts for line in text.split("\n") if line]
    learner = json.loads((result / "model.json").read_text()).get("learner", [])
    return {row["key"] for row in [*rows, *learner]}


def prepare(project, fraction: float = 0.1) -> None:
    project.write_prompts(["one two three four five six", "a b c d e f g h"])
    project.write_params(budget={"fraction": fraction})
    project.run("config", "partition")


def rebuild(project, **changes: object) -> None:
    small.write_survey(project.root)
    project.write_params(**small.params(**changes))
    project.run("config", "partition", "generate")


def test_an_attribution_leaves_exactly_the_rows_of_its_replies(project):
    prepare(project, 0.2)
    project.run("generate")
    assert shard(project) == named(project) == set(project.calls())
    wide = shard(project)
    prepare(project)
    project.run("generate")
    assert shard(project) == named(project)
    assert shard(project) < wide == stored(project), "the other run's rows are not its own"


def test_a_score_of_texts_keeps_base_generations_too(project):
    project.write_prompts(["one two three four five six"])
    project.write_params(value="logprob", budget={"fraction": 0.2})
    project.run("config", "partition", "generate")
    assert shard(project) == named(project) == set(project.calls())


def test_a_reconstruction_keeps_the_learners_and_nobodys_rows(project):
    rebuild(project, elicitation={"use": "logprob", "calibration": "contextual"})
    assert shard(project) == named(project) == stored(project)
    learner = json.loads((project.root / "data/generate/result/model.json").read_text())["learner"]
    assert learner
    assert {row["key"] for row in learner} <= shard(project)
    (project.root / SHARD).unlink()  # as a run of an earlier version left it
    with replies_of(str(project.root), None) as found:
        assert found.keys() == named(project)


def test_replies_from_a_checkpoint_are_kept_as_well(project):
    rebuild(project, pool={"size": 6})
    first = shard(project)
    project.call_log.unlink()
    rebuild(project, pool={"size": 6})
    assert project.calls() == []
    assert shard(project) == first


def test_a_panel_has_no_rows(project):
    rows = [
        {"id": i, **{q: str(1 + i % len(o)) for q, (_, _, _, o) in small.QUESTIONS.items()}}
        for i in range(20)
    ]
    small.write_survey(project.root)
    (project.root / "data/surveys/people.csv").write_text(small.csv_of(rows), encoding="utf-8")
    backend = {"use": "panel", "path": "data/surveys/people.csv", "attributes": []}
    project.write_params(study="reconstruction", backend={**backend, "call_log": None})
    project.run("config", "partition", "generate")
    assert (project.root / "data/generate/log/generation.json").exists()
    assert not (project.root / SHARD).exists()
    with replies_of(str(project.root), None) as found:
        assert found.keys() == set()


def test_a_row_that_is_gone_meanwhile_is_a_warning_and_no_crash(project, caplog):
    rebuild(project, pool={"size": 6})
    first = shard(project)
    with GenerationStore(project.store) as store, store.transaction() as db:
        db.execute("DELETE FROM generation WHERE key IN (SELECT key FROM generation LIMIT 3)")
    with caplog.at_level(logging.WARNING):
        project.run("generate")
    (record,) = caplog.records
    n = len(first)
    assert f"lacks 3 of the {n} replies that this run rests on" in record.getMessage()
    assert shard(project) < first
    assert len(shard(project)) == n - 3


def test_another_store_is_filled_from_the_rows_before_anything_is_asked(
    make_project, project, capsys
):
    prepare(project)
    project.run("generate")
    n_calls = len(project.calls())
    moved = type(project)(project.root, project.root / "new.sqlite", project.call_log)
    prepare(moved, 0.2)
    assert capsys.readouterr().err == f"store: {n_calls} replies came from {told(moved)}\n"
    moved.run("generate")
    wider = make_project("wider")
    prepare(wider, 0.2)
    wider.run("generate")
    assert len(moved.calls()) == len(set(wider.calls())) > n_calls
    assert moved.results("data/generate/result") == wider.results("data/generate/result")


def told(project) -> str:
    return shown(project.root / SHARD)


def test_a_reply_that_differs_is_told_and_the_stores_own_stays(project, caplog):
    prepare(project)
    project.run("generate")
    with GenerationStore(project.store) as store:
        row = next(iter(store.rows()))
    moved = type(project)(project.root, project.root / "new.sqlite", project.call_log)
    with GenerationStore(moved.store) as store:
        store.put(row.key, row.request, Generation("ours"))
    with caplog.at_level(logging.WARNING):
        moved.run("config")
    what = "1 reply differs from what the store has, which stays"
    assert [r.getMessage() for r in caplog.records] == [f"{told(moved)}: {what}: {row.key[:12]}"]
    with GenerationStore(moved.store) as store:
        assert store.get(row.key) == Generation("ours")


def test_a_damaged_shard_stops_the_run_before_anything_is_paid(project):
    prepare(project)
    project.run("generate")
    path = project.root / SHARD
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InputError) as stopped:
        project.run("config")
    assert str(stopped.value).startswith(f"{told(project)}: is no whole gzip file")
