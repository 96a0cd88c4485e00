"""Embedding similarity: how close a reply's vector is to the reference's."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from quorum.attribution.values.base import FloatArray, Reply, by_text
from quorum.errors import MissingExtraError, SettingsError

Embedder = Callable[[list[str]], FloatArray]

EMBEDDERS = {
    "wordllama": "quorum.attribution.values.embedding:wordllama",
    "char_ngrams": "quorum.attribution.values.embedding:char_ngrams",
}


@dataclass(frozen=True, slots=True)
class _Embedding:
    """What both have in common: the embedder, and a check of it before anything is paid for."""

    needs: ClassVar[Literal["text", "continuation"]] = "text"
    embedder: str = "wordllama"

    def check_ready(self) -> None:
        """Refuses an embedder that cannot be used, before anything is paid for.

        Raises:
            SettingsError: It cannot be found, or its package is not installed.
        """
        check_embedder(self.embedder)


@dataclass(frozen=True, slots=True)
class EmbeddingCosine(_Embedding):
    """Cosine of the two texts' vectors, −1 to 1; 1 exactly for the reference text.

    Two blank texts score 1, one of them 0; a blank text is never embedded.

    Args:
        embedder: ``wordllama`` (sentence meaning, English; the extra ``embedding``),
            ``char_ngrams`` (spelling; needs no extra), or ``module:function`` of a callable that
            takes a list of m texts and gives an array (m, d).
    """

    def payoffs(self, replies: Sequence[Reply], reference: str) -> FloatArray:
        """See `ValueFunction.payoffs`.

        Raises:
            MissingExtraError: The embedder needs a package that is not installed.
            SettingsError: The embedder cannot be found or gives no finite (m, d) array.
        """
        return _similarities(replies, reference, self.embedder, _cosines)


@dataclass(frozen=True, slots=True)
class EmbeddingEuclidean(_Embedding):
    """1 / (1 + L2 distance of the two texts' vectors), above 0 to 1; 1 exactly for equal texts.

    Two blank texts score 1, one of them 0; a blank text is never embedded.

    Args:
        embedder: As for `EmbeddingCosine`.
    """

    def payoffs(self, replies: Sequence[Reply], reference: str) -> FloatArray:
        """See `EmbeddingCosine.payoffs`."""
        return _similarities(replies, reference, self.embedder, _inverse_distances)


def _similarities(
    replies: Sequence[Reply],
    reference: str,
    embedder: str,
    similarity: Callable[[FloatArray, FloatArray], FloatArray],
) -> FloatArray:
    def of_texts(texts: list[str]) -> list[float]:
        solid = [text for text in sorted({*texts, reference}) if text.strip()]
        score: dict[str, float] = {}
        if reference.strip():
            vectors = _embed(embedder, solid)
            close = similarity(vectors, vectors[solid.index(reference)])
            score = dict(zip(solid, close.tolist(), strict=True)) | {reference: 1.0}
        blank = 0.0 if reference.strip() else 1.0
        return [score.get(text, 0.0) if text.strip() else blank for text in texts]

    return by_text(replies, of_texts)


def _cosines(vectors: FloatArray, base: FloatArray) -> FloatArray:
    lengths = np.sqrt((vectors * vectors).sum(axis=1)) * np.sqrt((base * base).sum())
    products = (vectors * base).sum(axis=1)
    cosine = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    return np.asarray(np.clip(cosine, -1.0, 1.0), dtype=np.float64)


def _inverse_distances(vectors: FloatArray, base: FloatArray) -> FloatArray:
    distances = np.sqrt(((vectors - base) ** 2).sum(axis=1))
    return np.asarray(1.0 / (1.0 + distances), dtype=np.float64)


def _embed(name: str, texts: list[str]) -> FloatArray:
    vectors: FloatArray = np.asarray(find_embedder(name)(texts), dtype=np.float64)
    if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
        raise SettingsError(
            "value.embedder",
            f"{name} gave no finite array of one row a text",
            got=vectors.shape,
            allowed=f"({len(texts)}, d)",
        )
    return vectors


def check_embedder(name: str) -> None:
    """Refuses an embedder that cannot be used; loads no model.

    Raises:
        MissingExtraError: It needs a package that is not installed.
        SettingsError: There is none of this name.
    """
    find_embedder(name)
    if name == "wordllama" and importlib.util.find_spec(name) is None:
        raise _no_wordllama()


def find_embedder(name: str) -> Embedder:
    """The embedder of this name, or at this import string.

    Raises:
        SettingsError: There is none.
    """
    module_name, _, attribute = EMBEDDERS.get(name, name).partition(":")
    allowed = ", ".join([*EMBEDDERS, "module:function"])
    if not module_name or not attribute:
        raise SettingsError("value.embedder", "unknown embedder", got=name, allowed=allowed)
    try:
        found: object = getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            "value.embedder", f"cannot be imported: {error}", got=name, allowed=allowed
        ) from error
    if not callable(found):
        raise SettingsError("value.embedder", "is not callable", got=name, allowed=allowed)
    embedder: Embedder = found
    return embedder


def char_ngrams(texts: list[str]) -> FloatArray:
    """Hashed counts of character n-grams, n = 2..4, within words; L2 length 1, shape (m, 4096).

    It measures spelling, not meaning: a baseline that is always there, and a check on the other.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(
        analyzer="char_wb", ngram_range=(2, 4), n_features=4096, alternate_sign=False
    )
    return np.asarray(vectorizer.transform(texts).toarray(), dtype=np.float64)


def wordllama(texts: list[str]) -> FloatArray:
    """Sentence vectors of the WordLlama model that its wheel brings, shape (m, 256).

    A bag of word vectors: it knows synonyms, but hardly tells opposites.

    Raises:
        MissingExtraError: The package is not installed.
    """
    return np.asarray(_wordllama()(texts), dtype=np.float64)


def _no_wordllama() -> MissingExtraError:
    return MissingExtraError(
        "value.embedder",
        "wordllama is not installed",
        mend="Run: pip install -e '.[embedding]', or choose char_ngrams",
    )


@cache
def _wordllama() -> Embedder:
    try:
        import wordllama as package
    except ImportError as error:
        raise _no_wordllama() from error
    # Without this folder it would look for its tokenizer elsewhere and then go to the network.
    folder = Path(package.__file__).parent
    model = package.WordLlama.load(cache_dir=folder, disable_download=True)
    embed: Embedder = model.embed
    return embed
