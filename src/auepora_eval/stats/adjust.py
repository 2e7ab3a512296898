"""Several metrics at once: p-values by step-down max-T from the sign flips or by Holm, and joint intervals.

Of twenty metrics that do not differ, one will have p < .05 in most comparisons. An adjusted p-value below .05 is wrong
about any of the metrics it was adjusted among in 5 % of comparisons at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError
from .integer_sums import tail_proportion
from .sign_flips import SignFlips

__all__ = ["holm", "joint_level", "max_t"]

Floats = npt.NDArray[np.float64]


def max_t(flips: SignFlips, among: Sequence[int] | None = None) -> Floats:
    """P-values adjusted among the metrics with these column numbers (all if None); NaN for every other metric.

    Westfall and Young's step-down method. A metric's z is compared with the largest z of each flip, over itself and all
    metrics with a smaller z. Correlated metrics cost less than with Holm's method, since their largest z is hardly
    larger than one of them. Stepping down never gives a larger p-value than comparing all of them with the largest of
    all, and controls the same error rate.
    """
    columns = np.arange(len(flips.z)) if among is None else np.unique(np.asarray(among, dtype=np.intp))
    if len(columns) and (columns[0] < 0 or columns[-1] >= len(flips.z)):
        raise BadValueError(f"there are {len(flips.z)} metrics, numbered from 0, but {columns.tolist()} are asked for")
    adjusted = np.full(len(flips.z), np.nan)
    z = np.abs(flips.z)
    surest_first = sorted(columns[~np.isnan(z[columns])].tolist(), key=lambda column: -z[column])
    largest = np.zeros(len(flips.flipped))
    for column in reversed(surest_first):
        np.maximum(largest, flips.flipped[:, column], out=largest)
        adjusted[column] = tail_proportion(largest, z[column], exact=flips.exact)
    # A metric with a smaller z never gets the smaller p-value.
    adjusted[surest_first] = np.maximum.accumulate(adjusted[surest_first])
    return adjusted


def joint_level(flips: SignFlips, among: Sequence[int], *, alpha: float = 0.05) -> float:
    """The level of each interval at which all these intervals cover jointly with probability 1 - ``alpha``.

    It is the normal level of the largest z that 1 - ``alpha`` of the flips stay below, over all metrics. Metrics that
    move together so have narrower intervals than by Bonferroni's level, 1 - ``alpha`` / m, which is the most.
    """
    columns = [column for column in among if not np.isnan(flips.z[column])]
    if len(columns) < 2:
        return 1 - alpha
    largest = flips.flipped[:, columns].max(axis=1)
    tail = 2 * NormalDist().cdf(-float(np.quantile(largest, 1 - alpha, method="higher")))
    return 1 - min(max(tail, alpha / len(columns)), alpha)


def holm(p_values: Floats) -> Floats:
    """Holm's adjusted p-values, valid for any dependence between the tests; NaN stays."""
    p_values = np.asarray(p_values, dtype=np.float64)
    given = np.flatnonzero(~np.isnan(p_values))
    if ((p_values[given] < 0) | (p_values[given] > 1)).any():
        raise BadValueError(f"p-values lie between 0 and 1: {p_values.tolist()}")
    order = given[np.argsort(p_values[given], kind="stable")]
    adjusted = np.full(p_values.shape, np.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p_values[order] * np.arange(len(order), 0, -1)))
    return adjusted
