"""What the views of every study are made of: parts, files, the run's identity."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from quorum.config.compose import Settings
from quorum.config.families import class_options, option_fields, part_class
from quorum.config.schema import CAPS, STUDIES
from quorum.config.view import InputFile, Manifest, Part
from quorum.digests import digest

NO_RESULT = ("runtime", "report", "prices")  # groups that change how a run is carried out or shown
TOLD = ("name", "title", "licence", "attribution", "citation")  # of an input, in every output


def study_of(settings: Settings) -> str:
    """The chosen study's name."""
    return str(cast("Mapping[str, object]", settings["study"])["name"])


def input_file(root: Path, path: Path) -> InputFile:
    """A file with the digest of what it holds."""
    return InputFile(
        path.relative_to(root).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()
    )


def part_of(settings: Settings, family: str, keep: tuple[str, ...] | None = None) -> Part:
    """The chosen part of a family, with those of its options that are to be kept."""
    section = cast("Mapping[str, object]", settings[family])
    name = str(section["name"])
    part = part_class(family, name)
    runtime = class_options(part, "runtime_options")
    wanted = [key for key in option_fields(part) if key not in runtime]
    options = {key: section[key] for key in wanted if key in section}
    if keep is not None:
        options = {key: value for key, value in options.items() if key in keep}
    return Part(family, name, options)


def backend_part(settings: Settings) -> Part:
    """The backend with its model: the ``model`` knob wins over the backend's own default."""
    part = part_of(settings, "backend")
    model = settings["model"]
    if model is None:
        return part
    return Part("backend", part.name, {**part.options, "model": model})


def manifest(settings: Settings) -> Manifest:
    """What a result rests on."""
    backend = backend_part(settings)
    source = cast("Mapping[str, object]", settings["input"])
    return Manifest(
        input={key: str(source[key]) for key in TOLD},
        backend={"name": backend.name, "options": dict(backend.options)},
        settings_digest=settings_digest(settings),
        seed=cast("int", settings["seed"]),
    )


def caps_of(settings: Settings) -> dict[str, object]:
    """What a run may take at most, and what happens where that is reached."""
    section = cast("Mapping[str, object]", settings["budget"])
    return {key: section[key] for key in CAPS}


def prices_of(settings: Settings) -> Mapping[str, object]:
    """Where prices are looked up."""
    return cast("Mapping[str, object]", settings["prices"])


def partial_caps(settings: Settings) -> dict[str, object] | None:
    """The caps where a run may end at one with what it has; None where that is an error."""
    section = cast("Mapping[str, object]", settings["budget"])
    if section["on_cap"] != "partial":
        return None
    return {key: section[key] for key in ("max_usd", "max_calls", "max_tokens")}


def resolved(settings: Settings) -> dict[str, object]:
    """All settings but those that change no result: how a run is carried out."""
    names = STUDIES[study_of(settings)]
    kept: dict[str, object] = {
        k: _without_caps(k, settings[k]) for k in sorted(names) if k != "runtime"
    }
    if "backend" not in names:
        return kept
    backend = cast("Mapping[str, object]", settings["backend"])
    runtime = class_options(part_class("backend", str(backend["name"])), "runtime_options")
    kept["backend"] = {key: value for key, value in backend.items() if key not in runtime}
    return kept


def _without_caps(group: str, value: object) -> object:
    """A group without what a run may spend at most: raising a cap goes on with the same run."""
    if group != "budget":
        return value
    section = cast("Mapping[str, object]", value)
    return {key: item for key, item in section.items() if key not in CAPS}


def settings_digest(settings: Settings) -> str:
    """SHA-256 over the settings that can change a result."""
    names = STUDIES[study_of(settings)]
    kept: dict[str, object] = {
        k: _without_caps(k, settings[k]) for k in names if k not in NO_RESULT
    }
    if "backend" not in names:
        return digest(kept)
    backend = backend_part(settings)
    kept["backend"] = {"name": backend.name, **backend.options}
    kept.pop("model")  # it stands in the backend's options
    return digest(kept)
