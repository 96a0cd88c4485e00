"""Canonical JSON and SHA-256: one text, hence one digest, for one value."""

from __future__ import annotations

import hashlib
import json


def canonical_json(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, UTF-8 kept.

    Raises:
        ValueError: A number is NaN or infinite; a lone surrogate cannot be encoded later on.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


def digest(value: object) -> str:
    """SHA-256 (64 hex digits) of the canonical JSON of a value."""
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()


def text_digest(text: str) -> str:
    """SHA-256 (64 hex digits) of a text in UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
