"""Which samples to label: inclusion probabilities, systematic and stratified draws, and a forecast of the interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import AlignmentError, BadValueError
from .calibration import CorrectedMean
from .intervals import Floats, Interval, Ints, mean_ranks, smallest_number, t_quantile, tail_probability

# Labels cost most, so they go where the predicted label is least certain. With a predicted label f and the expected
# squared error e of each of N samples, the variance of a mean corrected by n labels is smallest for inclusion
# probabilities proportional to sqrt(e). They are mixed with equal probabilities, because e is itself an estimate:
#
# .. math:: \pi_i = (1 - u) \, n \frac{\sqrt{e_i}}{\sum_j \sqrt{e_j}} + u \, \frac{n}{N}
#
# Strata of the predicted label with Neyman's allocation are the same in steps. ``corrected_mean`` and
# ``corrected_difference`` of ``calibration`` take the probabilities or the strata; any of them give a valid interval,
# and good predictions a narrow one.


UNIFORM_SHARE = 0.5
"""Default share of equal probabilities in a draw."""
STRATA = 6
_MIN_UNIFORM_SHARE = 0.3
_MIN_ERROR = 1e-6
# Expected squared error without history: a constant, and a part that grows with the disagreement of cheap signals.
_CONSTANT_ERROR = 0.03
_DISAGREEMENT_ERROR = 0.22
_PSEUDO_LABELS = 5  # the inflation of variances in ``calibration``
_TOTAL_ROUNDING = 1e-6


def expected_errors(probabilities: npt.ArrayLike, *, calibrated: bool = True) -> Floats:
    r"""Expected squared error of each predicted label, the variance :math:`f (1 - f)` of a 0/1 label.

    Without ``calibrated`` the predictions are the mean of cheap signals that no label was compared with. Then the
    error is :math:`.03 + .22 \cdot 4 p (1 - p)`, which is never zero. For a difference, add the errors of both runs.
    """
    p = _column(probabilities, "predicted labels", lowest=0.0, highest=1.0)
    errors = p * (1 - p)
    return errors if calibrated else _CONSTANT_ERROR + _DISAGREEMENT_ERROR * 4 * errors


def inclusion_probabilities(errors: npt.ArrayLike, n: int, *, uniform: float = UNIFORM_SHARE) -> Floats:
    """The probability with which each sample is drawn: ``n`` in total, none above 1.

    ``uniform`` is the share of equal probabilities, from 0.3 to 1. A label weighs at most ``N / n / uniform``.
    """
    e = _column(errors, "expected errors", lowest=0.0)
    _check_draw_size(n, len(e))
    _check_uniform(uniform)
    roots = np.sqrt(np.maximum(e, _MIN_ERROR))
    found = (1 - uniform) * n * roots / roots.sum() + uniform * n / len(e)
    certain = np.zeros(len(e), dtype=np.bool_)
    while (found[~certain] > 1).any():
        certain |= found > 1
        found[certain] = 1.0
        others = ~certain
        if others.any():
            found[others] *= (n - int(certain.sum())) / found[others].sum()
    capped: Floats = np.minimum(found, 1.0)
    return capped


def systematic_draw(probabilities: npt.ArrayLike, seed: int) -> Ints:
    """Draw samples with these inclusion probabilities; their positions, in random order.

    Systematic sampling over a random order: each sample has exactly its probability, and as many are drawn as the
    probabilities add up to. The first m of n drawn samples are a draw with probabilities of m / n of these.
    """
    p = _column(probabilities, "inclusion probabilities", lowest=0.0, highest=1.0)
    if seed < 0:
        raise BadValueError(f"the seed of a draw must be 0 or more, not {seed}")
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(p))
    totals = np.cumsum(p[order])
    if len(p) and abs(totals[-1] - round(totals[-1])) < _TOTAL_ROUNDING:
        totals = np.minimum(totals, round(totals[-1]))
        totals[-1] = round(totals[-1])
    steps = np.floor(np.concatenate(([0.0], totals)) - rng.random())
    return rng.permutation(order[np.diff(steps) > 0])


# --- strata ----------------------------------------------------------------------------------------------------------


def strata_of(predictions: npt.ArrayLike, count: int = STRATA) -> Ints:
    """The stratum of each sample: about equal numbers by predicted label, numbered from the lowest.

    Equal predictions share a stratum, so there may be fewer strata than ``count``.
    """
    f = _column(predictions, "predicted labels")
    if count < 1:
        raise BadValueError(f"{count!r} strata: there must be at least one")
    middle = mean_ranks(np.unique(f, return_inverse=True)[1]) - 0.5
    _, codes = np.unique((middle * count / max(len(f), 1)).astype(np.intp), return_inverse=True)
    return codes.astype(np.intp)


def neyman_allocation(
    sizes: Sequence[int],
    spreads: Sequence[float],
    n: int,
    *,
    minimum: int = 2,
    uniform: float = UNIFORM_SHARE,
) -> list[int]:
    """How many of ``n`` labels each stratum gets: more for large strata with a large standard deviation.

    First ``minimum`` labels each, or the whole stratum if it is smaller. The others go to the strata in proportion to
    size times standard deviation; in the standard deviation, ``uniform`` is the share of its mean over all samples.
    """
    room = np.asarray(sizes, dtype=np.int64)
    sd = _column(spreads, "standard deviations of the strata", lowest=0.0)
    AlignmentError.check(len(room), len(sd), what=("strata", "standard deviations"))
    _check_draw_size(n, int(room.sum()))
    _check_uniform(uniform)
    first = np.minimum(minimum, room)
    if n < first.sum():
        raise BadValueError(
            f"{n} labels are too few for {len(room)} strata with at least {minimum} each; "
            f"use {int(first.sum())} labels or more, or fewer strata"
        )
    sd = np.maximum(sd, math.sqrt(_MIN_ERROR))
    priority = room * ((1 - uniform) * sd + uniform * float(room @ sd) / room.sum())
    labels = first.astype(np.float64)
    while (left := n - labels.sum()) > _TOTAL_ROUNDING:
        open_strata = np.where(labels < room, priority, 0.0)
        labels = np.minimum(labels + left * open_strata / open_strata.sum(), room)
    whole = np.floor(labels + _TOTAL_ROUNDING).astype(np.int64)
    for place in np.argsort(-(labels - whole), kind="stable")[: n - int(whole.sum())]:
        whole[place] += 1
    found: list[int] = whole.tolist()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class StratifiedDraw:
    """Samples drawn at random within strata."""

    positions: Ints
    """The drawn samples, in random order."""
    strata: Ints
    """The stratum of every sample of the population."""
    allocation: tuple[int, ...]
    """The number of samples drawn of each stratum."""

    @property
    def probabilities(self) -> Floats:
        """The inclusion probability of every sample: the drawn share of its stratum."""
        sizes = np.bincount(self.strata, minlength=len(self.allocation))
        shares: Floats = np.array(self.allocation) / np.maximum(sizes, 1)
        return shares[self.strata]


def stratified_draw(
    strata: npt.ArrayLike,
    errors: npt.ArrayLike,
    n: int,
    *,
    seed: int = 0,
    minimum: int = 2,
    uniform: float = UNIFORM_SHARE,
) -> StratifiedDraw:
    """Draw ``n`` samples by Neyman's allocation; ``errors`` has the expected squared error of each sample."""
    codes, e = np.asarray(strata, dtype=np.intp), _column(errors, "expected errors", lowest=0.0)
    AlignmentError.check(len(codes), len(e), what=("strata", "expected errors"))
    sizes = np.bincount(codes)
    spreads = np.sqrt(np.bincount(codes, e) / np.maximum(sizes, 1))
    allocation = neyman_allocation(sizes.tolist(), spreads.tolist(), n, minimum=minimum, uniform=uniform)
    rng = np.random.default_rng(seed)
    drawn = [
        rng.choice(np.flatnonzero(codes == stratum), count, replace=False) for stratum, count in enumerate(allocation)
    ]
    return StratifiedDraw(rng.permutation(np.concatenate(drawn)), codes, tuple(allocation))


def join_empty_strata(strata: npt.ArrayLike, labelled: npt.ArrayLike) -> Ints:
    """The strata, those without a labelled sample joined with the nearest stratum that has one.

    For draws of which some labels could not be obtained. ``labelled`` is true for samples with a label.
    """
    codes, known = np.asarray(strata, dtype=np.intp), np.asarray(labelled, dtype=np.bool_)
    AlignmentError.check(len(codes), len(known), what=("strata", "labels"))
    kept = np.unique(codes[known])
    if not len(kept):
        raise BadValueError("no sample has a label; strata cannot be joined")
    nearest = np.abs(kept[None, :] - np.arange(codes.max() + 1)[:, None]).argmin(axis=1)
    joined: Ints = nearest[codes]
    return joined


# --- forecast --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Forecast:
    """The interval to expect from a draw, before any of its labels is known."""

    labels: int
    samples: int
    variance_share: float
    """Variance relative to that of as many random labels without predictions."""
    half_width: float
    labels_half_width: float
    """The same for random labels without predictions."""
    decidable_difference: float
    """The smallest true distance from 0 (or a threshold) that the interval excludes with probability ``power``."""
    level: float
    power: float

    @property
    def equivalent_labels(self) -> float:
        """How many random labels without predictions would give as narrow an interval."""
        return self.labels / self.variance_share

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "labels": self.labels,
            "samples": self.samples,
            "variance_share": self.variance_share,
            "equivalent_labels": self.equivalent_labels,
            "half_width": self.half_width,
            "labels_half_width": self.labels_half_width,
            "decidable_difference": self.decidable_difference,
            "level": self.level,
            "power": self.power,
        }


def forecast(
    errors: npt.ArrayLike,
    predictions: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    *,
    num_zeros: int = 0,
    finite: bool = False,
    level: float = 0.95,
    power: float = 0.8,
) -> Forecast:
    r"""Forecast the interval of a corrected mean, or of a difference.

    ``errors`` are the expected squared errors, ``predictions`` the predicted labels or differences, and
    ``probabilities`` the inclusion probabilities of all samples. The expected variance is

    .. math:: \frac{1}{N^2} \sum_i \frac{e_i}{\pi_i} + \frac{var(f)}{N} + \frac{5}{n} \cdot \frac{var(y)}{n}

    with :math:`var(y) = \overline{e} + var(f)`. With ``finite`` the mean of these samples is meant: the second term is
    absent and :math:`e_i` is multiplied by :math:`1 - \pi_i`. ``num_zeros`` more samples have a label of 0 that is
    known: the mean is that of the others times their proportion q, and the variance is multiplied by :math:`q^2`;
    without ``finite`` q is itself an estimate, which adds :math:`\overline{f}^2 q (1 - q) / N`.
    """
    e = _column(errors, "expected errors", lowest=0.0)
    f = _column(predictions, "predicted labels")
    p = _column(probabilities, "inclusion probabilities", lowest=0.0, highest=1.0)
    if not len(e) == len(f) == len(p):
        raise AlignmentError(len(e), len(f if len(e) != len(f) else p), what=("expected errors", "other values"))
    if not (p > 0).all():
        raise BadValueError(f"the inclusion probability at index {int(np.argmin(p))} is 0; all must be above 0")
    if not 0.5 < power < 1:
        raise BadValueError(f"power must lie between 0.5 and 1, not at {power!r}; 0.8 is usual")
    samples, n = len(e), round(float(p.sum()))
    if n < 4:
        raise BadValueError(f"a forecast needs at least 4 labels; there are {n}")
    spread = float(e.mean() + f.var())
    remaining, share_left = (1 - p, 1 - n / samples) if finite else (np.ones(samples), 1.0)
    alone = spread / (n - 1) * share_left
    variance = float((remaining * e / p).sum()) / samples**2 + (0.0 if finite else float(f.var()) / samples)
    variance = variance * n / (n - 2) + _PSEUDO_LABELS / n * alone
    proportion = samples / (samples + num_zeros)
    of_proportion = 0.0 if finite else float(f.mean()) ** 2 * proportion * (1 - proportion) / (samples + num_zeros)
    alone, variance = (proportion**2 * term + of_proportion for term in (alone, variance))
    critical = t_quantile(tail_probability(level), n - 2)
    return Forecast(
        labels=n,
        samples=samples + num_zeros,
        variance_share=variance / alone if alone > 0 else 1.0,
        half_width=critical * math.sqrt(variance),
        labels_half_width=t_quantile(tail_probability(level), n - 1) * math.sqrt(alone),
        decidable_difference=(critical + t_quantile(1 - power, n - 2)) * math.sqrt(variance),
        level=level,
        power=power,
    )


def labels_needed(
    errors: npt.ArrayLike,
    predictions: npt.ArrayLike,
    delta: float,
    *,
    uniform: float = UNIFORM_SHARE,
    num_zeros: int = 0,
    level: float = 0.95,
    power: float = 0.8,
) -> int | None:
    """The fewest labels, drawn by ``inclusion_probabilities``, that decide a difference of ``delta``.

    ``None`` if the labels of all samples would not.
    """
    if not 0 < delta < math.inf:
        raise BadValueError(f"delta must be a positive number, not {delta!r}")
    e = _column(errors, "expected errors", lowest=0.0)

    def decides(n: int) -> bool:
        p = inclusion_probabilities(e, n, uniform=uniform)
        found = forecast(e, predictions, p, num_zeros=num_zeros, level=level, power=power)
        return found.decidable_difference <= delta

    fewest, most = 4, len(e)
    if most < fewest or not decides(most):
        return None
    return smallest_number(fewest, most, decides)


# --- checks ----------------------------------------------------------------------------------------------------------


def _column(values: npt.ArrayLike, what: str, *, lowest: float = -math.inf, highest: float = math.inf) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise BadValueError(f"the {what} must be one flat array, not one of shape {column.shape}")
    fine = np.isfinite(column) & (column >= lowest) & (column <= highest)
    if not fine.all():
        place = int(np.argmin(fine))
        limits = f"between {lowest:g} and {highest:g}" if math.isfinite(highest) else f"of at least {lowest:g}"
        wanted = f"finite numbers {limits}" if math.isfinite(lowest) else "finite numbers"
        raise BadValueError(f"the {what} must be {wanted}; at index {place} there is {column[place]}")
    return column


def _check_draw_size(n: int, samples: int) -> None:
    if not 1 <= n <= samples:
        raise BadValueError(f"cannot draw {n} of {samples} samples; draw from 1 to {samples}")


def _check_uniform(uniform: float) -> None:
    if not _MIN_UNIFORM_SHARE <= uniform <= 1:
        raise BadValueError(
            f"the uniform share of a draw must lie between {_MIN_UNIFORM_SHARE} and 1, not at {uniform!r}; "
            "with less, single labels get too large a weight"
        )


def with_zeros(
    found: CorrectedMean, proportion: Interval, *, scores_mean: float, samples: int, finite: bool = False
) -> CorrectedMean:
    """The mean of so many samples, of which those that ``found`` is not about have a label of 0 that is known.

    ``found`` is about a ``proportion`` of the samples. The two intervals are combined by squaring and adding, as by
    Newcombe; with ``finite`` the proportion is certain.
    """
    share = found.samples / samples
    errors = (0.0, 0.0) if finite else (share - proportion.low, proportion.high - share)

    def scale(interval: Interval | None, value: float) -> Interval | None:
        if interval is None:
            return None
        ordered = errors if value >= 0 else errors[::-1]
        below, above = (abs(value) * error for error in ordered)
        return replace(
            interval,
            low=share * value - math.hypot(share * (value - interval.low), below),
            high=share * value + math.hypot(share * (interval.high - value), above),
        )

    return replace(
        found,
        value=share * found.value,
        interval=scale(found.interval, found.value),
        scores_mean=scores_mean,
        labels_mean=share * found.labels_mean,
        labels_interval=scale(found.labels_interval, found.labels_mean),
        samples=samples,
    )
