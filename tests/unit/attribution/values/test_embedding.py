"""Embedding similarity: the formulas, and how an embedder is found."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from quorum.attribution.values import embedding
from quorum.attribution.values.base import Reply
from quorum.attribution.values.embedding import (
    EmbeddingCosine,
    EmbeddingEuclidean,
    char_ngrams,
    find_embedder,
)
from quorum.errors import MissingExtraError, SettingsError

VECTORS = {"ref": (3.0, 4.0), "same way": (6.0, 8.0), "across": (-4.0, 3.0), "zero": (0.0, 0.0)}


@pytest.fixture
def table(monkeypatch):
    """An embedder from outside, `table:embed`, that looks vectors up and notes its calls."""
    module = types.ModuleType("table")
    module.calls = []

    def embed(texts):
        module.calls.append(list(texts))
        return np.array([VECTORS[text] for text in texts], dtype=np.float32)

    module.embed = embed
    module.flat = lambda texts: np.zeros(len(texts))
    module.nan = lambda texts: np.full((len(texts), 2), np.nan)
    module.number = 7
    monkeypatch.setitem(sys.modules, "table", module)
    return module


def payoffs(value, *texts: str, reference: str = "ref") -> list[float]:
    return value.payoffs([Reply(text) for text in texts], reference).tolist()


def test_cosine_of_the_vectors(table):
    value = EmbeddingCosine("table:embed")
    assert payoffs(value, "ref", "same way", "across", "zero") == [1.0, 1.0, 0.0, 0.0]


def test_euclidean_is_one_over_one_plus_distance(table):
    value = EmbeddingEuclidean("table:embed")
    assert payoffs(value, "ref", "same way", "zero") == pytest.approx([1.0, 1 / 6, 1 / 6])


@pytest.mark.parametrize("kind", [EmbeddingCosine, EmbeddingEuclidean])
def test_blank_texts_are_never_embedded(table, kind):
    assert payoffs(kind("table:embed"), "", "ref", " ", "ref") == [0, 1, 0, 1]
    assert table.calls == [["ref"]]
    assert payoffs(kind("table:embed"), "", "ref", reference="") == [1, 0]
    assert table.calls == [["ref"]]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "unknown embedder, got 'nothing'; allowed wordllama, char_ngrams"),
        ("table:", "unknown embedder"),
        ("no_such_module:f", "cannot be imported: No module named"),
        ("table:missing", "cannot be imported"),
        ("table:number", "is not callable"),
    ],
)
def test_an_embedder_that_cannot_be_found_is_refused(table, name, reason):
    with pytest.raises(SettingsError, match=reason):
        find_embedder(name)


@pytest.mark.parametrize("name", ["table:flat", "table:nan"])
def test_an_embedder_that_gives_no_finite_table_is_refused(table, name):
    with pytest.raises(SettingsError, match="no finite array of one row a text"):
        payoffs(EmbeddingCosine(name), "ref")


def test_char_ngrams_see_spelling():
    vectors = char_ngrams(["the capital", "the capitals", "zebra"])
    assert vectors.shape == (3, 4096)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    near, far = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert near > 0.8
    assert far == 0


def test_without_the_extra_wordllama_says_how_to_get_it(monkeypatch):
    embedding._wordllama.cache_clear()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(MissingExtraError, match=r"pip install -e '\.\[embedding\]'"):
        payoffs(EmbeddingCosine(), "a", reference="b")


def test_wordllama_is_loaded_from_its_own_folder_and_never_from_the_network(monkeypatch, tmp_path):
    asked = []

    class WordLlama:
        @staticmethod
        def load(**options):
            asked.append(options)
            return types.SimpleNamespace(embed=lambda texts: np.ones((len(texts), 2)))

    package = types.ModuleType("wordllama")
    package.__file__ = str(tmp_path / "__init__.py")
    package.WordLlama = WordLlama
    embedding._wordllama.cache_clear()
    monkeypatch.setitem(sys.modules, "wordllama", package)
    assert payoffs(EmbeddingCosine(), "a", reference="b") == pytest.approx([1.0])
    assert payoffs(EmbeddingCosine(), "a", reference="b") == pytest.approx([1.0])
    assert asked == [{"cache_dir": tmp_path, "disable_download": True}]
    embedding._wordllama.cache_clear()
