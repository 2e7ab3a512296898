"""Whether the probabilities of a judge are right: Brier score, intercept and slope, binned error, and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import BadValueError
from .intervals import Estimate, Floats, Interval, mean_interval, paired_columns, t_quantile
from .stacking import logistic

# With x = logit(q) of the probability q that the judge gives, the recalibrated probability is g = sigma(b0 + b1 x). A
# calibrated judge has the intercept b0 = 0 and the slope b1 = 1; a slope below 1 is overconfident. The fit has a weak
# normal prior around (0, 1), so that it is finite where a judge makes no mistake.

TOLERANCE = 0.10
"""The mean distance of q and g, and the binned error, up to which a judge is called calibrated."""
Verdict = Literal["calibrated", "not calibrated", "too few labels to tell"]
_LOWEST = 0.001
"""Probabilities are moved this far from 0 and 1 before their logit is taken."""
_PRIOR_PRECISION = 0.25
_STEPS = 40
_DRAWS = 400
_PSEUDO_LABELS = 5  # the inflation of variances in ``calibration``
_BINS, _MIN_IN_BIN = 10, 10
_CHI_SQUARE = -2 * math.log(0.05)
"""The 95 % quantile of chi square with 2 degrees of freedom."""


@dataclass(frozen=True, slots=True)
class ProbabilityCalibration:
    """How far the probabilities of a judge agree with labels of 0 and 1."""

    verdict: Verdict
    brier: Estimate
    """The mean squared distance of probability and label."""
    bias: Estimate
    """The mean of the labels minus the mean probability."""
    intercept: Estimate
    slope: Estimate
    error: Estimate
    """The mean distance of q and g; the upper end of the interval decides whether the judge is called calibrated."""
    binned_error: Estimate
    """The root mean square distance over bins of equal count, without what chance adds to it."""
    gain: float | None
    """By which share probabilities make the interval of a corrected mean narrower than yes or no at .5 does; ``None``
    where all probabilities are on one side of .5, or are 0 and 1 themselves."""

    def to_dict(self) -> dict[str, Any]:
        """The values as a JSON object."""
        names = ("brier", "bias", "intercept", "slope", "error", "binned_error")
        return {"verdict": self.verdict, "gain": self.gain, **{name: getattr(self, name).to_dict() for name in names}}


def probability_calibration(
    probabilities: npt.ArrayLike, labels: npt.ArrayLike, *, seed: int = 0
) -> ProbabilityCalibration:
    """Compare probabilities of being right with labels of 0 and 1, from a random sample of answers.

    ``calibrated`` needs an upper 95 % bound of the error and a binned error of at most ``TOLERANCE``; ``not
    calibrated`` a likelihood ratio test of intercept 0 and slope 1 at 5 %. Anything else is ``too few labels to tell``.
    """
    q, y = paired_columns(probabilities, labels)
    if not np.isin(y, (0.0, 1.0)).all() or not ((q >= 0) & (q <= 1)).all():
        raise BadValueError("probabilities lie between 0 and 1, and labels are 0 (wrong) and 1 (right)")
    n = len(q)
    rng = np.random.default_rng(seed)
    x = np.log(np.clip(q, _LOWEST, 1 - _LOWEST))
    x -= np.log1p(-np.clip(q, _LOWEST, 1 - _LOWEST))
    fitted, covariance = _fit(x, y)
    drawn = rng.multivariate_normal(fitted, covariance, _DRAWS, method="cholesky")
    distances = np.abs(logistic(drawn[:, :1] + drawn[:, 1:] * x) - q).mean(axis=1)
    low, high = np.quantile(distances, (0.05, 0.95))
    error = float(np.abs(logistic(fitted[0] + fitted[1] * x) - q).mean())
    ratio = 2 * (_log_likelihood(y, fitted[0] + fitted[1] * x) - _log_likelihood(y, x))
    binned, interval = _binned_error(q, y, rng)
    verdict: Verdict = "too few labels to tell"
    if high <= TOLERANCE and binned <= TOLERANCE:
        verdict = "calibrated"
    elif ratio > _CHI_SQUARE:
        verdict = "not calibrated"
    half = t_quantile(0.025, max(n - 2, 1)) * np.sqrt(np.diag(covariance))
    intercept, slope = (
        Estimate(float(value), Interval(float(value - width), float(value + width), "t", n), n)
        for value, width in zip(fitted, half, strict=True)
    )
    squares = (y - q) ** 2
    return ProbabilityCalibration(
        verdict,
        brier=Estimate(float(squares.mean()), mean_interval(squares, lowest=0.0, highest=1.0), n),
        bias=Estimate(float((y - q).mean()), mean_interval(y - q, lowest=-1.0, highest=1.0), n),
        intercept=intercept,
        slope=slope,
        error=Estimate(error, Interval(min(float(low), error), max(float(high), error), "bootstrap", n, 0.9), n),
        binned_error=Estimate(binned, interval, n),
        gain=_gain(q, y),
    )


def _gain(q: Floats, y: Floats) -> float | None:
    """The variance of a corrected mean relative to that of the labels' mean is 1 - r² + 5 / n, and at most 1.

    r is the correlation of score and label; five more labels count as if they did not follow the scores, as there.
    """
    votes = (q > 0.5).astype(np.float64)
    if not (np.ptp(votes) > 0 and np.ptp(y) > 0 and np.isin(q, (0.0, 1.0)).sum() < len(q)):
        return None
    left = [1 - float(np.corrcoef(scores, y)[0, 1]) ** 2 + _PSEUDO_LABELS / len(y) for scores in (q, votes)]
    return 1 - math.sqrt(min(left[0], 1.0) / min(left[1], 1.0))


def _log_likelihood(y: Floats, z: Floats) -> float:
    return float(np.sum(y * z - np.logaddexp(0, z)))


def _fit(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Intercept and slope, and their covariance, by Newton's method with halved steps where a full one overshoots."""
    columns = np.stack([np.ones_like(x), x], axis=1)
    centre = np.array([0.0, 1.0])
    prior = np.eye(2) * _PRIOR_PRECISION

    def objective(b: Floats) -> float:
        return _log_likelihood(y, columns @ b) - _PRIOR_PRECISION / 2 * float((b - centre) @ (b - centre))

    def information(b: Floats) -> Floats:
        g = logistic(columns @ b)
        return columns.T @ (columns * (g * (1 - g))[:, None]) + prior

    b: Floats = centre
    for _ in range(_STEPS):
        gradient = columns.T @ (y - logistic(columns @ b)) - prior @ (b - centre)
        step = np.linalg.solve(information(b), gradient)
        while objective(b + step) < objective(b) - 1e-12 and np.abs(step).max() > 1e-9:
            step = step / 2
        b = b + step
        if np.abs(step).max() < 1e-7:
            break
    covariance: Floats = np.asarray(np.linalg.inv(information(b)), dtype=np.float64)
    return b, covariance


def _binned_error(q: Floats, y: Floats, rng: np.random.Generator) -> tuple[float, Interval | None]:
    """The debiased root mean square error over bins of equal count, with a bootstrap interval.

    Chance adds the variance of a bin's mean to its squared distance once, and to that of a bootstrap draw twice.
    """
    bins = np.array_split(np.argsort(q, kind="stable"), max(2, min(_BINS, len(q) // _MIN_IN_BIN)))
    if min(len(rows) for rows in bins) < 2:
        return math.sqrt(float(np.mean(y - q) ** 2)), None
    value = float(_root_mean_square(q, y, bins, 1)[0])
    drawn = [rng.choice(rows, (_DRAWS, len(rows))) for rows in bins]
    low, high = np.quantile(_root_mean_square(q, y, drawn, 2), (0.025, 0.975))
    return value, Interval(min(float(low), value), max(float(high), value), "bootstrap", len(q), 0.95)


def _root_mean_square(q: Floats, y: Floats, bins: list[Any], times: int) -> Floats:
    """The error over bins of rows, with the variance of a bin's mean subtracted so many times."""
    total: Any = 0.0
    for drawn in bins:
        rows = np.atleast_2d(drawn)
        size = rows.shape[1]
        means = y[rows].mean(axis=1)
        distances = means - q[rows].mean(axis=1)
        total = total + size / len(q) * (distances**2 - times * means * (1 - means) / (size - 1))
    found: Floats = np.sqrt(np.maximum(total, 0.0))
    return found
