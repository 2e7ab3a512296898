"""Ids of keys: a dictionary is the definition."""

import numpy as np
from hypothesis import given, strategies as st

from auepora_eval.text import vocabulary as id_table
from auepora_eval.text.vocabulary import IdTable, common_keys

# Small keys, keys that differ in high bits only, and keys chosen so that the multiplication sends them to one slot.
KEY = st.integers(0, 40) | st.integers(0, 40).map(lambda i: i << 57) | st.integers(0, 2**64 - 1)


@given(st.lists(st.lists(KEY, max_size=60), max_size=4))
def test_equal_keys_have_equal_ids(calls: list[list[int]]) -> None:
    numbers: dict[int, int] = {}
    ours = IdTable()
    for keys in calls:
        for key, number in zip(keys, ours.get_or_add(np.array(keys, np.uint64)).tolist(), strict=True):
            assert numbers.setdefault(key, number) == number
    assert sorted(numbers.values()) == list(range(ours.count))


@given(st.lists(KEY, max_size=60), st.lists(KEY, max_size=60))
def test_common_keys(first: list[int], second: list[int]) -> None:
    kept, ids, second_kept, second_ids = common_keys(np.array(first, np.uint64), np.array(second, np.uint64))
    assert kept.tolist() == [place for place, key in enumerate(first) if key in set(second)]
    assert second_kept.tolist() == [place for place, key in enumerate(second) if key in set(first)]
    numbers = dict(zip([first[place] for place in kept], ids.tolist(), strict=True))
    assert len(set(numbers.values())) == len(numbers)
    assert [numbers[first[place]] for place in kept] == ids.tolist()
    assert [numbers[second[place]] for place in second_kept] == second_ids.tolist()


def test_keys_with_the_same_slot() -> None:
    usual = id_table._slots
    id_table._slots = lambda keys, level, table: np.zeros(len(keys), np.int64)
    try:
        ours = IdTable()
        keys = np.array([5, 7, 5, 9, 7, 0], np.uint64)
        numbers = ours.get_or_add(keys)
        assert len(set(numbers.tolist())) == ours.count == 4
        assert numbers[0] == numbers[2]
        assert numbers[1] == numbers[4]
        assert (ours.get_or_add(keys) == numbers).all()
    finally:
        id_table._slots = usual


def test_many_more_keys_than_the_first_call_had() -> None:
    ours = IdTable()
    ours.get_or_add(np.arange(3, dtype=np.uint64))
    many = np.arange(200_000, dtype=np.uint64) * np.uint64(977)
    numbers = ours.get_or_add(many)
    assert len(np.unique(numbers)) == 200_000
    assert (ours.get_or_add(many) == numbers).all()
    assert ours.count == 200_002  # 0 is one of both
