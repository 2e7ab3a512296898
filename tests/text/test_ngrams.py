"""N-grams of many rows at once: counters and sets are the definition."""

from collections import Counter
from itertools import islice
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from auepora_eval.text import ngrams
from auepora_eval.text.ngrams import (
    DistinctNgramCounter,
    NgramSupport,
    count_shared_ngrams,
    distinct_ngrams,
    iter_shared_ngrams,
    ngram_counts,
)
from auepora_eval.text.vocabulary import TokenIds

ORDERS = 5
WORDS = st.lists(st.integers(0, 3), max_size=9)
# Some numbers so large that n-grams of them do not fit into one.
LARGE_WORDS = st.lists(st.integers(0, 3) | st.sampled_from([2**20, 2**31 - 1]), max_size=9)


def coded(texts: list[list[int]]) -> TokenIds:
    ids = np.array([word for text in texts for word in text], dtype=np.int32)
    return TokenIds.of(ids, np.array([len(text) for text in texts], dtype=np.int64))


def grams(words: list[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


@given(st.lists(st.tuples(WORDS, WORDS) | st.tuples(LARGE_WORDS, LARGE_WORDS), max_size=6))
def test_shared_with_one_text_each(rows: list[tuple[list[int], list[int]]]) -> None:
    given_, wanted = [a for a, _ in rows], [b for _, b in rows]
    for n, shared in enumerate(islice(iter_shared_ngrams(coded(given_), coded(wanted)), ORDERS), 1):
        assert count_shared_ngrams(coded(given_), coded(wanted), n).tolist() == shared.tolist()
        assert shared.tolist() == [(Counter(grams(a, n)) & Counter(grams(b, n))).total() for a, b in rows]
        assert ngram_counts(coded(given_), n).tolist() == [len(grams(a, n)) for a in given_]


@given(st.lists(st.tuples(WORDS, st.lists(WORDS, max_size=3)), max_size=5))
def test_shared_with_several_texts_each(rows: list[tuple[list[int], list[list[int]]]]) -> None:
    owners = np.array([row for row, (_, texts) in enumerate(rows) for _ in texts], dtype=np.int64)
    found = iter_shared_ngrams(coded([a for a, _ in rows]), coded([t for _, texts in rows for t in texts]), owners)
    for n, shared in enumerate(islice(found, ORDERS), 1):
        want = []
        for words, texts in rows:
            most: Counter[tuple[int, ...]] = Counter()
            for text in texts:
                most |= Counter(grams(text, n))
            want.append((Counter(grams(words, n)) & most).total())
        assert shared.tolist() == want


@pytest.mark.parametrize("part", [1, 50, 1 << 13])
@given(
    documents=st.lists(WORDS, min_size=1, max_size=5),
    rows=st.lists(st.tuples(WORDS, st.lists(st.integers(0, 4), max_size=3)), max_size=5),
    orders=st.permutations(range(1, ORDERS)),
)
@example(documents=[[]], rows=[([1], [0])], orders=[1, 2])
@example(documents=[[], [1, 2], []], rows=[([1, 2], [0, 1, 2]), ([2, 1], [1, 1])], orders=[2, 1])
def test_support(
    part: int, documents: list[list[int]], rows: list[tuple[list[int], list[int]]], orders: list[int]
) -> None:
    """Documents are used by any number of rows, and rows are matched in parts of any size."""
    evidence = [[use % len(documents) for use in uses] for _, uses in rows]
    owners = np.array([row for row, uses in enumerate(evidence) for _ in uses], dtype=np.int64)
    uses = np.array([use for these in evidence for use in these], dtype=np.int64)
    with patch.object(ngrams, "_PART", part):
        support = NgramSupport(coded([words for words, _ in rows]), coded(documents), uses, owners, 4)
    for n in orders:
        want = []
        for (words, _), these in zip(rows, evidence, strict=True):
            there = {gram for use in these for gram in grams(documents[use], n)}
            want.append(sum(gram in there for gram in grams(words, n)))
        assert support.counts(n).tolist() == want


@given(st.lists(st.lists(WORDS, max_size=4), max_size=3), st.integers(1, 4))
def test_distinct(parts: list[list[list[int]]], n: int) -> None:
    counting = DistinctNgramCounter(n)
    for texts in parts:
        counting.add(coded(texts))
        assert distinct_ngrams(coded(texts), n).tolist() == [len(set(grams(text, n))) for text in texts]
    everything = [gram for texts in parts for text in texts for gram in grams(text, n)]
    assert counting.total == len(everything)
    if n > 1:
        assert counting.distinct == len(set(everything))
