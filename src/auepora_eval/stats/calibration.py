"""Calibration of scores against labels of right and wrong: as probabilities, and as verdicts.

Labels are 0 (wrong) and 1 (right), scores lie between 0 and 1. A score is calibrated if, of all answers that got 0.8,
eight in ten are right; it discriminates if right answers get more than wrong ones. One does not follow from the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..core.errors import AlignmentError, BadValueError
from .bootstrap import bootstrap_interval_of
from .estimate import Estimate
from .interval import Interval, wilson_interval
from .roc import threshold_counts

__all__ = [
    "Bin",
    "Binning",
    "Confusion",
    "auroc_report",
    "balanced_accuracy_report",
    "brier_score",
    "confusion",
    "expected_calibration_error",
    "reliability_table",
]

Floats = npt.NDArray[np.float64]
Binning = Literal["width", "mass"]

_NO_RIGHT = "nothing is labelled right"
_NO_WRONG = "nothing is labelled wrong"


@dataclass(frozen=True, slots=True)
class Bin:
    """The scores from ``low`` up to ``high``: how many there are, and how often they are right."""

    low: float
    high: float
    count: int
    mean_score: float
    share_right: float
    interval: Interval
    """Wilson's, of ``share_right``."""


def reliability_table(
    scores: npt.ArrayLike, labels: npt.ArrayLike, *, bins: int = 10, binning: Binning = "width"
) -> tuple[Bin, ...]:
    """The bins that hold any score, from low to high.

    By ``width`` the range from 0 to 1 is cut into equal parts, each of which holds its lower end, the last one both.
    By ``mass`` each bin gets about as many scores as any other; equal scores stay together, so there may be fewer.
    """
    values, right = _columns(scores, labels)
    if bins < 1:
        raise BadValueError(f"{bins!r} bins: there must be one at least")
    if binning == "width":
        edges = np.arange(bins + 1) / bins  # 0.3 as it is written, which three times 0.1 is not
        place = np.minimum(np.searchsorted(edges, values, side="right") - 1, bins - 1)
    elif binning == "mass":
        # By the middle of each score's ranks, which equal scores share.
        ordered = np.sort(values)
        ranks = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2
        place = np.minimum((ranks * bins / max(len(values), 1)).astype(np.intp), bins - 1)
    else:
        raise BadValueError(f"binning {binning!r}: choose 'width' or 'mass'")
    table = []
    for number in np.unique(place):
        inside = values[place == number]
        hits, count = int(right[place == number].sum()), len(inside)
        ends = edges[number : number + 2] if binning == "width" else (inside.min(), inside.max())
        mean = math.fsum(inside) / count
        table.append(Bin(float(ends[0]), float(ends[1]), count, mean, hits / count, wilson_interval(hits, count)))
    return tuple(table)


def expected_calibration_error(
    scores: npt.ArrayLike, labels: npt.ArrayLike, *, bins: int = 10, binning: Binning = "width"
) -> float:
    r"""The mean distance of scores from the proportion that is right, over bins of similar scores; NaN of nothing.

    .. math:: \text{ECE} = \sum_b \frac{n_b}{n} \left| \overline{y}_b - \overline{s}_b \right|

    (M. P. Naeini et al., AAAI 2015.) It is never below zero, so that few labels make it look worse than it is.
    """
    table = reliability_table(scores, labels, bins=bins, binning=binning)
    n = sum(one.count for one in table)
    return math.fsum(one.count * abs(one.share_right - one.mean_score) for one in table) / n if n else math.nan


def brier_score(scores: npt.ArrayLike, labels: npt.ArrayLike) -> float:
    """The mean of the squared distance of score and label; NaN where there is none. 0 is best, 0.25 a coin's."""
    values, right = _columns(scores, labels)
    return float(np.mean((values - right) ** 2)) if len(values) else math.nan


def auroc_report(
    scores: npt.ArrayLike, labels: npt.ArrayLike, *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """Probability that a right answer scores above a wrong one, with a bootstrap interval over answers.

    Scores of any range will do.
    """
    values, right = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    counts = threshold_counts(values, right)
    n = len(values)
    if not counts.defined:
        return Estimate(None, None, n, _NO_WRONG if counts.positives else _NO_RIGHT)

    def drawn(rows: npt.NDArray[np.intp]) -> float:
        found = threshold_counts(values[rows], right[rows])
        return found.auroc() if found.defined else math.nan

    interval = bootstrap_interval_of(drawn, n, draws=draws, seed=seed, level=level, lowest=0.0, highest=1.0)
    return Estimate(counts.auroc(), interval, n)


@dataclass(frozen=True, slots=True)
class Confusion:
    """The confusion matrix of a judge's verdicts and human labels."""

    true_positives: int
    false_positives: int
    """Labelled wrong, judged right."""
    true_negatives: int
    false_negatives: int
    """Labelled right, judged wrong."""

    def tpr(self, *, level: float = 0.95) -> Estimate:
        """The proportion of right answers that the judge calls right, with Wilson's interval."""
        return _proportion(self.true_positives, self.true_positives + self.false_negatives, _NO_RIGHT, level)

    def tnr(self, *, level: float = 0.95) -> Estimate:
        """The proportion of wrong answers that the judge calls wrong, with Wilson's interval."""
        return _proportion(self.true_negatives, self.true_negatives + self.false_positives, _NO_WRONG, level)


def confusion(verdicts: npt.ArrayLike, labels: npt.ArrayLike) -> Confusion:
    """The four counts; verdicts and labels are 0 and 1, or Booleans."""
    judged, right = _columns(verdicts, labels)
    if not np.isin(judged, (0.0, 1.0)).all():
        raise BadValueError("verdicts are 0 (wrong) and 1 (right); compare scores with a threshold first")
    yes, true = judged == 1, right == 1
    counts = (yes & true, yes & ~true, ~yes & ~true, ~yes & true)
    return Confusion(*(int(np.count_nonzero(one)) for one in counts))


def balanced_accuracy_report(table: Confusion, *, level: float = 0.95) -> Estimate:
    """The mean of TPR and TNR; a judge that always gives the same verdict has 0.5.

    The interval combines Wilson's of the two proportions, which are independent (Newcombe's square-and-add rule).
    """
    one, two = table.tpr(level=level), table.tnr(level=level)
    n = one.units + two.units
    if one.value is None or two.value is None or one.interval is None or two.interval is None:
        return Estimate(None, None, n, one.why_undefined or two.why_undefined)
    value = (one.value + two.value) / 2
    below = math.hypot(one.value - one.interval.low, two.value - two.interval.low) / 2
    above = math.hypot(one.interval.high - one.value, two.interval.high - two.value) / 2
    flags = tuple(dict.fromkeys(one.interval.flags + two.interval.flags))
    return Estimate(value, Interval(value - below, value + above, "wilson", n, level, flags), n)


def _proportion(hits: int, n: int, why: str, level: float) -> Estimate:
    return Estimate(hits / n, wilson_interval(hits, n, level=level), n) if n else Estimate(None, None, 0, why)


def _columns(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Floats, Floats]:
    values, right = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if values.shape != right.shape or values.ndim != 1:
        raise AlignmentError(values.size, right.size, what=("scores", "labels"))
    for name, column, fine in (
        ("score", values, (values >= 0) & (values <= 1)),
        ("label", right, (right == 0) | (right == 1)),
    ):
        if not fine.all():
            place = int(np.argmin(fine))
            wanted = "scores lie between 0 and 1" if name == "score" else "labels are 0 (wrong) and 1 (right)"
            raise BadValueError(f"the {name} at index {place} is {column[place]}; {wanted}")
    return values, right
