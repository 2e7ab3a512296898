"""Sign flips: counted out by hand, against exact McNemar and scipy's permutation test, and what must not change them."""

import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given, strategies as st

from auepora_eval.stats.intervals import mean_interval
from auepora_eval.stats.permutation import SignFlips, sign_flips
from helpers.requirements import need

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
NAN = float("nan")


def flips(*columns: Any, clusters: Any = None, **options: Any) -> SignFlips:
    table = np.array(columns, dtype=np.float64).T
    return sign_flips(table, None if clusters is None else np.array(clusters), **options)


ROWS = [  # differences, clusters, p, why
    ([1.0], None, 1.0, "one unit can go either way"),
    ([1.0, 1.0], None, 2 / 4, "two alike: ++ and -- of four"),
    ([1.0, 1.0, 1.0], None, 2 / 8, "three alike"),
    ([1.0, 1.0, 1.0, -1.0], None, 10 / 16, "three against one: all but the six ways to split two and two"),
    ([3.0, 2.0, -1.0], None, 4 / 8, "|±3±2±1| >= 4 in 6, 4 and their opposites"),
    ([0.3, 0.1, 0.2], None, 2 / 8, "0.1 + 0.2 is 0.3, whatever floats say: 0.6 is reached twice"),
    ([0.3, -0.1, -0.2], None, 1.0, "and their difference is zero, which every flip reaches"),
    ([0.0, 0.0, 0.0], None, 1.0, "no difference at all"),
    ([1.0, 1.0, 1.0, 0.0, 0.0], None, 2 / 8, "what is zero has no sign to flip"),
    ([1.0, 1.0, 1.0, NAN], None, 2 / 8, "what is missing takes no part"),
    ([1.0, 1.0, 1.0, 1.0], [7, 7, 9, 9], 2 / 4, "two clusters are two units"),
    ([1.0, 1.0, 1.0, 1.0], [7, 7, 7, 7], 1.0, "one cluster is one unit"),
    ([1.0, 1.0, 1.0, -2.0], [1, 1, 1, 2], 1.0, "cluster sums of 3 and -2: every flip reaches 1"),
    ([1.0, -1.0, 2.0, 2.0], [1, 1, 2, 3], 2 / 4, "a cluster that is even within has no sign to flip"),
]


@pytest.mark.parametrize(("given_", "clusters", "p"), [row[:3] for row in ROWS], ids=[row[3] for row in ROWS])
def test_by_hand(given_: list[float], clusters: list[int] | None, p: float) -> None:
    found = flips(given_, clusters=clusters)
    assert found.exact
    assert found.p_values.tolist() == [p]


def enumerated(differences: Floats, codes: Ints) -> float:
    """By the definition: the sum of all differences under every assignment of signs to clusters."""
    sums = [sum(round(1000 * x) for x in differences[codes == code].tolist()) for code in np.unique(codes)]
    seen = abs(sum(sums))
    reached = [
        abs(sum(s * x for s, x in zip(signs, sums, strict=True))) >= seen
        for signs in product((1, -1), repeat=len(sums))
    ]
    return reached.count(True) / len(reached)


CLUSTERED = st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 7)), min_size=1, max_size=20).map(
    lambda pairs: (np.array([value / 1000 for value, _ in pairs]), np.array([code for _, code in pairs]))
)


@given(CLUSTERED)
def test_all_flips_by_enumeration(pairs: tuple[Floats, Ints]) -> None:
    found = sign_flips(pairs[0][:, None], pairs[1])
    assert found.exact
    assert found.p_values[0] == pytest.approx(enumerated(*pairs), abs=1e-15)


@given(CLUSTERED, st.randoms(use_true_random=False))
def test_the_order_of_samples_changes_nothing_where_all_flips_are_taken(pairs: tuple[Floats, Ints], rng: Any) -> None:
    order = rng.sample(range(len(pairs[0])), len(pairs[0]))
    one = sign_flips(pairs[0][:, None], pairs[1])
    other = sign_flips(pairs[0][order][:, None], pairs[1][order] * -3)
    assert other.p_values.tolist() == one.p_values.tolist()
    assert other.z == pytest.approx(one.z, abs=1e-9)


@given(CLUSTERED, st.integers(1, 5), st.sampled_from([4, 10_000]))
def test_the_other_run_first_flips_the_sign_and_keeps_p(pairs: tuple[Floats, Ints], scale: int, draws: int) -> None:
    one = sign_flips(pairs[0][:, None], pairs[1], draws=draws)
    other = sign_flips(-scale * pairs[0][:, None], pairs[1], draws=draws)
    assert other.p_values.tolist() == one.p_values.tolist()
    assert other.z == pytest.approx(-one.z, abs=1e-6)


@given(CLUSTERED, st.integers(1, 30))
def test_samples_without_a_difference_change_no_exact_p(pairs: tuple[Floats, Ints], more: int) -> None:
    values, codes = np.concatenate([pairs[0], np.zeros(more)]), np.concatenate([pairs[1], 100 + np.arange(more)])
    assert sign_flips(values[:, None], codes).p_values == sign_flips(pairs[0][:, None], pairs[1]).p_values


def exact_mcnemar(first_only: int, second_only: int) -> float:
    """The exact McNemar test: of the samples that one run alone got right, how many went to each."""
    found = need("scipy.stats").binomtest(first_only, first_only + second_only, 0.5)
    return float(found.pvalue)


@pytest.mark.parametrize(
    ("first_only", "second_only"), [(1, 0), (0, 5), (1, 6), (2, 9), (5, 5), (3, 10), (6, 7), (0, 13)]
)
def test_right_or_wrong_is_the_exact_mcnemar_test(first_only: int, second_only: int) -> None:
    found = flips([-1.0] * first_only + [1.0] * second_only + [0.0] * 50)
    assert found.exact
    assert found.p_values[0] == pytest.approx(exact_mcnemar(first_only, second_only), abs=1e-12)


@pytest.mark.parametrize(("first_only", "second_only"), [(10, 20), (40, 60), (30, 31), (200, 260)])
def test_many_drawn_flips_come_close_to_the_exact_mcnemar_test(first_only: int, second_only: int) -> None:
    found = flips([-1.0] * first_only + [1.0] * second_only + [0.0] * 100)
    want = exact_mcnemar(first_only, second_only)
    assert not found.exact
    assert found.p_values[0] == pytest.approx(want, abs=4 * (want * (1 - want) / 10_000) ** 0.5 + 1e-4)


@pytest.mark.parametrize("n", [4, 9, 12])
def test_exactly_scipys_permutation_test(n: int) -> None:
    stats = need("scipy.stats")
    values = np.random.default_rng(n).normal(0.4, 1, n)
    want = stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert flips(values).p_values[0] == pytest.approx(want.pvalue, abs=1e-12)


def test_nearly_scipys_permutation_test_where_flips_are_drawn() -> None:
    stats = need("scipy.stats")
    values = np.random.default_rng(5).normal(0.2, 1, 60)
    want = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", vectorized=True, n_resamples=20_000, batch=1000, rng=3
    )
    assert flips(values).p_values[0] == pytest.approx(want.pvalue, abs=0.02)


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=3, max_size=6),
    st.integers(2, 4),
)
def test_with_clusters_of_one_size_it_orders_flips_as_students_t_of_the_interval(
    pairs: list[tuple[int, int]], size: int
) -> None:
    """The statistic agrees with the interval: p is the share of flips whose t reaches the one seen."""
    means = np.array([first + second / 100 for first, second in pairs])
    assume(len(set(np.abs(means).tolist())) > 1)
    assume(abs(means.sum()) > 1e-6)
    values, codes = np.repeat(means, size), np.repeat(np.arange(len(means)), size)

    def t_of(flipped: Floats) -> float:
        found = mean_interval(flipped, clusters=codes)
        assert found is not None
        return abs(found.low + found.high) / max(found.high - found.low, 1e-12)

    every = [t_of(np.repeat(means * signs, size)) for signs in product((1, -1), repeat=len(means))]
    want = sum(t >= t_of(values) * (1 - 1e-9) for t in every) / len(every)
    assert sign_flips(values[:, None], codes).p_values[0] == pytest.approx(want, abs=1e-12)


def test_p_where_flips_are_drawn_is_never_zero() -> None:
    found = flips(np.ones(100))
    assert not found.exact
    assert found.p_values.tolist() == [1 / 10_001]
    assert found.flipped.shape == (10_000, 1)


@pytest.mark.parametrize(("units", "exact"), [(13, True), (14, False)])
def test_all_flips_are_taken_up_to_thirteen_clusters_that_differ(units: int, exact: bool) -> None:
    found = flips(np.concatenate([np.arange(1.0, units + 1), np.zeros(40)]))
    assert found.exact is exact
    assert len(found.flipped) == (2**13 if exact else 10_000)


def test_metrics_are_flipped_together_and_alone_alike() -> None:
    rng = np.random.default_rng(2)
    table = rng.normal(0.1, [1, 10, 0.01], (80, 3))
    table[rng.random((80, 3)) < 0.2] = NAN
    codes = rng.integers(0, 40, 80)
    together = sign_flips(table, codes, draws=500, seed=4)
    for metric in range(3):
        alone = sign_flips(table[:, [metric]], codes, draws=500, seed=4)
        assert alone.p_values[0] == together.p_values[metric]
        assert alone.flipped[:, 0].tolist() == together.flipped[:, metric].tolist()


def test_the_same_metric_twice_moves_alike() -> None:
    values = np.random.default_rng(2).normal(0.1, 1, 50)
    found = flips(values, 1000 * values, draws=300)
    assert found.flipped[:, 0] == pytest.approx(found.flipped[:, 1], abs=1e-8)


@pytest.mark.parametrize("at_once", [1, 64, 1000, 1 << 14])
def test_block_size_changes_no_bit(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    table = rng.normal(size=(130, 4)) * [1, 1e-9, 1e9, 0.1]
    whole = sign_flips(table, draws=257, seed=9)
    monkeypatch.setattr("auepora_eval.stats.permutation._MULTIPLIED", at_once)
    cut = sign_flips(table, draws=257, seed=9)
    assert cut.flipped.tobytes() == whole.flipped.tobytes()
    assert cut.p_values.tobytes() == whole.p_values.tobytes()


def test_seeds() -> None:
    values = np.random.default_rng(1).normal(0.1, 1, (60, 1))
    before = np.random.get_state()[1]  # type: ignore[index]
    first, again, other = (sign_flips(values, draws=200, seed=seed) for seed in (1, 1, 2))
    assert first.flipped.tobytes() == again.flipped.tobytes()
    assert first.flipped.tobytes() != other.flipped.tobytes()
    assert np.array_equal(before, np.random.get_state()[1])  # type: ignore[index]


def test_flips_have_unit_variance_and_mean_zero() -> None:
    """z over its flips has mean 0 and variance 1, whatever the scale: both signs of each cluster are as likely."""
    table = np.random.default_rng(1).lognormal(0, 1, (200, 3)) * [1, 1e6, 1e-6]
    squared = np.square(sign_flips(table).flipped).mean(axis=0)
    assert squared == pytest.approx([1, 1, 1], abs=0.06)


def test_many_clusters_are_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flipping groups of clusters is a test of the same hypothesis; with many groups it says the same."""
    values = np.random.default_rng(8).normal(0.05, 1, (4000, 1))
    whole = sign_flips(values, draws=5_000).p_values[0]
    monkeypatch.setattr("auepora_eval.stats.permutation._MAX_UNITS", 1000)
    dealt = sign_flips(values, draws=5_000)
    assert dealt.p_values[0] == pytest.approx(whole, abs=0.03)
    # The groups are what is flipped: sums of every thousandth.
    sums = values.reshape(4, 1000).sum(axis=0)
    assert dealt.z[0] == pytest.approx(sums.sum() / np.sqrt(sums @ sums), rel=1e-9)


def test_a_metric_without_any_difference_given_has_no_p() -> None:
    found = flips([1.0, 2.0, 3.0], [NAN] * 3, [0.0] * 3)
    assert found.p_values[0] == 2 / 8
    assert np.isnan(found.p_values[1])
    assert np.isnan(found.z[1])
    assert found.p_values[2] == 1.0


def test_no_sample_and_no_metric() -> None:
    assert np.isnan(sign_flips(np.empty((0, 2))).p_values).tolist() == [True, True]
    assert sign_flips(np.empty((3, 0))).p_values.shape == (0,)


def test_clusters_that_are_even_within_are_even_whatever_the_rounding() -> None:
    rng = np.random.default_rng(6)
    halves = rng.integers(-999, 1000, (20, 30)) / 1000
    values = rng.permuted(np.concatenate([halves, -halves], axis=1), axis=1)
    assert values.sum(axis=1).any()  # floats do not think so
    assert sign_flips(values.reshape(-1, 1), np.repeat(np.arange(20), 60)).p_values.tolist() == [1.0]


def test_numbers_next_to_the_largest_and_the_smallest_floats() -> None:
    assert flips([1e308, 1e308, 1e308], [5e-324, 5e-324, -5e-324]).p_values.tolist() == [2 / 8, 1.0]


def test_memory_stays_small() -> None:
    table = np.random.default_rng(0).normal(size=(20_000, 5))
    tracemalloc.start()
    sign_flips(table, draws=2_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6


BAD_ROWS: list[tuple[Any, Any, dict[str, Any], str, str]] = [
    (np.ones(3), None, {}, r"a column per metric, not of shape \(3,\)", "a column"),
    (np.array([[1.0], [np.inf]]), None, {}, r"index 1 are \[inf\]", "an infinite difference"),
    (np.ones((3, 1)), np.array([1, 2]), {}, "3 values but clusters of shape", "too few cluster codes"),
    (np.ones((3, 1)), None, {"draws": 0}, "draws must be at least 1, not 0", "no draws"),
]


@pytest.mark.parametrize(
    ("table", "clusters", "options", "message"), [row[:4] for row in BAD_ROWS], ids=[row[4] for row in BAD_ROWS]
)
def test_bad_input(table: Any, clusters: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sign_flips(table, clusters, **options)
