"""Exact sums against ``math.fsum``."""

import math

import numpy as np
from hypothesis import given, strategies as st

from auepora_eval.core.reduce import ExactSum, exact_sum

FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@given(st.lists(FINITE, max_size=50))
def test_equals_fsum(numbers: list[float]) -> None:
    assert exact_sum(np.array(numbers, dtype=np.float64)) == math.fsum(numbers)


@given(st.lists(st.floats(0, 1), max_size=200))
def test_equals_fsum_on_scores(numbers: list[float]) -> None:
    assert exact_sum(np.array(numbers, dtype=np.float64)) == math.fsum(numbers)


@given(st.lists(FINITE, max_size=30), st.lists(FINITE, max_size=30))
def test_merging_changes_no_bit(first: list[float], second: list[float]) -> None:
    parts = [ExactSum(), ExactSum()]
    for part, numbers in zip(parts, (first, second), strict=True):
        part.add(np.array(numbers, dtype=np.float64))
    parts[1].merge(parts[0])
    assert parts[1].value == math.fsum(first + second)


def test_the_smallest_and_the_largest_numbers() -> None:
    numbers = [5e-324, 1.7e308, -1.7e308, 5e-324, 2.0**-1022]
    assert exact_sum(np.array(numbers)) == math.fsum(numbers)


def test_cancellation_that_defeats_a_plain_sum() -> None:
    numbers = [1e16, 1.0, -1e16] * 1000
    assert exact_sum(np.array(numbers)) == 1000.0
