"""Columns of TREC files: texts as words, pairs found by keys, lines brought into order."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval.io.trec import _PADDING, LineOrder, TextColumn, TrecLines, sort_lines
from auepora_eval.io.trec_format import collect_gold_pairs, hash_pairs

CHARACTERS = st.characters(codec="utf-8", min_codepoint=33)  # cells contain no white space
ANY_TEXTS = st.lists(st.text(CHARACTERS, max_size=30), min_size=1, max_size=40)
NEAR = st.text("ab\u00e9\U0001f600\ue000", max_size=3).map(lambda end: "x" * 7 + end)
TEXTS = st.lists(st.text(CHARACTERS, max_size=30) | NEAR, min_size=1, max_size=40)
POOL = ThreadPoolExecutor(2)
SCORES = st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0, 1.0, 1.0 + 2**-52, 1e300, -1e300])


def vectorize(texts: list[str], gap: int = 0) -> TextColumn:
    """The texts as a column, with so many other bytes between them."""
    cells = [text.encode() for text in texts]
    sizes = np.array([len(cell) for cell in cells])
    starts = np.cumsum(sizes + gap) - sizes
    text = b"".join(b"-" * gap + cell for cell in cells) + _PADDING
    return TextColumn(np.frombuffer(text, dtype=np.uint8), starts, starts + sizes)


@given(ANY_TEXTS, st.integers(0, 5))
def test_equal_texts_have_equal_hashes(texts: list[str], gap: int) -> None:
    found = vectorize(texts, gap).hashes(POOL).tolist()
    assert found == vectorize(texts).hashes(POOL).tolist()
    assert len(set(zip(texts, found, strict=True))) == len(set(texts)) == len(set(found))


def test_hashes_of_many_texts() -> None:
    texts = [str(number) * (number % 5) for number in range(70_000)]
    many = vectorize(texts, 1).hashes(POOL)
    assert len(set(many.tolist())) == len(set(texts))
    assert many[69_999] == vectorize([texts[69_999]]).hashes(POOL)[0]


@given(ANY_TEXTS, st.data())
def test_texts_are_compared_byte_by_byte(texts: list[str], data: Any) -> None:
    column, lines = vectorize(texts), np.arange(len(texts))
    assert column.equal(lines, vectorize(texts, 2), lines)
    place = data.draw(st.integers(0, len(texts) - 1))
    other = list(texts)
    other[place] = data.draw(st.text(CHARACTERS, max_size=30) | st.just(texts[place] + "!"))
    assert column.equal(lines, vectorize(other), lines) == (other == texts)


@given(TEXTS, st.data())
def test_texts_in_descending_order(texts: list[str], data: Any) -> None:
    sizes: list[int] = []
    while sum(sizes) < len(texts):
        sizes.append(data.draw(st.integers(1, len(texts) - sum(sizes))))
    groups = np.repeat(np.cumsum(sizes) - np.array(sizes), sizes)
    lines = np.array(data.draw(st.permutations(range(len(texts)))))
    places = vectorize(texts).descending(lines, groups)
    assert sorted(places.tolist()) == list(range(len(texts)))
    got: list[Any] = [None] * len(texts)
    for line, place in zip(lines.tolist(), places.tolist(), strict=True):
        got[place] = texts[line]
    for group, size in zip(np.unique(groups).tolist(), sizes, strict=True):
        expected = [texts[line] for line in lines[group : group + size].tolist()]
        assert got[group : group + size] == sorted(expected, reverse=True)


def test_judged_pairs_are_unique_with_highest_level() -> None:
    queries, docs = np.array([1, 0, 1, 0, 1]), ["a", "a", "b", "c", "a"]
    gold = collect_gold_pairs(queries, vectorize(docs), np.array([1, 2, 0, -1, 3]), POOL)
    assert gold is not None
    assert gold.queries.tolist() == [0, 0, 1, 1]
    assert sorted(zip(gold.queries.tolist(), gold.levels.tolist(), strict=True)) == [(0, -1), (0, 2), (1, 0), (1, 3)]
    returned = np.array([1, 0, 7, 1, 0, 1])
    places, numbers = gold.match(hash_pairs(returned, vectorize(["b", "a", "a", "x", "b", "a"]), POOL))
    assert places.tolist() == [0, 1, 5]
    assert gold.levels[numbers].tolist() == [0, 2, 3]


def make_lines(rows: list[int], scores: list[float]) -> TrecLines:
    names = [str(row) for row in range(max(rows) + 1)]
    docs: Any = None
    return TrecLines(names, np.array(rows), docs, np.array(scores))


def check_order(order: LineOrder, rows: list[int], scores: list[float]) -> None:
    lines = list(range(len(rows))) if order.lines is None else order.lines.tolist()
    assert sorted(lines) == list(range(len(rows)))
    got = [(rows[line], -scores[line]) for line in lines]
    assert got == sorted(got)
    assert order.counts.tolist() == np.bincount(rows).tolist()
    tied = [place for place in range(len(got) - 1) if got[place] == got[place + 1]]
    inside = [
        place
        for start, stop in zip(*map(np.ndarray.tolist, order.ties), strict=True)
        for place in range(start, stop - 1)
    ]
    assert inside == tied


@given(st.lists(st.tuples(st.integers(0, 4), SCORES), min_size=1, max_size=40))
def test_lines_in_any_order(cells: list[tuple[int, float]]) -> None:
    names = list(
        dict.fromkeys(name for name, _ in cells)
    )  # a query has at least one line, and is at its first position
    rows, scores = [names.index(name) for name, _ in cells], [score for _, score in cells]
    check_order(sort_lines(make_lines(rows, scores)), rows, scores)


def test_scores_that_differ_only_in_their_last_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    scores = [1e300, -1e300, *(1.0 + random.integers(0, 50, 3_000) * 2.0**-52).tolist()]
    rows = [number % 300 for number in range(len(scores))]
    calls: list[int] = []
    exact = np.lexsort

    def counted(*arguments: Any) -> Any:
        calls.append(1)
        return exact(*arguments)

    monkeypatch.setattr(np, "lexsort", counted)
    check_order(sort_lines(make_lines(rows, scores)), rows, scores)
    assert calls
    calls.clear()
    usual = random.normal(size=len(scores)).round(6).tolist()
    check_order(sort_lines(make_lines(rows, usual)), rows, usual)
    assert not calls
