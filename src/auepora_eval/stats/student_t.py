"""Quantiles of Student's t, so that an interval needs no more than the standard library."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from ..core.errors import BadValueError

__all__ = ["t_quantile"]

_TINY = 1e-300
_DIGITS = 1e-15
_MANY = 1000


@lru_cache(maxsize=4096)
def t_quantile(tail: float, freedom: float) -> float:
    """The value that a t variable with these degrees of freedom exceeds with probability ``tail`` (below one half).

    Newton's method on the upper tail, which is convex there: from a start on the left it comes up to the root and never
    jumps past it. The start is the normal quantile, which lies left of every t quantile.
    """
    if not 0 < tail < 0.5 or not freedom > 0:
        raise BadValueError(f"no quantile for a tail of {tail!r} with {freedom!r} degrees of freedom")
    value = -NormalDist().inv_cdf(tail)
    if freedom > _MANY:
        return _near_normal(value, freedom)
    log_beta = math.lgamma(freedom / 2) + math.lgamma(0.5) - math.lgamma((freedom + 1) / 2)
    for _ in range(200):
        excess = _upper_tail(value, freedom) - tail
        density = math.exp(-(freedom + 1) / 2 * math.log1p(value * value / freedom) - log_beta) / math.sqrt(freedom)
        step = excess / density
        value += step
        if abs(step) <= _DIGITS * value:
            break
    return value


def _near_normal(z: float, freedom: float) -> float:
    """The t quantile from the normal one by its expansion in 1 / freedom (Fisher and Cornish 1960).

    With many degrees of freedom this is exact to rounding, while the gamma functions of the exact way lose digits.
    """
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def _upper_tail(value: float, freedom: float) -> float:
    """The probability of exceeding a positive value: half the incomplete beta function of freedom / (freedom + t²)."""
    squared = value * value
    a, b = freedom / 2, 0.5
    x, rest = freedom / (freedom + squared), squared / (freedom + squared)
    log_front = a * math.log(x) + b * math.log(rest) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front)
    # Either side of this the other expansion converges slowly.
    if x < (a + 1) / (a + b + 2):
        return 0.5 * front * _continued_fraction(x, a, b) / a
    return 0.5 * (1 - front * _continued_fraction(rest, b, a) / b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, from the front (Lentz's method)."""
    numerator, denominator = 1.0, _away_from_zero(1 - (a + b) * x / (a + 1))
    denominator = 1 / denominator
    value = denominator
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for part in (even, odd):
            denominator = 1 / _away_from_zero(1 + part * denominator)
            numerator = _away_from_zero(1 + part / numerator)
            change = numerator * denominator
            value *= change
        if abs(change - 1) < _DIGITS:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
