"""Quantiles of Student's t against scipy."""

import pytest

from auepora_eval.stats.intervals import t_quantile
from helpers.requirements import need

FREEDOMS = [0.5, 1, 2, 3, 4, 5, 7, 10, 29, 30, 99, 100, 499, 999, 1000, 1001, 1e4, 19_999, 1e5, 1e7]


@pytest.mark.parametrize("tail", [0.25, 0.1, 0.05, 0.025, 0.005, 0.0005, 1e-6])
def test_equals_scipy(tail: float) -> None:
    stdtrit = need("scipy.special").stdtrit
    for freedom in FREEDOMS:
        assert t_quantile(tail, freedom) == pytest.approx(-stdtrit(freedom, tail), rel=2e-12)


def test_by_hand() -> None:
    assert t_quantile(0.25, 1) == pytest.approx(1.0, rel=1e-14)  # the quartile of a Cauchy variable
    assert t_quantile(0.025, 2) == pytest.approx(0.95 * (2 / (0.975 * 0.025 * 4)) ** 0.5, rel=1e-14)


@pytest.mark.parametrize(("tail", "freedom"), [(0, 3), (0.5, 3), (0.6, 3), (0.1, 0), (0.1, -1)])
def test_bad_input(tail: float, freedom: float) -> None:
    with pytest.raises(ValueError, match="no quantile"):
        t_quantile(tail, freedom)
