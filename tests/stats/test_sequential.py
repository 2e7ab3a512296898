"""Sequential designs: boundaries against tables, looks by hand, gates exactly, and the error rates by simulation."""

import json
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from auepora_eval.errors import BadValueError
from auepora_eval.stats.difference import unit_sd
from auepora_eval.stats.intervals import t_quantile
from auepora_eval.stats.sequential import (
    MIN_UNITS,
    SequentialDesign,
    SequentialResult,
    spending_boundaries,
)
from benchmarks import verdicts, verdicts_skew
from helpers.requirements import need, need_data

Floats = npt.NDArray[np.float64]

TWENTIETHS = np.arange(1, 21) / 20


# --- boundaries ------------------------------------------------------------------------------------------------------

SQUARE_95 = """3.836 3.542 3.367 3.234 3.122 3.025 2.939 2.861 2.790 2.723
2.661 2.603 2.547 2.495 2.444 2.396 2.349 2.305 2.261 2.219"""
SQUARE_90 = """3.662 3.352 3.165 3.021 2.900 2.795 2.700 2.615 2.536 2.462
2.393 2.328 2.266 2.206 2.149 2.095 2.042 1.990 1.941 1.892"""
OBRIEN_95 = "6.991 4.877 3.930 3.367 2.989 2.715 2.504 2.336 2.197 2.081"
OBRIEN_90 = "6.088 4.229 3.396 2.906 2.579 2.342 2.160 2.015 1.895 1.795"
FINITE_95 = "2.773 2.715 2.664 2.625 2.600 2.588 2.591 2.612 2.662"
FINITE_90 = "2.539 2.465 2.401 2.354 2.321 2.304 2.303 2.325 2.382"


def obrien_fleming(level: float, fractions: Floats) -> Floats:
    """The spending function of Lan and DeMets that resembles O'Brien and Fleming's boundaries."""
    norm = need("scipy.stats").norm
    return np.asarray(2 * norm.sf(norm.isf(level / 2) / np.sqrt(fractions)))


TABLES = [  # spending, level, fractions, boundaries, why
    ("square", 0.025, TWENTIETHS, SQUARE_95, "alpha f², 95 %"),
    ("square", 0.05, TWENTIETHS, SQUARE_90, "alpha f², 90 %"),
    ("obrien", 0.025, np.arange(1, 11) / 10, OBRIEN_95, "O'Brien-Fleming, ten looks, 95 %"),
    ("obrien", 0.05, np.arange(1, 11) / 10, OBRIEN_90, "O'Brien-Fleming, ten looks, 90 %"),
    ("obrien", 0.025, np.arange(1, 6) / 5, "4.877 3.357 2.680 2.290 2.031", "O'Brien-Fleming, five looks, published"),
]


@pytest.mark.parametrize(
    ("spending", "level", "fractions", "expected"), [row[:4] for row in TABLES], ids=[row[4] for row in TABLES]
)
def test_boundaries_agree_with_the_tables(spending: str, level: float, fractions: Floats, expected: str) -> None:
    spent = level * fractions**2 if spending == "square" else obrien_fleming(level, fractions)
    assert spending_boundaries(fractions, spent) == pytest.approx([float(one) for one in expected.split()], abs=1e-3)


def test_a_design_uses_the_tables() -> None:
    design = SequentialDesign.plan(200)
    assert design.boundaries() == pytest.approx([float(one) for one in SQUARE_95.split()], abs=1e-3)
    assert design.boundaries(0.05) == pytest.approx([float(one) for one in SQUARE_90.split()], abs=1e-3)
    finite = SequentialDesign.plan(1000, looks=10, finite=True)
    for level, expected in ((0.025, FINITE_95), (0.05, FINITE_90)):
        assert finite.boundaries(level)[:-1] == pytest.approx([float(one) for one in expected.split()], abs=1e-3)
    assert finite.boundaries()[-1] == math.inf  # with all units the mean is known
    assert SequentialDesign.plan(5, finite=True).evaluate([0.1] * 5).verdict == "better"


@pytest.mark.parametrize("tests", [1, 3])
def test_crossing_probabilities_agree_with_the_bivariate_normal_distribution(tests: int) -> None:
    spent = 0.025 / tests * np.array([0.2, 1.0]) ** 2
    boundaries = spending_boundaries([0.2, 1.0], spent)
    correlation = math.sqrt(0.2)
    normal = need("scipy.stats").multivariate_normal([0, 0], [[1, correlation], [correlation, 1]])
    assert 1 - normal.cdf(boundaries) == pytest.approx(spent[1], abs=1e-9)


def test_nothing_spent_is_no_boundary() -> None:
    first, second, third = spending_boundaries([0.1, 0.2, 0.3], [0, 0.01, 0.01])
    assert (first, third) == (math.inf, math.inf)
    assert second == pytest.approx(2.3263, abs=1e-4)


def test_early_looks_are_left_out() -> None:
    assert SequentialDesign.plan(100).looks == tuple(range(10, 101, 5))
    assert SequentialDesign.plan(12).looks == (10, 11, 12)
    assert SequentialDesign.plan(5).looks == (5,)
    assert min(SequentialDesign.plan(137).looks) >= MIN_UNITS
    assert SequentialDesign.plan(137, looks=1).looks == (137,)


# --- looks by hand ---------------------------------------------------------------------------------------------------


def test_one_look_is_a_t_test() -> None:
    values = np.tile([1.0, 0.0, 0.0, 0.0, 0.0], 20)
    design = SequentialDesign(100, (100,))
    (look,) = design.evaluate(values).looks
    error = math.sqrt(100 * 0.2 * 0.8 / 99 / 100)
    assert look.mean == pytest.approx(1 / 5)
    assert look.statistic == pytest.approx(0.2 / error)
    assert look.boundary == pytest.approx(t_quantile(0.025, 99))
    assert (look.low, look.high) == pytest.approx((0.2 - look.boundary * error, 0.2 + look.boundary * error))
    t_test = need("scipy.stats").ttest_1samp(values, 0)
    assert look.p_value == pytest.approx(t_test.pvalue, rel=1e-6)


def test_equal_values_have_the_variance_of_one_unit_that_differs() -> None:
    (look,) = SequentialDesign(25, (25,)).evaluate(np.full(25, 0.04)).looks
    assert look.statistic == pytest.approx(0.04 / math.sqrt(1 / 25 / 25))


def test_no_difference_at_all_is_equal_with_enough_units() -> None:
    result = SequentialDesign.plan(1000, delta=0.05).evaluate(np.zeros(1000))
    # The floor: the root of .05 * .95 / t, times a boundary of about 3, is below 0.05 from the look of 200 units on.
    assert (result.verdict, result.reason, result.stopped_at) == ("equal", "boundary", 200)
    assert SequentialDesign.plan(1000).evaluate(np.zeros(1000)).verdict == "inconclusive"


def test_a_value_has_the_weight_of_its_samples() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 5, 40)
    clusters = np.repeat(np.arange(40), sizes)
    samples = rng.choice([-1.0, 0.0, 1.0], len(clusters))
    means = np.bincount(clusters, samples) / sizes
    (look,) = SequentialDesign(40, (40,)).evaluate(means, sizes.tolist()).looks
    assert look.mean == pytest.approx(samples.mean())
    assert look.mean / look.statistic == pytest.approx(unit_sd(samples, clusters) / math.sqrt(40))


def test_a_unit_without_a_value_counts_for_nothing() -> None:
    rng = np.random.default_rng(2)
    values = rng.choice([0.0, 1.0, -1.0], 100)
    with_gaps = np.insert(values, [3, 50], np.nan)
    for method in ("group_sequential", "betting"):
        (full,) = SequentialDesign(100, (100,), method=method).evaluate(values).looks
        (gaps,) = SequentialDesign(102, (102,), method=method).evaluate(with_gaps).looks
        assert gaps.mean == pytest.approx(full.mean)
        assert gaps.statistic == pytest.approx(full.statistic, rel=0.02)


ONE_GAINS = np.repeat([1.0, -0.25, 0.0], [1, 20, 59])
"""One of eighty gains much, a quarter loses a little."""


def test_at_a_look_with_skewed_differences_bets_must_agree() -> None:
    design = SequentialDesign(80, (80,))
    result = design.evaluate(ONE_GAINS)
    (look,) = result.looks
    assert look.high < 0, "by Student's t it would be worse"
    assert (look.verdict, look.skewed, result.verdict) == (None, True, "inconclusive")
    assert result.to_dict()["looks"][0]["skewed"] is True
    assert "skewed" not in design.evaluate(np.tile([0.25, -0.25], 40)).to_dict()["looks"][0]
    many = np.repeat([1.0, -0.25, 0.0], [3, 80, 117])
    assert SequentialDesign(200, (200,)).evaluate(many).looks[0].verdict == "worse"


def test_differences_of_0_and_1_are_not_doubted() -> None:
    (look,) = SequentialDesign(100, (100,)).evaluate(np.repeat([1.0, 0.0], [7, 93])).looks
    assert (look.verdict, look.skewed) == ("better", False)


def test_few_changed_answers_are_not_equal_before_a_margin_could_be_seen() -> None:
    """Two of 100 answers gain; with a true difference of .05 the variance would be .05 * .95."""
    values = np.repeat([1.0, 0.0], [2, 98])
    (look,) = SequentialDesign(100, (100,), delta=0.05).evaluate(values).looks
    assert look.verdict is None
    error = math.sqrt(0.05 * 0.95 / 100)
    assert 0.02 + t_quantile(0.05, 99) * error > 0.05


def test_clusters_of_unlike_sizes_have_fewer_degrees_of_freedom() -> None:
    sizes = [1, 9] * 10
    (look,) = SequentialDesign(20, (20,)).evaluate(np.linspace(-0.5, 0.6, 20), sizes).looks
    # 100 samples; as many units of one size: 100² / (10 * 1 + 10 * 81) = 12.2.
    assert look.boundary == pytest.approx(t_quantile(0.025, 100**2 / 820 - 1))


# --- the course of a test --------------------------------------------------------------------------------------------

STEP = np.r_[np.ones(40), np.zeros(160)]  # a difference that is over after 40 units


def test_the_first_verdict_stands() -> None:
    design = SequentialDesign.plan(200, delta=0.05)
    start = design.evaluate(STEP[:30])
    assert (start.verdict, start.reason, start.stopped_at, start.next_look) == ("better", "boundary", 10, 40)
    end = design.evaluate(np.r_[STEP[:40], np.full(160, -0.5)])
    assert (end.verdict, end.stopped_at, end.next_look) == ("better", 10, None)
    assert end.looks[-1].verdict == "worse"


def test_looks_do_not_depend_on_later_values() -> None:
    rng = np.random.default_rng(3)
    values = rng.choice([-1.0, 0.0, 1.0], 200)
    for design in (SequentialDesign.plan(200, delta=0.05), SequentialDesign.plan(200, method="betting")):
        whole = design.evaluate(values).looks
        for count in (0, 9, 10, 57):
            assert [(one.units, one.verdict) for one in design.evaluate(values[:count]).looks] == [
                (one.units, one.verdict) for one in whole if one.units <= count
            ]


def test_before_the_first_look_nothing_is_decided() -> None:
    result = SequentialDesign.plan(200).evaluate(np.ones(9))
    assert result == SequentialResult((), "inconclusive", None, None, 10)


def test_futility_is_no_verdict() -> None:
    design = SequentialDesign.plan(200)
    values = np.tile([1.0, -1.0], 100)
    stopped = design.evaluate(values[:100])
    assert (stopped.verdict, stopped.reason, stopped.stopped_at) == ("inconclusive", "futility", 100)
    assert stopped.looks[-1].chance is not None
    assert stopped.looks[-1].chance < 0.05
    later = design.evaluate(np.r_[values[:100], np.ones(60)])
    assert (later.verdict, later.reason) == ("better", "boundary")
    binding = SequentialDesign.plan(200, futility=False).evaluate(values[:100])
    assert (binding.reason, binding.looks[-1].chance) == (None, None)
    end = design.evaluate(values)
    assert (end.verdict, end.reason, end.stopped_at, end.next_look) == ("inconclusive", "end", 200, None)


def test_other_verdicts_do_not_stop() -> None:
    values = np.tile([0.015, 0.025], 500)
    assert SequentialDesign.plan(1000, delta=0.05).evaluate(values).verdict == "equal"
    design = SequentialDesign.plan(1000, delta=0.05, stop_on=("better", "worse"))
    assert design.evaluate(values[:150]).reason is None
    assert design.evaluate(values).verdict == "better"  # though negligible
    at_the_end = SequentialDesign.plan(1000, delta=0.05, stop_on=())
    assert (at_the_end.evaluate(values).stopped_at, at_the_end.evaluate(values[:900]).reason) == (1000, None)


@pytest.mark.parametrize("method", ["group_sequential", "betting"])
def test_lower_scores_may_be_better(method: Any) -> None:
    result = SequentialDesign.plan(200, method=method, higher_is_better=False).evaluate(np.tile([0.5, 1.0], 100))
    assert result.verdict == "worse"
    assert result.looks[-1].low > 0  # the mean keeps its sign
    gate = SequentialDesign.plan(100, threshold=0.3, binary=True, higher_is_better=False)
    assert gate.evaluate(np.zeros(100)).verdict == "pass"


def test_the_range_of_scores_scales_everything() -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(-2, 4, 200) / 4
    for method in ("group_sequential", "betting"):
        small = SequentialDesign.plan(200, delta=0.05, method=method).evaluate(values)
        large = SequentialDesign.plan(200, delta=0.2, method=method, lowest=1, highest=5).evaluate(4 * values)
        assert (small.verdict, small.stopped_at) == (large.verdict, large.stopped_at)
        assert large.looks[3].high == pytest.approx(4 * small.looks[3].high, abs=1e-5)
        assert large.looks[3].p_value == pytest.approx(small.looks[3].p_value)


DESIGNS = {
    "paired": SequentialDesign.plan(200, delta=0.05),
    "several metrics": SequentialDesign.plan(200, delta=0.05, tests=3),
    "these units": SequentialDesign.plan(200, looks=10, delta=0.05, finite=True),
    "betting": SequentialDesign.plan(200, delta=0.05, method="betting"),
    "gate": SequentialDesign.plan(200, threshold=0.8, binary=True),
    "gate on other scores": SequentialDesign.plan(200, threshold=0.8),
}


@pytest.mark.parametrize("name", DESIGNS)
def test_verdicts_intervals_and_p_values_agree(name: str) -> None:
    """A boundary is crossed where the repeated p-value is below the level and the repeated interval leaves out 0."""
    design, rng = DESIGNS[name], np.random.default_rng(5)
    verdicts = set()
    for effect in (0.0, 0.3, -0.3):
        if design.threshold is None:
            values = rng.choice([-1.0, 0.0, 1.0], 200, p=[0.2 - effect / 2, 0.6, 0.2 + effect / 2])
        else:
            values = (rng.random(200) < 0.8 + effect / 2).astype(np.float64)
        for look in design.evaluate(values).looks:
            verdicts.add(look.verdict)
            if design.finite and look.units == design.n:
                continue
            crossed = look.verdict not in (None, "equal")
            assert crossed == (look.p_value <= design.level), look
            assert crossed == (not look.low <= design.null <= look.high), look
            assert look.low <= look.mean <= look.high
    assert len(verdicts) >= 3


@pytest.mark.parametrize("name", DESIGNS)
def test_many_paths_give_the_verdicts_of_one(name: str) -> None:
    design, rng = DESIGNS[name], np.random.default_rng(6)
    paths = (rng.random((5, 200)) < np.linspace(0.6, 1.0, 5)[:, None]).astype(np.float64)
    if design.threshold is None:
        paths -= 0.8
    verdicts, units = design.first_verdicts(paths)
    for path, verdict, count in zip(paths, verdicts, units.tolist(), strict=True):
        result = design.evaluate(path[:count])
        assert (result.verdict, result.stopped_at) == (verdict, count)
    assert len(set(verdicts)) > 1


@pytest.mark.parametrize("name", DESIGNS)
def test_designs_and_results_are_stored_as_json(name: str) -> None:
    design = DESIGNS[name]
    assert SequentialDesign.from_dict(json.loads(json.dumps(design.to_dict()))) == design
    result = design.evaluate(np.r_[np.zeros(30), np.ones(50)])
    assert SequentialResult.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False))) == result


def test_more_metrics_need_more() -> None:
    one, three = DESIGNS["paired"], DESIGNS["several metrics"]
    assert three.level == pytest.approx(0.05 / 3)
    assert (three.boundaries() > one.boundaries()).all()
    assert three.boundaries() == pytest.approx(one.boundaries(0.025 / 3))


def test_a_larger_effect_needs_fewer_units() -> None:
    units = [DESIGNS["paired"].expected_units(effect, 0.5, draws=200) for effect in (0.1, 0.2, 0.4)]
    assert 200 > units[0] > units[1] > units[2] >= 10
    gate = [DESIGNS["gate"].expected_units(effect, 0.4, draws=200) for effect in (0.1, 0.15)]
    assert 200 > gate[0] > gate[1]


BAD = [  # options, message, why
    ({"n": 1}, "at least 2 units", "one unit"),
    ({"looks": 0}, "looks must be at least 1", "no looks"),
    ({"alpha": 0.6}, "alpha must lie", "alpha too large"),
    ({"tests": 0}, "tests must be", "no test"),
    ({"delta": 1.5}, "delta must be positive", "delta beyond the range"),
    ({"delta": 0.0}, "delta must be positive", "no delta"),
    ({"method": "peeking"}, "method must be", "unknown method"),
    ({"stop_on": ("pass",)}, "stop_on must be among better", "verdict of a gate"),
    ({"threshold": 1.0}, "threshold must lie between 0 and 1", "threshold at the end"),
    ({"threshold": 0.5, "delta": 0.1}, "no delta", "gate with delta"),
    ({"binary": True}, "binary is for gates", "binary difference"),
    ({"threshold": 0.5, "binary": True, "highest": 5}, "binary scores are 0 and 1", "binary with a range"),
    ({"finite": True, "method": "betting"}, "finite is for", "finite betting"),
    ({"lowest": 2.0}, "highest must be larger", "empty range"),
]


@pytest.mark.parametrize(("options", "message"), [row[:2] for row in BAD], ids=[row[2] for row in BAD])
def test_designs_that_cannot_be_meant_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        SequentialDesign.plan(**{"n": 100, **options})


GATE = DESIGNS["gate"]
BAD_VALUES = [  # design, values, sizes, message, why
    (DESIGNS["paired"], np.zeros(201), None, "201 units, but the design has 200", "too many"),
    (DESIGNS["paired"], [0.0, 2.0], None, "between -1 and 1", "outside the range"),
    (GATE, [0.0, 0.5], None, "scores of 0 and 1", "not binary"),
    (GATE, [0.0, 1.0], [1, 2], "leave out binary for clusters", "binary clusters"),
    (DESIGNS["paired"], [0.0, 1.0], [1, 0], "positive numbers", "empty unit"),
    (DESIGNS["betting"], [0.0, 1.0], [1, 1], "sizes must be 200", "betting needs all sizes"),
]


@pytest.mark.parametrize(
    ("design", "values", "sizes", "message"), [row[:4] for row in BAD_VALUES], ids=[row[4] for row in BAD_VALUES]
)
def test_bad_values_are_refused(design: SequentialDesign, values: Floats, sizes: list[int], message: str) -> None:
    with pytest.raises(BadValueError, match=message):
        design.evaluate(values, sizes)


def test_looks_out_of_order_and_unknown_fields_are_refused() -> None:
    with pytest.raises(BadValueError, match="ascending numbers of units that end at 100"):
        SequentialDesign(100, (50, 20, 100))
    with pytest.raises(BadValueError, match="set method to betting"):
        SequentialDesign(100, (100,), threshold=0.5)
    with pytest.raises(BadValueError, match="no field 'order'"):
        SequentialDesign.from_dict({"n": 10, "looks": [10], "order": 1})
    for fractions, spent in (([], []), ([0.5, 0.2], [0.01, 0.02]), ([0.5, 1], [0.02, 0.01]), ([0.5], [0.1, 0.2])):
        with pytest.raises(BadValueError):
            spending_boundaries(fractions, spent)


# --- gates, exactly --------------------------------------------------------------------------------------------------


def crossing_probabilities(design: SequentialDesign) -> tuple[float, float]:
    """The probabilities that a gate passes and fails if the true proportion lies at its threshold, by recursion."""
    binomial = need("scipy.stats").binom
    levels = need("scipy.stats").norm.sf(design.boundaries())
    alive, before, passes, fails = np.ones(1), 0, 0.0, 0.0
    for units, level in zip(design.looks, levels, strict=True):
        alive = np.convolve(alive, binomial.pmf(np.arange(units - before + 1), units - before, design.threshold))
        counts = np.arange(units + 1)
        above = binomial.sf(counts - 1, units, design.threshold) <= level
        below = binomial.cdf(counts, units, design.threshold) <= level
        passes, fails = passes + float(alive[above].sum()), fails + float(alive[below].sum())
        alive[above | below] = 0.0
        before = units
    return passes, fails


@pytest.mark.parametrize("n", [100, 200, 500])
@pytest.mark.parametrize("threshold", [0.8, 0.9, 0.95])
def test_gates_at_their_threshold_rarely_pass_or_fail(threshold: float, n: int) -> None:
    assert max(crossing_probabilities(SequentialDesign.plan(n, threshold=threshold, binary=True))) <= 0.025


def test_a_gate_compares_binomial_tails() -> None:
    design = SequentialDesign(10, (10,), threshold=0.5, binary=True)
    (look,) = design.evaluate([1.0] * 9 + [0.0]).looks
    assert look.p_value == pytest.approx(2 * 11 / 1024)
    assert look.verdict == "pass"
    (other,) = design.evaluate([1.0] * 8 + [0.0] * 2).looks
    assert other.p_value == pytest.approx(2 * 56 / 1024)
    assert other.verdict is None
    exact = need("scipy.stats").binomtest(9, 10, 0.5).proportion_ci(0.95, "exact")
    assert (look.low, look.high) == pytest.approx((exact.low, exact.high), abs=1e-6)


# --- error rates and savings -----------------------------------------------------------------------------------------


def missed(figures: Any) -> list[str]:
    return [figure.row() for figure in figures if not figure.holds]


@pytest.mark.slow
def test_error_rates_and_savings_by_simulation() -> None:
    assert missed(verdicts.acceptance_figures(4_000)) == []
    assert verdicts.peeking_rate(200, 1_000) > 0.15  # what the boundaries are for


def test_skewed_grades_are_rarely_decided() -> None:
    """5 % gain four grades, 20 % lose one: 10.3 % false verdicts at 200 units by Student's t alone."""
    grades = verdicts_skew.NULLS["5 % gain 1, 20 % lose .25"]
    found = verdicts.verdict_rates(SequentialDesign.plan(200), verdicts_skew.draw(grades, 1_000, 200))
    assert found.better + found.worse <= 0.04


@pytest.mark.slow
def test_skewed_differences_by_simulation() -> None:
    assert missed(verdicts_skew.skewed_differences(4)) == []


@pytest.mark.slow
def test_simulated_gates_pass_and_fail_as_often_as_computed() -> None:
    rng = np.random.default_rng(8)
    design = SequentialDesign.plan(500, threshold=0.8, binary=True, futility=False)
    found, _ = design.first_verdicts((rng.random((4_000, 500)) < 0.8).astype(np.float64))
    rates = found.count("pass") / 4_000, found.count("fail") / 4_000
    # The standard error of a proportion of 2 % is .0022.
    assert rates == pytest.approx(crossing_probabilities(design), abs=0.0066)


@pytest.mark.slow
def test_human_verdicts_replayed_in_200_orders() -> None:
    need_data("evouna", "NQ.json")
    assert missed(verdicts.replay_figures(200)) == []


@pytest.mark.slow
def test_betting_is_valid_for_a_skewed_null() -> None:
    paths = verdicts.draw_differences(verdicts.SKEWED, 0.0, 1_000, 200, 7)
    found = verdicts.verdict_rates(SequentialDesign.plan(200, method="betting"), paths)
    assert found.better + found.worse <= 0.01
