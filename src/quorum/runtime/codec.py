"""How a reply and a request stand in a row of the store: canonical JSON, long ones compressed."""

from __future__ import annotations

import hashlib
import json
import zlib

from quorum.digests import canonical_json
from quorum.errors import BackendError
from quorum.records import Generation, Usage

_COMPRESS_FROM = 1024  # bytes; shorter requests gain little from zlib


def pack_generation(generation: Generation) -> bytes:
    """Canonical JSON of a reply in UTF-8.

    Raises:
        BackendError: A log-likelihood or probability is NaN or infinite.
    """
    fields = {
        "text": generation.text,
        "finish_reason": generation.finish_reason,
        "usage": _packed_usage(generation.usage),
        "token_logprobs": generation.token_logprobs,
        "choice_probs": generation.choice_probs,
        "choice_mass": generation.choice_mass,
        "model_version": generation.model_version,
        "seconds": generation.seconds,
    }
    if generation.choice_bound is not None:  # left out: such rows stay what older versions wrote
        fields["choice_bound"] = generation.choice_bound
    try:
        return canonical_json(fields).encode("utf-8", "surrogatepass")
    except ValueError as error:
        raise BackendError("reply", f"holds a number that is not finite: {error}") from error


def _packed_usage(usage: Usage) -> dict[str, int]:
    fields = {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    if usage.cache_write_tokens:  # left out at 0: such rows stay what older versions wrote
        fields["cache_write_tokens"] = usage.cache_write_tokens
    return fields


def unpack_generation(packed: bytes) -> Generation:
    """The reply that ``pack_generation`` packed, bit for bit."""
    fields = json.loads(packed.decode("utf-8", "surrogatepass"))
    for name in ("token_logprobs", "choice_probs"):
        if fields[name] is not None:
            fields[name] = tuple(fields[name])
    fields["usage"] = Usage(**fields["usage"])
    return Generation(**fields)


def pack_request(canonical: str) -> bytes:
    """Canonical JSON of a request in UTF-8; from 1 KiB on compressed with zlib."""
    raw = canonical.encode("utf-8", "surrogatepass")
    return raw if len(raw) < _COMPRESS_FROM else zlib.compress(raw, 1)


def unpack_request(packed: bytes) -> str:
    """The canonical JSON that ``pack_request`` packed."""
    raw = packed if packed.startswith(b"{") else zlib.decompress(packed)
    return raw.decode("utf-8", "surrogatepass")


def row_digest(key: bytes, request: bytes, generation: bytes) -> bytes:
    """SHA-256 (32 bytes) over a row; the request's length keeps the two texts apart."""
    return hashlib.sha256(b"%b%d:%b%b" % (key, len(request), request, generation)).digest()
