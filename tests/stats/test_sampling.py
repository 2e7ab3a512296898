"""Draws: inclusion probabilities, systematic and stratified draws, allocations, and forecasts of the interval."""

from typing import Any

import numpy as np
import pytest

from auepora_eval.errors import AlignmentError, BadValueError
from auepora_eval.stats.calibration import corrected_mean
from auepora_eval.stats.sampling import (
    expected_errors,
    forecast,
    inclusion_probabilities,
    join_empty_strata,
    labels_needed,
    neyman_allocation,
    strata_of,
    stratified_draw,
    systematic_draw,
)


def test_the_error_of_a_prediction_is_the_variance_of_its_label() -> None:
    assert expected_errors([0, 0.5, 0.9]).tolist() == pytest.approx([0, 1 / 4, 0.09])
    # .03 where the cheap signals agree, .25 where they disagree most
    assert expected_errors([0, 0.5, 1], calibrated=False).tolist() == pytest.approx([0.03, 0.25, 0.03])


PROBABILITIES = [  # errors, n, uniform, want, why
    ([0.2, 0.2, 0.2, 0.2], 2, 0.5, [1 / 2] * 4, "equal errors"),
    ([0.0, 0.0], 1, 0.5, [1 / 2, 1 / 2], "no errors at all"),
    ([0.01, 0.09], 1, 0.5, [1 / 4 + 1 / 8, 1 / 4 + 3 / 8], "half by the root of the error, half equal"),
    ([0.01, 0.09], 1, 1.0, [1 / 2, 1 / 2], "all equal"),
    ([0.25, 0.01, 0.01], 2, 0.5, [1, 1 / 2, 1 / 2], "one above 1 is certain, the others get what is left"),
    ([0.25, 0.01, 0.04], 3, 0.5, [1, 1, 1], "a census"),
]


@pytest.mark.parametrize(
    ("errors", "n", "uniform", "want"), [row[:4] for row in PROBABILITIES], ids=[row[4] for row in PROBABILITIES]
)
def test_inclusion_probabilities(errors: list[float], n: int, uniform: float, want: list[float]) -> None:
    found = inclusion_probabilities(errors, n, uniform=uniform)
    assert found.tolist() == pytest.approx(want)
    assert found.sum() == pytest.approx(n)


def test_no_label_weighs_more_than_twice_the_mean() -> None:
    errors = np.random.default_rng(0).random(500) ** 4
    found = inclusion_probabilities(errors, 50)
    assert (1 / found).max() <= 2 * 500 / 50


def test_a_systematic_draw_has_its_probabilities() -> None:
    probabilities = inclusion_probabilities(np.linspace(0, 0.25, 40), 12)
    draws = [systematic_draw(probabilities, seed) for seed in range(1500)]
    assert {len(set(one.tolist())) for one in draws} == {12}
    counts = np.bincount(np.concatenate(draws), minlength=40) / 1500
    assert np.abs(counts - probabilities).max() < 4 * np.sqrt(0.25 / 1500)
    # The first half of a draw is a draw with half of each probability.
    halves = np.bincount(np.concatenate([one[:6] for one in draws]), minlength=40) / 1500
    assert np.abs(halves - probabilities / 2).max() < 4 * np.sqrt(0.25 / 1500)
    assert systematic_draw(probabilities, 7).tolist() == systematic_draw(probabilities, 7).tolist()


ALLOCATIONS = [  # sizes, spreads, n, options, want, why
    ([60, 40], [0.5, 0.5], 10, {}, [6, 4], "equal spreads: 2 each, and 6 in the proportion 60 to 40"),
    ([50, 50], [0.5, 0.1], 20, {"uniform": 0.3, "minimum": 0}, [15, 5], "50 (.35 + .09) against 50 (.07 + .09)"),
    ([100, 1], [0.5, 0.5], 10, {}, [9, 1], "a stratum smaller than the minimum is taken whole"),
    ([4, 100], [0.5, 0.01], 60, {"uniform": 0.3}, [4, 56], "what a full stratum cannot take goes to the other"),
    ([3, 3, 3], [0.1, 0.2, 0.3], 9, {}, [3, 3, 3], "a census"),
    ([10, 10], [0.0, 0.0], 6, {}, [3, 3], "no spread known"),
]


@pytest.mark.parametrize(
    ("sizes", "spreads", "n", "options", "want"), [row[:5] for row in ALLOCATIONS], ids=[row[5] for row in ALLOCATIONS]
)
def test_neyman_allocation(
    sizes: list[int], spreads: list[float], n: int, options: dict[str, Any], want: list[int]
) -> None:
    assert neyman_allocation(sizes, spreads, n, **options) == want


STRATA = [  # predictions, count, want, why
    ([0.9, 0.1, 0.5, 0.3], 2, [1, 0, 1, 0], "by rank"),
    ([0, 1, 0, 1, 1], 6, [0, 1, 0, 1, 1], "a yes or no has two strata"),
    ([0.5, 0.5, 0.5], 6, [0, 0, 0], "equal predictions share one"),
]


@pytest.mark.parametrize(("predictions", "count", "want"), [row[:3] for row in STRATA], ids=[row[3] for row in STRATA])
def test_strata(predictions: list[float], count: int, want: list[int]) -> None:
    assert strata_of(predictions, count).tolist() == want


def test_a_stratified_draw_follows_its_allocation() -> None:
    rng = np.random.default_rng(1)
    predictions = rng.beta(0.6, 0.4, 400)
    strata, errors = strata_of(predictions), expected_errors(predictions)
    draw = stratified_draw(strata, errors, 60, seed=3)
    assert len(set(draw.positions.tolist())) == 60 == sum(draw.allocation)
    assert np.bincount(strata[draw.positions]).tolist() == list(draw.allocation)
    assert draw.probabilities.sum() == pytest.approx(60)
    assert draw.allocation[0] < draw.allocation[2]  # more labels where predictions are uncertain
    assert draw.positions.tolist() == stratified_draw(strata, errors, 60, seed=3).positions.tolist()


def test_strata_without_labels_join_the_nearest() -> None:
    strata = np.array([0, 0, 1, 2, 2, 3, 4])
    labelled = np.array([True, False, False, True, False, False, False])
    assert join_empty_strata(strata, labelled).tolist() == [0, 0, 0, 1, 1, 1, 1]


BAD = [  # call, error, message, why
    (lambda: expected_errors([0.5, 1.5]), BadValueError, "between 0 and 1; at index 1 there is 1.5", "no probability"),
    (lambda: inclusion_probabilities([0.1, np.nan], 1), BadValueError, "at least 0; at index 1", "no error"),
    (lambda: inclusion_probabilities([0.1, 0.2], 3), BadValueError, "cannot draw 3 of 2 samples", "too many"),
    (
        lambda: inclusion_probabilities([0.1, 0.2], 1, uniform=0.1),
        BadValueError,
        "between 0.3 and 1",
        "weights too large",
    ),
    (lambda: neyman_allocation([50, 50], [0.1, 0.1], 3), BadValueError, "use 4 labels or more, or fewer", "too few"),
    (lambda: neyman_allocation([50, 50], [0.1], 9), AlignmentError, "2 strata", "lengths differ"),
    (lambda: strata_of([0.1], 0), BadValueError, "at least one", "no stratum"),
    (lambda: strata_of([[0.1]]), BadValueError, "one flat array", "a table"),
    (lambda: stratified_draw([0, 1], [0.1], 1), AlignmentError, "2 strata", "strata and errors differ"),
    (lambda: join_empty_strata([0, 1], [False, False]), BadValueError, "no sample has a label", "no label"),
    (lambda: join_empty_strata([0, 1], [True]), AlignmentError, "2 strata", "labels and strata differ"),
    (lambda: forecast([0.1] * 9, [0.5] * 9, [0.2] * 9), BadValueError, "at least 4 labels", "two labels"),
    (lambda: forecast([0.1], [0.5, 0.5], [1.0]), AlignmentError, "1 expected errors", "predictions and errors differ"),
    (lambda: forecast([0.1] * 9, [0.5] * 9, [0.0] * 9), BadValueError, "must be above 0", "not drawn"),
    (lambda: forecast([0.1] * 9, [0.5] * 9, [0.5] * 9, power=0.2), BadValueError, "power must lie", "power"),
    (lambda: labels_needed([0.1], [0.5], -1), BadValueError, "delta must be a positive number", "delta"),
]


@pytest.mark.parametrize(("call", "error", "message"), [row[:3] for row in BAD], ids=[row[3] for row in BAD])
def test_bad_input(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def calibrated_labels(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Predicted labels, and labels that are 1 with this probability."""
    rng = np.random.default_rng(seed)
    predictions = rng.beta(0.5, 0.3, n)
    return predictions, (rng.random(n) < predictions).astype(float)


@pytest.mark.parametrize("finite", [False, True], ids=["such samples", "these samples"])
def test_the_forecast_is_the_width_that_follows(finite: bool) -> None:
    predictions, labels = calibrated_labels(1000)
    errors = expected_errors(predictions)
    probabilities = inclusion_probabilities(errors, 100)
    expected = forecast(errors, predictions, probabilities, finite=finite)
    assert (expected.labels, expected.samples) == (100, 1000)
    widths, alone = [], []
    for seed in range(40):
        drawn = systematic_draw(probabilities, seed)
        known = np.full(1000, np.nan)
        known[drawn] = labels[drawn]
        found = corrected_mean(predictions, known, probabilities=probabilities, binary=True, finite=finite).interval
        assert found is not None
        widths.append((found.high - found.low) / 2)
        drawn = np.random.default_rng(seed).choice(1000, 100, replace=False)
        known = np.full(1000, np.nan)
        known[drawn] = labels[drawn]
        found = corrected_mean(predictions, known, binary=True, finite=finite).labels_interval
        assert found is not None
        alone.append((found.high - found.low) / 2)
    assert expected.half_width == pytest.approx(np.mean(widths), rel=0.1)
    assert expected.labels_half_width == pytest.approx(np.mean(alone), rel=0.1)
    assert expected.equivalent_labels == pytest.approx(100 * (np.mean(alone) / np.mean(widths)) ** 2, rel=0.2)
    # 80 % power takes (1.984 + .845) / 1.984 half widths.
    assert expected.decidable_difference == pytest.approx(expected.half_width * 2.83 / 1.984, rel=0.005)
    assert expected.to_dict()["equivalent_labels"] == expected.equivalent_labels


def test_labels_needed_decide_and_one_fewer_do_not() -> None:
    predictions, _ = calibrated_labels(400)
    errors = expected_errors(predictions)
    needed = labels_needed(errors, predictions, 0.12)
    assert needed is not None
    enough, fewer = (
        forecast(errors, predictions, inclusion_probabilities(errors, n)).decidable_difference
        for n in (needed, needed - 1)
    )
    assert enough <= 0.12 < fewer
    assert labels_needed(errors, predictions, 0.01) is None  # 400 samples are too few for any number of labels
