"""What each stage may know: one small canonical settings file a stage.

A stage lists its own file as a dependency and can read no other setting, so invalidation is exact
by construction. ``runtime.json`` changes no result: every stage may read it, none depends on it.
Reading a view needs neither Hydra nor pydantic.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, cast

from quorum.config.families import make
from quorum.digests import canonical_json
from quorum.errors import SettingsError

Options = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Part:
    """A part by name, with its options; built where it is used."""

    family: str
    name: str
    options: Options

    def make(self, **more: object) -> object:
        """The part; ``more`` are options that change no result."""
        return make(self.family, self.name, {**self.options, **more})


@dataclass(frozen=True, slots=True)
class InputFile:
    """The chosen data set: where it lies and the digest of what it holds."""

    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class View:
    """Settings of one stage as they stand in its file."""

    FILE: ClassVar[str]

    study: str

    @classmethod
    def read(cls, root: Path) -> Self:
        """The view of a project, from its settings folder."""
        path = root / "data" / "settings" / cls.FILE
        try:
            return cls.parse(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError as error:
            raise SettingsError(
                f"data/settings/{cls.FILE}", "is missing", mend="Run: dvc repro config"
            ) from error

    @classmethod
    def parse(cls, plain: Mapping[str, object]) -> Self:
        """The view from plain JSON values."""
        return cast("Self", _build(cls, plain))

    @property
    def stage(self) -> str:
        """The stage that reads it."""
        return self.FILE.removesuffix(".json")

    def dump(self, code: str = "") -> str:
        """The view as canonical, readable JSON text.

        Args:
            code: Digest of the code that the stage runs, for the file; part of no run's identity.
        """
        plain = json.loads(canonical_json(dataclasses.asdict(self)))
        if code:
            plain["code"] = code
        return json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a result rests on, told in every output."""

    input: Mapping[str, str]
    backend: Mapping[str, object]
    settings_digest: str
    seed: int


@dataclass(frozen=True, slots=True)
class RuntimeView(View):
    """How a run is carried out; part of no digest."""

    FILE: ClassVar[str] = "runtime.json"

    backend: Options
    options: Options
    caps: Options
    prices: Options


def _build(annotation: object, value: object) -> object:
    """A dataclass tree from plain values, by the annotations of its fields."""
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        assert isinstance(value, Mapping)
        hints = typing.get_type_hints(annotation)
        return annotation(
            **{f.name: _build(hints[f.name], value[f.name]) for f in dataclasses.fields(annotation)}
        )
    args = typing.get_args(annotation)
    if value is not None and type(None) in args:
        return _build(next(a for a in args if a is not type(None)), value)
    return tuple(value) if isinstance(value, list) else value
