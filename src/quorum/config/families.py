"""Families of parts: from a name in the settings to an object.

Each family is one table of names to import strings, so that a stage imports only what it uses.
Parts from outside come in through entry points of the group ``quorum.<family>``; a name that
stands in the table already is an error.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from quorum.errors import SettingsError

_ATTRIBUTION = "quorum.attribution"
_RECONSTRUCTION = "quorum.reconstruction"

FAMILIES: dict[str, dict[str, str]] = {
    "partition": {
        "tokens": f"{_ATTRIBUTION}.partitioners:Tokens",
        "words": f"{_ATTRIBUTION}.partitioners:Words",
        "sentences": f"{_ATTRIBUTION}.partitioners:Sentences",
        "lines": f"{_ATTRIBUTION}.partitioners:Lines",
        "paragraphs": f"{_ATTRIBUTION}.partitioners:Paragraphs",
        "messages": f"{_ATTRIBUTION}.partitioners:Messages",
        "turns": f"{_ATTRIBUTION}.partitioners:Turns",
        "regex": f"{_ATTRIBUTION}.partitioners:Regex",
        "spans": f"{_ATTRIBUTION}.partitioners:Spans",
    },
    "absence": {
        "delete": f"{_ATTRIBUTION}.absence:Delete",
        "pad": f"{_ATTRIBUTION}.absence:Pad",
        "neutral": f"{_ATTRIBUTION}.absence:Neutral",
    },
    "estimator": {
        "exact": f"{_ATTRIBUTION}.estimators.exact:Exact",
        "mc": f"{_ATTRIBUTION}.estimators.mc:Mc",
        "complementary": f"{_ATTRIBUTION}.estimators.complementary:Complementary",
        "neyman_cc": f"{_ATTRIBUTION}.estimators.neyman_cc:NeymanCc",
        "regression": f"{_ATTRIBUTION}.estimators.regression:Regression",
        "shapiq": f"{_ATTRIBUTION}.estimators.shapiq_adapter:Shapiq",
    },
    "value": {
        "tfidf_cosine": f"{_ATTRIBUTION}.values.tfidf:TfidfCosine",
        "embedding_cosine": f"{_ATTRIBUTION}.values.embedding:EmbeddingCosine",
        "embedding_euclidean": f"{_ATTRIBUTION}.values.embedding:EmbeddingEuclidean",
        "logprob": f"{_ATTRIBUTION}.values.logprob:LogProb",
        "exact_match": f"{_ATTRIBUTION}.values.exact_match:ExactMatch",
        "chrf": f"{_ATTRIBUTION}.values.chrf:Chrf",
        "word_weights": f"{_ATTRIBUTION}.values.word_weights:WordWeights",
    },
    "normaliser": {
        "identity": f"{_ATTRIBUTION}.normalisers:Identity",
        "abs_sum": f"{_ATTRIBUTION}.normalisers:AbsSum",
        "power_shift": f"{_ATTRIBUTION}.normalisers:PowerShift",
        "min_max": f"{_ATTRIBUTION}.normalisers:MinMax",
    },
    "elicitation": {
        "logprob": f"{_RECONSTRUCTION}.elicitation:Logprob",
        "choice": f"{_RECONSTRUCTION}.elicitation:Choice",
        "verbalised": f"{_RECONSTRUCTION}.elicitation:Verbalised",
    },
    "ensemble": {
        "lasso": f"{_RECONSTRUCTION}.ensembles.penalised:Lasso",
        "elastic_net": f"{_RECONSTRUCTION}.ensembles.penalised:ElasticNet",
        "ridge": f"{_RECONSTRUCTION}.ensembles.penalised:Ridge",
        "simple_average": f"{_RECONSTRUCTION}.ensembles.simple_average:SimpleAverage",
        "simplex": f"{_RECONSTRUCTION}.ensembles.simplex:Simplex",
    },
    "backend": {
        "anthropic": "quorum.backends.anthropic:Anthropic",
        "embedded": "quorum.backends.embedded:Embedded",
        "openai": "quorum.backends.openai:OpenAI",
        "panel": "quorum.backends.panel:Panel",
        "scripted": "quorum.backends.scripted:Scripted",
    },
}


def part_names(family: str) -> list[str]:
    """All names of a family, those from outside included, sorted.

    Raises:
        SettingsError: Two parts of one family bear the same name.
    """
    table = FAMILIES[family]
    outside = [point.name for point in _outside(family)]
    for name in outside:
        if name in table or outside.count(name) > 1:
            owners = [p.dist.name for p in _outside(family) if p.name == name and p.dist]
            owners += ["quorum"] if name in table else []
            raise SettingsError(
                family,
                f"two parts are named {name} (packages {', '.join(sorted(owners))})",
                mend="Uninstall one of them, or rename its entry point",
            )
    return sorted([*table, *outside])


def part_source(family: str, name: str) -> str:
    """Where a part comes from: its module, or ``package==version`` of one from outside."""
    if target := FAMILIES[family].get(name):
        return target.partition(":")[0]
    found = next(point for point in _outside(family) if point.name == name)
    return f"{found.dist.name}=={found.dist.version}" if found.dist else found.value


def part_class(family: str, name: str) -> type:
    """The class behind a name.

    Raises:
        SettingsError: No such part, or its import string leads to none.
    """
    target = FAMILIES[family].get(name)
    if target is None:
        found = [point for point in _outside(family) if point.name == name]
        if not found:
            names = part_names(family)
            raise SettingsError(
                family,
                "unknown name",
                got=name,
                allowed=", ".join(names),
                mend=nearest(name, names),
            )
        target = found[0].value
    module, _, attribute = target.partition(":")
    try:
        part = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            f"{family}={name}",
            f"the part cannot be loaded ({error})",
            mend="Check the package that registers it",
        ) from error
    if not isinstance(part, type) or not dataclasses.is_dataclass(part):
        raise SettingsError(
            f"{family}={name}",
            "is no dataclass",
            got=target,
            mend="A part is one: its fields are its options",
        )
    return part


def make(family: str, name: str, options: Mapping[str, object]) -> object:
    """A part with its options."""
    return part_class(family, name)(**options)


def option_fields(part: type) -> dict[str, dataclasses.Field[object]]:
    """The options of a part: the fields that its constructor takes."""
    fields = dataclasses.fields(part)
    return {f.name: f for f in fields if f.init and not f.name.startswith("_")}


def class_options(part: type, attribute: str) -> tuple[str, ...]:
    """A tuple of option names that a part's class declares; empty where it declares none."""
    return tuple(getattr(part, attribute, ()))


def nearest(name: str, names: list[str]) -> str:
    """``Did you mean X?`` where a name is near, else an empty text."""
    begins = [known for known in names if name and known.startswith(str(name))]
    close = get_close_matches(str(name), names, n=1, cutoff=0.6) or begins
    return f"Did you mean {close[0]}?" if close else ""


@cache
def _outside(family: str) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=f"quorum.{family}"))
