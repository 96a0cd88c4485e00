"""When two texts are the same answer: Unicode form, case, quotes and spaces do not count."""

from __future__ import annotations

import unicodedata

_PLAIN = str.maketrans(
    {
        **dict.fromkeys("‘’‛′ʼ`´", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", None),
    }
)


def normalised(text: str) -> str:
    """The text in NFKC, case-folded, with plain quotes and dashes and single spaces.

    Accents, slashes and full stops count: ``NA`` and ``N/A`` stay two texts.
    """
    if not text.isascii():
        # Before NFKC, which would turn ´ into a space and an accent.
        text = unicodedata.normalize("NFKC", text.translate(_PLAIN)).translate(_PLAIN)
    return " ".join(text.casefold().split())
