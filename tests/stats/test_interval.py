"""Intervals of a mean: scipy on the textbook cases, rows by hand elsewhere, and properties any interval must have."""

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, strategies as st

from auepora_eval.stats.intervals import Interval, Moments, mean_interval, wilson_interval
from helpers.requirements import examples, need

Floats = npt.NDArray[np.float64]
LEVELS = (0.8, 0.9, 0.95, 0.99)

SCORES = st.lists(st.integers(0, 1000).map(lambda i: i / 1000), min_size=2, max_size=40).map(np.array)
# A score and its cluster; few clusters, so that they are shared.
CLUSTERED = st.lists(st.tuples(st.integers(0, 100), st.integers(-3, 6)), min_size=2, max_size=40).map(
    lambda pairs: (np.array([score / 100 for score, _ in pairs]), np.array([code for _, code in pairs]))
)


def interval(values: Any, **options: Any) -> Interval:
    """The interval of values that must have one."""
    if "clusters" in options:
        options["clusters"] = np.array(options["clusters"])
    found = mean_interval(np.array(values, dtype=np.float64), **options)
    assert found is not None
    return found


def ends(found: Interval | None) -> tuple[float, float]:
    assert found is not None
    return found.low, found.high


@pytest.mark.parametrize("level", LEVELS)
def test_wilson_as_scipy(level: float) -> None:
    stats = need("scipy.stats")
    for n in (1, 2, 5, 10, 37, 1000):
        for successes in {0, 1, n // 3, n // 2, n - 1, n}:
            want = stats.binomtest(successes, n).proportion_ci(confidence_level=level, method="wilson")
            got = wilson_interval(successes, n, level=level)
            assert ends(got) == pytest.approx((want.low, want.high), abs=1e-12)
            assert (got.method, got.units, got.level) == ("wilson", n, level)


Z2 = 1.959963984540054**2  # the square of the normal quantile
WILSON_ROWS = [  # successes, n, low, high, flags, why
    (0, 20, 0.0, Z2 / (20 + Z2), (), "none: the low end is exactly 0, the high end is z²/(n + z²)"),
    (20, 20, 20 / (20 + Z2), 1.0, (), "all: the high end is exactly 1"),
    (1, 1, 1 / (1 + Z2), 1.0, ("few",), "a single success says something"),
    (2, 4, 1 / 2 - math.sqrt(Z2 / (4 + Z2)) / 2, 1 / 2 + math.sqrt(Z2 / (4 + Z2)) / 2, ("few",), "four are few"),
    (5, 10, 1 / 2 - math.sqrt(Z2 / (10 + Z2)) / 2, 1 / 2 + math.sqrt(Z2 / (10 + Z2)) / 2, (), "half: symmetrical"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("successes", "n", "low", "high", "flags"), [row[:5] for row in WILSON_ROWS], ids=[row[5] for row in WILSON_ROWS]
)
def test_wilson_by_hand(successes: int, n: int, low: float, high: float, flags: tuple[str, ...]) -> None:
    got = wilson_interval(successes, n)
    assert ends(got) == pytest.approx((low, high), abs=1e-12)
    assert (got.low == 0, got.high == 1) == (successes == 0, successes == n)
    assert got.flags == flags
    assert interval([1] * successes + [0] * (n - successes), binary=True) == got


@pytest.mark.parametrize(
    ("successes", "n", "skewed"), [(1, 100, True), (99, 100, True), (0, 100, False), (2, 100, False), (98, 100, False)]
)
def test_wilson_flag_if_the_rarer_outcome_occurs_once(successes: int, n: int, skewed: bool) -> None:
    assert wilson_interval(successes, n).flags == (("skewed",) if skewed else ())


@pytest.mark.parametrize("n", [5, 6, 10, 30, 100, 400])
def test_wilson_coverage_as_documented(n: int) -> None:
    """Exactly, for true shares all over and next to each end, where the coverage jumps."""
    stats = need("scipy.stats")
    counts = np.arange(n + 1)
    made = [wilson_interval(k, n) for k in range(n + 1)]
    low, high = np.array([ends(one) for one in made]).T
    flagged = np.array([bool(one.flags) for one in made])
    truth = np.concatenate([np.linspace(0.001, 0.999, 999), low + 1e-9, low - 1e-9, high + 1e-9, high - 1e-9])
    truth = truth[(truth > 0) & (truth < 1)][:, None]
    missed = stats.binom.pmf(counts, n, truth) * ((truth < low) | (truth > high))
    assert missed.sum(axis=1).max() < 0.17
    assert missed[:, ~flagged].sum(axis=1).max() < 0.11


@pytest.mark.parametrize("level", LEVELS)
def test_without_clusters_it_is_the_textbook_t_interval(level: float) -> None:
    stats = need("scipy.stats")
    rng = np.random.default_rng(1)
    for n in (2, 3, 10, 100, 1000):
        values = rng.normal(3, 2, n)
        want = stats.t.interval(level, n - 1, loc=values.mean(), scale=stats.sem(values))
        got = interval(values, level=level)
        assert ends(got) == pytest.approx(want, rel=1e-12)
        assert (got.method, got.units, got.level) == ("t", n, level)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [2, 4, 7])
def test_with_clusters_of_one_size_it_is_the_t_interval_of_the_cluster_means(size: int, level: float) -> None:
    stats = need("scipy.stats")
    rng = np.random.default_rng(size)
    codes = rng.permutation(np.repeat(np.arange(12), size))
    values = rng.normal(size=12)[codes] + rng.normal(size=len(codes))
    means = np.array([values[codes == code].mean() for code in range(12)])
    want = stats.t.interval(level, 11, loc=means.mean(), scale=stats.sem(means))
    got = interval(values, clusters=codes, level=level)
    assert ends(got) == pytest.approx(want, rel=1e-12)
    assert (got.method, got.units) == ("t", 12)


@given(CLUSTERED)
def test_the_cluster_formula_written_out(pairs: tuple[Floats, npt.NDArray[np.intp]]) -> None:
    """Against an ordinary sum over pairs of samples of one cluster: the same variance, put together differently."""
    values, codes = pairs
    clusters = len(set(codes.tolist()))
    assume(1 < clusters < len(codes))
    mean = sum(values.tolist()) / len(values)
    together = sum(
        (values[i] - mean) * (values[j] - mean)
        for i in range(len(values))
        for j in range(len(values))
        if codes[i] == codes[j]
    )
    assume(together > 1e-9)
    got = interval(values, clusters=codes)
    half = (
        need("scipy.stats").t.ppf(0.975, clusters - 1) * math.sqrt(clusters / (clusters - 1) * together) / len(values)
    )
    assert ends(got) == pytest.approx((mean - half, mean + half), rel=1e-9, abs=1e-12)


def test_binary_values_in_clusters_take_t() -> None:
    got = interval([1, 1, 0, 0, 1, 0], clusters=[0, 0, 1, 1, 2, 2], binary=True)
    assert (got.method, got.units) == ("t", 3)
    assert ends(got) == (0.0, 1.0)  # three clusters say next to nothing, and a share ends at 0 and 1


def test_the_range_cuts_the_t_interval() -> None:
    values = [0.0, 0.0, 1.0]
    free = interval(values)
    assert free.low < 0 < 1 < free.high
    assert ends(interval(values, lowest=0.0)) == (0.0, free.high)
    assert ends(interval(values, lowest=0.0, highest=1.0)) == (0.0, 1.0)
    assert ends(interval([0.9, 1.0, 1.0 + 1e-9], highest=1.0))[1] == 1.0 + 1e-9  # a value beyond the range widens it


def test_values_whose_squares_no_float_can_hold() -> None:
    for codes in (None, np.array([1, 1, 2, 3])):
        assert ends(mean_interval(np.array([1e200, 2e200, -1e200, 0.0]), clusters=codes)) == (-math.inf, math.inf)
    assert interval([1e-200, 2e-200, 0.0], lowest=0.0, highest=1.0).method == "all_equal"  # nor told from equal ones


P3, P10 = 1 - 0.025 ** (1 / 3), 1 - 0.025 ** (1 / 10)
EQUAL_ROWS: list[tuple[list[float], dict[str, Any], float, float, int, tuple[str, ...], str]] = [
    ([1.0] * 10, {"lowest": 0.0, "highest": 1.0}, 1 - P10, 1.0, 10, (), "all perfect: nothing above, P10 of the way below"),
    ([0.0] * 10, {"lowest": 0.0, "highest": 1.0}, 0.0, P10, 10, (), "all zero"),
    ([0.25] * 10, {"lowest": 0.0, "highest": 1.0}, 0.25 - P10 / 4, 0.25 + P10 * 3 / 4, 10, (), "both sides, by their room"),
    ([0.5] * 3, {"lowest": -40.0, "highest": 1.0}, 0.5 - P3 * 40.5, 0.5 + P3 / 2, 3, (), "a range that is not 0 to 1"),
    ([2.0] * 3, {"lowest": 0.0}, 2 - P3 * 2, 2.0, 3, ("unbounded",), "no highest: that end says nothing"),
    ([2.0] * 3, {}, 2.0, 2.0, 3, ("unbounded",), "no range at all"),
    ([1.0] * 6, {"lowest": 0.0, "highest": 1.0, "clusters": [1, 1, 2, 2, 3, 3]}, 1 - P3, 1.0, 3, (), "clusters are what was drawn"),
    ([1.0] * 6, {"binary": True, "clusters": [1, 1, 2, 2, 3, 3]}, 1 - P3, 1.0, 3, (), "binary in clusters: from 0 to 1"),
    ([0.0, 1.0] * 3, {"lowest": 0.0, "highest": 1.0, "clusters": [1, 1, 2, 2, 3, 3]}, 0.5 - P3 / 2, 0.5 + P3 / 2, 3, (), "clusters of the same mean"),
    ([0.1 + 0.2, 0.3, 0.3], {"lowest": 0.0, "highest": 1.0}, 0.3 - P3 * 0.3, 0.3 + P3 * 0.7, 3, (), "equal but for rounding"),
    ([0.1, 0.2, 0.3] * 3, {"lowest": 0.0, "highest": 1.0, "clusters": [1, 1, 1, 2, 2, 2, 3, 3, 3]}, 0.2 - P3 * 0.2, 0.2 + P3 * 0.8, 3, (), "means equal but for rounding"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "options", "low", "high", "units", "flags"),
    [row[:6] for row in EQUAL_ROWS],
    ids=[row[6] for row in EQUAL_ROWS],
)
def test_equal_values(
    values: list[float], options: dict[str, Any], low: float, high: float, units: int, flags: tuple[str, ...]
) -> None:
    got = interval(values, **options)
    assert ends(got) == pytest.approx((low, high), abs=1e-12)
    assert (got.method, got.units, got.flags) == ("all_equal", units, flags)


def test_bound_for_equal_values() -> None:
    """Were P of all units different, none of ten would be met in half of the 5 % that a 95 % interval leaves."""
    assert abs((1 - P10) ** 10 - 0.025) < 1e-15
    assert interval([1.0] * 10, lowest=0, highest=1, level=0.9).low == pytest.approx(0.05 ** (1 / 10))


@given(st.floats(0, 1), st.integers(2, 60))
def test_equal_values_hold_the_correctly_rounded_mean(value: float, n: int) -> None:
    got = interval([value] * n)
    assert got.low <= math.fsum([value] * n) / n <= got.high


NONE_ROWS: list[tuple[list[float], dict[str, Any], str]] = [
    ([], {}, "no value"),
    ([], {"binary": True}, "no value, binary"),
    ([], {"clusters": np.array([], dtype=np.intp)}, "no value, no cluster"),
    ([0.5], {"lowest": 0.0, "highest": 1.0}, "one value has no spread"),
    ([0.5, 0.7], {"clusters": np.array([3, 3])}, "one cluster"),
    ([1.0, 0.0], {"clusters": np.array([3, 3]), "binary": True}, "one cluster of binary values"),
]


@pytest.mark.parametrize(("values", "options"), [row[:2] for row in NONE_ROWS], ids=[row[2] for row in NONE_ROWS])
def test_no_interval(values: list[float], options: dict[str, Any]) -> None:
    assert mean_interval(np.array(values), **options) is None


def test_flag_few_uses_effective_units() -> None:
    rng = np.random.default_rng(0)
    assert interval(rng.random(29)).flags == ("few",)
    assert interval(rng.random(30)).flags == ()
    assert interval(rng.random(80), clusters=np.repeat(np.arange(20), 4)).flags == ("few",)
    # 40 clusters of which one holds nearly all samples: by weight hardly more than one.
    assert "few" in interval(rng.random(1039), clusters=np.maximum(np.arange(1039) - 999, 0)).flags


@pytest.mark.parametrize(("rare", "skewed"), [(4, True), (20, False)])
def test_skewed_by_cochrans_rule(rare: int, skewed: bool) -> None:
    values = np.zeros(100)
    values[:rare] = 0.5
    share = rare / 100
    skewness = (1 - 2 * share) / math.sqrt(share * (1 - share))  # of two values, whatever they are
    assert (25 * skewness**2 > 100) is skewed
    assert interval(values).flags == (("skewed",) if skewed else ())
    assert interval(np.repeat(values, 2), clusters=np.repeat(np.arange(100), 2)).flags == interval(values).flags


SKEWED: list[tuple[str, Callable[[np.random.Generator, int], Floats], float, float]] = [  # name, draw, mean, highest
    ("long tail", lambda rng, n: rng.lognormal(0, 1, n), math.exp(0.5), math.inf),
    ("long tail behind a constant", lambda rng, n: 2 + rng.lognormal(0, 1, n), 2 + math.exp(0.5), math.inf),
    ("power law", lambda rng, n: 1 + rng.pareto(3, n), 1.5, math.inf),
    ("mostly near 0", lambda rng, n: rng.beta(0.1, 2, n), 0.1 / 2.1, 1.0),
    ("good, but 5 % failed", lambda rng, n: np.where(rng.random(n) < 0.05, 0, rng.beta(20, 2, n)), 0.95 / 1.1, 1.0),
    ("good, but 10 % failed", lambda rng, n: np.where(rng.random(n) < 0.1, 0, rng.beta(20, 2, n)), 0.9 / 1.1, 1.0),
]
REPETITIONS = examples(2_000)


@pytest.mark.parametrize("n", [30, 50])
@pytest.mark.parametrize(("draw", "truth", "highest"), [row[1:] for row in SKEWED], ids=[row[0] for row in SKEWED])
def test_intervals_that_cover_too_seldom_are_flagged(draw: Any, truth: float, highest: float, n: int) -> None:
    """Where "95 %" intervals hold the mean less often than that, nearly all of them carry a flag."""
    rng = np.random.default_rng(11)
    found = [interval(draw(rng, n), lowest=0.0, highest=highest) for _ in range(REPETITIONS)]
    covers = np.array([one.low <= truth <= one.high for one in found])
    flagged = np.array([bool(one.flags) for one in found])
    assert covers.mean() < 0.94
    assert flagged.mean() > 0.93
    assert np.mean(~covers & ~flagged) < 0.03


@pytest.mark.parametrize(
    ("draw", "lowest", "highest"),
    [
        (lambda rng: rng.random(30), 0.0, 1.0),
        (lambda rng: rng.beta(5, 5, 30), 0.0, 1.0),
        (lambda rng: np.where(rng.random(30) < 0.4, 0.0, rng.beta(2, 1, 30)), 0.0, 1.0),
        (lambda rng: rng.normal(0, 0.2, 30), -1.0, 1.0),
        (lambda rng: rng.normal(size=30), -math.inf, math.inf),
    ],
    ids=["uniform", "in the middle", "many zeros", "differences", "normal without a range"],
)
def test_intervals_that_cover_are_seldom_flagged(draw: Any, lowest: float, highest: float) -> None:
    rng = np.random.default_rng(11)
    found = [interval(draw(rng), lowest=lowest, highest=highest) for _ in range(REPETITIONS)]
    assert np.mean([bool(one.flags) for one in found]) < 0.04


SHAPE_ROWS: list[tuple[list[float], dict[str, Any], tuple[str, ...], str]] = [
    ([0.9, 0.92] * 20, {"lowest": 0.0, "highest": 1.0}, ("few",), "a zero more would move the mean by 0.91 / 41"),
    ([0.9, 0.92] * 20, {}, (), "no range: nothing is known of what was not seen"),
    ([0.9, 0.92] * 40, {"lowest": 0.0, "highest": 1.0}, (), "80 units: a failure in twenty would have been seen"),
    ([0.1, 0.9] * 20, {"lowest": 0.0, "highest": 1.0}, (), "in the middle of the range and wide"),
    ([0.0, 0.0, 0.0, 0.5, 0.5] * 8, {"lowest": 0.0, "highest": 1.0}, (), "0.2 of 0 to 1, skewness 1.1: 15 * 1.1² < 40"),
    ([0.0, 0.0, 0.0, 0.5, 0.5] * 8, {"lowest": 0.0}, ("skewed",), "with no end above it is 2.4: 15 * 2.4² > 40"),
    ([0.0, 0.0, 0.0, -0.5, -0.5] * 8, {"highest": 0.0}, ("skewed",), "the same to the other side"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "options", "flags"), [row[:3] for row in SHAPE_ROWS], ids=[row[3] for row in SHAPE_ROWS]
)
def test_flags_by_mean_spread_and_range(values: list[float], options: dict[str, Any], flags: tuple[str, ...]) -> None:
    assert interval(values, **options).flags == flags
    pairs = np.repeat(np.array(values), 2)
    assert interval(pairs, clusters=np.repeat(np.arange(len(values)), 2), **options).flags == flags
    running = Moments()
    for part in np.array_split(np.array(values), 3):
        running.add(part)
    got = running.interval(**options)
    assert got is not None
    assert got.flags == flags


@given(CLUSTERED, st.sampled_from(LEVELS), st.booleans())
def test_the_mean_is_inside_and_all_is_within_the_range(
    pairs: tuple[Floats, npt.NDArray[np.intp]], level: float, clustered: bool
) -> None:
    values, codes = pairs
    found = mean_interval(values, clusters=codes if clustered else None, lowest=0.0, highest=1.0, level=level)
    if found is not None:
        assert 0 <= found.low <= values.mean() + 1e-15
        assert values.mean() - 1e-15 <= found.high <= 1
        wider = mean_interval(
            values, clusters=codes if clustered else None, lowest=0.0, highest=1.0, level=(1 + level) / 2
        )
        assert wider is not None
        assert wider.low <= found.low
        assert found.high <= wider.high


@given(CLUSTERED, st.integers(-50, 50), st.sampled_from([-8.0, -0.5, 0.25, 3.0]))
def test_shifting_and_scaling_the_scores_does_so_to_the_interval(
    pairs: tuple[Floats, npt.NDArray[np.intp]], shift: int, scale: float
) -> None:
    values, codes = pairs
    found = mean_interval(values, clusters=codes, lowest=0.0, highest=1.0)
    low, high = sorted((shift, shift + scale))
    moved = mean_interval(values * scale + shift, clusters=codes, lowest=low, highest=high)
    assert (found is None) == (moved is None)
    if found is not None and moved is not None:
        assert sorted((found.low * scale + shift, found.high * scale + shift)) == pytest.approx(ends(moved), abs=1e-9)
        assert (found.method, found.units) == (moved.method, moved.units)


@given(CLUSTERED, st.randoms(use_true_random=False), st.booleans())
def test_order_and_the_names_of_clusters_do_not_matter(
    pairs: tuple[Floats, npt.NDArray[np.intp]], rng: Any, binary: bool
) -> None:
    values, codes = pairs
    values = np.round(values) if binary else values
    found = mean_interval(values, clusters=codes, binary=binary, lowest=0.0, highest=1.0)
    order = np.array(rng.sample(range(len(values)), len(values)))
    names = {code: name for name, code in enumerate(rng.sample(range(-3, 7), 10), -(10**12))}
    renamed = np.array([names[code] for code in codes.tolist()])
    other = mean_interval(values[order], clusters=renamed[order], binary=binary, lowest=0.0, highest=1.0)
    assert (found is None) == (other is None)
    if found is not None:
        assert ends(found) == pytest.approx(ends(other), abs=1e-12)


@given(SCORES, st.booleans())
def test_clusters_of_one_are_no_clusters(values: Floats, binary: bool) -> None:
    values = np.round(values) if binary else values
    codes = np.arange(len(values))[::-1] * 7 - 3
    assert mean_interval(values, clusters=codes, binary=binary) == mean_interval(values, binary=binary)


@pytest.mark.parametrize(
    ("draw", "truth", "binary"),
    [
        (lambda rng: rng.random(100), 1 / 2, False),
        (lambda rng: rng.beta(5, 1, 100), 5 / 6, False),
        (lambda rng: np.where(rng.random(100) < 0.4, 0.0, rng.beta(2, 1, 100)), 0.6 * 2 / 3, False),
        (lambda rng: (rng.random(100) < 0.7).astype(float), 0.7, True),
    ],
    ids=["uniform", "mostly high", "many zeros", "right or wrong"],
)
def test_coverage_with_a_hundred_samples(draw: Any, truth: float, binary: bool) -> None:
    """2,000 repetitions: a share of 95 % comes out within half a percent, and 93 to 97 is far outside chance."""
    rng = np.random.default_rng(7)
    found = [mean_interval(draw(rng), binary=binary, lowest=0.0, highest=1.0) for _ in range(2000)]
    assert 0.93 <= np.mean([one is not None and one.low <= truth <= one.high for one in found]) <= 0.97


def test_coverage_with_and_without_clusters() -> None:
    rng = np.random.default_rng(7)
    codes = np.repeat(np.arange(100), 4)
    covered = np.zeros(2)
    for _ in range(2000):
        values = math.sqrt(0.6) * rng.normal(size=100)[codes] + math.sqrt(0.4) * rng.normal(size=400)
        for way, given_codes in enumerate((codes, None)):
            low, high = ends(mean_interval(values, clusters=given_codes))
            covered[way] += low <= 0 <= high
    assert 0.93 <= covered[0] / 2000 <= 0.97
    assert covered[1] / 2000 < 0.85


@given(SCORES, st.lists(st.integers(0, 40), max_size=5), st.booleans(), st.booleans())
def test_batches_and_merging_give_the_interval_of_the_whole(
    values: Floats, cuts: list[int], binary: bool, merging: bool
) -> None:
    values = np.round(values) if binary else values
    running = Moments()
    for part in np.split(values, sorted(cuts)):
        if merging:
            other = Moments()
            other.add(part)
            running.merge(pickle.loads(pickle.dumps(other)))
        else:
            running.add(part)
    want = interval(values, binary=binary, lowest=0.0, highest=1.0)
    got = running.interval(binary=binary, lowest=0.0, highest=1.0)
    assert got is not None
    assert ends(got) == pytest.approx(ends(want), rel=1e-9, abs=1e-15)
    assert (got.method, got.units) == (want.method, want.units)


def test_moments_are_those_of_scipy_even_far_from_zero() -> None:
    stats = need("scipy.stats")
    values = 1e6 + np.random.default_rng(0).lognormal(size=5000)
    running = Moments()
    for part in np.array_split(values, 37):
        running.add(part)
    assert running.mean == pytest.approx(values.mean(), rel=1e-14)
    assert running.squares / running.n == pytest.approx(np.var(values), rel=1e-9)
    assert running.cubes / running.n == pytest.approx(stats.moment(values, 3), rel=1e-9)
    assert (running.n, running.smallest, running.largest) == (5000, values.min(), values.max())
    got = running.interval()
    assert got is not None
    assert ends(got) == pytest.approx(ends(mean_interval(values)), rel=1e-12)
    assert got.flags == interval(values).flags


def test_an_empty_stream_has_no_interval() -> None:
    running = Moments()
    running.add(np.array([]))
    running.merge(Moments())
    assert running.interval() is None
    assert running.interval(binary=True) is None


BAD_ROWS: list[tuple[Any, dict[str, Any], str, str]] = [
    ([0.1, math.nan], {}, "index 1 is nan; leave out what has no score", "a NaN"),
    ([-math.inf, 0.1], {}, "index 0 is -inf", "an infinite value"),
    ([[0.1, 0.2]], {}, r"one flat array, not one of shape \(1, 2\)", "a table"),
    ([0.1, 0.2], {"clusters": np.array([1])}, "2 values but clusters of shape", "too few cluster codes"),
    ([0.1, 0.2], {"clusters": np.array([[1, 1]])}, "2 values but clusters of shape", "a table of cluster codes"),
    ([0.1, 0.2], {"level": 95}, "level must lie between 0 and 1, not at 95", "a level in percent"),
    ([0.1], {"level": 0.0}, "level must lie between 0 and 1", "a level without a chance"),
    ([0.1, 0.2], {"level": 1.0, "clusters": np.array([1, 1])}, "level must lie between", "certainty, for one cluster"),
    ([0.0, 2.0, 3.0], {"binary": True}, "successes of 3", "binary values that are not"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "options", "message"), [row[:3] for row in BAD_ROWS], ids=[row[3] for row in BAD_ROWS]
)
def test_bad_input(values: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mean_interval(np.array(values, dtype=np.float64), **options)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 3), (4, 3), (math.nan, 3)])
def test_proportion_of_nothing(successes: float, n: int) -> None:
    with pytest.raises(ValueError, match="there must be at least one trial"):
        wilson_interval(successes, n)
