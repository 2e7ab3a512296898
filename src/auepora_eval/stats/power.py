"""Statistical power: the minimum detectable effect of a comparison, and the units that a difference needs."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError
from .interval import encode_clusters, is_rounding
from .student_t import t_quantile

__all__ = ["effect_size", "mde", "required_n", "unit_sd"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


def unit_sd(differences: Floats, clusters: Ints | None = None) -> float:
    """The standard deviation of a unit: the standard error of the mean times the root of the number of units.

    Without clusters it is that of the differences, with clusters of one size that of the cluster means. NaN for fewer
    than two units, and where all units have the same mean: that says nothing about how they would spread. NaN as well
    where the squares of the differences are beyond what a float holds, or below.
    """
    differences = np.asarray(differences, dtype=np.float64)
    n = len(differences)
    codes = encode_clusters(clusters, n)
    if n < 2:
        return math.nan
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        residuals = differences - differences.mean()
        totals = residuals if codes is None else np.bincount(codes, residuals)
        squares = float(totals @ totals)
    sizes = np.ones(n) if codes is None else np.bincount(codes)
    units = len(totals)
    if units < 2 or is_rounding(
        float(np.abs(totals / sizes).max()), float(differences.min()), float(differences.max())
    ):
        return math.nan
    sd = units * math.sqrt(squares / (units - 1)) / n if squares < math.inf else math.nan
    return sd if 0 < sd < math.inf else math.nan


def effect_size(differences: Floats) -> float:
    """The mean of the differences over their standard deviation (Cohen's d of paired scores).

    0 where every difference is zero; NaN for fewer than two, and where all are equal but not zero.
    """
    differences = np.asarray(differences, dtype=np.float64)
    if len(differences) > 1 and not differences.any():
        return 0.0
    return float(differences.mean()) / unit_sd(differences) if len(differences) else math.nan


def mde(sd: float, n: int, *, alpha: float = 0.05, power: float = 0.8) -> float:
    r"""The smallest true difference that ``n`` units detect with this power, at a two-sided level of alpha.

    .. math:: (t_{1 - \alpha/2} + t_{power}) \cdot sd / \sqrt n

    with quantiles of Student's t with n - 1 degrees of freedom. At the usual alpha it is within 0.3 % of what the
    noncentral t distribution gives from ten units on, and 1.2 % below it with five. NaN for fewer than two units or an
    unknown ``sd``.
    """
    _check(alpha, power)
    if n < 2 or math.isnan(sd):
        return math.nan
    if not 0 < sd < math.inf:
        raise BadValueError(f"sd must be a positive number, not {sd!r}")
    return _quantiles(n, alpha, power) * sd / math.sqrt(n)


def required_n(delta: float, sd: float, *, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """The units it takes to detect a true difference of ``delta``; None for an unknown ``sd``, or beyond counting.

    ``delta`` is the difference that would matter, never the one observed: with that, every result that is not
    significant seems to need a few units more.
    """
    _check(alpha, power)
    if not 0 < delta < math.inf:
        raise BadValueError(f"delta must be a positive number, not {delta!r}")
    if math.isnan(sd):
        return None
    # Upwards from the normal distribution's answer, which is below that of any t distribution, until it suffices.
    few = _normal_n(delta, sd, alpha, power)
    if few is None:
        return None
    many = few
    while mde(sd, many, alpha=alpha, power=power) > delta:
        many *= 2
    while few < many:
        middle = (few + many) // 2
        if mde(sd, middle, alpha=alpha, power=power) > delta:
            few = middle + 1
        else:
            many = middle
    return few


def _normal_n(delta: float, sd: float, alpha: float, power: float) -> int | None:
    most = 1 << 53  # with that many degrees of freedom t is normal
    root = _quantiles(most, alpha, power) * (sd / delta)
    return max(2, math.floor(root**2)) if root < math.sqrt(most) else None


def _quantiles(n: int, alpha: float, power: float) -> float:
    return t_quantile(alpha / 2, n - 1) + t_quantile(1 - power, n - 1)


def _check(alpha: float, power: float) -> None:
    if not 0 < alpha < 1:
        raise BadValueError(f"alpha must lie between 0 and 1, not at {alpha!r}; 0.05 is usual")
    if not 0.5 < power < 1:
        raise BadValueError(f"power must lie between 0.5 and 1, not at {power!r}; 0.8 is usual")
