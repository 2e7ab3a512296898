"""The longest common subsequence: rows with reasons, and the textbook table on random sequences."""

import random
from collections.abc import Hashable, Sequence

import pytest
from hypothesis import given, strategies as st

from auepora_eval.text.ngrams import lcs_length


def by_table(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """The definition, one cell at a time."""
    above = [0] * (len(b) + 1)
    for x in a:
        row = [0]
        for column, y in enumerate(b):
            row.append(above[column] + 1 if x == y else max(above[column + 1], row[column]))
        above = row
    return above[-1]


WORDS = ["police", "killed", "the", "gunman"]

ROWS: list[tuple[Sequence[Hashable], Sequence[Hashable], int, str]] = [  # a, b, want, why
    ("", "", 0, "nothing and nothing"),
    ("abc", "", 0, "something and nothing"),
    ("abc", "abc", 3, "identical"),
    ("abc", "xyz", 0, "nothing in common"),
    ("abc", "cba", 1, "the order counts: one item of a reversal"),
    ("ac", "abc", 2, "gaps are allowed"),
    ("aab", "ab", 2, "an item counts once per occurrence on both sides"),
    ("aaaa", "aa", 2, "repeats: no more than the shorter has"),
    ("abcbdab", "bdcaba", 4, "the textbook's bcba"),
    (WORDS, ["police", "kill", "the", "gunman"], 3, "Lin 2004: police, the, gunman"),
    (WORDS, ["the", "gunman", "kill", "police"], 2, "Lin 2004: the gunman"),
    (WORDS, ["the", "gunman", "police", "killed"], 2, "Lin 2004: either half, not both"),
    ([1, "a", None, (2,)], ("a", (2,)), 2, "any hashable items, any two kinds of sequence"),
    (range(5000), range(5000), 5000, "long and identical"),
    (range(5000), range(4999, -1, -1), 1, "long and reversed"),
    (range(5000), range(0, 5000, 7), 715, "every seventh of 5000: 5000 / 7 rounded up"),
]


@pytest.mark.parametrize(("a", "b", "want"), [pytest.param(a, b, want, id=why) for a, b, want, why in ROWS])
def test_row(a: Sequence[Hashable], b: Sequence[Hashable], want: int) -> None:
    assert lcs_length(a, b) == want
    assert lcs_length(b, a) == want


FEW = st.lists(st.integers(0, 3), max_size=40)  # few distinct items: many ties, long carries


@given(FEW, FEW)
def test_equals_the_table(a: list[int], b: list[int]) -> None:
    assert lcs_length(a, b) == by_table(a, b) == lcs_length(b, a)


@pytest.mark.parametrize("kinds", [1, 2, 5, 60])
def test_equals_the_table_where_rows_fill_several_machine_words(kinds: int) -> None:
    rng = random.Random(kinds)
    for size in (29, 30, 31, 59, 60, 61, 63, 64, 65, 128, 200):  # Python's integers have digits of 30 bits
        a = rng.choices(range(kinds), k=size)
        b = rng.choices(range(kinds), k=size + rng.randint(0, 20))
        assert lcs_length(a, b) == by_table(a, b)


@given(FEW, st.data())
def test_a_sequence_keeps_all_of_its_subsequence(a: list[int], data: st.DataObject) -> None:
    keep = data.draw(st.lists(st.booleans(), min_size=len(a), max_size=len(a)))
    part = [item for item, kept in zip(a, keep, strict=True) if kept]
    assert lcs_length(a, part) == len(part)
