"""What settings there are: names, types, ranges; and the one line that says what is wrong.

Defaults stand in ``conf/`` and nowhere else; a class here says what is allowed.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, cast

from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MinLen, MultipleOf
from pydantic import TypeAdapter, ValidationError

from quorum.config.families import class_options, nearest, option_fields, part_class, part_names
from quorum.errors import Bare, SettingsError
from quorum.runtime.options import RuntimeOptions


@dataclass(frozen=True, slots=True)
class Study:
    """Which question is asked."""

    name: Literal["attribution", "reconstruction", "simulation"]


@dataclass(frozen=True, slots=True)
class Input:
    """A data set: where it lies, what it is, and on what terms it may be used."""

    name: Annotated[str, MinLen(1)]
    path: Annotated[str, MinLen(1)]
    kind: Literal["prompts", "survey"]
    title: str
    licence: Annotated[str, MinLen(1)]
    attribution: str
    citation: str


@dataclass(frozen=True, slots=True)
class SurveyInput(Input):
    """A survey: shares of a population, where there are any of its groups and of refusals too."""

    groups: Annotated[str, MinLen(1)] | None
    refused: Annotated[str, MinLen(1)] | None
    population: str
    field_dates: str
    mode: str
    encoding: Annotated[str, MinLen(1)]
    less_than: Literal["error", "half"]
    asterisk: Literal["error", "missing", "half"]
    blank: Literal["error", "missing"]
    refusals: Literal["option", "drop"]
    multi_select: Literal["error", "skip"]
    duplicates: Literal["error", "keep_one"]


@dataclass(frozen=True, slots=True)
class Split:
    """Which questions are asked, and which of them are held out."""

    by: Literal["block", "question"]
    train_share: Annotated[float, Interval(gt=0, lt=1)]
    exclude: tuple[str, ...]
    max_questions: Annotated[int, Ge(2)] | None
    test: Literal["open", "sealed"]


@dataclass(frozen=True, slots=True)
class Targets:
    """Whose shares are rebuilt: ``population``, a grouping, or one group (``party=Democrat``)."""

    groups: Annotated[tuple[str, ...], MinLen(1)]


@dataclass(frozen=True, slots=True)
class BankRules:
    """Attributes that personas are drawn from."""

    name: Annotated[str, MinLen(1)]
    attributes: Annotated[tuple[Mapping[str, object], ...], MinLen(1)]


Mode = Literal["core", "thematic", "theoretical", "survey", "question", "mixed"]


@dataclass(frozen=True, slots=True)
class Pool:
    """How personas are made: how many, in which modes, and when it is enough."""

    size: Annotated[int, Interval(ge=1, le=100_000)]
    modes: Annotated[tuple[Mode, ...], MinLen(1)]
    attributes: Annotated[int, Interval(ge=1, le=20)]
    burn_in: Annotated[int, Ge(1)]
    round_size: Annotated[int, Ge(1)]
    exploration: Annotated[float, Interval(ge=0, le=1)]
    temperature: Annotated[float, Gt(0)]
    shrinkage: Annotated[float, Ge(0)]
    learn_every: Annotated[int, Ge(0)]
    learn_questions: Annotated[int, Ge(1)]
    plateau_rounds: Annotated[int, Ge(0)]
    plateau_tolerance: Annotated[float, Ge(0)]
    max_requests: Annotated[int, Ge(1)] | None


@dataclass(frozen=True, slots=True)
class ElicitationRules:
    """Who is asked the test questions: everybody, or those whom a first fit gives weight."""

    elicit_test: Literal["all", "active_only"]


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What becomes of an answer that is missing."""

    name: Literal["impute_pool", "drop_respondent", "drop_question", "refusal_as_option", "strict"]


Policy = Literal["raw", "clip", "renormalise", "project", "anchor", "strict", "drop"]


@dataclass(frozen=True, slots=True)
class EnsembleRules:
    """How weighted sums become shares, and the shares that ``anchors: [file]`` draws towards."""

    policies: Annotated[tuple[Policy, ...], MinLen(1)]
    anchor_file: Annotated[str, MinLen(1)] | None


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """What may be absent, and how many players a prompt may have."""

    roles: Annotated[tuple[Literal["system", "user", "assistant"], ...], MinLen(1)]
    max_players: Annotated[int, Interval(ge=1, le=5000)]
    overflow: Literal["error", "coarsen", "skip"]


@dataclass(frozen=True, slots=True)
class ValueRules:
    """Against which text generations are scored."""

    reference: Literal["base", "target"]


@dataclass(frozen=True, slots=True)
class GenerationRules:
    """How replies are drawn."""

    max_tokens: Annotated[int, Interval(ge=1, le=32768)]
    temperature: Annotated[float, Interval(ge=0, le=2)]
    samples: Annotated[int, Interval(ge=1, le=1000)]
    noise_repeats: Annotated[int, Interval(ge=0, le=1000)]


@dataclass(frozen=True, slots=True)
class Budget:
    """What one is willing to spend: coalitions a prompt, and hard caps on what a run takes."""

    fraction: Annotated[float, Interval(gt=0, le=1)]
    max_coalitions: Annotated[int, Interval(ge=2, le=10_000_000)]
    calls_per_player: Annotated[int, Interval(ge=2, le=100_000)] | None
    max_usd: Annotated[float, Interval(gt=0, le=1e9)] | Literal["none"] | None
    max_calls: Annotated[int, Ge(1)] | None
    max_tokens: Annotated[int, Ge(1)] | None
    account: Annotated[str, MinLen(1)] | None
    on_cap: Literal["fail", "partial"]
    pilot: Annotated[int, Ge(0)]


CAPS = ("max_usd", "max_calls", "max_tokens", "account", "on_cap", "pilot")  # change no result


@dataclass(frozen=True, slots=True)
class PriceRules:
    """Where the price of a model is looked up."""

    file: Annotated[str, MinLen(1)] | None
    genai_prices: bool
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Sweep:
    """Simulations of one kind: what is fixed, what varies, how often each is repeated.

    A parameter of the grid needs no fixed value; null takes one out of the grid.
    """

    name: Annotated[str, MinLen(1)]
    kind: Literal["survey", "attribution"]
    replicates: Annotated[int, Interval(ge=1, le=10_000)]
    fixed: Mapping[str, object]
    grid: Mapping[str, Sequence[object] | None]


@dataclass(frozen=True, slots=True)
class Report:
    """How results are shown."""

    level: Annotated[float, Interval(gt=0, lt=1)]


# group in conf/ → (family of parts or None, rules that every option of the group has)
GROUPS: dict[str, tuple[str | None, type | None]] = {
    "study": (None, Study),
    "input": (None, Input),
    "partition": ("partition", PartitionRules),
    "absence": ("absence", None),
    "estimator": ("estimator", None),
    "value": ("value", ValueRules),
    "normaliser": ("normaliser", None),
    "generation": (None, GenerationRules),
    "budget": (None, Budget),
    "split": (None, Split),
    "target": (None, Targets),
    "bank": (None, BankRules),
    "pool": (None, Pool),
    "elicitation": ("elicitation", ElicitationRules),
    "cleaning": (None, Cleaning),
    "ensemble": ("ensemble", EnsembleRules),
    "backend": ("backend", None),
    "sweep": (None, Sweep),
    "prices": (None, PriceRules),
    "runtime": (None, RuntimeOptions),
    "report": (None, Report),
}
_SHARED = ("study", "input", "backend", "runtime", "report", "seed", "model")
# the settings that a study rests on; the others cannot touch its results
STUDIES: dict[str, tuple[str, ...]] = {
    "attribution": (
        *_SHARED,
        *("partition", "absence", "estimator", "value", "normaliser", "generation", "budget"),
    ),
    "reconstruction": (
        *_SHARED,
        *("split", "target", "bank", "pool", "elicitation", "cleaning", "ensemble"),
    ),
    # no input and no backend: its worlds are drawn from seeds
    "simulation": ("study", "sweep", "runtime", "report", "seed"),
}
LEAVES: dict[str, object] = {
    "seed": Annotated[int, Interval(ge=0, le=2**31 - 1)],
    "model": Annotated[str, MinLen(1)] | None,
}

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
Section = dict[str, JsonValue]


def check(settings: Mapping[str, object]) -> dict[str, Section | JsonValue]:
    """The settings with every value in its canonical form (1 becomes 1.0 where a number is meant).

    Raises:
        SettingsError: A key is unknown or missing, a value out of range, a pair incompatible.
    """
    names = [*GROUPS, *LEAVES]
    for key in settings:
        if key not in names:
            raise SettingsError(
                str(key),
                "unknown setting",
                allowed=", ".join(names),
                mend=nearest(str(key), names),
            )
    out: dict[str, Section | JsonValue] = {}
    for key, annotation in LEAVES.items():
        out[key] = check_value(key, annotation, settings.get(key))
    for group, (family, rules) in GROUPS.items():
        section = settings.get(group)
        if not isinstance(section, Mapping):
            raise SettingsError(group, "must be a group of settings", got=section)
        is_survey = group == "input" and section.get("kind") == "survey"
        chosen = SurveyInput if is_survey else rules
        out[group] = _check_section(group, family, chosen, section)
    return out


def _check_section(
    group: str, family: str | None, rules: type | None, section: Mapping[str, object]
) -> Section:
    annotations = dict(typing.get_type_hints(rules, include_extras=True)) if rules else {}
    part: type | None = None
    optional: set[str] = set()
    if family is not None:
        name = section.get("name")
        if name is None:
            raise SettingsError(
                f"{group}.name", "is missing", allowed=", ".join(part_names(family))
            )
        if not isinstance(name, str) or name not in part_names(family):
            raise SettingsError(
                group,
                "unknown name",
                got=name,
                allowed=", ".join(part_names(family)),
                mend=nearest(str(name), part_names(family)),
            )
        part = part_class(family, name)
        _check_estimand(group, name, part, section)
        hints = typing.get_type_hints(part, include_extras=True)
        fields = option_fields(part)
        annotations |= {key: hints[key] for key in fields} | {"name": str}
        optional = set(fields)
    for key in section:
        if key not in annotations:
            raise SettingsError(
                f"{group}.{key}",
                f"unknown setting of {group}={section.get('name', '')}".rstrip("="),
                allowed=", ".join(sorted(annotations)),
                mend=nearest(str(key), list(annotations)),
            )
    out: Section = {}
    for key, annotation in annotations.items():
        if key in section:
            out[key] = check_value(f"{group}.{key}", annotation, section[key])
        elif key not in optional:
            raise SettingsError(f"{group}.{key}", "is missing", allowed=describe(annotation))
    if part is not None:
        _check_part(group, part, {k: v for k, v in out.items() if k in optional})
    return out


def check_options(where: str, part: type, options: Mapping[str, object]) -> Section:
    """A part's options in their canonical form; for options that stand outside the settings.

    Raises:
        SettingsError: One is unknown, missing or wrong.
    """
    hints = typing.get_type_hints(part, include_extras=True)
    fields = option_fields(part)
    for key in options:
        if key not in fields:
            raise SettingsError(
                f"{where}.{key}",
                "unknown option",
                allowed=", ".join(fields) or "none",
                mend=nearest(key, list(fields)),
            )
    out = {key: check_value(f"{where}.{key}", hints[key], options[key]) for key in options}
    _check_part(where, part, out)
    return out


def _check_part(group: str, part: type, options: Section) -> None:
    try:
        made = part(**options)
    except TypeError as error:
        missing = [k for k in option_fields(part) if k not in options and f"'{k}'" in str(error)]
        where = f"{group}.{missing[0]}" if missing else group
        raise SettingsError(where, "is missing" if missing else str(error)) from error
    check_ready = getattr(made, "check_ready", None)
    if check_ready is not None:
        check_ready()


def _check_estimand(group: str, name: str, part: type, section: Mapping[str, object]) -> None:
    estimands = class_options(part, "estimands")
    estimand = section.get("estimand")
    if isinstance(estimand, str) and estimands and estimand not in estimands:
        raise SettingsError(
            f"{group}.estimand",
            f"{name} does not compute it",
            got=estimand,
            allowed=" | ".join(estimands),
            mend=nearest(estimand, list(estimands)) or "Choose another estimator",
        )


def check_value(where: str, annotation: object, value: object) -> JsonValue:
    """A value in its canonical form.

    Raises:
        SettingsError: The value's type or range is wrong.
    """
    adapter: TypeAdapter[object] = TypeAdapter(cast("type", annotation))
    try:
        text = json.dumps(_canonical(annotation, value), allow_nan=False)
    except (TypeError, ValueError) as error:
        what = "must be finite" if isinstance(error, ValueError) else "must be a plain value"
        raise SettingsError(where, what, got=value, allowed=describe(annotation)) from error
    try:
        checked = adapter.validate_json(text, strict=True)
    except ValidationError as error:
        raise SettingsError(
            where,
            "wrong value",
            got=value if value is not None else Bare("null"),
            allowed=describe(annotation),
            mend=_literal_mend(annotation, value),
        ) from error
    plain: JsonValue = adapter.dump_python(checked, mode="json")
    return plain


def _canonical(annotation: object, value: object) -> object:
    """A whole number as int (1, 1.0 and 1e0 are one value); YAML's ``off`` where it is a choice."""
    if isinstance(value, bool) and typing.get_origin(annotation) is Literal:
        word = "on" if value else "off"
        return word if word in typing.get_args(annotation) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _literal_mend(annotation: object, value: object) -> str:
    if typing.get_origin(annotation) is Literal and isinstance(value, str):
        return nearest(value, [str(a) for a in typing.get_args(annotation)])
    return ""


_PLAIN = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    bool: "true | false",
    types.NoneType: "null",
}


_PLURAL = {int: "whole numbers", float: "numbers", str: "texts"}


def describe(annotation: object) -> str:
    """What an annotation allows, in words: ``a number > 0 and <= 1``, ``a | b``."""
    if isinstance(annotation, type) and annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        limits = [text for meta in args[1:] for text in _limits(meta)]
        return " ".join([describe(args[0]), " and ".join(limits)]).strip()
    if origin is Literal:
        return " | ".join(str(a) for a in args)
    if origin in (typing.Union, types.UnionType):
        return ", or ".join(describe(a) for a in args)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"a group of key: value, each value {describe(args[1])}"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        inner = typing.get_origin(args[0])
        if isinstance(inner, type) and issubclass(inner, Mapping):
            return "a list of groups of key: value"
        return f"a list of {_PLURAL.get(args[0]) or describe(args[0])}"
    return "a value"


def _limits(meta: object) -> list[str]:
    if isinstance(meta, Len) and (meta.min_length, meta.max_length) == (1, 1):
        return ["of one character"]
    if isinstance(meta, MultipleOf):
        return [f"a multiple of {meta.multiple_of}"]
    if isinstance(meta, MinLen):
        return ["(not empty)"]
    signs = (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))
    if isinstance(meta, Interval | Gt | Ge | Lt | Le):
        found = [(sign, getattr(meta, name, None)) for name, sign in signs]
        return [f"{sign} {limit:,}" for sign, limit in found if limit is not None]
    return []
