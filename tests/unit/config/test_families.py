from __future__ import annotations

import dataclasses

import pytest

from quorum.config import families
from quorum.config.families import (
    FAMILIES,
    class_options,
    make,
    nearest,
    option_fields,
    part_class,
    part_names,
)
from quorum.errors import SettingsError

EVERY = [(family, name) for family, table in FAMILIES.items() for name in table]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package with parts, as pip would, in a folder of the test's own."""

    def package(name: str, entries: str, module: str = "") -> None:
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entries)
        (tmp_path / f"{name}.py").write_text(module)
        families._outside.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    yield package
    families._outside.cache_clear()


@pytest.mark.parametrize(("family", "name"), EVERY)
def test_every_name_of_the_table_leads_to_a_part_with_options(family, name):
    part = part_class(family, name)
    assert dataclasses.is_dataclass(part)
    assert part.__doc__
    assert not any(key.startswith("_") for key in option_fields(part))
    known = set(option_fields(part))
    assert set(class_options(part, "runtime_options")) <= known
    assert set(class_options(part, "plan_fields")) <= known


@pytest.mark.parametrize(("family", "name"), [e for e in EVERY if e[1] not in ("regex", "panel")])
def test_every_part_is_made_without_a_word_on_its_options(family, name):
    assert isinstance(make(family, name, {}), part_class(family, name))


def test_every_option_of_conf_names_a_part(project_root):
    for family, table in FAMILIES.items():
        assert {p.stem for p in (project_root / "conf" / family).glob("*.yaml")} == set(table)


def test_a_part_from_outside_is_found_by_its_name(install):
    install(
        "sized_values",
        "[quorum.value]\nsized = sized_values:Sized\n",
        "import dataclasses\n@dataclasses.dataclass\nclass Sized:\n    size: int = 3\n",
    )
    assert part_names("value") == sorted([*FAMILIES["value"], "sized"])
    assert make("value", "sized", {"size": 4}).size == 4
    assert part_names("estimator") == sorted(FAMILIES["estimator"])


def test_a_part_from_outside_with_a_name_of_ours_is_an_error(install):
    install("twin_one", "[quorum.estimator]\nexact = json:JSONDecoder\n")
    with pytest.raises(SettingsError) as raised:
        part_names("estimator")
    assert str(raised.value) == (
        "estimator: two parts are named exact (packages quorum, twin_one). "
        "Uninstall one of them, or rename its entry point"
    )


def test_two_parts_from_outside_of_one_name_are_an_error(install):
    for name in ("twin_two", "twin_three"):
        install(name, "[quorum.absence]\nmask = json:JSONDecoder\n")
    with pytest.raises(SettingsError) as raised:
        part_names("absence")
    assert str(raised.value) == (
        "absence: two parts are named mask (packages twin_three, twin_two). "
        "Uninstall one of them, or rename its entry point"
    )


CHECK = "Check the package that registers it"


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("no_package:X", f"the part cannot be loaded (No module named 'no_package'). {CHECK}"),
        ("math:X", f"the part cannot be loaded (module 'math' has no attribute 'X'). {CHECK}"),
        (
            "json:loads",
            "is no dataclass, got 'json:loads'. A part is one: its fields are its options",
        ),
    ],
)
def test_a_part_that_cannot_be_loaded_is_one_line(install, target, what):
    install("broken_parts", f"[quorum.backend]\nmine = {target}\n")
    with pytest.raises(SettingsError) as raised:
        part_class("backend", "mine")
    assert str(raised.value) == f"backend=mine: {what}"


def test_a_name_that_there_is_not_is_one_line():
    with pytest.raises(SettingsError) as raised:
        part_class("absence", "delte")
    assert str(raised.value) == (
        "absence: unknown name, got 'delte'; allowed delete, neutral, pad. Did you mean delete?"
    )


def test_the_nearest_name_is_near():
    assert nearest("tfidf", ["tfidf_cosine", "chrf"]) == "Did you mean tfidf_cosine?"
    assert nearest("xyz", ["tfidf_cosine", "chrf"]) == ""
