"""dvc.yaml is the table of contents: it names all that a stage rests on, and nothing else."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

PROJECT = Path(__file__).parents[2]
PACKAGE = Path("src/quorum")
STAGES = yaml.safe_load((PROJECT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]

# Parts are made by name, so no import statement leads to them: what each stage may make.
PROMPT_SIDE = ("attribution/partitioners.py", "attribution/absence.py", "attribution/estimators")
FAMILIES = {
    "config": (*PROMPT_SIDE, "attribution/values", "attribution/normalisers.py", "backends"),
    "partition": PROMPT_SIDE,
    "generate": (
        "attribution/absence.py",
        "attribution/estimators",
        "attribution/values",
        "backends",
    ),
    "score": ("attribution/values",),
    "aggregate": ("attribution/estimators", "attribution/normalisers.py"),
    "budget": ("attribution/absence.py", "backends"),
}
# Files that a module reads besides Python.
READ_BY = {"report/pages.py": "report/templates"}

# What must run again where an output or a settings file of a stage changes.
FLOW = {
    "config": {"conf", "params.yaml", "data/prompts"},
    "partition": {"data/settings/partition.json"},
    "generate": {"data/settings/generate.json", "data/partition/result"},
    "score": {"data/settings/score.json", "data/partition/result", "data/generate/result"},
    "aggregate": {
        "data/settings/aggregate.json",
        "data/partition/result",
        "data/score/result",
    },
    "budget": {"data/settings/budget.json", "data/partition/result"},
}


@cache
def imports(path: Path) -> frozenset[Path]:
    """Modules of the project that a file imports, inside functions too."""
    tree = ast.parse((PROJECT / path).read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {node.module or ""} | {f"{node.module}.{a.name}" for a in node.names}
    return frozenset(found for name in names if (found := module_path(name)) is not None)


def module_path(name: str) -> Path | None:
    """The file of a module of the project; none for a package that holds but a docstring."""
    base = Path("src", *name.split("."))
    if name.split(".", maxsplit=1)[0] != "quorum":
        return None
    if (PROJECT / base.with_suffix(".py")).is_file():
        return base.with_suffix(".py")
    package = base / "__init__.py"
    if not (PROJECT / package).is_file() or is_bare(package):
        return None
    return package


def is_bare(path: Path) -> bool:
    body = ast.parse((PROJECT / path).read_text(encoding="utf-8")).body
    return all(isinstance(node, ast.Expr) for node in body)


def modules_below(path: Path) -> set[Path]:
    """A file itself, or the modules of a folder."""
    if path.suffix:
        return {path}
    found = {p.relative_to(PROJECT) for p in (PROJECT / path).rglob("*.py")}
    return {p for p in found if not (p.name == "__init__.py" and is_bare(p))}


def closure(stage: str) -> set[Path]:
    """All source files that a run of a stage may read."""
    start = {Path("stages", f"{stage}.py")}
    for part in FAMILIES[stage]:
        start |= modules_below(PACKAGE / part)
    seen, todo = set(start), list(start)
    while todo:
        new = imports(todo.pop()) - seen
        seen |= new
        todo += new
    return seen | {PACKAGE / READ_BY[k] for k in READ_BY if PACKAGE / k in seen}


def sources(stage: str) -> set[Path]:
    return {Path(d) for d in STAGES[stage]["deps"] if d.startswith(("src/", "stages/"))}


def outputs(stage: dict[str, list[object]]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for kind in ("outs", "metrics", "plots"):
        for entry in stage.get(kind, []):
            named = entry if isinstance(entry, dict) else {entry: {}}
            found |= {path: {"kind": kind, **options} for path, options in named.items()}
    return found


def test_the_stages_are_known():
    assert list(STAGES) == list(FAMILIES)
    assert {p.stem for p in (PROJECT / "stages").glob("*.py")} == set(STAGES)


@pytest.mark.parametrize("stage", FAMILIES)
def test_every_source_that_a_stage_reads_is_a_dependency(stage):
    listed = sources(stage)
    missing = {
        path
        for path in closure(stage)
        if path not in listed and not any(parent in listed for parent in path.parents)
    }
    assert sorted(map(str, missing)) == []


@pytest.mark.parametrize("stage", FAMILIES)
def test_no_source_is_a_dependency_without_being_read(stage):
    read = closure(stage)
    idle = {p for p in sources(stage) if p not in read and not (modules_below(p) & read)}
    assert sorted(map(str, idle)) == []


@pytest.mark.parametrize("stage", FAMILIES)
def test_a_folder_is_a_dependency_only_where_all_of_it_is_read(stage):
    read = closure(stage)
    folders = {p for p in sources(stage) if not p.suffix and p not in read}
    assert {str(p): sorted(map(str, modules_below(p) - read)) for p in folders} == {
        str(p): [] for p in folders
    }


@pytest.mark.parametrize("stage", FLOW)
def test_data_flows_from_stage_to_stage_as_designed(stage):
    found = {d for d in STAGES[stage]["deps"] if not d.startswith(("src/", "stages/"))}
    assert found == FLOW[stage]


@pytest.mark.parametrize("stage", FAMILIES)
def test_dependencies_are_sorted_within_data_and_sources_and_exist(stage):
    deps = STAGES[stage]["deps"]
    inputs = [d for d in deps if not d.startswith(("src/", "stages/"))]
    code = [d for d in deps if d.startswith(("src/", "stages/"))]
    assert deps == inputs + code
    assert code == sorted(code, key=lambda d: (not d.startswith("stages/"), d))
    assert [d for d in code if not (PROJECT / d).exists()] == []


@pytest.mark.parametrize("stage", FAMILIES)
def test_a_stage_runs_its_script_and_says_what_it_does(stage):
    entry = STAGES[stage]
    assert entry["cmd"] == f"python stages/{stage}.py"
    assert 20 <= len(entry["desc"]) <= 100
    assert "params" not in entry
    assert "persist" not in str(entry)


@pytest.mark.parametrize("stage", FAMILIES)
def test_paths_are_relative_and_inside(stage):
    for path in [*STAGES[stage]["deps"], *outputs(STAGES[stage])]:
        assert not Path(path).is_absolute()
        assert ".." not in Path(path).parts


def test_nobody_depends_on_how_a_run_is_carried_out_or_on_a_log():
    deps = {d for stage in STAGES.values() for d in stage["deps"]}
    assert "data/settings/runtime.json" not in deps
    assert [d for d in deps if d.startswith("data/") and "/log" in d] == []


def test_small_text_stands_in_git_and_results_in_the_cache_of_dvc():
    kept = {stage: outputs(STAGES[stage]) for stage in STAGES}
    for stage, outs in kept.items():
        for path, options in outs.items():
            is_text = path.startswith(("data/settings/", "data/report/"))
            assert options.get("cache", True) is not is_text, f"{stage}: {path}"
            # an uncached plain out would turn DVC's run-cache off for its stage
            assert options["kind"] != "outs" or stage == "config" or not is_text


def test_gitignore_rules_stand_by_hand_so_that_dvc_writes_none():
    paths = [
        path
        for stage in STAGES.values()
        for path, options in outputs(stage).items()
        if options.get("cache", True)
    ]
    for path in paths:
        assert subprocess.run(["git", "check-ignore", "-q", path], cwd=PROJECT).returncode == 0
    assert not list((PROJECT / "data").rglob(".gitignore"))


def test_dvc_neither_calls_home_nor_stages_by_itself():
    config = (PROJECT / ".dvc/config").read_text(encoding="utf-8")
    for line in (
        "analytics = false",
        "check_update = false",
        "autostage = false",
        "offline = true",
    ):
        assert line in config
    assert "hydra" not in config
    ignored = (PROJECT / ".dvcignore").read_text(encoding="utf-8").split()
    assert {"__pycache__", ".cache", ".venv"} <= set(ignored)
