"""Swaps are sign flips: for means the same numbers, for other statistics what counting every swap by hand gives."""

import tracemalloc
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from auepora_eval.stats.difference import PairedStatistics
from auepora_eval.stats.permutation import SwapStatistic, max_t, permutation_test, sign_flips

Floats = npt.NDArray[np.float64]


def mean_of_sums(sums: Floats) -> Floats:
    return np.asarray(sums[:, 0] / sums[:, 1])


def as_sums(first: Floats, second: Floats) -> PairedStatistics:
    ones = np.ones(len(first))
    return PairedStatistics(np.column_stack([first, ones]), np.column_stack([second, ones]), mean_of_sums)


def as_fold(first: Floats, second: Floats) -> SwapStatistic:
    def difference(swapped: npt.NDArray[np.bool_]) -> float:
        return float(np.where(swapped, first, second).mean() - np.where(swapped, second, first).mean())

    return SwapStatistic(difference, first != second)


@pytest.mark.parametrize("n", [6, 12, 40], ids=["all swaps", "all swaps of clusters of two", "drawn swaps"])
@pytest.mark.parametrize("clustered", [False, True], ids=["single", "clustered"])
def test_mean_as_differences_sums_and_fold(n: int, clustered: bool) -> None:
    rng = np.random.default_rng(n)
    first, second = rng.random(n), rng.random(n) + 0.1
    clusters = np.arange(n) // 2 if clustered else None
    plain = sign_flips((second - first)[:, None], clusters, seed=3)
    both = permutation_test(
        (second - first)[:, None], clusters, sums=[as_sums(first, second)], folds=[as_fold(first, second)], seed=3
    )
    assert both.exact == plain.exact
    assert both.p_values.tolist() == [plain.p_values[0]] * 3
    assert both.z[0] == pytest.approx(plain.z[0])
    assert np.allclose(np.sort(both.flipped[:, 0]), np.sort(plain.flipped[:, 0]))
    # Told in three ways, one metric costs no more than one; only the last digits of p can say otherwise.
    assert max_t(both) == pytest.approx(np.full(3, plain.p_values[0]), abs=0.02)


def test_a_ratio_against_every_swap_by_hand() -> None:
    rng = np.random.default_rng(7)
    n = 9
    first, second = (np.column_stack([rng.integers(0, 9, n), rng.integers(5, 9, n)]).astype(float) for _ in range(2))
    pair = PairedStatistics(first, second, mean_of_sums)

    def delta(swapped: npt.NDArray[np.bool_]) -> float:
        one, other = np.where(swapped[:, None], second, first), np.where(swapped[:, None], first, second)
        return float(other[:, 0].sum() / other[:, 1].sum() - one[:, 0].sum() / one[:, 1].sum())

    every = [delta(np.array(way)) for way in product([False, True], repeat=n)]
    seen = abs(delta(np.zeros(n, dtype=bool)))
    want = sum(abs(one) >= seen - 1e-9 for one in every) / 2**n
    found = permutation_test(np.empty((n, 0)), sums=[pair])
    assert found.exact
    assert found.p_values[0] == want


def test_discrete_statistic_does_not_dominate_the_others() -> None:
    # One sample in a hundred carries the fold: under swaps it stays where it is or flips over, never in between.
    rng = np.random.default_rng(1)
    first, second = rng.random(100), rng.random(100) + 0.3
    first[0], second[0] = 0.0, 1000.0
    fold = SwapStatistic(lambda swapped: -1000.0 if swapped[0] else 1000.0, first != second)
    differences = (second - first)[:, None].copy()
    differences[0] = 0.3
    flips = permutation_test(differences, folds=[fold])
    assert flips.p_values[1] == 1.0
    assert max_t(flips)[0] == flips.p_values[0] < 0.001


def test_undefined_value_has_no_p_value() -> None:
    nothing = PairedStatistics(np.zeros((5, 2)), np.zeros((5, 2)), mean_of_sums)
    found = permutation_test(np.full((5, 1), np.nan), sums=[nothing])
    assert np.isnan(found.p_values).all()


def test_the_level_holds_for_a_ratio() -> None:
    rng = np.random.default_rng(11)
    wrong = 0
    for seed in range(200):
        one, other = (np.column_stack([rng.gamma(1.0, size=20), rng.integers(1, 5, 20)]) for _ in range(2))
        found = permutation_test(
            np.empty((20, 0)), sums=[PairedStatistics(one, other, mean_of_sums)], draws=199, seed=seed
        )
        wrong += found.p_values[0] < 0.05
    assert wrong <= 20  # ten expected; more than twice as many once in a thousand


def test_more_clusters_than_groups() -> None:
    rng = np.random.default_rng(9)
    n = (1 << 16) + 500
    first, second = rng.random(n), rng.random(n) + 0.001
    plain = sign_flips((second - first)[:, None], draws=50, seed=1)
    both = permutation_test(
        (second - first)[:, None], sums=[as_sums(first, second)], folds=[as_fold(first, second)], draws=50, seed=1
    )
    assert both.p_values.tolist() == [plain.p_values[0]] * 3


def test_units_without_difference_cost_nothing() -> None:
    rng = np.random.default_rng(4)
    n, differing = 20_000, 12
    first = rng.random(n)
    second = first.copy()
    second[rng.choice(n, differing, replace=False)] += 0.5
    few = np.flatnonzero(first != second)
    tracemalloc.start()
    found = permutation_test((second - first)[:, None], sums=[as_sums(first, second)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.exact
    assert found.p_values.tolist() == [2 / 2**differing] * 2
    assert found.flipped.shape == (2**differing, 2)
    assert peak < 50_000_000  # every swap of every sample would be 655 MB
    alone = permutation_test((second - first)[few][:, None], folds=[as_fold(first[few], second[few])])
    assert alone.p_values.tolist() == found.p_values.tolist()
