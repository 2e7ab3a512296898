"""Paired bootstrap: the same draws in both runs, against scipy's paired bootstrap and the bootstrap of one run."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from auepora_eval.errors import AlignmentError
from auepora_eval.stats.bootstrap import bootstrap_interval, quantile_of
from auepora_eval.stats.difference import PairedStatistics, paired_bootstrap_of, paired_bootstraps
from auepora_eval.stats.intervals import Interval, mean_interval
from helpers.requirements import need
from helpers.resampling import paired_bootstrap

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


def ratio(sums: Floats) -> Floats:
    return np.asarray(sums[:, 0] / sums[:, 1])


def must(found: Interval | None) -> Interval:
    assert found is not None
    return found


def citations(seed: int, n: int) -> tuple[Floats, Floats]:
    """Right citations and all citations of two runs on the same questions, some of which are hard for both."""
    rng = np.random.default_rng(seed)
    good = rng.beta(2, 1, n)
    made = []
    for mean in (3, 4):
        cited = 1 + rng.poisson(mean, n)
        made.append(np.stack([rng.binomial(cited, good), cited], axis=1).astype(np.float64))
    return made[0], made[1]


def test_as_scipy() -> None:
    first, second = citations(1, 150)

    def statistic(a: Any, b: Any, c: Any, d: Any, axis: int = -1) -> Any:
        return c.sum(axis=axis) / d.sum(axis=axis) - a.sum(axis=axis) / b.sum(axis=axis)

    data = (*first.T, *second.T)
    want = (
        need("scipy.stats")
        .bootstrap(data, statistic, paired=True, vectorized=True, n_resamples=10_000, method="percentile", rng=4)
        .confidence_interval
    )
    found = must(paired_bootstrap(first, second, ratio, lowest=0.0, highest=1.0))
    assert (found.low, found.high) == pytest.approx((want.low, want.high), abs=0.03 * (want.high - want.low))
    assert (found.method, found.units, found.flags) == ("bootstrap", 150, ())


def test_by_definition_from_the_draws() -> None:
    """What follows from sums and what follows from indices see the same draws."""
    first, second = citations(2, 40)
    codes = np.random.default_rng(0).integers(0, 12, 40)
    sums = must(paired_bootstrap(first, second, ratio, clusters=codes, draws=300, seed=5))
    rows = must(
        paired_bootstrap_of(
            lambda drawn: first[drawn, 0].sum() / first[drawn, 1].sum(),
            lambda drawn: second[drawn, 0].sum() / second[drawn, 1].sum(),
            40,
            clusters=codes,
            draws=300,
            seed=5,
        )
    )
    assert (sums.low, sums.high) == pytest.approx((rows.low, rows.high), rel=1e-12)
    assert sums.units == rows.units == len(set(codes.tolist()))


def test_of_means_it_is_the_t_interval_nearly() -> None:
    rng = np.random.default_rng(3)
    first = rng.random(400)
    second = np.clip(first + rng.normal(0.05, 0.1, 400), 0, 1)
    ones = np.ones(400)
    found = must(paired_bootstrap(np.stack([first, ones], axis=1), np.stack([second, ones], axis=1), ratio))
    t = must(mean_interval(second - first))
    assert (found.low, found.high) == pytest.approx((t.low, t.high), abs=0.05 * (t.high - t.low))


def test_common_part_of_both_runs_cancels() -> None:
    """Against a run that is the same but for a trifle the interval is far narrower than those of the runs."""
    first, _ = citations(4, 200)
    second = first.copy()
    second[::20, 0] = second[::20, 1]
    alone = must(bootstrap_interval(first, ratio))
    paired = must(paired_bootstrap(first, second, ratio))
    assert paired.high - paired.low < 0.5 * (alone.high - alone.low)


def test_the_other_run_first_mirrors_the_interval() -> None:
    first, second = citations(5, 60)
    one, other = must(paired_bootstrap(first, second, ratio)), must(paired_bootstrap(second, first, ratio))
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=1e-12)


def test_many_measures_share_their_draws() -> None:
    (first, second), (third, fourth) = citations(6, 80), citations(7, 80)
    third = np.column_stack([third, np.ones(80)])
    fourth = np.column_stack([fourth, np.ones(80)])
    rare = np.zeros((80, 2))
    rare[:5] = 1.0
    alike = rare.copy()
    alike[0, 0] = 0.0
    together = paired_bootstraps(
        [
            PairedStatistics(first, second, ratio, 0.0, 1.0),
            PairedStatistics(third, fourth, ratio, 0.0, 1.0),
            PairedStatistics(rare, alike, ratio, 0.0, 1.0),
        ],
        draws=400,
    )
    alone = [
        paired_bootstrap(a, b, ratio, draws=400, lowest=0.0, highest=1.0)
        for a, b in ((first, second), (third, fourth), (rare, alike))
    ]
    for one, other in zip(together, alone, strict=True):
        assert (must(one).low, must(one).high) == pytest.approx((must(other).low, must(other).high), rel=1e-12)
        assert must(one).flags == must(other).flags
    assert "few" not in must(together[0]).flags
    assert "few" in must(together[2]).flags  # five samples speak
    assert paired_bootstraps([]) == []


def test_runs_that_never_differ() -> None:
    first, _ = citations(8, 50)
    found = must(paired_bootstrap(first, first, ratio, lowest=0.0, highest=1.0))
    assert found.method == "all_equal"
    assert (found.low, found.high) == pytest.approx((-(1 - 0.025**0.02), 1 - 0.025**0.02))


def test_a_difference_of_medians() -> None:
    rng = np.random.default_rng(9)
    first = rng.lognormal(0, 0.5, 200)
    second = 1.5 * first * rng.lognormal(0, 0.1, 200)
    found = must(
        paired_bootstrap_of(
            lambda drawn: quantile_of(first[drawn], 0.5), lambda drawn: quantile_of(second[drawn], 0.5), 200, lowest=0.0
        )
    )
    assert 0.3 < found.low < quantile_of(second, 0.5) - quantile_of(first, 0.5) < found.high < 0.8


@pytest.mark.parametrize("codes", [None, np.array([7, 7, 7])], ids=["one sample", "one cluster"])
def test_no_interval_of_one_unit(codes: Ints | None) -> None:
    table = np.ones((1 if codes is None else 3, 2))
    assert paired_bootstrap(table, table, ratio, clusters=codes) is None


@pytest.mark.parametrize(
    ("first", "second", "of_sums", "message"),
    [
        (np.ones(3), np.ones((3, 2)), ratio, r"a row per sample, not of shape \(3,\)"),
        (np.ones((3, 2)), np.ones((4, 2)), ratio, "3 rows of statistics but 4 rows of the other run's"),
        (np.ones((3, 2)), np.full((3, 2), np.nan), ratio, "index 0 are"),
        (np.ones((3, 2)), np.ones((3, 2)), lambda sums: sums, "one value for each of 10001 rows"),
    ],
    ids=["a column", "samples of one run alone", "a NaN", "a statistic that gives a table"],
)
def test_bad_input(first: Any, second: Any, of_sums: Any, message: str) -> None:
    with pytest.raises((ValueError, AlignmentError), match=message):
        paired_bootstrap(first, second, of_sums)
