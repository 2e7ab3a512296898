"""Paired intervals: Newcombe's against published examples and its exact coverage, t against scipy, and their symmetry."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import AlignmentError
from auepora_eval.stats.difference import newcombe_interval, paired_differences, paired_interval
from auepora_eval.stats.intervals import Interval, mean_interval
from auepora_eval.stats.permutation import sign_flips
from helpers.requirements import need

Floats = npt.NDArray[np.float64]

COUNTS = st.tuples(*[st.integers(0, 30)] * 4).filter(lambda counts: sum(counts) > 1)


def ends(found: Interval | None) -> tuple[float, float]:
    assert found is not None
    return found.low, found.high


PUBLISHED = [  # both, first only, second only, neither, low, high, digits, why
    (14, 0, 5, 22, 0.011, 0.226, 3, "Altman and others, Statistics with Confidence, 2000: two exercise tests"),
    (1, 7, 1, 12, -0.507, -0.026, 3, "Fagerland, Lydersen and Laake 2014: airways before and after a transplant"),
    (59, 16, 6, 80, -0.1186, -0.0046, 4, "Fagerland and others 2017: response before and after consolidation"),
]


@pytest.mark.parametrize("row", PUBLISHED, ids=[row[7] for row in PUBLISHED])
def test_newcombe_as_published(row: tuple[int, int, int, int, float, float, int, str]) -> None:
    found = newcombe_interval(*row[:4])
    assert (round(found.low, row[6]), round(found.high, row[6])) == row[4:6]
    assert (found.method, found.units, found.level) == ("newcombe", sum(row[:4]), 0.95)


Z2 = 1.959963984540054**2
NEWCOMBE_ROWS = [  # counts, low, high, why
    ((20, 0, 0, 0), -Z2 / (20 + Z2), Z2 / (20 + Z2), "all right in both: Wilson's z²/(n + z²) on each side, φ = 0"),
    ((0, 0, 0, 20), -Z2 / (20 + Z2), Z2 / (20 + Z2), "all wrong in both: the same"),
    ((0, 0, 20, 0), 1 - math.sqrt(2) * Z2 / (20 + Z2), 1.0, "all gained: both shares are as far as they can be"),
    ((0, 20, 0, 0), -1.0, math.sqrt(2) * Z2 / (20 + Z2) - 1, "all lost"),
]


@pytest.mark.parametrize(("counts", "low", "high"), [row[:3] for row in NEWCOMBE_ROWS], ids=[row[3] for row in NEWCOMBE_ROWS])  # fmt: skip
def test_newcombe_by_hand(counts: tuple[int, int, int, int], low: float, high: float) -> None:
    assert ends(newcombe_interval(*counts)) == pytest.approx((low, high), abs=1e-12)


@given(COUNTS, st.sampled_from([0.8, 0.9, 0.95]))
def test_newcombe_is_symmetrical_holds_the_difference_and_grows_with_the_level(
    counts: tuple[int, int, int, int], level: float
) -> None:
    both, first_only, second_only, neither = counts
    found = newcombe_interval(*counts, level=level)
    low, high = ends(found)
    assert -1 <= low <= (second_only - first_only) / sum(counts) <= high <= 1
    assert ends(newcombe_interval(both, second_only, first_only, neither, level=level)) == pytest.approx((-high, -low))
    assert ends(newcombe_interval(neither, second_only, first_only, both, level=level)) == pytest.approx((-high, -low))
    wider = newcombe_interval(*counts, level=level + 0.04)
    assert wider.low <= low
    assert high <= wider.high
    assert found.flags == (("few",) if sum(counts) < 10 else ())


@pytest.mark.parametrize("n", [10, 20])
def test_newcombe_coverage_as_documented(n: int) -> None:
    """Exactly, over every table of n samples, for true chances all over the place."""
    tables = np.array([(a, b, c, n - a - b - c) for a in range(n + 1) for b in range(n + 1 - a) for c in range(n + 1 - a - b)])  # fmt: skip
    low, high = np.array([ends(newcombe_interval(*map(int, row))) for row in tables]).T
    ways = np.array([math.lgamma(n + 1) - sum(math.lgamma(k + 1) for k in row) for row in tables.tolist()])
    rng = np.random.default_rng(n)
    chances = np.concatenate([rng.dirichlet(alpha, 100) for alpha in ([1, 1, 1, 1], [3, 0.3, 0.3, 1], [5, 1, 0.1, 5])])
    chances = np.maximum(chances, 1e-12)
    truth = (chances[:, 2] - chances[:, 1])[:, None]
    weight = np.exp(ways + np.log(chances) @ tables.T)
    covered = (weight * ((low <= truth) & (truth <= high))).sum(axis=1)
    assert covered.min() > 0.87
    assert covered.mean() > 0.95


@given(COUNTS, st.randoms(use_true_random=False))
def test_scores_of_zero_and_one_are_counted(counts: tuple[int, int, int, int], rng: Any) -> None:
    pairs = [pair for pair, times in zip([(1, 1), (1, 0), (0, 1), (0, 0)], counts, strict=True) for _ in range(times)]
    first, second = np.array(rng.sample(pairs, len(pairs)), dtype=np.float64).T
    assert paired_interval(first, second, binary=True, level=0.9) == newcombe_interval(*counts, level=0.9)
    assert paired_interval(first, second, clusters=np.arange(len(pairs)), binary=True) == newcombe_interval(*counts)


@pytest.mark.parametrize("level", [0.9, 0.95])
@pytest.mark.parametrize("n", [2, 10, 200])
def test_t_as_scipy(n: int, level: float) -> None:
    stats = need("scipy.stats")
    rng = np.random.default_rng(n)
    first = rng.random(n)
    second = first + rng.normal(0.1, 0.3, n)
    want = stats.ttest_rel(second, first).confidence_interval(level)
    found = paired_interval(first, second, level=level)
    assert ends(found) == pytest.approx((want.low, want.high), rel=1e-9)
    assert found is not None
    assert (found.method, found.units, found.level) == ("t", n, level)
    assert ("few" in found.flags) == (n < 30)


def test_clusters_are_the_units() -> None:
    stats = need("scipy.stats")
    rng = np.random.default_rng(7)
    first, second, codes = rng.random(60), rng.random(60), np.repeat(np.arange(15), 4)
    means = (second - first).reshape(15, 4).mean(axis=1)
    want = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    found = paired_interval(first, second, clusters=codes)
    assert ends(found) == pytest.approx((want.low, want.high), rel=1e-9)
    assert found is not None
    assert found.units == 15


def test_right_or_wrong_in_clusters_and_means_over_repeats_have_students_t() -> None:
    first, second = np.array([0.0, 1.0, 0.0, 0.0]), np.array([1.0, 1.0, 1.0, 0.0])
    clustered = paired_interval(first, second, clusters=np.array([1, 1, 2, 2]), binary=True)
    assert clustered is None or clustered.method != "newcombe"
    repeats = paired_interval(first, second / 2, binary=True)
    assert repeats == mean_interval(second / 2 - first, lowest=-1.0, highest=1.0)
    assert repeats is not None
    assert repeats.method == "t"


DIFFERENCE_ROWS: list[tuple[float, float, float, str]] = [
    (0.25, 1.0, 0.75, "the second less the first"),
    (0.1 + 0.2, 0.3, 0.0, "rounding is a draw"),
    (0.0, 1e-300, 1e-300, "beside nothing, anything is something"),
    (1e6, 1e6 + 1e-3, 1e6 + 1e-3 - 1e6, "a thousandth of a million is no rounding"),
    (1.0, float("nan"), float("nan"), "no score, no difference"),
]


@pytest.mark.parametrize(
    ("first", "second", "want"), [row[:3] for row in DIFFERENCE_ROWS], ids=[row[3] for row in DIFFERENCE_ROWS]
)
def test_differences(first: float, second: float, want: float) -> None:
    assert paired_differences(np.array([first]), np.array([second])) == pytest.approx([want], rel=0, abs=0, nan_ok=True)
    assert paired_differences(np.array([[second]]), np.array([[first]])).shape == (1, 1)


def test_runs_that_differ_by_rounding_do_not_differ() -> None:
    first, second = np.full(50, 0.1) + 0.2, np.full(50, 0.3)
    first[::2], second[::2] = 0.3, 0.1 + 0.2
    assert sign_flips(paired_differences(first, second)[:, None]).p_values[0] == 1.0
    found = paired_interval(first, second, lowest=0.0, highest=1.0)
    assert found is not None
    assert found.method == "all_equal"


def test_interval_of_runs_that_never_differ() -> None:
    scores = np.random.default_rng(1).random(100)
    found = paired_interval(scores, scores, lowest=0.0, highest=1.0)
    assert found is not None
    assert found.method == "all_equal"
    assert ends(found) == pytest.approx((-(1 - 0.025**0.01), 1 - 0.025**0.01))


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(0, 9)), min_size=2, max_size=40))
def test_the_other_run_first_mirrors_the_interval(rows: list[tuple[int, int, int]]) -> None:
    first, second, codes = np.array(rows).T
    one = paired_interval(first / 100, second / 100, clusters=codes, lowest=0.0, highest=1.0)
    other = paired_interval(second / 100, first / 100, clusters=codes, lowest=0.0, highest=1.0)
    assert (one is None) == (other is None)
    if one is not None:
        assert ends(other) == pytest.approx((-one.high, -one.low), abs=1e-12)


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("n", [0, 1])
def test_no_interval_of_less_than_two_samples(n: int, binary: bool) -> None:
    assert paired_interval(np.zeros(n), np.ones(n), binary=binary) is None


def test_bad_input() -> None:
    with pytest.raises(AlignmentError, match="3 scores of the first run but 2 scores of the second run"):
        paired_interval(np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="index 1 is nan"):
        paired_interval(np.array([1.0, np.nan]), np.ones(2), binary=True)
    with pytest.raises(ValueError, match="index 0 is -inf"):
        paired_interval(np.array([np.inf, 1.0]), np.ones(2))
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        paired_interval(np.ones(3), np.zeros(3), binary=True, level=95)
    for counts in [(0, 0, 0, 0), (1, -1, 2, 3)]:
        with pytest.raises(ValueError, match="four counts of samples"):
            newcombe_interval(*counts)
