"""A stage runs again exactly where code that it may run has changed."""

from __future__ import annotations

import shutil
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

import quorum
from quorum.config import code, families
from quorum.config.attribution_views import ScoreView
from quorum.config.compose import compose
from quorum.config.stages import views
from quorum.config.view import Part, RuntimeView

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package that may be edited."""
    copy = tmp_path / "quorum"
    shutil.copytree(
        Path(quorum.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__")
    )
    monkeypatch.setattr(code, "PACKAGE", copy)
    forget()
    yield copy
    forget()


def forget() -> None:
    code._file_digest.cache_clear()
    code._imports.cache_clear()


def digests(**params: object) -> dict[str, str]:
    forget()
    found = views(PROJECT, compose(PROJECT, params))
    return {v.stage: code.code_digest(v) for v in found if not isinstance(v, RuntimeView)}


ALL = {"partition", "generate", "score", "aggregate", "budget"}


@pytest.mark.parametrize(
    ("module", "stages"),
    [
        ("errors.py", ALL),
        ("pipeline/entry.py", ALL),
        ("pipeline/attribution/plan.py", ALL),
        ("pipeline/attribution/partition.py", {"partition"}),
        ("pipeline/attribution/score.py", {"score"}),
        ("pipeline/attribution/explain.py", set()),
        ("cli/__init__.py", set()),
        ("config/compose.py", set()),
        ("runtime/scheduler.py", {"generate", "budget"}),
        ("attribution/absence.py", {"partition", "generate", "budget"}),
        ("attribution/values/tfidf.py", {"score"}),
        ("attribution/values/chrf.py", set()),
        ("attribution/estimators/gp.py", {"partition", "aggregate"}),
        ("attribution/estimators/mc.py", set()),
        ("attribution/faithfulness.py", {"aggregate"}),
        ("backends/scripted.py", {"generate", "budget"}),
        ("backends/embedded.py", set()),
        ("report/plots.py", {"aggregate"}),
        ("report/templates/snapshot.html", {"aggregate", "budget"}),
    ],
)
def test_an_edit_reaches_the_stages_that_may_run_it_and_no_other(package, module, stages):
    before = digests(backend="scripted")
    path = package / module
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    after = digests(backend="scripted")
    assert {stage for stage in before if before[stage] != after[stage]} == stages


def test_a_part_counts_only_where_it_is_chosen(package):
    assert digests(value="chrf")["score"] != digests(value="exact_match")["score"]
    assert digests(value="chrf")["partition"] == digests(value="exact_match")["partition"]


def test_an_import_inside_a_function_counts(package):
    names = {p.relative_to(package).as_posix() for p in code.closure(["quorum.cli"])}
    assert "pipeline/attribution/explain.py" in names
    assert "report/terminal.py" in names


def test_what_only_a_type_checker_reads_does_not_count(package):
    names = {p.relative_to(package).as_posix() for p in code.closure(["quorum"])}
    assert names == {"__init__.py"}  # it names quorum.pipeline.loading for types


def test_a_part_from_outside_counts_with_the_version_of_its_package(monkeypatch):
    def point(version: str) -> EntryPoint:
        found = EntryPoint("theirs", "theirs:Theirs", "quorum.value")
        dist = SimpleNamespace(name="their-package", version=version)
        vars(found).update(dist=dist)
        return found

    seen = []
    view = ScoreView("attribution", Part("value", "theirs", {}), "base")
    for version in ("1.0", "1.1"):
        monkeypatch.setattr(families, "_outside", lambda _, v=version: (point(v),))
        assert families.part_source("value", "theirs") == f"their-package=={version}"
        seen.append(code.code_digest(view))
    assert seen[0] != seen[1]
