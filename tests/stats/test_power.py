"""What a comparison can see: against the noncentral t distribution, published numbers, and each other."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from auepora_eval.stats.difference import effect_size, mde, paired_interval, required_n, unit_sd
from helpers.requirements import need

Floats = npt.NDArray[np.float64]
NAN = float("nan")


def power_of(difference: float, n: int, alpha: float) -> float:
    """The chance that a two-sided t test of n differences of sd 1 finds this one."""
    stats = need("scipy.stats")
    bound, shift = stats.t.ppf(1 - alpha / 2, n - 1), difference * math.sqrt(n)
    return float(stats.nct.sf(bound, n - 1, shift) + stats.nct.cdf(-bound, n - 1, shift))


CLOSE_ROWS = [  # alpha, n, how far the power may be from the one asked for
    (0.05, 5, 0.012),
    (0.05, 10, 0.0015),
    (0.05, 30, 0.0005),
    (0.05, 2000, 0.0001),
    (0.01, 10, 0.025),
    (0.01, 30, 0.005),
    (0.01, 2000, 0.0005),
]


@pytest.mark.parametrize("power", [0.8, 0.9])
@pytest.mark.parametrize(("alpha", "n", "off"), CLOSE_ROWS)
def test_the_smallest_detectable_difference_has_the_power_asked_for(
    n: int, off: float, power: float, alpha: float
) -> None:
    assert power_of(mde(1.0, n, alpha=alpha, power=power), n, alpha) == pytest.approx(power, abs=off)


# Made with statsmodels 0.14: TTestPower().solve_power(nobs=n, alpha=.05, power=.8), a two-sided one-sample t test.
STATSMODELS = {5: 1.681997, 10: 0.996002, 30: 0.529236, 100: 0.282912, 500: 0.125532}


@pytest.mark.parametrize("n", STATSMODELS)
def test_accuracy_as_in_the_docstring(n: int) -> None:
    assert mde(1.0, n) == pytest.approx(STATSMODELS[n], rel=0.003 if n >= 10 else 0.012)


@pytest.mark.parametrize(("delta", "n"), [(0.1, 787), (0.2, 199), (0.5, 34), (1.0, 10)])
def test_units_needed_as_statsmodels_and_tables(delta: float, n: int) -> None:
    assert required_n(delta, 1.0) == n
    assert required_n(3 * delta, 3.0) == n


@given(st.floats(0.001, 3), st.floats(0.01, 10), st.sampled_from([0.05, 0.001]), st.sampled_from([0.6, 0.8, 0.99]))
def test_units_needed_are_the_fewest_that_suffice(delta: float, sd: float, alpha: float, power: float) -> None:
    n = required_n(delta, sd, alpha=alpha, power=power)
    assert n is not None
    assert mde(sd, n, alpha=alpha, power=power) <= delta
    assert n == 2 or mde(sd, n - 1, alpha=alpha, power=power) > delta


def test_tiny_difference_needs_very_many_units() -> None:
    n = required_n(1e-6, 1.0)
    assert n == pytest.approx((1.959964 + 0.841621) ** 2 * 1e12, rel=1e-5)


SD_ROWS: list[tuple[list[float], Any, float, str]] = [
    ([1.0, 2.0, 3.0], None, 1.0, "without clusters the sd of the differences"),
    ([1.0, 1.0, 3.0, 3.0], [1, 1, 2, 2], math.sqrt(2), "with clusters of one size that of their means"),
    ([1.0, 1.0, 1.0], None, NAN, "all equal: unknown"),
    ([0.1 + 0.2, 0.3], None, NAN, "equal but for rounding"),
    ([1.0, 2.0, 1.0, 2.0], [1, 1, 2, 2], NAN, "clusters with the same mean"),
    ([1.0], None, NAN, "one"),
    ([1.0, 2.0], [1, 1], NAN, "one cluster"),
    ([], None, NAN, "none"),
    ([1e-200, 3e-200, 2e-200], None, NAN, "squares below what a float holds"),
    ([1e200, 3e200, 2e200], None, NAN, "squares beyond what a float holds"),
    ([1e200, 3e200, 2e200, 5e200], [1, 1, 2, 2], NAN, "squares of clusters beyond what a float holds"),
]


@pytest.mark.parametrize(("given_", "clusters", "want"), [row[:3] for row in SD_ROWS], ids=[row[3] for row in SD_ROWS])
def test_the_spread_of_a_unit(given_: list[float], clusters: Any, want: float) -> None:
    found = unit_sd(np.array(given_), None if clusters is None else np.array(clusters))
    assert found == pytest.approx(want, nan_ok=True)


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(0, 9)), min_size=4, max_size=40))
def test_the_spread_of_a_unit_is_that_of_the_interval(rows: list[tuple[int, int]]) -> None:
    values, codes = np.array([value for value, _ in rows]) / 7, np.array([code for _, code in rows])
    found = paired_interval(np.zeros(len(rows)), values, clusters=codes)
    sd = unit_sd(values, codes)
    if found is None or found.method == "all_equal":
        assert math.isnan(sd)
    else:
        half = need("scipy.stats").t.ppf(0.975, found.units - 1) * sd / math.sqrt(found.units)
        assert (found.high - found.low) / 2 == pytest.approx(half, rel=1e-9)


EFFECT_ROWS: list[tuple[list[float], float, str]] = [
    ([1.0, 2.0, 3.0], 2.0, "mean 2, sd 1"),
    ([-1.0, -2.0, -3.0], -2.0, "the other way"),
    ([0.0, 0.0], 0.0, "no difference, no effect"),
    ([1.0, 1.0], NAN, "all alike: without end"),
    ([1.0], NAN, "one"),
    ([], NAN, "none"),
]


@pytest.mark.parametrize(("given_", "want"), [row[:2] for row in EFFECT_ROWS], ids=[row[2] for row in EFFECT_ROWS])
def test_effect_size(given_: list[float], want: float) -> None:
    assert effect_size(np.array(given_)) == pytest.approx(want, nan_ok=True)


def test_unknown_spread_gives_no_answer() -> None:
    assert math.isnan(mde(1.0, 1))
    assert math.isnan(mde(NAN, 50))
    assert required_n(0.1, NAN) is None
    assert required_n(1e-100, 1e150) is None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mde(0.0, 10), "sd must be a positive number"),
        (lambda: mde(-1.0, 10), "sd must be a positive number"),
        (lambda: required_n(0.1, 0.0), "sd must be a positive number"),
        (lambda: required_n(0.0, 1.0), "delta must be a positive number"),
        (lambda: required_n(NAN, 1.0), "delta must be a positive number"),
        (lambda: mde(1.0, 10, alpha=5), "alpha must lie between 0 and 1"),
        (lambda: mde(1.0, 10, power=0.3), "power must lie between 0.5 and 1"),
        (lambda: required_n(1.0, 1.0, power=80), "power must lie between 0.5 and 1"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
