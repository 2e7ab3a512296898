"""Correlations: by hand, against scipy, and how often their intervals hold the true value."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from auepora_eval.errors import AlignmentError, BadTypeError
from auepora_eval.stats.agreement import kendall_report, pearson_report, spearman_report
from auepora_eval.stats.intervals import Estimate
from helpers.requirements import need

ROWS: list[tuple[Callable[..., Estimate], list[Any], list[Any], float, str]] = [
    (pearson_report, [1, 2, 3], [2, 4, 6], 1.0, "a line"),
    (pearson_report, [1, 2, 3], [1, 0, 1], 0.0, "neither rises nor falls"),
    (pearson_report, [0, 0, 1, 1], [0, 1, 0, 1], 0.0, "independent"),
    (spearman_report, [1, 2, 3], [1, 10, 1000], 1.0, "in the same order, on no line"),
    (spearman_report, [1, 1, 2], [1, 2, 3], math.sqrt(3) / 2, "ranks 1.5, 1.5, 3 against 1, 2, 3"),
    (kendall_report, [1, 2, 3], [1, 3, 2], 1 / 3, "two pairs in order, one not"),
    (kendall_report, [1, 1, 2], [1, 2, 3], 2 / math.sqrt(2 * 3), "one pair is tied in the first column"),
    (kendall_report, [3, 2, 1], [1, 2, 3], -1.0, "in opposite order"),
    (pearson_report, [1, None, 2, 3], [1, 5, math.nan, 2], 1.0, "missing numbers are left out"),
]  # fmt: skip


@pytest.mark.parametrize(("report", "a", "b", "want", "why"), ROWS, ids=[row[-1] for row in ROWS])
def test_by_hand(report: Callable[..., Estimate], a: list[Any], b: list[Any], want: float, why: str) -> None:
    assert report(a, b, draws=2).value == pytest.approx(want, abs=1e-15)


@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-1, 1).map(lambda x: round(x, 2))), min_size=2, max_size=30))
def test_against_scipy(pairs: list[tuple[int, float]]) -> None:
    oracle = need("scipy.stats")
    a, b = [one for one, _ in pairs], [two for _, two in pairs]
    for ours, theirs in (
        (pearson_report, oracle.pearsonr),
        (spearman_report, oracle.spearmanr),
        (kendall_report, oracle.kendalltau),
    ):
        if len(set(a)) == 1 or len(set(b)) == 1:
            assert ours(a, b).value is None
        else:
            assert ours(a, b, draws=2).value == pytest.approx(float(theirs(a, b).statistic), abs=1e-12)


REPORTS: list[Callable[..., Estimate]] = [pearson_report, spearman_report, kendall_report]


@pytest.mark.parametrize("report", REPORTS)
def test_intervals(report: Callable[..., Estimate]) -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=200)
    b = a + rng.normal(size=200)
    found = report(a, b, draws=300)
    assert found.units == 200
    assert found.value is not None
    assert found.interval is not None
    assert 0.2 < found.interval.low < found.value < found.interval.high < 0.9
    assert report(a, b, draws=300) == found  # seeded


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize(("a", "b", "why"), [([1], [2], "fewer than two"), ([1, 1], [1, 2], "the same everywhere")])
def test_what_is_not_defined(report: Callable[..., Estimate], a: list[float], b: list[float], why: str) -> None:
    found = report(a, b)
    assert (found.value, found.interval) == (None, None)
    assert found.why_undefined is not None
    assert why in found.why_undefined


def test_bad_columns() -> None:
    with pytest.raises(AlignmentError):
        pearson_report([1, 2], [1])
    with pytest.raises(BadTypeError, match="between numbers"):
        spearman_report(["a", "b"], [1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("report", REPORTS)
def test_intervals_cover_the_true_value(report: Callable[..., Estimate]) -> None:
    rng, within, rounds = np.random.default_rng(7), 0, 100
    true = {pearson_report: 0.6, spearman_report: 6 / math.pi * math.asin(0.3), kendall_report: 2 / math.pi * math.asin(0.6)}[report]  # fmt: skip
    for seed in range(rounds):
        a, b = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=100).T
        found = report(a, b, draws=300, seed=seed).interval
        assert found is not None
        within += found.low <= true <= found.high
    assert within / rounds >= 0.9
