"""Do the chosen inputs and the settings go together: checked before anything is paid for."""

from __future__ import annotations

from pathlib import Path

from quorum.config.compose import Settings
from quorum.config.parts import prices_of, study_of
from quorum.config.prompts import check_prompts
from quorum.config.surveys import check_survey
from quorum.config.sweeps import check_sweep
from quorum.errors import SettingsError

_STUDIES = {
    "attribution": check_prompts,
    "reconstruction": check_survey,
    "simulation": check_sweep,
}


def check_inputs(root: Path, settings: Settings) -> None:
    """Reads the chosen files and refuses what a later stage could not use.

    Raises:
        SettingsError: A file lies outside data/ or is not there, or a setting does not fit it.
        InputError: A file cannot be read.
    """
    _STUDIES[study_of(settings)](root, settings)
    _check_prices(root, settings)


def _check_prices(root: Path, settings: Settings) -> None:
    file = prices_of(settings)["file"]
    if file is None:
        return
    if not str(file).startswith("data/prices/") or ".." in str(file):
        raise SettingsError(
            "prices.file", "must lie in the project's data folder", got=file, allowed="data/prices"
        )
    if not (root / str(file)).is_file():
        raise SettingsError("prices.file", "no such file", got=file)
