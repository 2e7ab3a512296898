"""The statistics of comparisons against statsmodels, on seeded data: corrections, shares, pairs, clusters, power."""

import math

import numpy as np
import pytest

from auepora_eval.stats.difference import mde, paired_interval, required_n, unit_sd
from auepora_eval.stats.intervals import mean_interval, wilson_interval
from auepora_eval.stats.permutation import holm, sign_flips
from helpers.requirements import need

RNG_SEEDS = range(8)

pytestmark = pytest.mark.xdist_group("statsmodels")  # slow to import: one worker does it


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_holm(seed: int) -> None:
    multitest = need("statsmodels.stats.multitest")
    rng = np.random.default_rng(seed)
    p_values = np.round(rng.random(1 + 3 * seed) ** 3, 3)  # rounded: some are equal
    assert holm(p_values) == pytest.approx(multitest.multipletests(p_values, method="holm")[1], abs=1e-15)


@pytest.mark.parametrize("n", [1, 7, 40, 1000])
def test_wilson(n: int) -> None:
    proportion = need("statsmodels.stats.proportion")
    for right in {0, 1, n // 3, n // 2, n - 1, n}:
        found = wilson_interval(right, n)
        assert (found.low, found.high) == pytest.approx(
            proportion.proportion_confint(right, n, method="wilson"), abs=1e-12
        )


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_pairs_of_right_and_wrong_are_the_exact_mcnemar_test(seed: int) -> None:
    tables = need("statsmodels.stats.contingency_tables")
    rng = np.random.default_rng(seed)
    first = rng.random(60) < 0.6
    flipped = rng.permutation(60)[: 4 + seed]  # so many differ: every way to flip them can be taken
    second = first.copy()
    second[flipped] = ~second[flipped]
    table = [[int((first & second).sum()), int((first & ~second).sum())],
             [int((~first & second).sum()), int((~first & ~second).sum())]]  # fmt: skip
    flips = sign_flips((second.astype(float) - first.astype(float))[:, None])
    assert flips.exact
    assert flips.p_values[0] == pytest.approx(tables.mcnemar(table, exact=True).pvalue, abs=1e-12)


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_clusters_of_any_size_as_its_robust_covariance_has_them(seed: int) -> None:
    """A mean is a regression on a constant; the standard error that allows for clusters is the same there."""
    api = need("statsmodels.api")
    rng = np.random.default_rng(seed)
    clusters = np.sort(rng.integers(0, 25, 150))
    values = rng.normal(0, 1, 25)[clusters] + rng.normal(0.3, 1, 150)
    fitted = api.OLS(values, np.ones(150)).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    units = len(np.unique(clusters))
    assert unit_sd(values, clusters) / math.sqrt(units) == pytest.approx(float(fitted.bse[0]), rel=1e-9)
    low, high = fitted.conf_int()[0]
    found = mean_interval(values, clusters=clusters)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), rel=1e-6)


@pytest.mark.parametrize("seed", RNG_SEEDS)
def test_differences_as_its_t_interval_has_them(seed: int) -> None:
    weightstats = need("statsmodels.stats.weightstats")
    rng = np.random.default_rng(seed)
    first, second = rng.random(30), rng.random(30)
    found = paired_interval(first, second)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(
        weightstats.DescrStatsW(second - first).tconfint_mean(0.05), rel=1e-9
    )


@pytest.mark.parametrize("n", [10, 30, 100, 500])
def test_the_smallest_detectable_difference(n: int) -> None:
    power = need("statsmodels.stats.power").TTestPower()
    assert mde(1.0, n) == pytest.approx(float(power.solve_power(nobs=n, alpha=0.05, power=0.8)), rel=0.003)


@pytest.mark.parametrize("delta", [0.1, 0.2, 0.5])
def test_the_units_that_a_difference_needs(delta: float) -> None:
    power = need("statsmodels.stats.power").TTestPower()
    assert required_n(delta, 1.0) == math.ceil(float(power.solve_power(effect_size=delta, alpha=0.05, power=0.8)))
