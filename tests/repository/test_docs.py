"""The documentation is true: its commands run, its outputs, tables, links and names are right."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from docs_commands import check_exists
from docs_pages import (
    ROOT,
    anchors,
    blocks,
    first_column,
    inline_codes,
    links,
    page_names,
    prose,
    read_page,
)
from docs_tables import table

from quorum.config.families import FAMILIES
from quorum.config.schema import GROUPS, LEAVES

PAGES = page_names()
CHECKS = {"known", "settings", "grid", "write", "add", "install", "table", "columns"}


ARTIFACTS = {"docs/artifacts.md": "template", "docs/artifacts-reconstruction.md": "rebuilt"}
OF_SURVEYS = {"docs/reconstruction.md", "docs/artifacts-reconstruction.md"}
INPUTS = {"prices", "prompts", "surveys"}  # folders of data/ that no run writes


def test_make_show_prints_knobs_and_metrics_and_no_digests(template):
    outcome = template.run('COLUMNS=400 eval "$(make --no-print-directory -n show | tail -1)"')
    assert outcome.exit_code == 0, outcome.errors
    (heading,) = (line for line in outcome.lines if "Experiment" in line)
    shown = set(heading.split())
    assert {"budget.fraction", "estimator", "attribution.n_requests"} <= shown
    assert [name for name in shown if "/" in name or name == "src"] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_generated_table_is_that_of_this_moment(name):
    for block in blocks(read_page(name)):
        assert not block.check or block.check[0] in CHECKS
        if block.check[:1] == ("table",):
            expected = table(*block.check[1:])
            assert list(block.lines) == expected, "python tests/repository/docs_refresh.py"


def columns_of(path: Path, key: str = "") -> list[str]:
    """Column names of a CSV file; keys of a JSON object, or of the first line of JSONL."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".csv":
        return text.partition("\n")[0].split(",")
    found = json.loads(text.partition("\n")[0] if path.suffix == ".jsonl" else text)
    for step in filter(None, key.split(".")):
        found = found[int(step) if step.isdigit() else step]
    return list(found)


@pytest.mark.parametrize(("page", "name"), ARTIFACTS.items())
def test_a_page_of_artifacts_lists_every_column_in_order_and_every_key(page, name, request):
    root = request.getfixturevalue(name).root
    described = [b for b in blocks(read_page(page)) if b.check[:1] == ("columns",)]
    tables = {path for b in described for path in b.check[1:] if path.endswith(".csv")}
    for block in described:
        names = first_column(block)
        if block.check[1].endswith(".csv"):
            for path in block.check[1:]:
                assert names == columns_of(root / path), path
        else:
            assert set(names) == set(columns_of(root / block.check[1], *block.check[2:]))
    written = {
        path.relative_to(root).as_posix()
        for path in root.glob("data/*/**/*.csv")
        if not INPUTS & set(path.parts)
    }
    assert tables >= written


@pytest.mark.parametrize(("page", "name"), ARTIFACTS.items())
def test_a_page_of_artifacts_names_every_file_that_a_run_writes(page, name, request):
    root, text = request.getfixturevalue(name).root, read_page(page)
    stems = {row["id"]: "<snapshot>" for row in map(json.loads, default_prompts())}
    for path in sorted((root / "data").rglob("*")):
        folder = path.relative_to(root).parts
        if path.is_dir() or folder[1] in INPUTS:
            continue
        top = "/".join(folder[: 2 if folder[1] in {"report", "settings"} else 3])
        section = text.partition(f"\n## {top}\n")[2].partition("\n## ")[0]
        rest = "/".join(folder[len(top.split("/")) :])
        own = "<persona>" if re.fullmatch(r"p\d{4}", path.stem) else stems.get(path.stem)
        shown = rest.replace(path.stem, own) if own else rest
        assert f"`{shown}`" in section, f"{top}: {shown}"


def default_prompts() -> list[str]:
    text = (ROOT / "data/prompts/default.jsonl").read_text(encoding="utf-8")
    return text.splitlines()


@pytest.mark.parametrize("name", [*PAGES, "data/prompts/README.md", "environment/README.md"])
def test_every_relative_link_leads_somewhere(name):
    page = ROOT / name
    for link in links(read_page(name)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("name", PAGES)
def test_every_setting_that_a_page_names_exists(name):
    known = set(LEAVES)
    for group in GROUPS:
        for path in (ROOT / "conf" / group).glob("*.yaml"):
            loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
            section = loaded.get(group, loaded)
            known |= {f"{group}.{key}" for key in section} | {f"{group}.*"}
    for code in inline_codes(read_page(name)):
        named = re.match(r"([a-z]+)\.([a-z_*]+)(?=$|[:= ])", code)
        is_file = named and named.group(2) in {"py", "yaml", "yml", "json", "jsonl", "csv", "html"}
        if named and named.group(1) in GROUPS and not is_file:
            assert f"{named.group(1)}.{named.group(2)}" in known, code
        chosen = re.fullmatch(r"([a-z]+): ([a-z_]+)", code)
        if chosen and chosen.group(1) in GROUPS:
            assert (ROOT / "conf" / chosen.group(1) / f"{chosen.group(2)}.yaml").is_file(), code


@pytest.mark.parametrize("name", PAGES)
def test_every_command_that_prose_names_exists(name):
    for code in inline_codes(read_page(name)):
        words = code.replace("…", "").split()
        if words[0] in {"make", "quorum"} and len(words) > 1:
            check_exists(code.replace("…", "").replace(" `", ""))


@pytest.mark.parametrize("name", PAGES)
def test_every_path_that_prose_names_exists_or_is_written_by_a_run(name, request):
    template = request.getfixturevalue("rebuilt" if name in OF_SURVEYS else "template")
    for code in inline_codes(read_page(name)):
        if re.fullmatch(r"(src|conf|tests|docs|stages|data|environment)/[\w./-]*", code):
            own = {b.check[1] for b in blocks(read_page(name)) if b.check[:1] == ("write",)}
            assert (template.root / code).exists() or code in own, code


def test_settings_lists_every_part_and_every_setting():
    codes = set(inline_codes(read_page("docs/settings.md")))
    for family, parts in FAMILIES.items():
        assert set(parts) <= codes, family
    tables = "".join("\n".join(table("options", family)) for family in FAMILIES)
    for group in GROUPS:
        files = sorted((ROOT / "conf" / group).glob("*.yaml"))
        for path in files:
            names = {path.stem, f"{group}: {path.stem}", path.relative_to(ROOT).as_posix()}
            assert len(files) == 1 or names & codes, path
            loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
            for key in loaded.get(group, loaded):
                is_told = f"{group}.{key}" in codes or f"`{key}` = " in tables
                assert is_told or key == "name", f"{group}.{key}"


def test_pages_of_parts_name_every_estimator_and_value_function():
    for page, family in (("docs/estimators.md", "estimator"), ("docs/values.md", "value")):
        (part_table,) = re.findall(
            rf"(?m)^\| `{family}` .*\n(?:\|.*\n)+", read_page(page), flags=re.MULTILINE
        )
        named = re.findall(r"(?m)^\| `(\w+)`", part_table)
        assert set(named[1:]) == set(FAMILIES[family]), page


def glossary() -> dict[str, str]:
    rows = re.findall(r"(?m)^\| ([^|]+) \| ([^|]+) \|$", read_page("docs/glossary.md"))
    assert len(rows) == len({word for word, _ in rows})
    return dict(rows[2:])


def test_the_glossary_has_each_word_once():
    words = {word for entry in glossary() for word in entry.split(", ")}
    fixed = "player coalition payoff value estimator estimand backend request generation run"
    assert words >= {*fixed.split(), "experiment", "study", "budget", "base_value", "grand_value"}
    assert words >= {"base generation", "reference", "snapshot", "store", "model", "score"}
    assert words >= {"persona", "endowment", "attribute bank", "mode", "question", "option"}
    assert words >= {"response", "prediction", "target", "block", "ensemble weights", "anchor"}
    assert words >= {
        "elicitation",
        "baseline",
        "negative control",
        "panel",
        "pool",
        "mass",
        "option mass",
    }


@pytest.mark.parametrize("name", PAGES)
def test_pages_use_the_words_of_the_glossary(name):
    text = prose(read_page(name)).lower()
    strangers = ["attrib ", "feature importance", "token mask", "cached reply", "synthetic people"]
    strangers += [f"baseline {what}" for what in ("reply", "generation", "answer", "value")]
    assert [word for word in strangers if word in text] == []


def test_the_changelog_tells_of_this_version_and_of_what_is_to_come():
    import quorum

    headings = re.findall(r"(?m)^## (.+)$", read_page("CHANGELOG.md"))
    assert headings[0] == "Unreleased"
    assert headings[1].startswith(f"{quorum.__version__} - 20")


def test_every_base_dependency_has_its_reason():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[><=!~]", text)[0] for text in project["dependencies"]}
    text = read_page("docs/decisions/0004-dependencies.md")
    assert set(re.findall(r"(?m)^\| `([\w-]+)`", text)) == needed


def test_every_decision_is_listed():
    listed = {link for link in links(read_page("docs/decisions/README.md")) if link[:1].isdigit()}
    assert listed == {path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md")}


def test_the_licence_is_apache_and_names_the_authors():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert text.count("Copyright 2026 The Quorum authors") == 1


def test_images_are_small():
    images = list((ROOT / "docs/images").iterdir())
    assert images
    assert all(path.stat().st_size <= 150_000 for path in images)


def tracked_texts() -> Iterator[tuple[str, str]]:
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    for name in filter(None, names):
        path = ROOT / name
        if path.is_file() and path.suffix not in {".png", ".npz"}:
            yield name, path.read_text(encoding="utf-8", errors="replace")


def test_no_file_names_a_folder_or_a_package_host_of_one_machine():
    places = [f"/{folder}/" for folder in ("work", "root", "home", "Users")]
    hosts = ["index" + "-url", "trusted" + "-host", "file" + "://"]
    found = [
        (name, word)
        for name, text in tracked_texts()
        for word in [*places, *hosts]
        if re.search(rf"(?<![\w.}}]){re.escape(word)}", text)
    ]
    assert found == []
