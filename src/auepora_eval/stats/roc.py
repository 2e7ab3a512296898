"""How well scores separate two classes: AUROC, average precision, TPR at a bounded FPR.

Everything follows from two counts per threshold. A threshold stands at each distinct score, so that equal scores fall
on the same side of it, and one stands above them all, where nothing is called positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import AlignmentError, BadTypeError, BadValueError

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdCounts:
    """How many of each class score at or above each threshold, the highest first; the measures are read off it.

    If a class is absent, ``auroc`` is 0.5, ``average_precision`` the proportion of positives, ``tpr_at_fpr`` 0, and
    ``defined`` is false.
    """

    true_positives: Ints
    """Starts with 0 (the threshold above all scores) and ends with the number of positives."""
    false_positives: Ints

    @property
    def positives(self) -> int:
        """How many are positive."""
        return int(self.true_positives[-1])

    @property
    def negatives(self) -> int:
        """How many are negative."""
        return int(self.false_positives[-1])

    @property
    def defined(self) -> bool:
        """Whether both classes are there."""
        return self.positives > 0 and self.negatives > 0

    def auroc(self) -> float:
        """Probability that a positive scores above a negative, an equal score counting half."""
        if not self.defined:
            return 0.5
        tp, fp = self.true_positives, self.false_positives
        # The trapezoids under the curve, doubled: whole numbers, so that only the last division rounds.
        doubled = int(np.sum(np.diff(fp) * (tp[1:] + tp[:-1])))
        return doubled / (2 * self.positives * self.negatives)

    def average_precision(self) -> float:
        """Precision at each threshold, weighted by the recall that the threshold adds."""
        if self.positives == 0:
            return 0.0
        tp, fp = self.true_positives[1:], self.false_positives[1:]
        return float(np.sum(np.diff(self.true_positives) * (tp / (tp + fp)))) / self.positives

    def tpr_at_fpr(self, max_fpr: float) -> float:
        """The highest true positive rate among the thresholds whose false positive rate is at most ``max_fpr``."""
        if isinstance(max_fpr, bool) or not isinstance(max_fpr, (int, float, np.integer, np.floating)):
            raise BadTypeError(f"max_fpr must be a number from 0 to 1, not {max_fpr!r}")
        if not 0.0 <= max_fpr <= 1.0:
            raise BadValueError(f"max_fpr must lie between 0 and 1, not at {max_fpr!r}")
        if not self.defined:
            return 0.0
        # Rates are compared, not counts: 7 of 100 is 0.07 to the last bit, while 0.07 * 100 is more than 7.
        allowed = int(np.searchsorted(self.false_positives / self.negatives, float(max_fpr), side="right"))
        return int(self.true_positives[allowed - 1]) / self.positives


def threshold_counts(scores: npt.ArrayLike, labels: npt.ArrayLike) -> ThresholdCounts:
    """The counts at every distinct score; labels are 0 and 1, or Booleans. Costs one sort."""
    values, positive = _score_column(scores), _label_column(labels)
    if len(values) != len(positive):
        raise AlignmentError(len(values), len(positive), what=("scores", "labels"))
    order = np.argsort(values)[::-1]
    values, hits = values[order], np.cumsum(positive[order], dtype=np.int64)
    last_of_equals = np.flatnonzero(np.append(values[1:] != values[:-1], True)[: len(values)])
    tp = np.concatenate((np.zeros(1, np.int64), hits[last_of_equals]))
    return ThresholdCounts(tp, np.concatenate((np.zeros(1, np.int64), last_of_equals + 1)) - tp)


def auroc(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Area under the ROC curve, as scikit-learn's ``roc_auc_score``; 0.5 where a class is absent."""
    return threshold_counts(scores, labels).auroc()


def average_precision(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """Area under the precision-recall curve by steps, as scikit-learn's ``average_precision_score``.

    If a class is absent it is the proportion of positives, 1.0 or 0.0.
    """
    return threshold_counts(scores, labels).average_precision()


def tpr_at_fpr(scores: npt.ArrayLike, labels: npt.ArrayLike, max_fpr: float) -> float:
    """The highest true positive rate that keeps the false positive rate at or below ``max_fpr``.

    Over all distinct thresholds, none dropped and nothing interpolated between them; 0.0 where a class is absent.
    """
    return threshold_counts(scores, labels).tpr_at_fpr(max_fpr)


def _column(given: npt.ArrayLike, what: str) -> npt.NDArray[Any]:
    try:
        column = np.asarray(given)
    except ValueError:  # lists of different lengths
        raise BadTypeError(f"the {what} must be one flat list") from None
    if column.ndim != 1:
        shape = f"an array of shape {column.shape}" if column.ndim else repr(given)
        raise BadTypeError(f"the {what} must be one flat list, not {shape}")
    return column


def _score_column(scores: npt.ArrayLike) -> npt.NDArray[Any]:
    """The scores as numbers, whole ones as they are: two that differ only beyond a float's precision stay different."""
    column = _column(scores, "scores")
    if column.dtype.kind not in "biuf":
        for place, value in enumerate(np.asarray(scores, dtype=object)):
            if not isinstance(value, (Real, np.bool_)):
                raise BadTypeError(f"the score at index {place} is {value!r}, not a number")
        column = column.astype(np.float64)
    if column.dtype.kind == "f" and np.isnan(column).any():
        place = int(np.flatnonzero(np.isnan(column))[0])
        raise BadValueError(f"the score at index {place} is NaN; give it a score, or leave it and its label out")
    return column


def _label_column(labels: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    column = _column(labels, "labels")
    if column.dtype.kind == "b":
        return column
    if column.dtype.kind not in "iuf":  # text would compare equal to nothing, and an object to whatever it likes
        given = np.asarray(labels, dtype=object)
        known = np.array([isinstance(value, (Real, np.bool_)) and value in (0, 1) for value in given], dtype=np.bool_)
    else:
        given, known = column, (column == 0) | (column == 1)
    if not known.all():
        place = int(np.flatnonzero(~known)[0])
        value = given[place]
        shown = value.item() if isinstance(value, np.generic) else value
        raise BadValueError(f"the label at index {place} is {shown!r}; labels are 0 (negative) and 1 (positive)")
    return column.astype(np.bool_)
