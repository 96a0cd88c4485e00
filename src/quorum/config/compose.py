"""From conf/ and params.yaml to one checked set of settings.

``params.yaml`` is an input: a text under a group's name chooses its option (``backend:
embedded``), a mapping changes single settings of it (``budget: {fraction: 0.2}``; ``use`` names
the option too), null inherits what conf/ says. Hydra composes, nothing is instantiated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import cast

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException
from yaml import YAMLError

from quorum.config.families import nearest, option_fields, part_class
from quorum.config.schema import GROUPS, LEAVES, JsonValue, Section, check
from quorum.errors import SettingsError

Settings = dict[str, Section | JsonValue]
INPUT_FOLDERS = ("data/prompts", "data/surveys")
# Settings that are merged a level deeper, parameter by parameter. Changes of such a group must
# name what they change: dvc exp run -S drops a name where a setting follows it.
MERGED = {"sweep": ("fixed", "grid")}


def compose(root: Path, params: Mapping[str, object] | None = None) -> Settings:
    """The settings of a project.

    Args:
        root: Folder that holds conf/ and params.yaml.
        params: Instead of params.yaml; as it would be read from there.

    Raises:
        SettingsError: A setting, an option or a file is unknown or wrong.
    """
    if params is None:
        params = read_params(root / "params.yaml")
    _refuse_references(params)
    choices, changes = _split(params)
    for group, choice in choices.items():
        _check_option(root, group, choice)
    conf = _read_conf(root)
    for where, text in conf.texts:
        _refuse_secrets(where, re.sub(r"(?m)(^|\s)#.*", "", text))
    composed = _compose_with_hydra(conf, tuple(sorted(choices.items())))
    _refuse_secrets("conf", str(composed))
    merged = _merge(composed, changes)
    try:
        plain = OmegaConf.to_container(merged, resolve=True, throw_on_missing=True)
    except MissingMandatoryValue as error:
        where = str(error.full_key)
        raise SettingsError(where, "must be given: conf/ leaves it open (???)") from error
    except OmegaConfBaseException as error:
        raise SettingsError(str(error.full_key or "conf"), _first_line(error)) from error
    settings = check(cast("dict[str, object]", plain))
    _cross_check(settings)
    return settings


def read_params(path: Path) -> dict[str, object]:
    """What params.yaml says, with numbers as OmegaConf reads them (``1e-3`` is a number)."""
    try:
        loaded = OmegaConf.create(_read_text(path, path.name) or "{}")
    except FileNotFoundError as error:
        raise SettingsError(
            path.name, "is missing", mend=f"Run: git checkout {path.name}"
        ) from error
    except (YAMLError, OmegaConfBaseException) as error:
        raise SettingsError(path.name, f"is not YAML ({_yaml_problem(error)})") from error
    if not isinstance(loaded, DictConfig):
        raise SettingsError(path.name, "must hold key: value, one a line", got=[*loaded])
    plain = OmegaConf.to_container(loaded, resolve=False)
    return {str(key): value for key, value in cast("dict[object, object]", plain).items()}


def read_value(text: str) -> object:
    """A value as it would be read from params.yaml.

    Raises:
        SettingsError: It is not YAML, or more than one value.
    """
    try:
        read = OmegaConf.create(f"value: {text}")
        plain = cast("dict[str, object]", OmegaConf.to_container(read, resolve=False))
    except (YAMLError, OmegaConfBaseException) as error:
        raise SettingsError("-S", "the value is not YAML", got=text) from error
    if set(plain) != {"value"}:
        raise SettingsError("-S", "is more than one value", got=text)
    return plain["value"]


def default_choice(root: Path, group: str) -> str | None:
    """The option that conf/config.yaml takes where nobody chooses; None where it names none."""
    defaults = OmegaConf.to_container(OmegaConf.load(root / "conf" / "config.yaml"))
    listed = cast("dict[str, list[object]]", defaults).get("defaults", [])
    named = {k: str(v) for entry in listed if isinstance(entry, dict) for k, v in entry.items()}
    return named.get(group)


def input_path(root: Path, path: str, where: str = "input.path") -> Path:
    """A file of the chosen data set.

    Raises:
        SettingsError: The file lies outside data/ or is not there.
    """
    if not path.startswith(tuple(f"{folder}/" for folder in INPUT_FOLDERS)) or ".." in path:
        raise SettingsError(
            where,
            "must lie in the project's data folder",
            got=path,
            allowed=" | ".join(INPUT_FOLDERS),
            mend="Copy it there: quorum validate FILE --write NAME does it",
        )
    full = root / path
    if not full.is_file():
        raise SettingsError(
            where,
            "no such file",
            got=path,
            mend="dvc exp run --temp and the queue see tracked files only: git add it, "
            "or quorum validate FILE --write NAME",
        )
    return full


def _split(params: Mapping[str, object]) -> tuple[dict[str, str], dict[str, object]]:
    choices: dict[str, str] = {}
    changes: dict[str, object] = {}
    names = [*GROUPS, *LEAVES]
    for key, value in params.items():
        if key not in names:
            raise SettingsError(
                key, "unknown setting", allowed=", ".join(names), mend=nearest(key, names)
            )
        if value is None:
            continue
        if key in LEAVES:
            changes[key] = value
        elif isinstance(value, str):
            choices[key] = value
        elif isinstance(value, Mapping):
            inner = {str(k): v for k, v in value.items() if v is not None}
            use = inner.pop("use", None)
            if use is not None:
                choices[key] = str(use)
            elif inner and (GROUPS[key][0] is not None or key in MERGED):
                raise SettingsError(
                    key,
                    "changes need the name of what they change",
                    got=inner,
                    allowed="{use: NAME, " + ", ".join(f"{k}: …" for k in inner) + "}",
                )
            changes[key] = inner
        else:
            raise SettingsError(
                key,
                "must name an option or hold settings",
                got=value,
                allowed="a name, or a group of key: value",
            )
    return choices, changes


def _check_option(root: Path, group: str, choice: str) -> None:
    options = sorted(path.stem for path in (root / "conf" / group).glob("*.yaml"))
    if choice not in options:
        raise SettingsError(
            group,
            "unknown option",
            got=choice,
            allowed=", ".join(options),
            mend=nearest(choice, options) or f"New options are files: conf/{group}/NAME.yaml",
        )


@dataclass(frozen=True, slots=True)
class _Conf:
    """conf/ as it stands: two folders with the same texts are the same."""

    root: Path = field(compare=False)
    texts: tuple[tuple[str, str], ...]  # path from the project's folder, and what stands there


def _read_conf(root: Path) -> _Conf:
    names = [(p, p.relative_to(root).as_posix()) for p in sorted((root / "conf").rglob("*.yaml"))]
    return _Conf(root, tuple((where, _read_text(path, where)) for path, where in names))


@lru_cache(maxsize=256)  # settings are composed by the hundred to find out what a change reaches
def _compose_with_hydra(conf: _Conf, choices: tuple[tuple[str, str], ...]) -> dict[str, object]:
    """What Hydra makes of conf/ and the chosen options; to be read only."""
    folder = conf.root / "conf"
    if not (folder / "config.yaml").is_file():
        raise SettingsError("conf/config.yaml", "is missing", mend="Run: git checkout conf")
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(folder.resolve()), version_base="1.3"):
            composed = hydra_compose("config", overrides=[f"{k}={v}" for k, v in choices])
    except YAMLError as error:
        raise SettingsError("conf", f"is not YAML ({_yaml_problem(error)})") from error
    except (HydraException, OmegaConfBaseException) as error:
        raise SettingsError("conf", f"cannot be composed ({_first_line(error)})") from error
    return cast("dict[str, object]", OmegaConf.to_container(composed, resolve=False))


def _merge(composed: Mapping[str, object], changes: Mapping[str, object]) -> DictConfig:
    plain = dict(composed)
    for key, value in changes.items():
        section = plain.get(key)
        if isinstance(value, Mapping) and isinstance(section, dict):
            plain[key] = {**section, **value}  # lists are replaced, not merged
            for inner in MERGED.get(key, ()):
                old, new = section.get(inner), value.get(inner)
                if isinstance(old, dict) and isinstance(new, Mapping):
                    plain[key] = {**cast("dict[str, object]", plain[key]), inner: {**old, **new}}
        else:
            plain[key] = value
    return OmegaConf.create(plain)


def _refuse_references(params: Mapping[str, object]) -> None:
    for key, value in params.items():
        if "${" in str(value):
            raise SettingsError(
                key,
                "must not hold ${…}: dvc exp run -S would replace it by its value",
                mend="Write the value, or put the reference into conf/",
            )


def _refuse_secrets(where: str, text: str) -> None:
    """Nothing in conf/ may fetch a value from elsewhere, or say what is to be called."""
    found = re.search(r"\$\{[^}]*?(:|\$\{)[^}]*\}*", text)
    if found:
        raise SettingsError(
            where,
            f"{found.group(0)} would write a secret into files and git",
            mend="Settings name the environment variable that holds a key, never its value",
        )
    if "_target_" in text:
        raise SettingsError(
            where,
            "_target_ is not used here",
            mend="Parts are chosen by name; see docs/add-a-part.md",
        )


def _read_text(path: Path, where: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(
            where,
            f"is not UTF-8: byte 0x{error.object[error.start]:02x} at byte offset {error.start}",
            mend="Save it as UTF-8",
        ) from error


def _check_study(settings: Settings) -> None:
    """The input is of the kind that the study reads, and the backend can answer it."""
    study = str(cast("Section", settings["study"])["name"])
    if study == "simulation":  # its worlds are drawn; nobody is asked
        return
    wanted = {"attribution": "prompts", "reconstruction": "survey"}[study]
    chosen = cast("Section", settings["input"])
    if chosen["kind"] != wanted:
        other = next(s for s in ("attribution", "reconstruction") if s != study)
        raise SettingsError(
            "input",
            f"study={study} reads {'a survey' if wanted == 'survey' else wanted}, not this",
            got=chosen["name"],
            allowed=f"an input of kind {wanted}",
            mend=f"-S study={other}, or another input",
        )
    backend = cast("Section", settings["backend"])
    if study == "attribution" and hasattr(part_class("backend", str(backend["name"])), "seat"):
        raise SettingsError(
            "backend",
            "people of a table answer surveys and no other prompt",
            got=backend["name"],
            allowed="with study=reconstruction",
            mend="-S study=reconstruction",
        )


def _cross_check(settings: Settings) -> None:
    _check_study(settings)
    generation = cast("dict[str, float]", settings["generation"])
    if generation["temperature"] == 0 and generation["samples"] > 1:
        raise SettingsError(
            "generation.samples",
            "repeats at temperature 0 are the same reply paid again",
            got=generation["samples"],
            allowed="1 at temperature 0",
            mend="Set generation.temperature above 0, or use generation.noise_repeats",
        )
    if settings["model"] is not None:
        _check_model(str(settings["model"]), cast("Section", settings["backend"]))
    estimator = cast("dict[str, object]", settings["estimator"])
    budget = cast("dict[str, object]", settings["budget"])
    if estimator["name"] == "exact" and budget["calls_per_player"] is not None:
        raise SettingsError(
            "budget.calls_per_player",
            "exact needs every coalition",
            got=budget["calls_per_player"],
            allowed="null with estimator=exact",
        )


def _check_model(model: str, section: Section) -> None:
    part = part_class("backend", str(section["name"]))
    fields = option_fields(part)
    if "model" not in fields:
        raise SettingsError(
            "model", f"backend={section['name']} has none to choose", got=model, allowed="null"
        )
    options = {key: value for key, value in section.items() if key in fields}
    part(**{**options, "model": model})  # it refuses a model that it does not know


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _yaml_problem(error: BaseException) -> str:
    """What a YAML reader complains about, and where."""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return _first_line(error)
    file = f"{Path(mark.name).name}, " if mark.name.endswith(".yaml") else ""
    place = f"{file}line {mark.line + 1}, column {mark.column + 1}"
    return f"{place}: {getattr(error, 'problem', None) or 'cannot be read'}"
