"""The environment: exact, hashed, whole, and the same in a container."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / "environment"
LOCKS = ("requirements.lock", "requirements-dev.lock", "weights.lock")


def locked(name: str) -> dict[str, tuple[str, str | None, int]]:
    """Package → exact version, marker, number of hashes."""
    text = (ENVIRONMENT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith(("#", " ")):
            head, *hashes = line.split("--hash=")
            exact = re.fullmatch(r"([\w.\[\]-]+)==([\w.+!]+)(?: ; (.+))?", head.strip())
            assert exact, f"{name}: {line[:60]} is not exact"
            found[canonicalize_name(exact[1].split("[")[0])] = (exact[2], exact[3], len(hashes))
    return found


def wanted(name: str) -> dict[str, Requirement]:
    lines = (ENVIRONMENT / name).read_text(encoding="utf-8").splitlines()
    texts = [line.partition(" #")[0].strip() for line in lines]
    found = [Requirement(t) for t in texts if t and not t.startswith(("#", "-"))]
    return {canonicalize_name(r.name): r for r in found}


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_an_exact_version_and_hashes(name):
    packages = locked(name)
    assert packages
    assert [p for p, (_, _, n_hashes) in packages.items() if n_hashes == 0] == []


@pytest.mark.parametrize("name", ["requirements", "requirements-dev"])
def test_a_lock_holds_what_its_list_asks_for(name):
    packages = locked(f"{name}.lock")
    for package, requirement in wanted(f"{name}.in").items():
        assert package in packages, package
        assert packages[package][0] in requirement.specifier, package


def test_the_list_is_that_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {canonicalize_name(r.name): r for r in map(Requirement, project["dependencies"])}
    assert declared == wanted("requirements.in")


def test_tests_run_on_the_versions_that_a_run_uses():
    base, dev = locked("requirements.lock"), locked("requirements-dev.lock")
    assert {p: base[p][0] for p in base} == {p: dev[p][0] for p in base}
    here = {p: v for p, (v, marker, _) in base.items() if not marker or Marker(marker).evaluate()}
    assert {p: version(p) for p in here} == here


def test_the_container_installs_the_lock_and_makes_the_main_job():
    dockerfile = (ENVIRONMENT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    readme = (ENVIRONMENT / "README.md").read_text(encoding="utf-8")
    (first,) = re.findall(r"(?m)^FROM (\S+)", dockerfile)
    assert first == "debian:bookworm-slim"  # its python3 is 3.11
    assert (ENVIRONMENT / "python-version").read_text().strip() == "3.11"
    (installed,) = re.findall(r"apt-get install [^&]*", dockerfile)
    system = set(re.findall(r"`(lib\w[\w+]*\d)`", readme))
    assert system == {"libgomp1", "libstdc++6"}
    assert system | {"git", "make", "python3", "python3-venv"} <= set(installed.split())
    assert "RUN make .venv/.run\n" in dockerfile
    assert "$(VENV)/.run:" in makefile
    assert dockerfile.endswith('CMD ["make", "repro"]\n')
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ".venv" in ignored
    assert ".git" not in ignored, "DVC wants the repository"
