"""The bootstrap: held against a plain loop with the same draws, against theory, and by rows where nothing varies."""

import math
import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, strategies as st

from auepora_eval.stats.bootstrap import bootstrap_indices, bootstrap_interval, bootstrap_interval_of
from auepora_eval.stats.intervals import Interval, mean_interval
from helpers.requirements import examples

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

# Matches, attempts and a cluster per sample.
ROWS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5), st.integers(-2, 4)), min_size=2, max_size=30).map(
    np.array
)


def ratio(sums: Floats) -> Floats:
    return np.asarray(sums[:, 0] / sums[:, 1])


def must(found: Interval | None) -> Interval:
    assert found is not None
    return found


@given(ROWS, st.booleans(), st.integers(0, 3))
def test_sums_and_indices_are_the_same_bootstrap(rows: npt.NDArray[np.int64], clustered: bool, seed: int) -> None:
    table, codes = rows[:, :2].astype(np.float64), rows[:, 2] if clustered else None
    fast = bootstrap_interval(table, ratio, clusters=codes, draws=60, seed=seed, lowest=0.0, highest=9.0)
    slow = bootstrap_interval_of(
        lambda drawn: table[drawn, 0].sum() / table[drawn, 1].sum(),
        len(table),
        clusters=codes,
        draws=60,
        seed=seed,
        lowest=0.0,
        highest=9.0,
    )
    assert (fast is None) == (slow is None)
    if fast is not None and slow is not None:
        assert (fast.low, fast.high) == pytest.approx((slow.low, slow.high), abs=1e-12)
        assert (fast.method, fast.units) == (slow.method, slow.units)
        assert 0 <= fast.low <= fast.high <= 9


@given(ROWS, st.booleans())
def test_a_draw_holds_whole_clusters_as_many_as_there_are(rows: npt.NDArray[np.int64], clustered: bool) -> None:
    codes = rows[:, 2] if clustered else np.arange(len(rows))
    for drawn in bootstrap_indices(len(rows), clusters=codes if clustered else None, draws=5):
        times = np.bincount(drawn, minlength=len(rows))
        by_cluster = {code: set(times[codes == code].tolist()) for code in set(codes.tolist())}
        assert all(len(counts) == 1 for counts in by_cluster.values())  # each of its samples equally often
        assert sum(counts.pop() for counts in by_cluster.values()) == len(set(codes.tolist()))


def test_each_unit_is_drawn_alike() -> None:
    """2,000 draws of ten units: each about 2,000 times, with the variance of a multinomial count, 10 * 1/10 * 9/10."""
    counts = np.array([np.bincount(drawn, minlength=10) for drawn in bootstrap_indices(10, draws=2000)])
    assert np.abs(counts.mean(axis=0) - 1).max() < 5 * math.sqrt(0.9 / 2000)
    assert counts.var(axis=0) == pytest.approx(0.9, abs=0.15)


def test_the_same_seed_the_same_interval_and_another_one_another() -> None:
    table = np.random.default_rng(0).random((50, 2))
    first = bootstrap_interval(table, ratio, seed=3)
    assert first == bootstrap_interval(table, ratio, seed=3)
    assert first != bootstrap_interval(table, ratio, seed=4)


def test_the_size_of_the_blocks_changes_no_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.random.default_rng(0).integers(0, 9, (50, 2)).astype(np.float64)  # whole numbers: sums are exact
    first = bootstrap_interval(table, ratio)
    for counted, multiplied in ((1, 1), (50, 333), (333, 1000), (1000, 333)):
        monkeypatch.setattr("auepora_eval.stats.bootstrap._COUNTED", counted)
        monkeypatch.setattr("auepora_eval.stats.bootstrap._MULTIPLIED", multiplied)
        assert bootstrap_interval(table, ratio) == first


def test_the_order_of_clustered_samples_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    table, codes = rng.integers(0, 9, (60, 2)).astype(np.float64), np.repeat(np.arange(20), 3)
    order = rng.permutation(60)
    first = bootstrap_interval(table, ratio, clusters=codes)
    assert bootstrap_interval(table[order], ratio, clusters=codes[order]) == first
    assert must(first).units == 20


@pytest.mark.parametrize("codes", [None, np.repeat(np.arange(500), 4)], ids=["plain", "clusters of four"])
def test_of_a_mean_it_agrees_with_t(codes: Ints | None) -> None:
    """Both are right for a mean of many units; with 4,000 draws the ends are good to about 3 % of the width."""
    rng = np.random.default_rng(5)
    values = 0.5 + 0.1 * (rng.normal(size=500)[np.arange(2000) // 4] + rng.normal(size=2000))
    columns = np.stack([values, np.ones(2000)], axis=1)
    got = must(bootstrap_interval(columns, ratio, clusters=codes, draws=4000))
    want = must(mean_interval(values, clusters=codes))
    assert (got.method, got.units, got.flags) == ("bootstrap", want.units, ())
    assert (got.low, got.high) == pytest.approx((want.low, want.high), abs=0.05 * (want.high - want.low))


def test_the_percentiles_of_a_level() -> None:
    """With the draw's number as its value, the ends are the quantiles of 0..999."""
    table = np.ones((40, 1))
    got = must(bootstrap_interval(table, lambda sums: np.arange(len(sums), dtype=np.float64), level=0.9))
    assert got.level == 0.9
    assert (got.low, got.high) == pytest.approx((0.05 * 999, 0.95 * 999))


P4 = 1 - 0.025 ** (1 / 4)
FLAT_ROWS: list[tuple[list[list[int]], float, float, float, float, tuple[str, ...], str]] = [
    ([[2, 2]] * 4, 0.0, 1.0, 1 - P4, 1.0, (), "every unit perfect: room below for units not seen"),
    ([[0, 2]] * 4, 0.0, 1.0, 0.0, P4, (), "none right"),
    ([[1, 1], [2, 2], [3, 3], [9, 9]], 0.0, 1.0, 1 - P4, 1.0, (), "different sums, one ratio"),
    ([[2, 2]] * 4 + [[0, 0]] * 40, 0.0, 1.0, 1 - P4, 1.0, (), "units with nothing to say are not counted"),
    ([[2, 2]] * 4, 0.0, math.inf, 1 - P4, 1.0, ("unbounded",), "no highest: that end says nothing"),
]


@pytest.mark.parametrize(
    ("table", "lowest", "highest", "low", "high", "flags"),
    [row[:6] for row in FLAT_ROWS],
    ids=[row[6] for row in FLAT_ROWS],
)
def test_where_all_draws_are_equal(
    table: list[list[int]], lowest: float, highest: float, low: float, high: float, flags: tuple[str, ...]
) -> None:
    got = must(bootstrap_interval(np.array(table, dtype=np.float64), ratio, lowest=lowest, highest=highest))
    assert (got.low, got.high) == pytest.approx((low, high), abs=1e-12)
    assert (got.method, got.units, got.flags) == ("all_equal", len(table), flags)


def rare(units: int, informative: int) -> Floats:
    """Units of which only ``informative`` ones have a denominator; half of these count."""
    table = np.zeros((units, 2))
    table[:informative, 1] = 1
    table[: informative // 2, 0] = 1
    return table


FLAG_ROWS = [  # units, of them with a denominator, flags that must and must not be there, why
    (100, 100, set(), {"few", "unstable", "skewed"}, "a hundred units"),
    (100, 29, {"few"}, {"unstable"}, "29 of them have a denominator"),
    (29, 29, {"few"}, {"unstable"}, "29 units"),
    (100, 2, {"few", "unstable"}, set(), "two: missed by (98/100)^100 = 13 % of the draws"),
    (100, 4, {"few"}, {"unstable"}, "four: missed by 2 % of the draws"),
]


@pytest.mark.parametrize(
    ("units", "informative", "present", "absent"), [row[:4] for row in FLAG_ROWS], ids=[row[4] for row in FLAG_ROWS]
)
def test_flags(units: int, informative: int, present: set[str], absent: set[str]) -> None:
    flags = set(must(bootstrap_interval(rare(units, informative), ratio, lowest=0.0, highest=1.0)).flags)
    assert present <= flags
    assert not absent & flags


def test_skewed_draws_are_flagged() -> None:
    values = np.zeros(100)
    values[:3] = 1.0  # skewness (1 - 2p) / sqrt(p(1 - p)) = 5.5, a tenth of it in the mean of a hundred
    assert must(bootstrap_interval(np.stack([values, np.ones(100)], axis=1), ratio)).flags == ("skewed",)


def test_a_few_draws_without_a_value_are_left_out() -> None:
    table = np.random.default_rng(0).random((40, 2))

    def sometimes(sums: Floats) -> Floats:
        return np.where(np.arange(len(sums)) % 49 == 0, np.nan, ratio(sums))

    got, whole = must(bootstrap_interval(table, sometimes)), must(bootstrap_interval(table, ratio))
    assert "unstable" not in got.flags
    assert (got.low, got.high) == pytest.approx((whole.low, whole.high), abs=0.02)


def test_draws_that_miss_the_observed_value_are_flagged() -> None:
    """Of fifty different things a draw with replacement holds about 63 %: its interval is far below the 100 % seen."""
    got = must(bootstrap_interval_of(lambda drawn: len(np.unique(drawn)) / 50, 50, lowest=0.0, highest=1.0))
    assert got.high < 1
    assert got.flags == ("unstable",)


@pytest.mark.parametrize(
    ("table", "codes"),
    [
        (np.empty((0, 2)), None),
        (np.ones((1, 2)), None),
        (np.ones((3, 2)), np.array([7, 7, 7])),
        (np.zeros((9, 2)), None),
    ],
    ids=["no sample", "one sample", "one cluster", "no draw has a value"],
)
def test_no_interval(table: Floats, codes: Ints | None) -> None:
    assert bootstrap_interval(table, ratio, clusters=codes) is None
    assert (
        bootstrap_interval_of(lambda drawn: table[drawn, 0].sum() / table[drawn, 1].sum(), len(table), clusters=codes)
        is None
    )


@pytest.mark.slow
def test_coverage_of_a_median() -> None:
    """Repetitions of 60 values: 95 % give or take 4."""
    repetitions = examples(500)
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(repetitions):
        values = rng.lognormal(size=60)
        got = must(bootstrap_interval_of(lambda drawn, v=values: float(np.median(v[drawn])), 60, draws=200, lowest=0.0))  # type: ignore[misc]
        covered += got.low <= 1.0 <= got.high
    assert 0.90 <= covered / repetitions <= 0.99


def test_memory_stays_small() -> None:
    table = np.random.default_rng(0).random((20_000, 10))
    tracemalloc.start()
    bootstrap_interval(table, ratio, draws=300)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25e6


BAD_ROWS: list[tuple[Any, Any, dict[str, Any], str, str]] = [
    (np.ones(3), ratio, {}, r"a table with a row per sample, not of shape \(3,\)", "a column"),
    (np.array([[1.0, 2.0], [np.nan, 1.0]]), ratio, {}, r"index 1 are \[nan, 1.0\]", "a NaN"),
    (np.ones((3, 2)), ratio, {"clusters": np.array([1, 2])}, "3 values but clusters of shape", "too few cluster codes"),
    (np.ones((3, 2)), ratio, {"level": 95.0}, "level must lie between 0 and 1", "a level in percent"),
    (np.ones((3, 2)), lambda sums: sums, {}, "one value for each of 1001 rows", "a statistic that gives a table"),
]


@pytest.mark.parametrize(
    ("table", "of_sums", "options", "message"), [row[:4] for row in BAD_ROWS], ids=[row[4] for row in BAD_ROWS]
)
def test_bad_input(table: Any, of_sums: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bootstrap_interval(table, of_sums, **options)


@given(ROWS)
def test_scaling_the_statistic_scales_the_interval(rows: npt.NDArray[np.int64]) -> None:
    table = rows[:, :2].astype(np.float64)
    once = must(bootstrap_interval(table, ratio, draws=50, lowest=0.0, highest=9.0))
    assume(once.method == "bootstrap")
    thrice = must(bootstrap_interval(table * [3.0, 1.0], ratio, draws=50, lowest=0.0, highest=27.0))
    assert (thrice.low, thrice.high) == pytest.approx((3 * once.low, 3 * once.high), rel=1e-12)
