"""Stacked weights: folds, equal and duplicate judges, missing scores, and the figures on public verdicts of judges."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from auepora_eval.errors import AlignmentError, BadValueError
from auepora_eval.stats.stacking import (
    FOLDS,
    MIN_LABELS,
    assign_folds,
    cross_fit,
    fit_calibrator,
    fit_stacked_weights,
    stacked_probability,
)
from benchmarks.verdicts_labels import panel_rates
from helpers.nq301 import nq301
from helpers.requirements import need_data

Floats = npt.NDArray[np.float64]


def simulated(n: int = 100, judges: int = 3, seed: int = 0) -> tuple[Floats, Floats]:
    """Labels, and judges that give the label with a probability of .9, .8, .7, ..."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.6).astype(float)
    right = rng.random((n, judges)) < 0.9 - 0.1 * np.arange(judges)
    return np.where(right, labels[:, None], 1 - labels[:, None]), labels


def test_labels_are_weighted_by_one_over_their_probability() -> None:
    """Judges that tell nothing leave the weighted mean of the labels: right answers were drawn a fourth as often."""
    scores, labels = np.full((40, 2), 0.5), np.arange(40) % 2
    found = fit_stacked_weights(scores, labels, weights=np.where(labels == 1, 4.0, 1.0))
    assert stacked_probability(found.coefficients, scores[:1])[0] == pytest.approx(0.8, abs=1e-6)
    assert found.out_of_fold(scores) == pytest.approx(np.full(40, 0.8), abs=0.02)
    with pytest.raises(AlignmentError):
        fit_stacked_weights(scores, labels, weights=[1.0])


def test_a_better_judge_has_a_larger_weight() -> None:
    _, *weights = fit_stacked_weights(*simulated(400)).coefficients
    assert weights[0] > weights[1] > weights[2] > 0


def test_judges_that_always_agree_have_equal_weights() -> None:
    scores, labels = simulated()
    _, *weights = fit_stacked_weights(np.repeat(scores[:, :1], 4, axis=1), labels).coefficients
    assert weights == [weights[0]] * 4


def test_a_missing_score_counts_as_the_mean_of_the_others() -> None:
    coefficients = (0.5, 3.0, -0.5, 0.25)
    missing, filled = stacked_probability(coefficients, [[1, np.nan, 0.5], [1, 0.75, 0.5]])
    assert missing == filled == pytest.approx(1 / (1 + np.exp(-(0.5 + 3 - 0.375 + 0.125))))


def test_few_labels_keep_the_weights_nearly_equal() -> None:
    scores, labels = simulated(400)
    spread = [np.ptp(fit_stacked_weights(scores[:n], labels[:n]).coefficients[1:]) for n in (20, 400)]
    assert spread[0] < spread[1] / 2


def test_a_label_never_enters_the_coefficients_of_its_own_fold() -> None:
    scores, labels = simulated()
    first = fit_stacked_weights(scores, labels)
    changed = labels.copy()
    changed[0] = 1 - changed[0]
    # The folds depend on the labels, so those of the first fit are used for both.
    fold = np.array(first.folds)
    training = fold != fold[0]
    assert training[1:].any()
    assert np.array_equal(labels[training], changed[training])
    assert first.out_of_fold(scores)[0] == stacked_probability(first.fold_coefficients[fold[0]], scores[0])[0]


@pytest.mark.parametrize("per_question", [1, 3])
def test_answers_to_one_question_stay_in_one_fold(per_question: int) -> None:
    _, labels = simulated(120)
    questions = np.arange(120) // per_question
    fold = assign_folds(labels, clusters=questions)
    assert all(len(set(fold[questions == one].tolist())) == 1 for one in set(questions.tolist()))
    sizes = np.bincount(fold, minlength=FOLDS)
    assert sizes.max() - sizes.min() <= per_question
    positives = np.bincount(fold, labels, FOLDS)
    assert positives.min() > 0  # each training set has labels of both kinds


def test_every_training_set_has_both_labels_where_there_are_two_of_a_kind() -> None:
    labels = np.ones(30)
    labels[:2] = 0
    fold = assign_folds(labels)
    assert fold[0] != fold[1]


BAD = [  # scores, labels, clusters, error, message, why
    (np.ones((9, 2)), np.arange(9) % 2, None, BadValueError, f"at least {MIN_LABELS} labels", "too few labels"),
    (np.ones((12, 2)), np.ones(12), None, BadValueError, "all 12 labels are 1", "one kind of label"),
    (np.ones((12, 1)), np.arange(12) % 2, None, BadValueError, "two judges", "one judge"),
    (np.ones((12, 2)), np.arange(11) % 2, None, AlignmentError, "12", "lengths differ"),
    (np.ones((12, 2)), np.arange(12) % 2, np.arange(12) // 4, BadValueError, "at least 5 questions", "few questions"),
    (np.full((12, 2), np.nan), np.arange(12) % 2, None, BadValueError, "no score of any judge", "no scores"),
]


@pytest.mark.parametrize(
    ("scores", "labels", "clusters", "error", "message"), [row[:5] for row in BAD], ids=[row[5] for row in BAD]
)
def test_unusable_labels_are_refused(
    scores: Floats, labels: Floats, clusters: npt.NDArray[np.intp] | None, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        fit_stacked_weights(scores, labels, clusters=clusters)


# --- calibrators -----------------------------------------------------------------------------------------------------


def cheap_features(n: int = 300, seed: int = 0) -> tuple[Floats, Floats]:
    """Two informative features of different scale and one without information; labels."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, 3)) * [1, 50, 1]
    logits = 0.5 + features[:, 0] + features[:, 1] / 50
    return features, (rng.random(n) < 1 / (1 + np.exp(-logits))).astype(float)


def test_a_calibrator_predicts_the_share_of_labels() -> None:
    features, labels = cheap_features(3000)
    found = fit_calibrator(features[:1500], labels[:1500])
    predictions = found.predict(features[1500:])
    assert predictions.mean() == pytest.approx(labels[1500:].mean(), abs=0.03)
    assert np.array(found.coefficients) == pytest.approx([0.5, 1, 1 / 50, 0], abs=0.15)


def test_a_calibrator_does_not_depend_on_the_scale_of_features_or_weights() -> None:
    features, labels = cheap_features()
    weights = np.linspace(1, 3, 300)
    one = fit_calibrator(features, labels, weights=weights)
    two = fit_calibrator(features * 10 + 5, labels, weights=weights * 7)
    assert two.predict(features * 10 + 5) == pytest.approx(one.predict(features))


def test_labels_count_by_their_weight() -> None:
    """A label of weight 3 counts as three labels."""
    _, labels = cheap_features(60)
    weights = np.where(np.arange(60) < 20, 3.0, 1.0)
    rows = np.repeat(np.arange(60), weights.astype(int))
    constant = np.zeros(60)  # then the share of labels is predicted
    weighted, repeated = fit_calibrator(constant, labels, weights=weights), fit_calibrator(constant[rows], labels[rows])
    assert weighted.predict([0.0]) == pytest.approx(repeated.predict([0.0]))


def test_cross_fitting_never_uses_the_own_label() -> None:
    features, labels = cheap_features(200)
    labels[100:] = np.nan
    found = cross_fit(features, labels)
    fold = assign_folds(labels[:100])
    without = (fold != fold[0]).nonzero()[0]
    assert found[0] == fit_calibrator(features[without], labels[without]).predict(features[:1])[0]
    by_fold = [
        fit_calibrator(features[:100][fold != k], labels[:100][fold != k]).predict(features[150:151])[0]
        for k in range(FOLDS)
    ]
    assert found[150] == pytest.approx(np.mean(by_fold))
    equal = cross_fit(features, labels, probabilities=np.full(200, 0.5))
    assert equal == pytest.approx(found)


BAD_FEATURES = [  # call, error, message, why
    (lambda: fit_calibrator([[1.0], [2.0]], [0, 2]), BadValueError, "labels between 0 and 1", "a label of 2"),
    (lambda: fit_calibrator([[1.0], [2.0]], [0]), AlignmentError, "2 rows of features", "lengths differ"),
    (lambda: fit_calibrator([1.0, 2.0], [0, 1], weights=[1]), AlignmentError, "2 labels", "weights differ"),
    (lambda: fit_calibrator([[1.0], [np.nan]], [0, 1]), BadValueError, "features at index 1", "a missing feature"),
    (lambda: fit_calibrator([1.0, 2.0], [0, 1]).predict([[1.0, 2.0]]), AlignmentError, "columns", "another number"),
    (lambda: cross_fit([1.0, 2.0], [0]), AlignmentError, "2 rows of features", "labels differ"),
]


@pytest.mark.parametrize(
    ("call", "error", "message"), [row[:3] for row in BAD_FEATURES], ids=[row[3] for row in BAD_FEATURES]
)
def test_unusable_features_are_refused(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


# --- public verdicts of three models and two lexical measures on 1,477 answers to 301 questions ----------------------


@pytest.mark.slow
def test_stacked_weights_against_majority_on_public_verdicts() -> None:
    """100 labels, 500 draws: more accurate than the majority by .02, calibrated, and with a valid corrected mean."""
    need_data("nq301")
    found = panel_rates(500)
    assert found.accuracy >= found.majority_accuracy + 0.02
    assert found.calibration_error <= 0.07
    assert found.coverage >= 0.94
    assert found.width <= found.majority_width


@pytest.mark.slow
def test_a_duplicate_judge_hardly_changes_a_probability_on_public_verdicts() -> None:
    scores, labels, questions = nq301()
    for seed in range(20):
        drawn = np.random.default_rng(seed).choice(len(labels), 100, replace=False)
        for judge in range(scores.shape[1]):
            doubled = np.column_stack([scores, scores[:, judge]])
            first, second = (
                stacked_probability(
                    fit_stacked_weights(one[drawn], labels[drawn], clusters=questions[drawn]).coefficients, one
                )
                for one in (scores, doubled)
            )
            assert np.abs(first - second).max() <= 1e-9  # the bound of the definition is .05
