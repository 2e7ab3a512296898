"""Quantiles: the place among values in order, and an interval held against the bootstrap it stands for."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from auepora_eval.stats.bootstrap import bootstrap_interval_of, quantile_interval, quantile_of, quantile_rank
from auepora_eval.stats.intervals import Interval
from helpers.requirements import examples

Floats = npt.NDArray[np.float64]

RANKS: list[tuple[float, int, int, str]] = [  # q, n, place from 1, why
    (0.55, 100, 55, "0.55 as it is written, not the binary number above it"),
    (0.07, 100, 7, "0.07 likewise: 0.07 * 100 is 7.000000000000001"),
    (0.29, 100, 29, "0.29 * 100 is 28.999999999999996, and rounded up 29 all the same"),
    (0.95, 100, 95, "a whole place"),
    (0.95, 10, 10, "9.5 rounded up: the largest"),
    (0.95, 20, 19, "19 of 20"),
    (0.5, 5, 3, "the median of five"),
    (0.5, 4, 2, "of four the lower of the two in the middle"),
    (1.0, 7, 7, "the largest"),
    (1, 7, 7, "a whole number"),
    (1e-9, 7, 1, "the smallest"),
    (0.999, 1, 1, "one value is every quantile"),
]


@pytest.mark.parametrize(("q", "n", "want"), [row[:3] for row in RANKS], ids=[row[3] for row in RANKS])
def test_the_place(q: float, n: int, want: int) -> None:
    assert quantile_rank(q, n) == want
    values = np.random.default_rng(0).permutation(np.arange(1.0, n + 1))
    assert quantile_of(values, q) == want


@pytest.mark.parametrize("q", [0.0, -0.1, 1.001, math.nan, math.inf, True], ids=str)
def test_no_such_quantile(q: float) -> None:
    with pytest.raises(ValueError, match="a quantile lies above 0 and is 1 at most"):
        quantile_rank(q, 5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40), st.integers(1, 1000))
def test_it_is_the_smallest_value_that_enough_do_not_exceed(values: list[float], thousandths: int) -> None:
    q = Fraction(thousandths, 1000)
    got = quantile_of(np.array(values), thousandths / 1000)
    enough = [value for value in values if sum(other <= value for other in values) >= q * len(values)]
    assert got == min(enough)


def test_of_nothing() -> None:
    assert math.isnan(quantile_of(np.array([]), 0.5))
    assert quantile_interval(np.array([]), 0.5) is None


def must(found: Interval | None) -> Interval:
    assert found is not None
    return found


def exact_ends(n: int, q: float, tail: float = 0.025) -> tuple[int, int]:
    """The places between which the quantile of a draw lies, by the distribution itself.

    The k-th smallest of n draws lies at place j or before where at least k of them do, each with a chance of j/n.
    """
    k = quantile_rank(q, n)

    def up_to(j: int) -> float:
        return sum(math.comb(n, i) * (j / n) ** i * (1 - j / n) ** (n - i) for i in range(k, n + 1))

    places = range(1, n + 1)
    return next(j for j in places if up_to(j) >= tail), next(j for j in places if up_to(j) >= 1 - tail)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9, 0.95, 1.0])
@pytest.mark.parametrize("n", [7, 20, 33, 120])
def test_the_ends_are_those_of_the_distribution_and_of_the_bootstrap(n: int, q: float) -> None:
    """With the places as values, the ends are places; drawing may move them by one."""
    values = np.arange(1.0, n + 1)
    got = must(quantile_interval(values, q))
    assert (got.low, got.high) == pytest.approx(exact_ends(n, q), abs=1)
    drawn = must(bootstrap_interval_of(lambda rows: quantile_of(values[rows], q), n, draws=2000))
    assert (got.low, got.high) == pytest.approx((drawn.low, drawn.high), abs=1)
    assert (got.method, got.units, got.level) == ("bootstrap", n, 0.95)
    assert got.low <= quantile_of(values, q) <= got.high


def test_another_level_is_narrower() -> None:
    values = np.arange(1.0, 201)
    wide, narrow = must(quantile_interval(values, 0.5)), must(quantile_interval(values, 0.5, level=0.5))
    assert wide.low < narrow.low < narrow.high < wide.high
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        quantile_interval(values, 0.5, level=95)


COVERAGE = [pytest.param(0.5, 60, marks=pytest.mark.slow), pytest.param(0.9, 150, marks=pytest.mark.slow), (0.95, 300)]


@pytest.mark.parametrize(("q", "n"), COVERAGE)
def test_coverage(q: float, n: int) -> None:
    """Repetitions of uniform values, whose q-quantile is q: 95 % give or take 4."""
    rng = np.random.default_rng(3)
    found = [must(quantile_interval(rng.random(n), q, seed=at)) for at in range(examples(2000))]
    assert not any(interval.flags for interval in found)
    assert 0.91 <= np.mean([interval.low <= q <= interval.high for interval in found]) <= 0.99


FLAGS: list[tuple[float, int, tuple[str, ...], str]] = [
    (0.5, 100, (), "fifty on either side"),
    (0.5, 29, ("few",), "fewer than 30"),
    (0.9, 100, (), "ten beyond it"),
    (0.9, 99, ("few",), "fewer than ten beyond it"),
    (0.1, 99, ("few",), "fewer than ten before it"),
    (0.95, 72, ("few",), "0.95^72 = 0.0249: that all lie below it would be a surprise"),
    (0.95, 71, ("few", "unbounded"), "0.95^71 = 0.026: it would be none, so the largest bounds nothing"),
    (0.05, 71, ("few", "unbounded"), "nor does the smallest"),
    (0.95, 20, ("few", "unbounded"), "the 19th of 20"),
    (0.99, 200, ("few", "unbounded"), "0.99^200 = 0.13"),
    (1.0, 10_000, ("few", "unbounded"), "the largest bounds no maximum, however many there are"),
]


@pytest.mark.parametrize(("q", "n", "flags"), [row[:3] for row in FLAGS], ids=[row[3] for row in FLAGS])
def test_flags(q: float, n: int, flags: tuple[str, ...]) -> None:
    values = np.random.default_rng(0).lognormal(size=n)  # skewed, which is no cause for doubt about a quantile
    got = must(quantile_interval(values, q))
    assert got.flags == flags
    assert got.high <= values.max()


NOTHING: list[tuple[list[float], Any, str]] = [
    ([], None, "no value"),
    ([1.0], None, "one value"),
    ([1.0, 2.0, 3.0], [4, 4, 4], "one cluster"),
    ([2.0] * 50, None, "nothing varies, and what one more value could do nobody knows"),
    ([2.0] * 50, [0, 1] * 25, "the same in clusters"),
]


@pytest.mark.parametrize(("values", "codes"), [row[:2] for row in NOTHING], ids=[row[2] for row in NOTHING])
def test_no_interval(values: list[float], codes: list[int] | None) -> None:
    clusters = None if codes is None else np.array(codes, dtype=np.intp)
    assert quantile_interval(np.array(values), 0.9, clusters=clusters) is None


def test_clusters_are_drawn_whole() -> None:
    rng = np.random.default_rng(1)
    values, codes = np.repeat(rng.lognormal(size=60), 4), np.repeat(np.arange(60), 4)
    alone, together = must(quantile_interval(values, 0.5)), must(quantile_interval(values, 0.5, clusters=codes))
    assert together.units == 60
    assert together.high - together.low > 1.5 * (
        alone.high - alone.low
    )  # four times the same is not four times as much
    plain = must(bootstrap_interval_of(lambda rows: quantile_of(values[rows], 0.5), 240, clusters=codes))
    assert (together.low, together.high) == (plain.low, plain.high)
    # Clusters of one are no clusters.
    assert quantile_interval(values, 0.5, clusters=np.arange(240)) == alone


@given(st.lists(st.floats(0, 100), min_size=2, max_size=60), st.integers(1, 100), st.randoms())
def test_the_order_of_values_changes_no_bit(values: list[float], percent: int, rng: Any) -> None:
    shuffled = rng.sample(values, len(values))
    first, second = (quantile_interval(np.array(these), percent / 100) for these in (values, shuffled))
    assert first == second
    if first is not None:
        assert min(values) <= first.low <= first.high <= max(values)


@given(st.lists(st.floats(0.01, 100), min_size=5, max_size=60, unique=True))
def test_it_is_the_same_on_any_scale(values: list[float]) -> None:
    """Where both ends are values that were seen, the interval of 2x is twice the interval of x."""
    once, twice = (quantile_interval(np.array(values) * factor, 0.8) for factor in (1, 2))
    if once is not None and twice is not None:
        assert (2 * once.low, 2 * once.high) == pytest.approx((twice.low, twice.high))
