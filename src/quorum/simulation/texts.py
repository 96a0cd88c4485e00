"""Texts of made-up words, drawn by Zipf's law."""

from __future__ import annotations

import numpy as np

from quorum.digests import digest

_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


def drawn_text(seed: int, n_words: int, vocabulary: int) -> str:
    """A text of ``n_words`` words with single spaces; word r of the vocabulary weighs 1/r.

    Args:
        seed: Of the text.
        n_words: Its length.
        vocabulary: Number of distinct words to draw from.
    """
    rng = np.random.default_rng(int(digest(["drawn text", seed])[:16], 16))
    weights = 1.0 / np.arange(1, vocabulary + 1)
    ranks = rng.choice(vocabulary, n_words, p=weights / weights.sum())
    return " ".join(word(int(rank)) for rank in ranks)


def word(rank: int) -> str:
    """The word of a rank, such as ``ban`` or ``bake``; another rank, another word."""
    syllables = len(_CONSONANTS) * len(_VOWELS)
    found, left = "", rank
    while True:
        left, syllable = divmod(left, syllables)
        found += _CONSONANTS[syllable // len(_VOWELS)] + _VOWELS[syllable % len(_VOWELS)]
        if left == 0:
            return found if len(found) > 2 else found + "n"  # a name of two letters is no word
