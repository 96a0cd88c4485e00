"""The record of a run: identity, sources with digests, policies, versions; and its settings."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import quorum
from quorum.config.view import Manifest
from quorum.pipeline import artifacts

PACKAGES = ("numpy", "scipy", "scikit-learn", "dvc", "hydra-core", "xllamacpp")


def write_record(
    folder: Path, record: Mapping[str, object], manifest: Manifest, resolved: Mapping[str, object]
) -> None:
    """Writes run.json and config.resolved.yaml.

    Args:
        folder: The log of ``aggregate``.
        record: What the study tells about the run.
        manifest: What every result rests on.
        resolved: All settings of the study but those of how it was carried out.
    """
    whole = {
        "settings_digest": manifest.settings_digest,
        "input": dict(manifest.input),
        "seed": manifest.seed,
        "versions": {
            "quorum": quorum.__version__,
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **record,
    }
    artifacts.write_text(folder / "run.json", artifacts.json_text(whole))
    artifacts.write_text(folder / "config.resolved.yaml", yaml_text(resolved))


def yaml_text(value: Mapping[str, object]) -> str:
    """Plain YAML with sorted keys."""
    import yaml

    return yaml.safe_dump(_plain(value), sort_keys=True, allow_unicode=True)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
