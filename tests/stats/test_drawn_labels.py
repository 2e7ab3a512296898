"""Means from labels drawn by probability or by strata: equal to the plain ones where they must be, by hand, coverage."""

import math
from typing import Any

import numpy as np
import pytest

from auepora_eval.errors import AlignmentError, BadValueError
from auepora_eval.stats.calibration import CorrectedMean, corrected_difference, corrected_mean
from auepora_eval.stats.intervals import t_quantile
from benchmarks import verdicts_labels
from helpers.requirements import need_data

NAN = math.nan


def labelled(n: int, drawn: int, *, binary: bool, seed: int = 0) -> tuple[Any, Any]:
    """Scores of all samples, and labels of some of them."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    labels = (rng.random(n) < scores).astype(float) if binary else scores + 0.3 * rng.normal(size=n)
    labels[rng.permutation(n)[drawn:]] = NAN
    return scores, labels


def numbers(found: CorrectedMean) -> list[float]:
    assert found.interval is not None
    assert found.labels_interval is not None
    ends = (found.interval.low, found.interval.high, found.labels_interval.low, found.labels_interval.high)
    return [found.value, found.weight, found.labels_mean, *ends]


EQUAL: list[tuple[dict[str, Any], str]] = [
    ({"probabilities": np.full(120, 40 / 120)}, "equal probabilities"),
    ({"strata": np.full(120, 7), "pseudo_labels": 0}, "one stratum"),
]
KINDS: list[tuple[dict[str, Any], str]] = [
    ({"binary": True}, "right or wrong"),
    ({"binary": True, "finite": True}, "right or wrong, these samples"),
    ({"lowest": 0.0, "highest": 1.0}, "numbers"),
    ({"finite": True}, "numbers, these samples"),
    ({"clusters": np.arange(120) // 2}, "clusters"),
    ({"clusters": np.arange(120) // 3, "finite": True}, "clusters, these samples"),
]


@pytest.mark.parametrize("options", [row[0] for row in KINDS], ids=[row[1] for row in KINDS])
@pytest.mark.parametrize("draw", [row[0] for row in EQUAL], ids=[row[1] for row in EQUAL])
def test_equal_draws_give_the_plain_estimate(draw: dict[str, Any], options: dict[str, Any]) -> None:
    for seed in range(5):
        scores, labels = labelled(120, 40, binary=options.get("binary", False), seed=seed)
        if "lowest" in options:
            labels = np.clip(labels, 0, 1)
        plain, drawn = corrected_mean(scores, labels, **options), corrected_mean(scores, labels, **options, **draw)
        assert numbers(drawn) == pytest.approx(numbers(plain), abs=1e-12)
        other, others = labelled(120, 40, binary=options.get("binary", False), seed=seed + 50)
        others = np.where(np.isnan(labels), NAN, np.nan_to_num(others))
        plain = corrected_difference(scores, other, labels, others, **options)
        drawn = corrected_difference(scores, other, labels, others, **options, **draw)
        assert numbers(drawn) == pytest.approx(numbers(plain), abs=1e-12)


def test_labels_weigh_one_over_their_probability() -> None:
    labels = np.array([1.0, 0.0, 1.0, 0.0, NAN, NAN])
    probabilities = np.array([0.5, 0.5, 0.25, 1.0, NAN, NAN])  # of labelled samples only
    found = corrected_mean(np.zeros(6), labels, probabilities=probabilities)
    assert found.value == pytest.approx((2 + 4) / (2 + 2 + 4 + 1))


@pytest.mark.parametrize("finite", [False, True], ids=["such samples", "these samples"])
def test_a_stratified_mean_by_hand(finite: bool) -> None:
    """Strata of 60 and 40 samples with 4 and 6 labels; the scores are constant, so that only labels count."""
    strata = np.repeat([0, 1], [60, 40])
    labels = np.full(100, NAN)
    labels[:4], labels[60:66] = [0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1, 0, 1]
    found = corrected_mean(np.zeros(100), labels, strata=strata, pseudo_labels=0, finite=finite)
    assert found.interval is not None
    assert found.value == pytest.approx(0.6 * 0.5 + 0.4 * 0.5)
    # Squares add up to .2 and 1.5, variances are .2 / 3 and 1.5 / 5; both strata have the same mean.
    left = (1 - 4 / 60, 1 - 6 / 40) if finite else (1.0, 1.0)
    parts = (0.6**2 * 0.2 / 3 / 4 * left[0], 0.4**2 * 1.5 / 5 / 6 * left[1])
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 5)
    half = t_quantile(0.025, freedom) * math.sqrt(sum(parts))
    assert found.interval.high - found.value == pytest.approx(half)
    assert found.value - found.interval.low == pytest.approx(half)


def test_a_stratum_of_equal_labels_has_a_variance() -> None:
    """Two labels of a stratum that are both right say little; pseudo-labels at the mean score keep the interval wide."""
    strata, scores = np.repeat([0, 1], 50), np.repeat([0.9, 0.5], 50)
    labels = np.full(100, NAN)
    labels[:2], labels[50:60] = 1, [1, 0] * 5
    without, with_two = (
        corrected_mean(scores, labels, strata=strata, pseudo_labels=count, binary=True).interval for count in (0, 2)
    )
    assert without is not None
    assert with_two is not None
    assert with_two.high - with_two.low > 1.02 * (without.high - without.low)


def test_verdicts_that_all_labels_confirm_are_not_certain() -> None:
    """The strata are the verdicts of a judge; all 20 labels agree with it."""
    scores = np.repeat([0.0, 1.0], 50)
    labels = np.full(100, NAN)
    labels[:10], labels[50:60] = 0, 1
    found = corrected_mean(scores, labels, strata=scores, binary=True, finite=True).interval
    assert found is not None
    # In each stratum p = (10 + 2 * .97) / 12; the variance is the sum of (1/2)² p (1 - p) (1 - 10/50) / 10.
    p = 11.94 / 12
    assert found.high - found.low == pytest.approx(2 * 1.96 * math.sqrt(2 / 4 * p * (1 - p) * 0.8 / 10), rel=0.2)


def test_these_samples_never_have_the_wider_interval() -> None:
    strata = np.repeat([0, 1], 50)
    scores, labels = strata * 1.0, np.full(100, NAN)
    labels[:20], labels[50:70] = 0.5, 1.0  # labels vary between strata only
    options: dict[str, Any] = {"strata": strata, "lowest": 0.0, "highest": 1.0}
    these, all_samples = (corrected_mean(scores, labels, finite=finite, **options).interval for finite in (True, False))
    assert these is not None
    assert all_samples is not None
    assert 0 < these.high - these.low <= all_samples.high - all_samples.low


def test_one_cluster_has_no_interval() -> None:
    labels = np.array([1.0, 0.5, NAN])
    for draw in ({"probabilities": np.full(3, 0.5)}, {"strata": np.zeros(3)}):
        found = corrected_mean(np.zeros(3), labels, clusters=np.zeros(3, dtype=np.intp), **draw)
        assert (found.value, found.interval) == (0.75, None)


def test_differences_use_the_variance_within_all_strata() -> None:
    strata = np.repeat([0, 1], 50)
    first, second = np.full(100, NAN), np.full(100, NAN)
    first[:2], second[:2] = 0, 0
    first[50:60], second[50:60] = 0, [1, 0] * 5
    zeros = np.zeros(100)
    without, with_two = (
        corrected_difference(zeros, zeros, first, second, strata=strata, pseudo_labels=count) for count in (0, 2)
    )
    assert without.value == with_two.value == 1 / 4
    assert without.interval is not None
    assert with_two.interval is not None
    assert with_two.interval.high > without.interval.high


def test_a_census_has_no_uncertainty() -> None:
    scores, labels = labelled(30, 30, binary=True)
    for draw in ({"probabilities": np.ones(30)}, {"strata": np.arange(30) % 3}):
        found = corrected_mean(scores, labels, binary=True, finite=True, **draw)
        assert found.interval is not None
        assert found.interval.low == found.interval.high == pytest.approx(labels.mean())


def test_equal_labels_with_unequal_weights_count_as_fewer() -> None:
    labels = np.array([1.0] * 20 + [NAN] * 80)
    probabilities = np.tile([0.1, 0.9], 50)
    plain, drawn = (
        corrected_mean(np.zeros(100), labels, binary=True, **draw).interval  # type: ignore[arg-type]
        for draw in ({}, {"probabilities": probabilities})
    )
    assert plain is not None
    assert drawn is not None
    assert drawn.low < plain.low < drawn.high == 1


BAD = [  # draw, error, message, why
    ({"probabilities": np.full(4, 0.5), "strata": np.zeros(4)}, BadValueError, "only one of weights", "two draws"),
    ({"probabilities": np.full(3, 0.5)}, AlignmentError, "3 probabilities", "lengths differ"),
    ({"probabilities": np.full(4, 1.5)}, BadValueError, "1.5; it cannot be above 1", "above 1"),
    ({"probabilities": np.array([0.0, 1, 1, 1])}, BadValueError, "finite number above zero", "a label not drawn"),
    ({"probabilities": np.array([NAN, 1, 1, 1])}, BadValueError, "finite number above zero", "unknown probability"),
    ({"strata": np.zeros(3)}, AlignmentError, "3 strata", "strata differ"),
    (
        {"strata": np.array([0, 0, 0, 5])},
        BadValueError,
        "stratum 5 has 1 samples and no label",
        "stratum without labels",
    ),
    (
        {"strata": np.array([0, 0, 1, 1]), "pseudo_labels": 0},
        BadValueError,
        "stratum 1 has 2 samples and one",
        "one label",
    ),
    ({"strata": np.zeros(4), "pseudo_labels": -1}, BadValueError, "must not be negative", "negative pseudo-labels"),
]


@pytest.mark.parametrize(("draw", "error", "message"), [row[:3] for row in BAD], ids=[row[3] for row in BAD])
def test_bad_draws(draw: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        corrected_mean(np.zeros(4), np.array([1.0, 0.0, 1.0, NAN]), **draw)


def test_one_label_of_a_stratum_is_enough_for_an_estimate() -> None:
    strata = np.repeat([0, 1], 10)
    labels = np.full(20, NAN)
    labels[0], labels[10:14] = 1, [1, 0, 0, 0]
    found = corrected_mean(np.repeat([0.8, 0.3], 10), labels, strata=strata, binary=True)
    assert found.value == pytest.approx(1 / 2 + 1 / 8)
    assert found.interval is not None
    assert found.interval.low < found.value < found.interval.high


# --- public human labels; benchmarks/verdicts_labels.py has the full number of draws ---------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "design", [verdicts_labels.probability_history, verdicts_labels.strata_history], ids=["probability", "strata"]
)
def test_means_with_history_are_narrow_and_cover(design: verdicts_labels.Design) -> None:
    """100 labels of five systems, 300 draws: coverage .94, less two standard errors; width .66 of labels alone."""
    need_data("evouna", "NQ.json")
    found = verdicts_labels.mean_rates(design, verdicts_labels.evouna_populations(2), 30)
    assert found.coverage >= 0.94 - 2 * math.sqrt(0.05 * 0.95 / 300)
    assert found.width <= 0.66


@pytest.mark.slow
@pytest.mark.parametrize(
    "design", [verdicts_labels.probability_history, verdicts_labels.strata_history], ids=["probability", "strata"]
)
def test_an_uninformative_judge_costs_little(design: verdicts_labels.Design) -> None:
    need_data("evouna", "NQ.json")
    assert verdicts_labels.mean_rates(design, verdicts_labels.uninformative_populations(), 20).width <= 1.08


@pytest.mark.slow
def test_forty_labels_by_probability_are_worth_more_than_random_ones() -> None:
    """Ten pairs, 30 draws each; verdicts vary more than widths, the benchmark counts them."""
    need_data("evouna", "NQ.json")
    random, active = (verdicts_labels.pair_rates(30, active=active) for active in (False, True))
    widths = [np.mean([one.width for one in rates]) for rates in (random, active)]
    assert widths[1] <= 0.95 * widths[0]
    assert np.mean([one.wrong for one in active]) <= 0.01
    assert np.mean([one.coverage for one in active]) >= 0.94


@pytest.mark.slow
def test_a_model_judge_saves_half_of_the_expensive_judgements() -> None:
    """Widths squared: the judgements needed relative to an expensive judge alone; 60 draws of 100 judgements."""
    need_data("nq301")
    for name, at_most in (("GPT-4 expensive, text-davinci-003 cheap", 0.4), ("people expensive, GPT-4 cheap", 0.54)):
        population = verdicts_labels.nq301_populations()[name]
        found = verdicts_labels.mean_rates(verdicts_labels.probability_history, [population], 60)
        assert found.width**2 <= at_most
        assert found.coverage >= 0.94 - 2 * math.sqrt(0.05 * 0.95 / 60)
