"""Predicted labels: ridge logistic regressions on judges (stacked panels) or on cheap features, cross-fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import AlignmentError, BadValueError
from .intervals import Floats, Ints, require_finite_table, unit_codes

# The probability that people accept an answer, from the scores s_1 ... s_m of m judges:
#
# .. math:: \operatorname{logit} p = b_0 + b_1 \overline{s} + \sum_j d_j (s_j - \overline{s})
#
# The deviations d have a ridge of 1 and the mean one of .05, so that few labels give nearly equal weights. Judges with
# the same scores on all labelled items enter as one and share its weight, so that a duplicate changes nothing. A judge
# without a score counts as the mean of the others. What is kept is the intercept b_0 and the weight of each judge,
# b_1 / m + d_j minus the mean of d.


MIN_LABELS = 10
"""Fewer labels are an error."""
ENOUGH_LABELS = 30
"""With fewer labels a majority vote is usually as good."""
FOLDS = 5
_RIDGE = 1.0
_RIDGE_OF_MEAN = 0.05
_RIDGE_OF_INTERCEPT = 1e-6
_NEWTON_STEPS = 15
_MAX_LOGIT = 30.0


@dataclass(frozen=True, slots=True, eq=False)
class StackedWeights:
    """Coefficients of the judges: one set from all labels, and one from each training set of the cross-validation."""

    coefficients: tuple[float, ...]
    """The intercept and the weight of each judge, from all labels."""
    fold_coefficients: tuple[tuple[float, ...], ...]
    """By fold, the coefficients from the labels of the other folds."""
    folds: tuple[int, ...]
    """The fold of each labelled item."""

    def out_of_fold(self, scores: npt.ArrayLike) -> Floats:
        """The probabilities of the labelled items, each by coefficients that its own label did not enter."""
        rows = np.asarray(scores, dtype=np.float64)
        AlignmentError.check(len(self.folds), len(rows))
        by_fold = np.array([stacked_probability(coefficient, rows) for coefficient in self.fold_coefficients])
        chosen: Floats = by_fold[np.array(self.folds), np.arange(len(rows))]
        return chosen


def stacked_probability(coefficients: Sequence[float], scores: npt.ArrayLike) -> Floats:
    """The probability of each row of scores, one column per judge; NaN where a judge has no score."""
    rows = _fill_missing(np.atleast_2d(np.asarray(scores, dtype=np.float64)))
    intercept, *weights = coefficients
    AlignmentError.check(len(weights), rows.shape[1])
    return logistic(intercept + rows @ np.array(weights))


def fit_stacked_weights(
    scores: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    clusters: Ints | None = None,
    folds: int = FOLDS,
    seed: int = 0,
    weights: npt.ArrayLike | None = None,
) -> StackedWeights:
    """Learn the coefficients from labelled items: a row of scores and a label between 0 and 1 each.

    ``weights`` are one over the inclusion probabilities of the labels, where these differ; their mean does not matter.
    Items of a cluster (several answers to one question) stay in one fold. Raises ``BadValueError`` for fewer than
    ``MIN_LABELS`` labels, for labels that are all the same, and for fewer clusters than folds.
    """
    rows, target = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] < 2:
        raise BadValueError("scores must be a table with a column for each of two judges or more")
    AlignmentError.check(len(rows), len(target))
    if len(target) < MIN_LABELS:
        raise BadValueError(
            f"weights need at least {MIN_LABELS} labels, better {ENOUGH_LABELS}; there are {len(target)}"
        )
    if np.ptp(target) == 0:
        raise BadValueError(f"all {len(target)} labels are {target[0]:g}: weights need answers of both kinds")
    relative = np.ones(len(target)) if weights is None else _relative_weights(weights, target)
    rows = _fill_missing(rows)
    distinct, judge_of_column = np.unique(rows, axis=1, return_inverse=True)
    groups = judge_of_column.reshape(-1)
    fold = assign_folds(target, clusters=clusters, folds=folds, seed=seed)
    parts = [fold != k for k in range(folds)]
    by_fold = tuple(_fit(distinct[part], target[part], groups, relative[part]) for part in parts)
    return StackedWeights(_fit(distinct, target, groups, relative), by_fold, tuple(fold.tolist()))


def assign_folds(labels: Floats, *, clusters: Ints | None = None, folds: int = FOLDS, seed: int = 0) -> Ints:
    """The fold of each item: clusters stay together, and each fold gets about as many labels of either kind."""
    codes = unit_codes(clusters, len(labels))
    sizes = np.bincount(codes)
    if len(sizes) < folds:
        raise BadValueError(f"weights need labels of at least {folds} questions; there are {len(sizes)}")
    means = np.bincount(codes, labels) / sizes
    # In a random order within clusters of equal mean, so that every fold gets labels of both kinds.
    order = np.lexsort((np.random.default_rng(seed).permutation(len(sizes)), means))
    fold_of_cluster = np.empty(len(sizes), dtype=np.intp)
    fold_of_cluster[order] = np.arange(len(sizes)) % folds
    return fold_of_cluster[codes]


def _fill_missing(rows: Floats) -> Floats:
    """The scores, with the mean of the other judges where a judge has none."""
    known = np.isfinite(rows)
    if not known.any(axis=1).all():
        raise BadValueError("an item has no score of any judge")
    filled = np.where(known, rows, 0.0)
    mean = filled.sum(axis=1, keepdims=True) / known.sum(axis=1, keepdims=True)
    return np.where(known, filled, mean)


def _relative_weights(weights: npt.ArrayLike, labels: Floats) -> Floats:
    """The weights divided by their mean."""
    relative = np.asarray(weights, dtype=np.float64)
    AlignmentError.check(len(labels), len(relative), what=("labels", "weights"))
    scaled: Floats = relative / relative.mean()
    return scaled


def _fit(rows: Floats, labels: Floats, groups: Ints, relative: Floats) -> tuple[float, ...]:
    """The intercept and the weight of each judge, by Newton's method; ``groups`` has the column of each judge."""
    judges = rows.shape[1]
    mean = rows.mean(axis=1, keepdims=True)
    features = np.hstack([np.ones((len(rows), 1)), mean, rows - mean])
    found = ridge_logistic(
        features, labels, [_RIDGE_OF_INTERCEPT, _RIDGE_OF_MEAN, *[_RIDGE] * judges], weights=relative
    )
    weights = found[1] / judges + found[2:] - found[2:].mean()
    return float(found[0]), *(weights / np.bincount(groups))[groups].tolist()


def ridge_logistic(
    features: Floats, labels: Floats, penalties: Sequence[float], *, weights: Floats | None = None
) -> Floats:
    """Coefficients of a logistic regression with a ridge penalty per column of ``features``, by Newton's method."""
    ridge = np.diag(penalties)
    found = np.zeros(features.shape[1])
    for _ in range(_NEWTON_STEPS):
        p = logistic(features @ found)
        curvature, residuals = p * (1 - p), labels - p
        if weights is not None:
            curvature, residuals = weights * curvature, weights * residuals
        hessian = features.T @ (features * curvature[:, None]) + ridge
        found = found + np.linalg.solve(hessian, features.T @ residuals - ridge @ found)
    return found


# --- calibrators: predicted labels from cheap features ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Calibrator:
    """A logistic regression from cheap features (scores, lengths) to the probability that a label is 1."""

    coefficients: tuple[float, ...]
    """The intercept and the weight of each feature."""

    def predict(self, features: npt.ArrayLike) -> Floats:
        """The predicted label of each row of features."""
        rows = feature_table(features)
        intercept, *weights = self.coefficients
        AlignmentError.check(len(weights), rows.shape[1], what=("features of the calibrator", "columns"))
        return logistic(intercept + rows @ np.array(weights))


def fit_calibrator(
    features: npt.ArrayLike, labels: npt.ArrayLike, *, weights: npt.ArrayLike | None = None, ridge: float = 2.0
) -> Calibrator:
    """Fit a calibrator to labels between 0 and 1, such as those of an earlier run.

    Features are standardised before the ridge penalty. ``weights`` are one over the inclusion probabilities of the
    labels, where these differ; their mean does not matter.
    """
    rows, target = feature_table(features), np.asarray(labels, dtype=np.float64)
    AlignmentError.check(len(rows), len(target), what=("rows of features", "labels"))
    if not len(target) or not ((target >= 0) & (target <= 1)).all():
        raise BadValueError("a calibrator needs labels between 0 and 1, one for each row of features")
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    standardised = np.hstack([np.ones((len(rows), 1)), (rows - centre) / scale])
    relative = None if weights is None else _relative_weights(weights, target)
    found = ridge_logistic(standardised, target, [_RIDGE_OF_INTERCEPT, *[ridge] * rows.shape[1]], weights=relative)
    slopes = found[1:] / scale
    return Calibrator((float(found[0] - centre @ slopes), *slopes.tolist()))


def cross_fit(
    features: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    probabilities: npt.ArrayLike | None = None,
    clusters: Ints | None = None,
    folds: int = FOLDS,
    seed: int = 0,
    ridge: float = 2.0,
) -> Floats:
    """The predicted label of each sample, by a calibrator that its own label did not enter.

    ``labels`` is NaN where there is none; those samples get the mean prediction of the calibrators of all folds.
    Labels weigh one over their inclusion ``probabilities``.
    """
    rows, target = feature_table(features), np.asarray(labels, dtype=np.float64)
    AlignmentError.check(len(rows), len(target), what=("rows of features", "labels"))
    known = np.flatnonzero(np.isfinite(target))
    codes = None if clusters is None else np.asarray(clusters)[known]
    fold = assign_folds(target[known], clusters=codes, folds=folds, seed=seed)
    weights = None if probabilities is None else 1 / np.asarray(probabilities, dtype=np.float64)[known]
    by_fold = []
    for k in range(folds):
        training = fold != k
        inner = None if weights is None else weights[training]
        found = fit_calibrator(rows[known[training]], target[known[training]], weights=inner, ridge=ridge)
        by_fold.append(found.predict(rows))
    predictions = np.mean(by_fold, axis=0)
    predictions[known] = np.array(by_fold)[fold, known]
    chosen: Floats = predictions
    return chosen


def feature_table(features: npt.ArrayLike) -> Floats:
    """The features as a table with a row per sample; one flat list is one column."""
    rows = np.asarray(features, dtype=np.float64)
    return require_finite_table(rows[:, None] if rows.ndim == 1 else rows, "features")


def logistic(logits: Floats) -> Floats:
    """The probability of each logit; very large ones are cut off."""
    return 1 / (1 + np.exp(-np.clip(logits, -_MAX_LOGIT, _MAX_LOGIT)))
