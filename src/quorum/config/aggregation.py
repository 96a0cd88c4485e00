"""What an aggregation across runs is to do: its file, checked before any run is opened."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

from annotated_types import Interval, MinLen
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from quorum.config.families import nearest
from quorum.config.schema import check_value
from quorum.errors import Bare, SettingsError

Scalar = str | bool | int | float | None
Statistic = Literal["n", "n_runs", "mean", "sd", "se", "median", "min", "max", "ci"]
Allowance = Literal["mixed_units", "mixed_policies", "mixed_coverage", "mixed_studies"]
Format = Literal["csv", "md", "tex", "html"]

# what tells the metric records of one run apart, besides the metric's name
RECORD_KEYS = ("snapshot", "group", "split", "source", "unit", "policy", "cell")
# what may differ inside a cell only where `allow` says so
GOVERNED: dict[str, Allowance] = {
    "unit": "mixed_units",
    "policy": "mixed_policies",
    "coverage": "mixed_coverage",
    "study": "mixed_studies",
}
_KEY = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)*")


@dataclass(frozen=True, slots=True)
class Input:
    """A source of runs.

    Args:
        kind: ``run`` (a name), ``pattern`` (of experiments' names) or ``folders`` (a pattern).
        text: The name or the pattern.
        revision: The commit that is opened instead of the name; None: as named.
        run_id: The id that the run must have; None: any.
    """

    kind: Literal["run", "pattern", "folders"]
    text: str
    revision: str | None = None
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class Metric:
    """Which metric records: a name, and what else they must have; the label heads columns."""

    name: str
    label: str
    where: Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Contrast:
    """Paired differences, first minus second, of a metric between two values of a key."""

    metric: Metric
    key: str
    first: Scalar
    second: Scalar
    paired_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A checked specification.

    Args:
        title: Of the tables.
        inputs: Which runs.
        filters: Key to allowed values; what does not match is left out and counted.
        metrics: A group of columns each.
        group_by: A row for each combination of their values.
        across: Keys that may differ inside a cell: what a mean is over.
        statistics: Columns of each metric.
        level: Of the t intervals, between 0 and 1.
        contrasts: Rows of the second table.
        allow: What may be mixed inside a cell.
        formats: Of the tables.
        digits: Significant digits of the tables for readers.
    """

    title: str
    inputs: tuple[Input, ...]
    metrics: tuple[Metric, ...]
    filters: Mapping[str, tuple[Scalar, ...]]
    group_by: tuple[str, ...]
    across: tuple[str, ...]
    statistics: tuple[Statistic, ...]
    level: float
    contrasts: tuple[Contrast, ...]
    allow: tuple[Allowance, ...]
    formats: tuple[Format, ...]
    digits: int


DEFAULTS: dict[str, object] = {
    "title": None,  # the file's name
    "filters": {},
    "group_by": [],
    "across": [],
    "statistics": ["n", "mean", "sd"],
    "level": 0.9,
    "contrasts": [],
    "allow": [],
    "formats": ["csv", "md", "tex", "html"],
    "digits": 4,
}
_NAMES = [field.name for field in dataclasses.fields(Aggregation)]
_TEXT = Annotated[str, MinLen(1)]


def read_aggregation(path: Path) -> Aggregation:
    """The specification in a YAML file.

    Raises:
        SettingsError: The file is missing or not YAML, a key unknown, a value wrong.
    """
    return check_aggregation(path.name, path.stem, _read(path))


def check_aggregation(where: str, stem: str, given: Mapping[str, object]) -> Aggregation:
    """A specification with its defaults filled in.

    Args:
        where: The file, for errors.
        stem: The title where none is given.
        given: As it was read.
    """
    _known(where, given, _NAMES)
    for key in ("inputs", "metrics"):
        if not given.get(key):
            raise SettingsError(f"{where}: {key}", "is missing", allowed="a list (not empty)")
    whole = {**DEFAULTS, **given}

    def at(key: str) -> str:
        return f"{where}: {key}"

    title = whole["title"] if whole["title"] is not None else stem
    statistics = _choices(at("statistics"), Statistic, whole["statistics"])
    return Aggregation(
        title=_text(at("title"), title),
        inputs=tuple(_input(w, v) for w, v in _items(at("inputs"), whole["inputs"])),
        metrics=_metrics(at("metrics"), whole["metrics"]),
        filters=_filters(at("filters"), whole["filters"]),
        group_by=_keys(at("group_by"), whole["group_by"]),
        across=_across(at("across"), whole["across"]),
        statistics=cast("tuple[Statistic, ...]", _with_n(statistics)),
        level=cast(
            "float",
            check_value(at("level"), Annotated[float, Interval(ge=0.5, le=0.9999)], whole["level"]),
        ),
        contrasts=tuple(_contrast(w, v) for w, v in _items(at("contrasts"), whole["contrasts"])),
        allow=cast("tuple[Allowance, ...]", _choices(at("allow"), Allowance, whole["allow"])),
        formats=cast("tuple[Format, ...]", _choices(at("formats"), Format, whole["formats"])),
        digits=cast(
            "int", check_value(at("digits"), Annotated[int, Interval(ge=1, le=15)], whole["digits"])
        ),
    )


def plain(spec: Aggregation) -> dict[str, object]:
    """A specification as its file would say it, nothing left to defaults."""
    return {
        "title": spec.title,
        "inputs": [_plain_input(one) for one in spec.inputs],
        "metrics": [_plain_metric(metric) for metric in spec.metrics],
        "filters": {key: list(values) for key, values in spec.filters.items()},
        "contrasts": [
            {
                "metric": _plain_metric(contrast.metric),
                "between": {contrast.key: [contrast.first, contrast.second]},
                "paired_by": list(contrast.paired_by),
            }
            for contrast in spec.contrasts
        ],
        **{name: list(getattr(spec, name)) for name in _LISTS},
        "level": spec.level,
        "digits": spec.digits,
    }


_LISTS = ("group_by", "across", "statistics", "allow", "formats")


def _plain_input(one: Input) -> object:
    if one.kind == "folders":
        return {"glob": one.text}
    if one.revision is None and one.run_id is None:
        return one.text
    pinned = {"run": one.text, "revision": one.revision, "run_id": one.run_id}
    return {key: value for key, value in pinned.items() if value is not None}


def _plain_metric(metric: Metric) -> dict[str, object]:
    return {"name": metric.name, "label": metric.label, **metric.where}


def _read(path: Path) -> Mapping[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
        loaded = OmegaConf.to_container(OmegaConf.create(text or "{}"), resolve=False)
    except FileNotFoundError as error:
        raise SettingsError(
            str(path), "no such file", mend="docs/aggregation.md says what it holds"
        ) from error
    except OSError as error:
        raise SettingsError(str(path), f"cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise SettingsError(path.name, "is not UTF-8", mend="Save it as UTF-8") from error
    except (YAMLError, OmegaConfBaseException) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        what = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise SettingsError(path.name, f"is not YAML ({place}{what})") from error
    if not isinstance(loaded, dict):
        raise SettingsError(path.name, "must hold key: value, one a line")
    if "${" in text:
        raise SettingsError(path.name, "must not hold ${…}", mend="Write the value")
    return {str(key): value for key, value in loaded.items()}


def _known(where: str, given: Mapping[str, object], names: Sequence[str]) -> None:
    for key in given:
        if key not in names:
            raise SettingsError(
                f"{where}: {key}",
                "unknown key",
                allowed=", ".join(names),
                mend=nearest(str(key), list(names)),
            )


def _text(where: str, value: object) -> str:
    return cast("str", check_value(where, _TEXT, value))


def _items(where: str, value: object) -> list[tuple[str, object]]:
    if not isinstance(value, list):
        got = value if value is not None else Bare("null")
        raise SettingsError(where, "must be a list", got=got, allowed="[…]")
    return [(f"{where}[{index}]", item) for index, item in enumerate(value)]


def _group(where: str, value: object, allowed: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not value:
        got = value if value is not None else Bare("null")
        raise SettingsError(where, "wrong value", got=got, allowed=allowed)
    return {str(key): item for key, item in value.items()}


def _choices(where: str, annotation: object, value: object) -> tuple[str, ...]:
    found = [str(check_value(w, annotation, item)) for w, item in _items(where, value)]
    if len(set(found)) < len(found):
        raise SettingsError(where, "one stands twice", got=value)
    if not found and annotation is not Allowance:
        names = " | ".join(typing.get_args(annotation))
        raise SettingsError(where, "is empty", allowed=f"a list of {names}")
    return tuple(found)


def _with_n(statistics: Sequence[str]) -> tuple[str, ...]:
    """The number of values stands beside every statistic."""
    return tuple(statistics) if "n" in statistics else ("n", *statistics)


def _key(where: str, value: object) -> str:
    key = _text(where, value)
    if not _KEY.fullmatch(key):
        raise SettingsError(where, "is no key", got=key, allowed="names with dots: budget.fraction")
    return key


def _keys(where: str, value: object) -> tuple[str, ...]:
    keys = [_key(w, item) for w, item in _items(where, value)]
    if len(set(keys)) < len(keys):
        raise SettingsError(where, "one stands twice", got=value)
    return tuple(keys)


def _across(where: str, value: object) -> tuple[str, ...]:
    keys = _keys(where, value)
    for key in keys:
        if key in GOVERNED:
            raise SettingsError(
                where,
                f"{key} is never averaged over without a word",
                got=key,
                mend=f"Group by it, or put {GOVERNED[key]} into allow",
            )
    return keys


def _scalar(where: str, value: object) -> Scalar:
    return cast("Scalar", check_value(where, Scalar, value))


def _filters(where: str, value: object) -> dict[str, tuple[Scalar, ...]]:
    if value == {}:
        return {}
    found = {}
    for key, allowed in _group(where, value, "a group of key: value, or key: [value, …]").items():
        name = f"{where}.{_key(where, key)}"
        listed = allowed if isinstance(allowed, list) else [allowed]
        found[key] = tuple(_scalar(name, item) for item in listed)
        if not listed:
            raise SettingsError(name, "is empty", allowed="a value, or a list of values")
    return found


def _input(where: str, value: object) -> Input:
    if isinstance(value, str) and value:
        return Input("pattern" if set(value) & set("*?[") else "run", value)
    allowed = "a run's name, {glob: FOLDERS}, or {run: NAME, revision: COMMIT, run_id: ID}"
    given = _group(where, value, allowed)
    if "glob" in given:
        _known(where, given, ("glob",))
        return Input("folders", _text(f"{where}.glob", given["glob"]))
    _known(where, given, ("glob", "run", "revision", "run_id"))
    if "run" not in given:
        raise SettingsError(where, "names no run", allowed=allowed)
    texts = {key: _text(f"{where}.{key}", item) for key, item in given.items()}
    return Input("run", texts["run"], texts.get("revision"), texts.get("run_id"))


def _metrics(where: str, value: object) -> tuple[Metric, ...]:
    found = tuple(_metric(w, item) for w, item in _items(where, value))
    labels = [metric.label for metric in found]
    for label in labels:
        if labels.count(label) > 1:
            raise SettingsError(
                where, "two have the same label", got=label, mend="Give each a label of its own"
            )
    return found


def _metric(where: str, value: object) -> Metric:
    if isinstance(value, str) and value:
        return Metric(value, value, {})
    given = _group(where, value, "a metric's name, or {name: NAME, split: test, …}")
    _known(where, given, ("name", "label", *RECORD_KEYS))
    if "name" not in given:
        raise SettingsError(where, "has no name", allowed="{name: NAME, …}")
    name = _text(f"{where}.name", given["name"])
    chosen = {key: _scalar(f"{where}.{key}", given[key]) for key in RECORD_KEYS if key in given}
    told = " ".join(str(item) for item in chosen.values())
    label = given["label"] if "label" in given else f"{name} {told}".strip()
    return Metric(name, _text(f"{where}.label", label), chosen)


def _contrast(where: str, value: object) -> Contrast:
    allowed = "{metric: NAME, between: {KEY: [FIRST, SECOND]}, paired_by: [KEY, …]}"
    given = _group(where, value, allowed)
    names = ("metric", "between", "paired_by")
    _known(where, given, names)
    for name in names:
        if name not in given:
            raise SettingsError(f"{where}.{name}", "is missing", allowed=allowed)
    between = _group(f"{where}.between", given["between"], "{KEY: [FIRST, SECOND]}")
    (key, pair), *more = between.items()
    if more or not isinstance(pair, list) or len(pair) != 2:
        raise SettingsError(
            f"{where}.between", "wrong value", got=dict(between), allowed="{KEY: [FIRST, SECOND]}"
        )
    first, second = (_scalar(f"{where}.between.{key}", item) for item in pair)
    if first == second:
        raise SettingsError(f"{where}.between.{key}", "both sides are the same", got=first)
    paired_by = _keys(f"{where}.paired_by", given["paired_by"])
    if not paired_by or key in paired_by:
        raise SettingsError(
            f"{where}.paired_by",
            "says what the two sides have in common",
            got=list(paired_by),
            allowed=f"keys other than {key}, at least one",
        )
    metric = _metric(f"{where}.metric", given["metric"])
    return Contrast(metric, _key(f"{where}.between", key), first, second, paired_by)
