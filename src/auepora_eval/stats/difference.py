"""Intervals of a difference of means of two runs on the same samples: Newcombe's for proportions, else Student's t.

A difference is the second run's value minus the first run's. The scores of two runs on one sample are correlated, since
some samples are hard for both; differences per sample remove that, and so do these intervals.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..core.errors import AlignmentError, BadValueError
from .interval import Interval, encode_clusters, mean_interval, wilson_interval

__all__ = ["newcombe_interval", "paired_differences", "paired_interval"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


# Relative to the larger score, a difference up to this is rounding: 0.1 + 0.2 and 0.3 are a draw.
_ROUNDING = 1e-12


def paired_differences(first: Floats, second: Floats) -> Floats:
    """``second - first``, of arrays of one shape, and exactly zero where two scores differ by rounding only.

    NaN where one of the two has no score. Without this, two runs with the same scores, added up in different orders,
    could differ by 1e-17 on every sample, which a test would take for a difference.
    """
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if first.shape != second.shape:
        raise AlignmentError(len(first), len(second), what=("scores of the first run", "scores of the second run"))
    with np.errstate(invalid="ignore"):  # an infinite score is refused where the differences are used
        differences = second - first
        rounding = np.abs(differences) <= _ROUNDING * np.maximum(np.abs(first), np.abs(second))
    return np.where(rounding & np.isfinite(differences), 0.0, differences)


def paired_interval(
    first: Floats,
    second: Floats,
    *,
    clusters: Ints | None = None,
    binary: bool = False,
    lowest: float = -math.inf,
    highest: float = math.inf,
    level: float = 0.95,
) -> Interval | None:
    """Interval of the mean of ``second - first``, a score of each run per sample; None for fewer than two units.

    ``binary``, ``lowest`` and ``highest`` speak of the scores, ``clusters`` and ``level`` are as in ``mean_interval``.

    * Binary scores, each sample a unit of its own: Newcombe's interval, which has a width even where no sample
      differs. Scores that turn out not to be 0 or 1, such as means over repeats, are treated as any other.
    * Otherwise the interval that ``mean_interval`` gives for the differences: Student's t over the units.
    """
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    differences = paired_differences(first, second)
    if binary:
        lowest, highest = 0.0, 1.0
    zeros_and_ones = bool(np.isin(first, (0.0, 1.0)).all() and np.isin(second, (0.0, 1.0)).all())
    if binary and zeros_and_ones and len(first) > 1 and encode_clusters(clusters, len(first)) is None:
        right, wrong = first == 1.0, first == 0.0
        return newcombe_interval(
            int(np.count_nonzero(second[right] == 1.0)),
            int(np.count_nonzero(second[right] == 0.0)),
            int(np.count_nonzero(second[wrong] == 1.0)),
            int(np.count_nonzero(second[wrong] == 0.0)),
            level=level,
        )
    width = highest - lowest
    return mean_interval(differences, clusters=clusters, lowest=-width, highest=width, level=level)


def newcombe_interval(both: int, first_only: int, second_only: int, neither: int, *, level: float = 0.95) -> Interval:
    r"""Newcombe's interval of a difference of paired proportions: the second run's minus the first run's.

    The four counts are the samples that both runs got right, that only one of them did, and that neither did. With
    Wilson's interval of each proportion, reaching :math:`d_1` below and :math:`u_1` above the second run's and
    :math:`d_2` and :math:`u_2` around the first run's, the ends lie

    .. math::
        \sqrt{d_1^2 - 2 \phi d_1 u_2 + u_2^2} \quad \text{below and} \quad
        \sqrt{u_1^2 - 2 \phi u_1 d_2 + d_2^2} \quad \text{above}

    the difference, where :math:`\phi` is the correlation of the two runs' answers, brought towards zero by a continuity
    correction where it is positive (R. G. Newcombe, Statistics in Medicine 17, 2635-2650, 1998, method 10).
    """
    counts = (both, first_only, second_only, neither)
    n = sum(counts)
    if min(counts) < 0 or n < 1:
        raise BadValueError(f"{counts} must be four counts of samples, and one of them must not be zero")
    ones, twos = both + second_only, both + first_only
    one, two = wilson_interval(ones, n, level=level), wilson_interval(twos, n, level=level)
    down_one, up_one = ones / n - one.low, one.high - ones / n
    down_two, up_two = twos / n - two.low, two.high - twos / n
    phi = _correlation(*counts)
    seen = (second_only - first_only) / n
    low = seen - math.sqrt(max(0.0, down_one**2 - 2 * phi * down_one * up_two + up_two**2))
    high = seen + math.sqrt(max(0.0, up_one**2 - 2 * phi * up_one * down_two + down_two**2))
    return Interval(max(low, -1.0), min(high, 1.0), "newcombe", n, level, _flags(counts))


def _correlation(both: int, first_only: int, second_only: int, neither: int) -> float:
    """The correlation of the answers, 0 where one run got all or nothing right; Newcombe's continuity correction."""
    n = both + first_only + second_only + neither
    margins = (both + first_only, second_only + neither, both + second_only, first_only + neither)
    if not all(margins):
        return 0.0
    excess = float(both * neither - first_only * second_only)
    if excess > 0:
        excess = max(0.0, excess - n / 2)
    return excess / math.sqrt(math.prod(margins))


def _flags(counts: tuple[int, int, int, int]) -> tuple[str, ...]:
    return ("few",) if sum(counts) < 10 else ()
