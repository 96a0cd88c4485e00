"""From checked settings to one view a stage: who needs to know what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from quorum.config import attribution_stages, reconstruction_stages, simulation_stages
from quorum.config.compose import Settings
from quorum.config.families import class_options, part_class
from quorum.config.parts import caps_of, prices_of, study_of
from quorum.config.schema import STUDIES
from quorum.config.view import RuntimeView, View

_STUDIES = {
    "attribution": attribution_stages.views,
    "reconstruction": reconstruction_stages.views,
    "simulation": simulation_stages.views,
}


def views(root: Path, settings: Settings) -> list[View]:
    """One view a stage.

    Raises:
        SettingsError: An input file cannot be used, or the parts do not go together.
    """
    return [*_STUDIES[study_of(settings)](root, settings), runtime_view(settings)]


def runtime_view(settings: Settings) -> RuntimeView:
    """How the run is carried out, with those options of the backend that change no answer."""
    backend = cast("Mapping[str, object]", settings["backend"])
    names: tuple[str, ...] = ()
    if "backend" in STUDIES[study_of(settings)]:
        names = class_options(part_class("backend", str(backend["name"])), "runtime_options")
    return RuntimeView(
        study=study_of(settings),
        backend={key: backend[key] for key in names if key in backend},
        options=cast("Mapping[str, object]", settings["runtime"]),
        caps=caps_of(settings),
        prices=prices_of(settings),
    )
