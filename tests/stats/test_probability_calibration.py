"""Whether the probabilities of a judge are right: the fit, the intervals, the verdict, and the corrected mean."""

import math

import numpy as np
import pytest

from auepora_eval.errors import BadValueError
from auepora_eval.stats.calibration import MAX_WEIGHT, corrected_mean
from auepora_eval.stats.probabilities import TOLERANCE, probability_calibration
from benchmarks.judge_probabilities import (
    SHAPES,
    calibrations,
    coverage,
    nq301_rows,
    stopping,
    true_error,
    verdict_rates,
    widths,
)


def test_fit_written_out() -> None:
    """Two probabilities, each with labels: intercept and slope solve the equations of the penalised likelihood."""
    q = np.array([0.2] * 10 + [0.8] * 10)
    y = np.array([1.0] * 5 + [0.0] * 5 + [1.0] * 6 + [0.0] * 4)
    found = probability_calibration(q, y)
    b0, b1 = found.intercept.value, found.slope.value
    assert b0 is not None
    assert b1 is not None
    x = math.log(4)
    low, high = (1 / (1 + math.exp(-(b0 + sign * b1 * x))) for sign in (-1, 1))
    assert 5 + 6 - 10 * (low + high) - b0 / 4 == pytest.approx(0, abs=1e-6)
    assert x * (6 - 5 + 10 * low - 10 * high) - (b1 - 1) / 4 == pytest.approx(0, abs=1e-6)
    assert found.brier.value == pytest.approx((5 * 0.64 + 5 * 0.04 + 6 * 0.04 + 4 * 0.64) / 20)
    assert found.bias.value == pytest.approx(11 / 20 - 0.5)
    variances = 0.5 * 0.5 / 9 + 0.6 * 0.4 / 9
    assert found.binned_error.value == pytest.approx(math.sqrt((0.3**2 + 0.2**2 - variances) / 2))


def test_a_judge_that_is_always_right_has_a_finite_fit() -> None:
    y = np.arange(40) % 2 * 1.0
    found = probability_calibration(y, y)
    assert found.verdict != "not calibrated"
    assert found.brier.value == 0
    assert found.gain is None, "yes and no already"
    assert found.slope.value is not None
    assert math.isfinite(found.slope.value)


def test_the_same_seed_gives_the_same_verdict() -> None:
    rng = np.random.default_rng(3)
    q = rng.random(60)
    y = (rng.random(60) < q) * 1.0
    assert probability_calibration(q, y, seed=1) == probability_calibration(q, y, seed=1)


def test_bad_values() -> None:
    with pytest.raises(BadValueError, match="between 0 and 1"):
        probability_calibration([0.5, 1.5], [0, 1])
    with pytest.raises(BadValueError, match="labels are 0"):
        probability_calibration([0.5, 0.5], [0, 0.5])


def test_gain_is_that_of_the_remaining_variances() -> None:
    q = np.array([0.1, 0.4, 0.6, 0.9] * 10)
    y = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0] * 5)
    remaining = [min(1, 1 - np.corrcoef(scores, y)[0, 1] ** 2 + 5 / 40) for scores in (q, np.round(q))]
    assert remaining[0] < remaining[1]
    assert probability_calibration(q, y).gain == pytest.approx(1 - math.sqrt(remaining[0] / remaining[1]))


def test_the_weight_of_scores_is_at_most_four() -> None:
    rng = np.random.default_rng(5)
    y = rng.random(400).round()
    labels = np.where(np.arange(400) < 100, y, np.nan)
    for stretch, expected in ((0.5, 2.0), (0.1, MAX_WEIGHT)):
        found = corrected_mean(0.5 + stretch * (y - 0.5), labels, binary=True, finite=True)
        assert found.weight == pytest.approx(expected)


def test_nearly_calibrated_probabilities_are_narrower_than_yes_or_no() -> None:
    found = widths("U", 100, 60, ("yes/no", "p", "logit / 3"))
    assert found["p"].width / found["yes/no"].width <= 0.96
    assert found["logit / 3"].width <= found["yes/no"].width
    assert min(one.coverage for one in found.values()) >= 0.9


def test_verdicts_of_simulated_judges() -> None:
    assert verdict_rates(calibrations("U", "calibrated", 50, 60))[1] <= 0.12
    assert verdict_rates(calibrations("U", "calibrated", 300, 30))[0] >= 0.9
    assert true_error("U", "overconfident x 3") > TOLERANCE
    calibrated, not_calibrated, _ = verdict_rates(calibrations("U", "overconfident x 3", 100, 40))
    assert calibrated <= 0.05
    assert not_calibrated >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_coverage_of_corrected_means(shape: str) -> None:
    found = widths(shape, 100, 400)
    coverages = [one.coverage for one in found.values()]
    assert sum(coverages) / len(coverages) >= 0.94
    assert min(coverages) >= 0.915  # .925 less a standard error of 400 draws


@pytest.mark.slow
@pytest.mark.parametrize("truth", ["calibrated", "overconfident x 2", "overconfident x 3", "shift 1"])
@pytest.mark.parametrize("shape", ["U", "even", "mostly right"])
def test_wrong_verdicts_are_rare(shape: str, truth: str) -> None:
    for n, most in ((50, 0.08), (100, 0.08), (300, 0.06)):
        calibrated, not_calibrated, _ = verdict_rates(calibrations(shape, truth, n, 300))
        if true_error(shape, truth) >= TOLERANCE:
            assert calibrated <= 0.05
        elif truth == "calibrated":
            assert not_calibrated <= most + 0.016  # one standard error


@pytest.mark.slow
def test_coverage_of_the_measures() -> None:
    for name, covered in coverage("even", 1.0, 0.0, 100, 300).items():
        assert covered >= 0.91, name


@pytest.mark.slow
def test_early_stopping_on_probabilities() -> None:
    for judge in ("p", "3 logit", "logit / 3"):
        found = stopping("U", judge, 200, 4000, 0.0)
        assert found["better"] + found["worse"] <= 0.057, judge
    better = stopping("U", "p", 200, 1000, 0.1)
    assert better["better"] >= 0.88
    assert better["calls"] <= 0.65


@pytest.mark.slow
def test_bem_on_nq301_gains_little() -> None:
    from helpers.nq301 import nq301

    scores, labels, _ = nq301()
    found = probability_calibration(np.clip(scores[:, 2], 0.001, 0.999), labels)
    assert found.verdict == "not calibrated"
    assert found.gain == pytest.approx(0.0155, abs=5e-4)
    assert found.slope.value == pytest.approx(0.51, abs=0.01)
    assert nq301_rows(2)
