"""``dvc repro`` of a reconstruction runs what a change has touched; the other study is kept.

One repository lives through a history of changes, as a user's does.
"""

from __future__ import annotations

import json

import survey_project as small

ALL = {"config", "partition", "generate", "score", "aggregate", "budget"}


def test_the_life_of_a_repository_with_a_survey(repository):
    root = repository.root
    small.write_survey(root, name="survey")

    def survey(**changes: object) -> None:
        pool = {"size": 8, "learn_every": 0, **changes.pop("pool", {})}
        repository.params(**small.params(input="survey", pool=pool, **changes))

    survey()
    assert repository.repro() == ALL
    n_first = len(repository.calls())
    assert n_first == len(set(repository.calls())) > 100
    repository.git("add", "-A")
    repository.git("commit", "-qm", "A survey")
    assert repository.git("status", "--porcelain") == ""
    assert repository.repro() == set(), "nothing changed"

    survey(ensemble="ridge")
    assert repository.repro() == {"config", "score", "aggregate"}, "an ensemble"
    survey(target={"groups": ["sex"]})
    assert repository.repro() == {"config", "score", "aggregate"}, "other targets"
    survey(cleaning="drop_question")
    assert repository.repro() == {"config", "score", "aggregate"}, "a cleaning policy"
    survey(split={"test": "sealed"})
    assert repository.repro() == {"config", "score", "aggregate"}, "a sealed test"
    survey(value="chrf", estimator="mc", budget={"fraction": 0.5})
    assert repository.repro() <= {"config"}, "settings of another study"
    assert len(repository.calls()) == n_first, "and until here nobody was asked"

    survey(elicitation={"use": "logprob", "calibration": "contextual"})
    assert repository.repro() >= {"config", "generate", "score", "aggregate"}, "a calibration"
    n_blank = len(repository.calls()) - n_first
    assert n_blank == sum(2 if o else len(x) for _, _, o, x in small.QUESTIONS.values())
    survey()
    assert "generate" not in repository.repro(), "back again: from DVC's cache"
    survey(pool={"size": 10})
    assert repository.repro() == ALL - {"partition"}
    n_more = len(repository.calls()) - n_first - n_blank
    assert 0 < n_more <= 2 * 8 * 2 * 4, "two more personas, not ten"

    repository.params()
    assert repository.repro() == ALL, "the other study"
    metrics = json.loads((root / "data/report/metrics.json").read_text())
    assert "attribution" in metrics
    assert "reconstruction" not in metrics
    survey()
    assert repository.repro() <= {"config"}, "and back, from DVC's cache"
    metrics = json.loads((root / "data/report/metrics.json").read_text())
    assert metrics["reconstruction"]["n_personas"] == 8
