"""Stacked weights: folds, equal and duplicate judges, missing scores, and the figures on public verdicts of judges."""

import numpy as np
import numpy.typing as npt
import pytest

from auepora_eval.errors import AlignmentError, BadValueError
from auepora_eval.stats.calibration import corrected_mean, expected_calibration_error
from auepora_eval.stats.stacking import (
    FOLDS,
    MIN_LABELS,
    assign_folds,
    fit_stacked_weights,
    stacked_probability,
)
from helpers.nq301 import nq301

Floats = npt.NDArray[np.float64]


def simulated(n: int = 100, judges: int = 3, seed: int = 0) -> tuple[Floats, Floats]:
    """Labels, and judges that give the label with a probability of .9, .8, .7, ..."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.6).astype(float)
    right = rng.random((n, judges)) < 0.9 - 0.1 * np.arange(judges)
    return np.where(right, labels[:, None], 1 - labels[:, None]), labels


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


# --- public verdicts of three models and two lexical measures on 1,477 answers to 301 questions ----------------------


@pytest.mark.slow
def test_stacked_weights_against_majority_on_public_verdicts() -> None:
    """100 labels, 500 draws: more accurate than the majority by .02, calibrated, and with a valid corrected mean."""
    scores, labels, _ = nq301()
    assert len(labels) > 1_400
    majority = ((scores >= 0.5).mean(axis=1) > 0.5).astype(float)
    truth, draws = labels.mean(), 500
    accuracy, error, covered, width, width_majority = [], [], 0, [], []
    for seed in range(draws):
        drawn = np.random.default_rng(seed).choice(len(labels), 100, replace=False)
        stack = fit_stacked_weights(scores[drawn], labels[drawn], seed=seed)
        p = stacked_probability(stack.coefficients, scores)
        p[drawn] = stack.out_of_fold(scores[drawn])
        accuracy.append(((p >= 0.5) == (labels == 1)).mean())
        error.append(expected_calibration_error(p, labels == 1))
        known = np.full(len(labels), np.nan)
        known[drawn] = labels[drawn]
        found = corrected_mean(p, known, binary=True, finite=True)
        other = corrected_mean(majority, known, binary=True, finite=True)
        assert found.interval is not None
        assert other.interval is not None
        covered += found.interval.low <= truth <= found.interval.high
        width.append(found.interval.high - found.interval.low)
        width_majority.append(other.interval.high - other.interval.low)
    assert np.mean(accuracy) >= (majority == labels).mean() + 0.02
    assert np.mean(error) <= 0.07
    assert covered / draws >= 0.94
    assert np.mean(width) <= np.mean(width_majority)


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
