"""Bounds that hold under skew: by hand, against scipy's roots, their symmetry, and how often verdicts are wrong."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from auepora_eval.stats.difference import paired_interval
from auepora_eval.stats.intervals import Interval
from auepora_eval.stats.skew import bounds_under_skew, doubtful_ends, log_wealth
from benchmarks import verdicts_skew

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float] | None


def bounds(
    differences: Floats,
    *,
    clusters: npt.NDArray[np.intp] | None = None,
    lowest: float = 0.0,
    highest: float = 1.0,
    level: float = 0.95,
) -> Ends:
    first = np.where(differences < 0, -differences, 0.0)
    second = first + differences
    return bounds_under_skew(first, second, clusters=clusters, lowest=lowest, highest=highest, level=level)


ISSUE = np.repeat([0.4, -0.045], [2, 48])
"""Two of fifty gain much, the others lose a little."""


def test_wealth_by_hand() -> None:
    values, counts = np.array([0.5, -0.1]), np.array([1, 2])
    bets = [0.02 + 0.93 * step / 29 for step in range(30)]
    wealth = [(1 + bet * 0.5) * (1 - bet * 0.1) ** 2 for bet in bets]
    assert log_wealth(values, counts, -1.0) == pytest.approx(math.log(sum(wealth) / 30))


def test_the_mean_of_many_small_losses_and_few_large_gains_is_not_certain() -> None:
    found = bounds(ISSUE)
    assert found is not None
    assert found[0] < 0 < found[1]
    # At a bound the wealth is 2 / alpha = 40. The lower end, away from the tail, is that of the t interval.
    assert log_wealth(found[1] - ISSUE, np.ones(50), found[1] - 1.0) == pytest.approx(math.log(40), abs=1e-6)
    assert found[0] == t_interval(ISSUE).low


def test_with_more_primary_metrics_the_bounds_are_wider() -> None:
    one, five = bounds(ISSUE), bounds(ISSUE, level=1 - 0.05 / 5)
    assert one is not None
    assert five is not None
    assert five[0] < one[0] < one[1] < five[1]


def t_interval(differences: Floats) -> Interval:
    found = paired_interval(np.zeros(len(differences)), differences, lowest=0.0, highest=1.0)
    assert found is not None
    return found


@given(st.permutations(range(50)))
def test_the_order_of_rows_has_no_influence(order: list[int]) -> None:
    assert bounds(ISSUE[order]) == bounds(ISSUE)


def test_swapped_runs_have_the_opposite_bounds() -> None:
    low, high = bounds(ISSUE) or (math.nan, math.nan)
    assert bounds(-ISSUE) == pytest.approx((-high, -low))


RNG = np.random.default_rng(5)
SURE = [  # differences, why
    (np.repeat([1.0, 0.0], [7, 93]), "0/1 scores without clusters are symmetric where there is no difference"),
    (RNG.normal(0.02, 0.2, 100).clip(-1, 1), "normal differences"),
    (np.repeat([0.25, -0.25, 0.0], [20, 10, 20]), "equal steps"),
    (np.full(40, 0.1), "equal differences have an interval of their own"),
    (RNG.normal(0.0, 0.1, 29).clip(-1, 1), "a small number of units alone is no reason"),
    (np.repeat([1.0, -0.1], [2, 17]), "fewer than twenty units"),
]


@pytest.mark.parametrize("differences", [row[0] for row in SURE], ids=[row[1] for row in SURE])
def test_differences_that_need_no_support(differences: Floats) -> None:
    assert bounds(differences) is None


def test_scores_of_a_binary_metric_in_clusters_need_support() -> None:
    differences = np.zeros(160)
    differences[[0, 40, 80, 120]] = 1.0
    clusters = np.repeat(np.arange(40), 4)
    assert bounds(differences) is None
    assert bounds(differences, clusters=clusters) is not None


def test_a_cluster_counts_by_its_sum_over_the_mean_size() -> None:
    sizes = [1, 3] * 25
    clusters = np.repeat(np.arange(50), sizes)
    differences = np.repeat(ISSUE, sizes)
    found = bounds(differences, clusters=clusters)
    assert found is not None
    units = ISSUE * np.array(sizes) / 2
    # The range is that of the largest cluster: 3 / 2.
    assert log_wealth(found[1] - units, np.ones(50), found[1] - 1.5) == pytest.approx(math.log(40), abs=1e-6)


def test_common_small_losses_without_the_rare_gain() -> None:
    """A fifth loses .1; a gain of 1 in 2 % would make the mean 0, and 80 draws lack it in a fifth of cases."""
    losses = np.repeat([-0.1, 0.0], [16, 64])
    assert "skewed" not in t_interval(losses).flags
    low, high = bounds(losses) or (math.nan, math.nan)
    assert low < t_interval(losses).low < t_interval(losses).high < 0 < high
    noise = np.linspace(-0.012, 0.012, 80)
    assert bounds(losses + noise) is not None, "small differences on the other side do not hide it"


ENDS = [  # differences, ends that are doubtful, why
    (np.repeat([1.0, -0.1, 0.0], [4, 30, 66]), (False, True), "the tail is up: the mean may be higher"),
    (np.repeat([-1.0, 0.1, 0.0], [4, 30, 66]), (True, False), "the tail is down"),
    (np.repeat([1.0, -0.1], [5, 25]), (False, True), "the mean is on the side of the tail"),
    (np.repeat([0.3, 0.0], [10, 90]), (True, True), "all on one side: what else there is was not seen"),
    (np.repeat([0.3, -0.1, 0.0], [25, 25, 50]), (False, False), "both sides, not skewed enough"),
]


@pytest.mark.parametrize(("differences", "ends"), [row[:2] for row in ENDS], ids=[row[2] for row in ENDS])
def test_an_end_is_doubtful_on_the_side_of_the_tail(differences: Floats, ends: tuple[bool, bool]) -> None:
    low, high = doubtful_ends(differences[np.newaxis], np.ones(len(differences)), 1.0)
    assert (bool(low[0]), bool(high[0])) == ends


def test_units_without_a_difference_change_nothing() -> None:
    rng = np.random.default_rng(2)
    rows = rng.choice([0.5, -0.1, 0.0], (200, 40), p=[0.1, 0.5, 0.4]) * rng.choice([-1, 1], (200, 1))
    holes = np.insert(rows, [3, 7, 30], math.nan, axis=1)
    for whole, holed in zip(doubtful_ends(rows, np.ones(40), 1.0), doubtful_ends(holes, np.ones(43), 1.0), strict=True):
        assert 0 < whole.sum() < 200
        assert np.array_equal(whole, holed)


@pytest.mark.parametrize("n", [30, 50])
@pytest.mark.parametrize("sd", [0.05, 0.1])
def test_normal_differences_lose_hardly_any_power(sd: float, n: int) -> None:
    """At a power of .8, one verdict in a hundred at most is taken away; it was one in thirty."""
    paths = np.random.default_rng(3).normal(2.8 * sd / math.sqrt(n), sd, (4_000, n))
    found = verdicts_skew.decide(paths.clip(-1, 1))
    assert found.by_t.mean() - found.rate <= 0.01


def test_hall_without_a_range() -> None:
    """The bounds are the means at which the transformed t equals the quantile; checked with scipy's root finder."""
    optimize, stats = pytest.importorskip("scipy.optimize"), pytest.importorskip("scipy.stats")
    values = np.random.default_rng(3).lognormal(0.0, 1.0, 40)
    found = bounds(values, lowest=0.0, highest=math.inf)
    assert found is not None
    n, skewness = 40, float(stats.skew(values))

    def transformed(mean: float) -> float:
        u = (values.mean() - mean) / values.std(ddof=1)
        return float(math.sqrt(n) * (u + skewness * u**2 / 3 + skewness**2 * u**3 / 27 + skewness / (6 * n)))

    quantile = float(stats.t.isf(0.025, n - 1))
    low = optimize.brentq(lambda mean: transformed(mean) - quantile, -5, values.mean())
    high = optimize.brentq(lambda mean: transformed(mean) + quantile, values.mean(), 20)
    assert found == pytest.approx((low, high), rel=1e-6)


def false_verdicts(gain: float, proportion: float, loss: float, n: int, draws: int) -> float:
    """How often the t interval leaves out 0, and the bounds under skew too, where the true difference is 0."""
    rng = np.random.default_rng(1)
    wrong = 0
    for _ in range(draws):
        values = np.where(rng.random(n) < proportion, gain, loss)
        first = np.full(n, 0.5)
        interval = paired_interval(first, first + values, lowest=0.0, highest=1.0)
        assert interval is not None
        if not interval.low <= 0 <= interval.high:
            found = bounds_under_skew(first, first + values, lowest=0.0, highest=1.0)
            wrong += found is None or not found[0] <= 0 <= found[1]
    return wrong / draws


@pytest.mark.parametrize("n", [50, 80, 100])
def test_false_verdicts_are_rare(n: int) -> None:
    """By the t interval alone they are 11.0, 9.3 and 6.7 %."""
    assert false_verdicts(0.4, 0.101, -0.045, n, 500) <= 0.02
