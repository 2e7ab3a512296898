"""Bounds of a mean difference that hold under skew: bets for scores within a range, Hall's transformed t for others.

A few large gains among many small losses, or the reverse, make Student's t wrong far more often than stated. A verdict
on such differences needs bounds that allow for it in addition.

* Scores within a range: a bet against "the mean is m" keeps its expected wealth if that is true, whatever the
  distribution. So the wealth reaches 1 / tail with a probability of at most ``tail`` (Waudby-Smith and Ramdas 2024).
* Scores without a range: Student's t of the mean, transformed so that the skewness cancels out (P. Hall, Journal of the
  Royal Statistical Society B 54, 1992).

0/1 scores without clusters need neither: if their mean difference is 0, gains and losses are equally likely.
"""

from __future__ import annotations

import math

import numpy as np

from .difference import paired_differences
from .intervals import Bools, Floats, Interval, Ints, encode_clusters, t_quantile, tail_probability

_BETS = np.linspace(0.02, 0.95, 30)
_BISECTIONS = 40
_ROUNDING = 1e-18
# With fewer units no bet on usual differences can be won, and the skewness of the sample says little.
_FEWEST = 20
# With fewer units, a mean that one more unit would move is the rule: nothing follows from it.
_FEW = 30
# Differences are lopsided from this skewness on. Larger, and one rare large gain that a draw lacks is not noticed;
# smaller, and normal differences are doubted (benchmarks/verdicts_skew.py).
_LOPSIDED = 0.7


def bounds_under_skew(
    first: Floats,
    second: Floats,
    interval: Interval | None,
    *,
    clusters: Ints | None = None,
    lowest: float = -math.inf,
    highest: float = math.inf,
    level: float = 0.95,
) -> tuple[float, float] | None:
    """Bounds of the mean of ``second - first`` that hold under skew; None where Student's t needs no support.

    ``interval`` is what ``paired_interval`` gives for the same scores. Differences of twenty units or more are doubted
    if it is flagged ``skewed``, or if ``is_lopsided`` says so.
    """
    if interval is None or interval.method != "t" or interval.units < _FEWEST:
        return None
    codes = encode_clusters(clusters, len(first))
    if codes is None and np.isin([first, second], (lowest, highest)).all():
        return None
    values, most = paired_differences(first, second), highest - lowest
    if codes is not None:
        sizes = np.bincount(codes)
        values, most = np.bincount(codes, values) / sizes.mean(), most * float(sizes.max() / sizes.mean())
    if "skewed" not in interval.flags and (math.isinf(most) or not are_lopsided(values, most)):
        return None
    tail = tail_probability(level)
    if math.isinf(most):
        return _hall_bounds(values, tail)
    values, counts = np.unique(values, return_counts=True)
    low, high = _betting_bound(values, counts, -most, tail), -_betting_bound(-values, counts, -most, tail)
    return max(low, lowest - highest), min(high, highest - lowest)


def are_lopsided(values: Floats, most: float) -> bool:
    """Whether differences up to ``most`` have their tail on the side of their mean: see ``is_lopsided``."""
    deviations = (values - values.mean()) / most
    squares, cubes = float((deviations**2).sum()), float((deviations**3).sum())
    skewness = skewness_of(np.array(squares), np.array(cubes), np.array(len(values)))
    return bool(is_lopsided(np.array(len(values)), np.array(values.mean() / most), np.array(squares), skewness))


def skewness_of(squares: Floats, cubes: Floats, units: Ints) -> Floats:
    """The skewness that follows from sums of squared and of cubed deviations; 0 without any deviation."""
    varies = squares > units * _ROUNDING
    skewness: Floats = np.where(varies, cubes / np.where(varies, squares, 1.0) ** 1.5 * np.sqrt(units), 0.0)
    return skewness


def is_lopsided(units: Ints, means: Floats, squares: Floats, skewness: Floats) -> Bools:
    """Whether differences have their tail on the side of their mean; means and deviations as shares of the largest.

    One more unit at the far end would also have to move the mean out of its interval: where small losses are common,
    large gains may be too rare to be in the sample.
    """
    rest = np.maximum(units - 1, 1)
    known = {count: t_quantile(0.025, count) for count in np.unique(rest).tolist()}
    quantiles = np.vectorize(known.get, otypes=[np.float64])(rest)
    moved = (1 - np.abs(means)) / (units + 1) > quantiles * np.sqrt(squares / np.maximum(units, 1) / rest)
    found: Bools = moved & (np.sign(means) * skewness > _LOPSIDED) & (units >= _FEW)
    return found


def log_wealth(values: Floats, counts: Floats | Ints, lowest: float) -> Floats:
    """The logarithm of the wealth of bets that the mean of values, along the last axis, is above 0.

    ``counts`` says how often each value occurs; no value can lie below ``lowest``, which is negative. The wealth is the
    mean over bets of several sizes. It is taken once, after all units, so that their order has no influence.
    """
    shares = values / -lowest
    logs = np.stack([np.log1p(bet * shares) @ counts for bet in _BETS])
    largest = logs.max(axis=0)
    wealth: Floats = largest + np.log(np.exp(logs - largest).mean(axis=0))
    return wealth


def _betting_bound(values: Floats, counts: Ints, lowest: float, tail: float) -> float:
    """The largest mean against which the wealth reaches 1 / tail, by bisection."""
    excluded, inside = lowest, float(values @ counts) / int(counts.sum())
    for _ in range(_BISECTIONS):
        middle = (excluded + inside) / 2
        if log_wealth(values - middle, counts, lowest - middle) >= -math.log(tail):
            excluded = middle
        else:
            inside = middle
    return excluded


def _hall_bounds(values: Floats, tail: float) -> tuple[float, float]:
    """The means at which Hall's transformed t reaches the quantiles of Student's t."""
    n, mean, sd = len(values), float(values.mean()), float(values.std(ddof=1))
    skewness = float(((values - mean) ** 3).mean()) / float(values.std()) ** 3
    boundary = t_quantile(tail, n - 1) / math.sqrt(n)

    def untransformed(value: float) -> float:
        """The u with u + g u² / 3 + g² u³ / 27 + g / 6n = value; for no skewness g it is the value itself."""
        if abs(skewness) < 1e-6:
            return value
        return 3 / skewness * (math.cbrt(1 + skewness * value - skewness**2 / (6 * n)) - 1)

    return mean - sd * untransformed(boundary), mean - sd * untransformed(-boundary)
