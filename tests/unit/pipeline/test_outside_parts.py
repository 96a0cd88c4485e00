"""Parts that another package registers by entry points, through the real command line."""

from __future__ import annotations

import json
import shutil
import textwrap
from pathlib import Path

import pytest
import yaml

from quorum.cli import main
from quorum.config import families

PROJECT = Path(__file__).parents[3]
ENTRIES = """
[quorum.partition]
vowels = outside_parts:Vowels
[quorum.estimator]
leave_one_out = outside_parts:LeaveOneOut
[quorum.backend]
shouting = outside_parts:Shouting
"""
MODULE = '''
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from quorum.attribution.estimators.base import Estimate
from quorum.attribution.snapshots import Span
from quorum.backends.base import Capabilities
from quorum.errors import BackendError
from quorum.records import Generation, Target, Usage


@dataclass(frozen=True)
class Vowels:
    """A player a vowel."""

    vowels: str = "aeiou"

    def spans(self, snapshot, roles):
        return [
            Span(m, i, i + 1)
            for m, message in enumerate(snapshot.messages)
            if message.role in roles
            for i, letter in enumerate(message.content)
            if letter in self.vowels
        ]


@dataclass(frozen=True)
class LeaveOneOut:
    """v(N) - v(N without i)."""

    plan_fields: ClassVar[tuple[str, ...]] = ()
    two_phase: ClassVar[bool] = False
    estimands: ClassVar[tuple[str, ...]] = ("shapley",)
    estimand: str = "shapley"
    scale: Annotated[float, Ge(0)] = 1.0

    def plan(self, n, budget, seed):
        return ~np.eye(n, dtype=bool)  # the pipeline adds the two ends

    def refine(self, n, budget, seed, coalitions, payoffs):
        return np.zeros((0, n), dtype=bool)

    def attribute(self, coalitions, payoffs, budget, seed):
        n = coalitions.shape[1]
        known = {row.tobytes(): value for row, value in zip(coalitions, payoffs, strict=True)}
        whole = known[np.ones(n, bool).tobytes()]
        values = [whole - known[row.tobytes()] for row in ~np.eye(n, dtype=bool)]
        return Estimate(self.scale * np.array(values), None, "one difference a player")


@dataclass
class Shouting:
    """Says it in capitals; has no likelihoods, no model, and takes no empty message."""

    closed: int = 0
    target = Target("shouting", "capitals", {})
    capabilities = Capabilities(deterministic=True, empty_message=False)
    lanes = None

    async def complete(self, request, lane=0):
        text = request.messages[-1].content
        if not text:
            raise BackendError("shouting", "nothing to shout")
        return Generation(text.upper(), usage=Usage(input_tokens=1, output_tokens=1))

    async def close(self):
        self.closed += 1
'''
RULES = {"roles": ["user"], "max_players": 9, "overflow": "error"}
FILES = {
    "partition/vowels": {"name": "vowels", "vowels": "aeiou", **RULES},
    "estimator/leave_one_out": {"name": "leave_one_out", "estimand": "shapley", "scale": 1},
    "backend/shouting": {"name": "shouting"},
}


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """A project, and a package with three parts, each with its file in conf/."""
    for name in ("conf", "data/prompts"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    for name, options in FILES.items():
        (tmp_path / "conf" / f"{name}.yaml").write_text(yaml.safe_dump(options))
    (tmp_path / "params.yaml").write_text("runtime: {progress: off}\n")
    packages = tmp_path / "packages"
    info = packages / "outside_parts-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside_parts\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    (packages / "outside_parts.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(packages)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QUORUM_STORE", str(tmp_path / "store.sqlite"))
    families._outside.cache_clear()
    yield tmp_path
    families._outside.cache_clear()


def explain(*changes: str) -> int:
    return main(["explain", "one two", "--json", *[x for c in changes for x in ("-S", c)]])


def test_partitioner_estimator_and_backend_from_outside_are_used_by_name(capsys):
    shout = "absence={use: pad, placeholder: '-'}"
    assert explain("backend=shouting", "partition=vowels", "estimator=leave_one_out", shout) == 0
    found = json.loads(capsys.readouterr().out)
    assert [player["text"] for player in found["players"]] == ["o", "e", "o"]
    assert found["partitioner"] == "vowels"
    assert found["estimator"] == "leave_one_out"
    assert found["n_coalitions"] == 5  # three without one player, and the two ends
    assert found["base_generation"] == "ONE TWO"
    assert found["standard_errors_reason"] == "one difference a player"
    assert found["manifest"]["backend"] == {
        "name": "shouting", "model": "capitals", "identity": {},
    }  # fmt: skip


def test_options_of_a_part_from_outside_are_checked(capsys):
    assert explain("backend=scripted", "estimator={use: leave_one_out, scale: -1}") == 2
    assert capsys.readouterr().err == (
        "error: estimator.scale: wrong value, got -1; allowed a number >= 0\n"
    )
    assert explain("backend=scripted", "estimator={use: leave_one_out, estimand: banzhaf}") == 2
    assert capsys.readouterr().err == (
        "error: estimator.estimand: leave_one_out does not compute it, got 'banzhaf'; "
        "allowed shapley. Choose another estimator\n"
    )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            ("value=logprob",),
            (
                "value: backend=shouting cannot score a given text; allowed value functions of "
                "texts, such as tfidf_cosine. Choose another value, or backend=embedded"
            ),
        ),
        (
            ("generation={samples: 2, temperature: 1}",),
            "generation.samples: backend=shouting draws no second reply",
        ),
        (
            (),
            (
                "absence.empty_message: backend=shouting takes no empty message, which prompt "
                "without players is. Set absence.empty_message to a text that stands for it"
            ),
        ),
        (("model=big",), "model: backend=shouting has none to choose, got 'big'; allowed null"),
    ],
)
def test_what_a_backend_cannot_do_is_refused_before_any_call(changes, line, capsys):
    assert explain("backend=shouting", *changes) == 2
    assert capsys.readouterr().err == f"error: {line}\n"


def test_a_second_part_of_the_same_name_is_an_error(installed, capsys):
    info = installed / "packages/more_parts-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: more_parts\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[quorum.partition]\ntokens = outside_parts:Vowels\n")
    families._outside.cache_clear()
    assert explain("backend=scripted") == 2
    assert capsys.readouterr().err == (
        "error: partition: two parts are named tokens (packages more_parts, quorum). "
        "Uninstall one of them, or rename its entry point\n"
    )
