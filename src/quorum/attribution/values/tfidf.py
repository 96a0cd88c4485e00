"""The tf-idf cosine: how many words, weighted by rarity, a reply shares with the reference."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from quorum.attribution.segmentation import terms_of
from quorum.attribution.values.base import FloatArray, Reply, by_text


@dataclass(frozen=True, slots=True)
class TfidfCosine:
    """Cosine of tf-idf vectors, 0 to 1; 1 exactly for the reference text itself.

    A term's weight is its count in the text times ln((1 + M) / (1 + df)) + 1, with df the number
    of the M corpus texts that hold it (scikit-learn's smooth idf). Terms are words, numbers,
    symbols and emoji of any length, punctuation only where a text has nothing else. Two texts
    without a term score 1, one of them 0.

    Args:
        corpus: ``all`` counts over the replies of all coalitions (and the reference, unless a
            reply is that text: the grand coalition's is); ``reference`` over the reference alone,
            so that a payoff does not depend on the other replies. A term that the corpus does not
            hold has df = 0; it is never dropped.
        lowercase: Upper and lower case are the same.

    Source: scikit-learn, TfidfTransformer with smooth_idf. We deviate in the tokenizer
    (scikit-learn's drops one-letter words) and in keeping terms outside the corpus.
    """

    needs: ClassVar[Literal["text", "continuation"]] = "text"
    corpus: Literal["all", "reference"] = "all"
    lowercase: bool = True

    def payoffs(self, replies: Sequence[Reply], reference: str) -> FloatArray:
        """See `ValueFunction.payoffs`."""
        n_times = Counter(reply.text for reply in replies)
        if self.corpus == "reference":
            n_times = Counter()
        if reference not in n_times:
            n_times[reference] = 1
        return by_text(replies, lambda texts: self._cosines(texts, reference, n_times))

    def _cosines(self, texts: list[str], reference: str, n_times: Counter[str]) -> FloatArray:
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.preprocessing import normalize

        rows = sorted({*texts, reference})
        terms = [self._terms(text) for text in rows]
        if not any(terms):
            return np.ones(len(texts))
        counts = CountVectorizer(analyzer=list).fit_transform(terms).tocsr()
        counts.sort_indices()
        times = np.array([n_times[text] for text in rows], dtype=np.float64)
        row_of_entry = np.repeat(np.arange(len(rows)), np.diff(counts.indptr))
        df = np.bincount(counts.indices, weights=times[row_of_entry], minlength=counts.shape[1])
        idf = np.log((1.0 + times.sum()) / (1.0 + df)) + 1.0
        weighted = counts.astype(np.float64)
        weighted.data *= idf[weighted.indices]
        vectors = normalize(weighted, norm="l2", copy=False)
        home = rows.index(reference)
        has_terms = np.array([bool(t) for t in terms])
        if has_terms[home]:
            cosine = vectors @ vectors[home].toarray().ravel()
            cosine = np.minimum(cosine / cosine[home], 1.0)
        else:
            cosine = np.where(has_terms, 0.0, 1.0)
        where = {text: i for i, text in enumerate(rows)}
        return np.asarray(cosine[[where[text] for text in texts]], dtype=np.float64)

    def _terms(self, text: str) -> list[str]:
        composed = unicodedata.normalize("NFC", text)
        return terms_of(composed.lower() if self.lowercase else composed)
