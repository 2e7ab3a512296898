"""N-grams of many rows at once: counters and sets are the definition."""

from collections import Counter
from itertools import islice

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

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


@given(st.lists(st.tuples(WORDS, st.lists(WORDS, max_size=3)), max_size=5), st.permutations(range(1, ORDERS)))
def test_support(rows: list[tuple[list[int], list[list[int]]]], orders: list[int]) -> None:
    owners = np.array([row for row, (_, texts) in enumerate(rows) for _ in texts], dtype=np.int64)
    known = {word for words, _ in rows for word in words}
    evidence = [[word if word in known or word % 2 else -1 for word in t] for _, texts in rows for t in texts]
    support = NgramSupport(coded([a for a, _ in rows]), coded(evidence), owners)
    for n in orders:
        want = []
        for words, texts in rows:
            there = {gram for text in texts for gram in grams(text, n)}
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
