"""Mean cosines from sums of vectors: held against every pair, and against any order."""

import math
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from auepora_eval.features.embeddings import cosines_to_others, cosines_within, word_cosines_to_others
from auepora_eval.text.tokenizers import plain_words, word_tokenizer
from auepora_eval.text.vocabulary import TokenIds, Vocabulary
from helpers.texts import TEXT

Floats = npt.NDArray[np.float64]


def units(seed: int, n: int, size: int) -> Floats:
    vectors = np.random.default_rng(seed).normal(size=(n, size))
    return np.asarray(vectors / np.sqrt((vectors * vectors).sum(axis=1))[:, None])


def coded(texts: list[str]) -> TokenIds:
    return Vocabulary(word_tokenizer().byte_tokenizer, remember=False).encode(texts)


def pairs(vectors: Floats) -> Floats:
    """The cosine of every vector with every other, by definition."""
    return np.array([[math.fsum((one * other).tolist()) for other in vectors] for one in vectors])


@pytest.mark.parametrize("size", [1, 2, 3, 8, 50])
@pytest.mark.parametrize("n", [2, 3, 17])
def test_vectors_to_all_others(n: int, size: int) -> None:
    vectors = units(n, n, size)
    table = pairs(vectors)
    want = [(sum(row) - row[at]) / (n - 1) for at, row in enumerate(table)]
    assert cosines_to_others(vectors) == pytest.approx(want, abs=1e-14)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 50, 768])
def test_groups_are_independent(size: int) -> None:
    counts = np.array([2, 5, 3, 11, 2])
    vectors = units(1, int(counts.sum()), size)
    got = cosines_within(vectors, counts)
    ends = np.cumsum(counts)
    for value, start, end in zip(got, ends - counts, ends, strict=True):
        table = pairs(vectors[start:end])
        want = (table.sum() - np.trace(table)) / (table.size - len(table))
        assert value == pytest.approx(want, abs=1e-14)
        assert value == cosines_within(vectors[start:end], np.array([end - start]))[0]  # to the last bit


@given(st.integers(2, 40), st.integers(1, 20), st.randoms())
def test_the_order_of_vectors_changes_no_bit(n: int, size: int, rng: Any) -> None:
    vectors, order = units(n, n, size), rng.sample(range(n), n)
    assert (cosines_to_others(vectors[order]) == cosines_to_others(vectors)[order]).all()


def test_block_size_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = units(0, 100, 30)
    whole = cosines_to_others(vectors)
    monkeypatch.setattr("auepora_eval.features.embeddings._AT_ONCE", 7)
    assert (cosines_to_others(vectors) == whole).all()


def plain(texts: list[str]) -> list[float]:
    counts = [Counter(plain_words(text)) for text in texts]
    lengths = [math.sqrt(sum(c * c for c in one.values())) for one in counts]
    table = [
        [sum(one[w] * other[w] for w in one) / (a * b) for other, b in zip(counts, lengths, strict=True)]
        for one, a in zip(counts, lengths, strict=True)
    ]
    return [math.fsum(row[:at] + row[at + 1 :]) / (len(row) - 1) for at, row in enumerate(table)]


@given(st.lists(TEXT.filter(plain_words), min_size=2, max_size=12), st.randoms())
def test_words_to_all_others(texts: list[str], rng: Any) -> None:
    got = word_cosines_to_others(coded(texts))
    assert got == pytest.approx(plain(texts), abs=1e-12)
    order = rng.sample(range(len(texts)), len(texts))
    assert (word_cosines_to_others(coded([texts[at] for at in order])) == got[order]).all()


@pytest.mark.slow
def test_many_texts_in_linear_memory() -> None:
    """Two hundred thousand texts: twenty thousand million pairs would not be done in a day."""
    got = word_cosines_to_others(coded(["a b", "a c"] * 100_000))
    # With its own kind, 99,999 others, a cosine of 1; with the other kind 1/2.
    assert got == pytest.approx((99_999 + 100_000 / 2) / 199_999, abs=1e-12)
