"""Scores against labels: calibration, ROC measures, and means of labels made sharper by scores (prediction-powered)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import AlignmentError, BadTypeError, BadValueError
from .bootstrap import bootstrap_interval_of
from .difference import paired_differences, paired_interval
from .intervals import (
    Bools,
    Estimate,
    Floats,
    Interval,
    Ints,
    encode_clusters,
    is_skewed,
    mean_interval,
    mean_ranks,
    paired_columns,
    t_quantile,
    tail_probability,
    wilson_bounds,
    wilson_interval,
)

# --- how well scores separate two classes: AUROC, average precision, TPR at a bounded FPR ----------------------------
# Everything follows from two counts per threshold. A threshold stands at each distinct score, so that equal scores fall
# on the same side of it, and one stands above them all, where nothing is called positive.

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdCounts:
    """How many of each class score at or above each threshold, the highest first; the measures are read off it.

    If a class is absent, ``auroc`` is 0.5, ``average_precision`` the proportion of positives, ``tpr_at_fpr`` 0, and
    ``defined`` is false.
    """

    true_positives: Int64s
    """Starts with 0 (the threshold above all scores) and ends with the number of positives."""
    false_positives: Int64s

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
        """Probability that a positive scores above a negative, an equal score counting half; as scikit-learn's."""
        if not self.defined:
            return 0.5
        tp, fp = self.true_positives, self.false_positives
        # The trapezoids under the curve, doubled: whole numbers, so that only the last division rounds.
        doubled = int(np.sum(np.diff(fp) * (tp[1:] + tp[:-1])))
        return doubled / (2 * self.positives * self.negatives)

    def average_precision(self) -> float:
        """Precision at each threshold, weighted by the recall that the threshold adds; as scikit-learn's.

        If a class is absent it is the proportion of positives, 1.0 or 0.0.
        """
        if self.positives == 0:
            return 0.0
        tp, fp = self.true_positives[1:], self.false_positives[1:]
        return float(np.sum(np.diff(self.true_positives) * (tp / (tp + fp)))) / self.positives

    def tpr_at_fpr(self, max_fpr: float) -> float:
        """The highest true positive rate among the thresholds whose false positive rate is at most ``max_fpr``.

        Over all distinct thresholds, none dropped and nothing interpolated between them; 0.0 where a class is absent.
        """
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
    AlignmentError.check(len(values), len(positive), what=("scores", "labels"))
    order = np.argsort(values)[::-1]
    values, hits = values[order], np.cumsum(positive[order], dtype=np.int64)
    last_of_equals = np.flatnonzero(np.append(values[1:] != values[:-1], True)[: len(values)])
    tp = np.concatenate((np.zeros(1, np.int64), hits[last_of_equals]))
    return ThresholdCounts(tp, np.concatenate((np.zeros(1, np.int64), last_of_equals + 1)) - tp)


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


def _label_column(labels: npt.ArrayLike) -> Bools:
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


# --- calibration of scores against labels, and means of labels made sharper by scores (prediction-powered) -----------

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
        ranks = mean_ranks(np.unique(values, return_inverse=True)[1]) - 0.5
        place = np.minimum((ranks * bins / max(len(values), 1)).astype(np.intp), bins - 1)
    else:
        raise BadValueError(f"binning {binning!r}: choose 'width' or 'mass'")
    table = []
    for number in np.unique(place):
        inside = values[place == number]
        hits, count = int(right[place == number].sum()), len(inside)
        ends = edges[number : number + 2] if binning == "width" else (inside.min(), inside.max())
        mean = math.fsum(inside) / count
        found = wilson_interval(hits, count)
        table.append(
            Bin(float(ends[0]), float(ends[1]), count, mean_score=mean, share_right=hits / count, interval=found)
        )
    return tuple(table)


def expected_calibration_error(
    scores: npt.ArrayLike, labels: npt.ArrayLike, *, bins: int = 10, binning: Binning = "width"
) -> float:
    r"""The mean distance of scores from the proportion that is right, over bins of similar scores; NaN of nothing.

    .. math:: \text{ECE} = \sum_b \frac{n_b}{n} \left| \overline{y}_b - \overline{s}_b \right|

    (M. P. Naeini et al., AAAI 2015.) It is never below zero, so that few labels make it look worse than it is.
    """
    table = reliability_table(scores, labels, bins=bins, binning=binning)
    n = sum(row.count for row in table)
    return math.fsum(row.count * abs(row.share_right - row.mean_score) for row in table) / n if n else math.nan


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

    def drawn(rows: Ints) -> float:
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
    return Confusion(*(int(np.count_nonzero(count)) for count in counts))


def balanced_accuracy_report(table: Confusion, *, level: float = 0.95) -> Estimate:
    """The mean of TPR and TNR; a judge that always gives the same verdict has 0.5.

    The interval combines Wilson's of the two proportions, which are independent (Newcombe's square-and-add rule).
    """
    tpr, tnr = table.tpr(level=level), table.tnr(level=level)
    n = tpr.units + tnr.units
    if tpr.value is None or tnr.value is None or tpr.interval is None or tnr.interval is None:
        return Estimate(None, None, n, tpr.why_undefined or tnr.why_undefined)
    value = (tpr.value + tnr.value) / 2
    below = math.hypot(tpr.value - tpr.interval.low, tnr.value - tnr.interval.low) / 2
    above = math.hypot(tpr.interval.high - tpr.value, tnr.interval.high - tnr.value) / 2
    flags = tuple(dict.fromkeys(tpr.interval.flags + tnr.interval.flags))
    return Estimate(value, Interval(value - below, value + above, "wilson", n, level, flags=flags), n)


def _proportion(hits: int, n: int, why: str, level: float) -> Estimate:
    return Estimate(hits / n, wilson_interval(hits, n, level=level), n) if n else Estimate(None, None, 0, why)


def _columns(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Floats, Floats]:
    values, right = paired_columns(scores, labels)
    for name, column, fine in (
        ("score", values, (values >= 0) & (values <= 1)),
        ("label", right, (right == 0) | (right == 1)),
    ):
        if not fine.all():
            place = int(np.argmin(fine))
            wanted = "scores lie between 0 and 1" if name == "score" else "labels are 0 (wrong) and 1 (right)"
            raise BadValueError(f"the {name} at index {place} is {column[place]}; {wanted}")
    return values, right


# --- prediction-powered means: labels of some samples, scores of all -------------------------------------------------
# With N samples, a score :math:`s_i` of each, and labels :math:`y_i` of n of them, drawn at random,
#
# .. math:: \hat\theta = \overline{y}_{n} + \lambda \, (\overline{s}_{N} - \overline{s}_{n})
#
# is unbiased whatever the quality of the scores: their errors occur in both of their means. The better they follow the
# labels, the less it varies. :math:`\lambda` is the value between 0 and 4 with the smallest estimated
# variance (PPI++: Angelopoulos, Duchi, Zrnic, 2023); with 0 the scores are left aside and the labels stand alone. The
# labelled samples are among the N, as in survey sampling. Taking the N - n others instead, as the paper does, gives the
# same estimate: its best :math:`\lambda` is :math:`(N - n) / N` of this one.


# The remaining variance is itself estimated, and is too small if few labels happen to follow the scores. So it is
# increased as if five more labels did not follow them; docs/judging/calibration.md has the coverage.
_PSEUDO_LABELS = 5
MAX_WEIGHT = 4.0
"""The largest lambda: scores that lie too close together, such as underconfident probabilities, need more than 1."""
STRATUM_PSEUDO_LABELS = 2.0
"""Default number of pseudo-labels of a stratum in a stratified draw."""
# A judge that answers only yes or no is never certain: with pseudo-labels of 0 and 1, a stratum where all labels agree
# with it would have no variance.
_MIN_PSEUDO_LABEL = 0.03
# Strata with two labels each may leave few degrees of freedom; a lower number than this makes intervals unstable.
_MIN_FREEDOM = 5.0


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """A mean of labels, estimated with the help of scores."""

    value: float
    interval: Interval | None
    """``None`` where fewer than two units are labelled and labels are not 0 or 1."""
    weight: float
    """Lambda: how far the scores are trusted; 0 where the labels stand alone."""
    scores_mean: float
    """The mean of all scores, which is what a run reports uncorrected."""
    labels_mean: float
    labels_interval: Interval | None
    """What the labels say without the scores; never narrower than ``interval``."""
    labelled: int
    samples: int

    @property
    def narrowing(self) -> float | None:
        """The width of the interval relative to that of the labels alone."""
        if self.interval is None or self.labels_interval is None:
            return None
        whole = self.labels_interval.high - self.labels_interval.low
        return (self.interval.high - self.interval.low) / whole if whole > 0 else 1.0

    @property
    def worth(self) -> float | None:
        """How many labels would give as narrow an interval without the scores."""
        share = self.narrowing
        return None if not share else self.labelled / share**2


def corrected_mean(
    scores: Floats,
    labels: Floats,
    *,
    clusters: Ints | None = None,
    weights: Floats | None = None,
    probabilities: Floats | None = None,
    strata: Ints | None = None,
    pseudo_labels: float = STRATUM_PSEUDO_LABELS,
    binary: bool = False,
    lowest: float = -math.inf,
    highest: float = math.inf,
    finite: bool = False,
    level: float = 0.95,
    use_scores: bool = True,
) -> CorrectedMean:
    """The mean that the labels of all samples would have; ``labels`` is NaN where there is none.

    ``binary``, ``lowest`` and ``highest`` speak of the labels, and ``clusters`` are as in ``mean_interval``.
    ``weights`` say for how many samples each labelled one stands, where it is not the same number for all: a draw by
    strata takes at least one of each. The interval is that of the labels alone, by the same method and with the same
    critical value, made narrower by as much as the scores explain; where it would be wider, the labels stand alone.

    Draws with unequal probabilities (``sampling``) are described by one of two arguments. ``probabilities`` has the
    inclusion probability of each labelled sample; equal ones change nothing. ``strata`` has the stratum of every
    sample, within which labels were drawn at random. The variance within a stratum is estimated with
    ``pseudo_labels`` more labels: 0/1 labels at the mean score of the stratum, other labels with the variance within
    all strata. Without pseudo-labels the variance is increased as for other draws.

    Like every interval here it is about samples of this kind, of which these N were drawn. With ``finite`` it is about
    these N and no others: then nothing is uncertain once all of them are labelled. Without ``use_scores`` the labels
    stand alone, which is right for scores that are not better than chance.
    """
    scores, labels = _score_label_columns(scores, labels)
    labelled = np.isfinite(labels)
    known, codes = labels[labelled], encode_clusters(clusters, len(scores))
    inner = None if codes is None else codes[labelled]
    alone = mean_interval(known, clusters=inner, binary=binary, lowest=lowest, highest=highest, level=level)
    if binary:
        lowest, highest = 0.0, 1.0
    draw = _draw_of(labels, weights, probabilities, strata, pseudo_labels, binary=binary, finite=finite)
    return _corrected(
        scores, labels, draw, codes, alone=alone, bounds=(lowest, highest), finite=finite, use_scores=use_scores
    )


def corrected_difference(
    first_scores: Floats,
    second_scores: Floats,
    first_labels: Floats,
    second_labels: Floats,
    *,
    clusters: Ints | None = None,
    weights: Floats | None = None,
    probabilities: Floats | None = None,
    strata: Ints | None = None,
    pseudo_labels: float = STRATUM_PSEUDO_LABELS,
    binary: bool = False,
    lowest: float = -math.inf,
    highest: float = math.inf,
    finite: bool = False,
    level: float = 0.95,
    use_scores: bool = True,
) -> CorrectedMean:
    """The mean difference between the labels of the second run and those of the first.

    A sample counts as labelled where both of its answers are; everything else is as in ``corrected_mean``.
    """
    scores = paired_differences(first_scores, second_scores)
    labels = paired_differences(first_labels, second_labels)
    scores, labels = _score_label_columns(scores, labels)
    labelled, codes = np.isfinite(labels), encode_clusters(clusters, len(scores))
    first, second = (np.asarray(each, dtype=np.float64)[labelled] for each in (first_labels, second_labels))
    inner = None if codes is None else codes[labelled]
    alone = paired_interval(first, second, clusters=inner, binary=binary, lowest=lowest, highest=highest, level=level)
    if binary:
        lowest, highest = 0.0, 1.0
    width = highest - lowest
    draw = _draw_of(labels, weights, probabilities, strata, pseudo_labels, binary=False, finite=finite)
    return _corrected(
        scores, labels, draw, codes, alone=alone, bounds=(-width, width), finite=finite, use_scores=use_scores
    )


def _corrected(
    scores: Floats,
    labels: Floats,
    draw: _Draw,
    codes: Ints | None,
    alone: Interval | None,
    bounds: tuple[float, float],
    *,
    finite: bool,
    use_scores: bool,
) -> CorrectedMean:
    labelled = np.isfinite(labels)
    n, samples = int(labelled.sum()), len(scores)
    weight_shares = draw.shares
    evenly = math.fsum(labels[labelled]) / n
    known = evenly if weight_shares is None else float(weight_shares @ labels[labelled])
    variances = None
    if draw.remaining is not None and alone is not None:
        variances = _draw_variances(scores, labels, draw, codes, alone)
        spread = variances.labels_alone
        known = evenly if np.ptp(labels[labelled]) == 0 else known  # without the rounding of a weighted sum
    else:
        spread = 1 - n / samples if finite else 1.0  # of these samples, the labelled ones are certain
        if weight_shares is not None:
            spread *= _weighting_cost(labels[labelled], weight_shares, codes, labelled)
    labels_alone = alone
    if alone is not None and (weight_shares is not None or finite):
        labels_alone = _rescale_interval(alone, evenly, known, spread, bounds)
    bare = CorrectedMean(
        known,
        labels_alone,
        weight=0.0,
        scores_mean=float(scores.mean()),
        labels_mean=known,
        labels_interval=labels_alone,
        labelled=n,
        samples=samples,
    )
    if not use_scores or alone is None or labels_alone is None or alone.units < 3:
        return bare
    units = alone.units
    if weight_shares is None:
        weight_shares = np.full(n, 1 / n)
    if variances is None:
        weight, left = _power_weight(scores, labels, labelled, weight_shares, codes, finite=finite)
        # The weight was chosen by the same labels, which takes a degree of freedom.
        left = left * (units - 1) / (units - 2) + _PSEUDO_LABELS / units
    else:
        weight, left = variances.weight, variances.remaining_share
    if not weight or left >= 1:
        return bare
    value = known + weight * (bare.scores_mean - float(weight_shares @ scores[labelled]))
    value = min(max(value, min(bounds[0], known)), max(bounds[1], known))
    interval = _rescale_interval(alone, evenly, value, left * spread, bounds)
    if interval.high - interval.low > labels_alone.high - labels_alone.low:
        return bare
    if is_skewed(units, _skewness(labels[labelled] - weight * scores[labelled])):
        interval = replace(interval, flags=tuple(dict.fromkeys((*interval.flags, "skewed"))))
    return replace(bare, value=value, interval=interval, weight=weight)


# --- how the labelled samples were drawn -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Draw:
    """How the labelled samples were drawn."""

    shares: Floats | None = None
    """The weight of each labelled sample, summing to 1; ``None`` if all are equal."""
    remaining: Floats | None = None
    """The part of each labelled sample's variance that counts: one minus its inclusion probability, or 1.

    ``None`` for a draw without probabilities and strata.
    """
    strata: Ints | None = None
    """The stratum of every sample."""
    pseudo_labels: float = 0.0
    binary: bool = False
    finite: bool = False


def _draw_of(
    labels: Floats,
    weights: Floats | None,
    probabilities: Floats | None,
    strata: Ints | None,
    pseudo_labels: float,
    *,
    binary: bool,
    finite: bool,
) -> _Draw:
    if sum(description is not None for description in (weights, probabilities, strata)) > 1:
        raise BadValueError("give only one of weights, probabilities and strata: each describes the whole draw")
    labelled = np.isfinite(labels)
    n = int(labelled.sum())
    if not n:
        raise BadValueError("no sample has a label; a mean cannot be corrected without any")
    if probabilities is not None:
        known = _labelled_column(probabilities, labelled, "probabilities", "inclusion probability")
        if (known > 1).any():
            raise BadValueError(f"an inclusion probability is {known.max():g}; it cannot be above 1")
        inverse = 1 / known
        remaining = 1 - known if finite else np.ones(n)
        return _Draw(inverse / inverse.sum(), remaining, finite=finite)
    if strata is None:
        return _Draw(_normalise_weights(weights, labelled))
    if not pseudo_labels >= 0:
        raise BadValueError(f"the number of pseudo-labels must not be negative: {pseudo_labels!r}")
    codes = np.asarray(strata)
    AlignmentError.check(len(codes), len(labelled), what=("strata", "labels"))
    names, codes = np.unique(codes, return_inverse=True)
    sizes, drawn = np.bincount(codes), np.bincount(codes[labelled], minlength=len(names))
    if not drawn.all():
        place = int(np.argmin(drawn))
        raise BadValueError(
            f"stratum {names[place]} has {sizes[place]} samples and no label; label one of them, or join the stratum "
            "with another one (sampling.join_empty_strata)"
        )
    if not pseudo_labels and len(names) > 1 and ((drawn == 1) & (sizes > 1)).any():
        place = int(np.argmax((drawn == 1) & (sizes > 1)))
        raise BadValueError(
            f"stratum {names[place]} has {sizes[place]} samples and one label; its variance is known with two labels "
            "or with pseudo-labels"
        )
    inner = codes[labelled]
    remaining = (1 - drawn / sizes)[inner] if finite else np.ones(n)
    shares = (sizes / drawn / len(codes))[inner]
    return _Draw(shares, remaining, codes.astype(np.intp), pseudo_labels=pseudo_labels, binary=binary, finite=finite)


@dataclass(frozen=True, slots=True)
class _DrawVariances:
    """Variances of a mean of labels under a draw with probabilities or strata."""

    weight: float
    """Lambda."""
    labels_alone: float
    """Of the mean of the labels, relative to that of the interval of equally weighted labels."""
    remaining_share: float
    """The share of it that the scores leave, with the inflation by pseudo-labels."""


def _draw_variances(scores: Floats, labels: Floats, draw: _Draw, codes: Ints | None, alone: Interval) -> _DrawVariances:
    """The variances of the labels' mean and of the corrected one, from what each unit adds to their errors.

    As in ``_power_weight``, with deviations from the mean of the stratum and each labelled sample's square multiplied
    by the part of its variance that counts (Hájek's estimator without strata, the stratified one with them).
    """
    assert draw.shares is not None
    assert draw.remaining is not None
    labelled = np.isfinite(labels)
    samples, n = len(labels), int(labelled.sum())
    known, seen, shares = labels[labelled], scores[labelled], draw.shares
    strata = np.zeros(samples, dtype=np.intp) if draw.strata is None else draw.strata
    inner = strata[labelled]
    label_means, score_means = (
        np.bincount(inner, shares * column) / np.bincount(inner, shares) for column in (known, seen)
    )
    a, b = np.zeros(samples), np.zeros(samples)
    if not draw.finite:  # with other samples the mean of all scores and the sizes of the strata would be others
        a += (label_means[strata] - shares @ known) / samples
        b += (score_means[strata] - shares @ seen - scores + scores.mean()) / samples
    a[labelled] += shares * (known - label_means[inner])
    b[labelled] += shares * (seen - score_means[inner])
    root = np.sqrt(draw.remaining)
    a[labelled] *= root
    b[labelled] *= root
    units = np.arange(samples) if codes is None else codes
    sizes = np.array([len(np.unique(units[labelled][inner == stratum])) for stratum in range(len(label_means))])
    correction = np.sqrt(sizes / np.maximum(sizes - 1, 1))[strata]
    a, b = (np.bincount(units, correction * column).astype(np.float64) for column in (a, b))
    labels_alone, both, of_scores = float(a @ a), float(a @ b), float(b @ b)
    weight = min(max(both / of_scores, 0.0), MAX_WEIGHT) if of_scores > 0 else 0.0

    # For comparison: the variance of the unweighted mean, and that of as many labels drawn with equal probabilities.
    total = alone.units
    bessel = total / max(total - 1, 1)
    deviations = known - known.mean()
    totals = np.bincount(units[labelled], deviations) / n
    unweighted = float(totals @ totals) * bessel
    plain = float(shares @ (known - shares @ known) ** 2) / n * bessel
    if codes is not None and unweighted > 0:
        plain *= unweighted / (float(deviations @ deviations) / n**2 * bessel)
    reference = plain if alone.method == "wilson" else unweighted
    unlabelled = 1 - n / samples if draw.finite else 1.0
    # Where labels do not vary, only their weights show how many there are in effect (Kish).
    by_weights = _DrawVariances(0.0, n * float(shares @ shares) * unlabelled, 1.0)
    if alone.method == "all_equal" or not np.ptp(known) > 0:
        return by_weights
    extra = _stratum_inflation(scores, known, draw, inner)
    weighted = draw.remaining * (shares * (known - label_means[inner])) ** 2
    by_stratum = np.bincount(inner, weighted) * sizes / np.maximum(sizes - 1, 1) + extra
    inflation = float(extra.sum())
    labels_alone += inflation
    if not labels_alone > 0 and draw.finite:  # labels vary between strata only: as if for samples of this kind
        wider = replace(draw, remaining=np.ones(n), finite=False)
        return min(
            by_weights,
            _draw_variances(scores, labels, wider, codes, alone),
            key=lambda variances: variances.labels_alone,
        )
    if not labels_alone > 0:
        return by_weights
    left = labels_alone - inflation - 2 * weight * both + weight**2 * of_scores
    freedom = total - len(sizes)
    left = max(left, 0.0) * freedom / (freedom - 1) if freedom > 1 else labels_alone
    left += inflation if draw.pseudo_labels else _PSEUDO_LABELS / total * plain * unlabelled
    widening = _freedom_cost(by_stratum, sizes, total, alone.level)
    return _DrawVariances(weight, labels_alone * widening / reference, left / labels_alone)


def _freedom_cost(variances: Floats, sizes: Ints, units: int, level: float) -> float:
    """The square by which critical values grow with Satterthwaite's degrees of freedom; 1 for one stratum."""
    if len(sizes) < 2 or units < 3 or not variances.sum() > 0:
        return 1.0
    freedom = float(variances.sum() ** 2 / (variances**2 / np.maximum(sizes - 1, 1)).sum())
    freedom = min(max(freedom, _MIN_FREEDOM), units - 1.0)
    tail = tail_probability(level)
    return (t_quantile(tail, freedom) / t_quantile(tail, units - 1)) ** 2


def _stratum_inflation(scores: Floats, known: Floats, draw: _Draw, inner: Ints) -> Floats:
    """What pseudo-labels add to the variance of a mean, by stratum; ``inner`` has those of the labelled."""
    drawn = np.bincount(inner)
    if not draw.pseudo_labels or draw.strata is None:
        return np.zeros(len(drawn))
    assert draw.shares is not None
    assert draw.remaining is not None
    means = np.bincount(inner, known) / drawn
    squares = np.bincount(inner, (known - means[inner]) ** 2)
    more = draw.pseudo_labels
    if draw.binary:
        predicted = np.bincount(draw.strata, scores) / np.bincount(draw.strata)
        predicted = np.clip(predicted, _MIN_PSEUDO_LABEL, 1 - _MIN_PSEUDO_LABEL)
        share = np.clip((drawn * means + more * predicted) / (drawn + more), 0.0, 1.0)
        wanted = share * (1 - share)
    else:
        pooled = squares.sum() / max(len(known) - len(drawn), 1)
        wanted = (squares + more * pooled) / (drawn - 1 + more)
    missing = np.maximum(wanted - squares / np.maximum(drawn - 1, 1), 0.0)
    # The share of a labelled sample is N_h / (N n_h), so that a stratum adds (N_h / N)² missing / n_h.
    added: Floats = np.bincount(inner, draw.shares**2 * draw.remaining) * missing
    return added


def _labelled_column(values: Floats, labelled: Bools, what: str, single: str) -> Floats:
    """The values of the labelled samples, finite numbers above zero."""
    column = np.asarray(values, dtype=np.float64)
    AlignmentError.check(len(column), len(labelled), what=(what, "labels"))
    known: Floats = column[labelled]
    if not (np.isfinite(known).all() and (known > 0).all()):
        raise BadValueError(f"the {single} of a labelled sample must be a finite number above zero")
    return known


def _normalise_weights(weights: Floats | None, labelled: Bools) -> Floats | None:
    """The weight of each labelled sample, summing to 1; ``None`` if all are equal."""
    if weights is None:
        return None
    labelled_weights = _labelled_column(weights, labelled, "weights", "weight")
    return (
        None if np.ptp(labelled_weights) <= 1e-9 * labelled_weights.max() else labelled_weights / labelled_weights.sum()
    )


def _weighting_cost(known: Floats, shares: Floats, codes: Ints | None, labelled: Bools) -> float:
    """By how much unequal weights change the variance of the labels' mean."""
    weighted, even = shares * (known - shares @ known), (known - known.mean()) / len(known)
    if codes is not None:
        inner = codes[labelled]
        weighted, even = (np.bincount(inner, column).astype(np.float64) for column in (weighted, even))
    variance = float(even @ even)
    return float(weighted @ weighted) / variance if variance > 0 else 1.0


def _power_weight(
    scores: Floats,
    labels: Floats,
    labelled: Bools,
    shares: Floats,
    codes: Ints | None,
    *,
    finite: bool,
) -> tuple[float, float]:
    """Lambda, and the proportion of the variance that it leaves.

    The error of the estimate is a sum over samples, and the variance is estimated by the squares of what each cluster
    adds to it: ``a`` from the labels, ``b`` from the scores, so that a square is (a - lambda b)².
    """
    samples = len(scores)
    known, seen = labels[labelled], scores[labelled]
    a, b = np.zeros(samples), np.zeros(samples)
    if not finite:  # the mean of all scores would be another one with other samples
        b -= (scores - scores.mean()) / samples
    a[labelled] = shares * (known - shares @ known)
    b[labelled] += shares * (seen - shares @ seen)
    if codes is not None:
        a, b = (np.bincount(codes, column).astype(np.float64) for column in (a, b))
    labels_alone, both, of_scores = float(a @ a), float(a @ b), float(b @ b)
    if not (labels_alone > 0 and of_scores > 0):
        return 0.0, 1.0
    weight = min(max(both / of_scores, 0.0), MAX_WEIGHT)
    return weight, max(0.0, 1 - (2 * weight * both - weight**2 * of_scores) / labels_alone)


def _rescale_interval(
    alone: Interval, known: float, value: float, left: float, bounds: tuple[float, float]
) -> Interval:
    """The interval of the labels alone, around ``known``, moved to ``value`` and scaled to ``left`` of its variance."""
    if left <= 0:
        return replace(alone, low=value, high=value)
    if alone.method == "wilson":
        low, high = wilson_bounds(value, alone.units / left, level=alone.level)
        return replace(alone, low=low, high=high)
    shrink = math.sqrt(left)
    low = max(value - shrink * (known - alone.low), min(bounds[0], value))
    return replace(alone, low=low, high=min(value + shrink * (alone.high - known), max(bounds[1], value)))


def _skewness(values: Floats) -> float:
    """Large where a few labels differ from their scores and all the others follow them."""
    deviations = values - values.mean()
    squares = float(np.mean(deviations**2))
    return float(np.mean(deviations**3)) / squares**1.5 if squares > 0 else math.inf


def _score_label_columns(scores: Floats, labels: Floats) -> tuple[Floats, Floats]:
    scores, labels = paired_columns(scores, labels)
    if not np.isfinite(scores).all():
        place = int(np.argmin(np.isfinite(scores)))
        raise BadValueError(f"the score at index {place} is {scores[place]}; leave out what has no score")
    if np.isinf(labels).any():
        raise BadValueError(f"the label at index {int(np.argmax(np.isinf(labels)))} is infinite")
    return scores, labels
