"""Settings of a command: the project it stands in, and ``-S KEY=VALUE``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, cast

from quorum.errors import SettingsError
from quorum.pipeline.experiments import nearest_project

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - no public name


def add_settings(parser: argparse.ArgumentParser) -> None:
    """Adds -S: settings of this call alone."""
    parser.add_argument(
        "-S",
        "--set",
        dest="changes",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting, as in dvc exp run -S (budget.fraction=0.5, estimator=exact)",
    )


def project_root() -> Path:
    """The project's folder: the nearest one upwards that holds conf/config.yaml.

    Raises:
        SettingsError: There is none.
    """
    found = nearest_project()
    if found is None:
        raise SettingsError(
            str(Path.cwd()),
            "is not in a Quorum project",
            mend="Change to the folder that holds conf/",
        )
    return found


def changed_params(root: Path, changes: Sequence[str]) -> dict[str, object]:
    """params.yaml with changes of the form ``key=value`` or ``group.key=value``.

    Raises:
        SettingsError: A change has no ``=``, or its value is not YAML.
    """
    from quorum.config.compose import default_choice, read_params, read_value
    from quorum.config.schema import GROUPS

    params = read_params(root / "params.yaml")
    for change in changes:
        key, equals, text = change.lstrip("+").partition("=")
        if not equals or not key:
            raise SettingsError("-S", "a change reads KEY=VALUE", got=change)
        group, dot, inner = key.partition(".")
        if not group or (dot and not inner):
            raise SettingsError("-S", "a change reads KEY=VALUE", got=change)
        value = read_value(text)
        if not inner:
            params[group] = value
            continue
        old = params.get(group)
        if old is None and GROUPS.get(group, (None, None))[0] is not None:
            old = default_choice(root, group)
        section = (
            {"use": old} if isinstance(old, str) else dict(cast("dict[str, object]", old or {}))
        )
        params[group] = {**section, inner: value}
    return params
