"""Quantiles as observed values, and their bootstrap intervals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError
from .bootstrap import bootstrap_interval_of, percentile_interval
from .interval import Interval, encode_clusters, tail_probability

__all__ = ["quantile_interval", "quantile_of", "quantile_rank"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

# Draws cost next to nothing where only a position is drawn.
_POSITIONS = 10_000
# With fewer units than this expected on either side of the quantile the flag is "few": from ten on the interval holds
# in 91 % of cases and more, whatever the quantile and the distribution; with five it may be 87 %, with three 80 %.
_FEW_BEYOND = 10


@lru_cache(maxsize=1024, typed=True)  # called tens of thousands of times in a bootstrap; typed, since True is not 1
def quantile_rank(q: float, n: int) -> int:
    """The place, from 1, of the quantile among ``n`` values in ascending order: q·n rounded up.

    q is taken as the decimal number it is written as: 0.55 of 100 values is the 55th, although the binary number
    nearest to 0.55 lies a little above it.

    >>> quantile_rank(0.55, 100), quantile_rank(0.95, 10), quantile_rank(1.0, 7)
    (55, 10, 7)
    """
    return math.ceil(_exact_fraction(q) * n)


def _exact_fraction(q: float) -> Fraction:
    if isinstance(q, bool) or not 0 < q <= 1:
        raise BadValueError(f"a quantile lies above 0 and is 1 at most, not {q!r}")
    return Fraction(repr(float(q)))


def quantile_of(values: Floats, q: float) -> float:
    """The smallest value that at least a proportion q of the values do not exceed; NaN of nothing."""
    if not len(values):
        return math.nan
    place = quantile_rank(q, len(values)) - 1
    return float(np.partition(values, place)[place])


def quantile_interval(
    values: Floats,
    q: float,
    *,
    clusters: Ints | None = None,
    seed: int = 0,
    level: float = 0.95,
) -> Interval | None:
    """Bootstrap interval of a quantile; None for fewer than two units, and where every draw gives the same value.

    Without clusters no resampling is needed: n values drawn with replacement have their k-th smallest at the place
    ceil(n·U) of the values in order, where U, the k-th smallest of n uniform numbers, follows Beta(k, n − k + 1). So
    such places are drawn. Samples in clusters are resampled cluster by cluster.

    Where even all n units below the true quantile would be no surprise (qⁿ above the chance left on a side), the
    largest value bounds nothing, and likewise the smallest: the flag is ``unbounded``. It is ``few`` for fewer than
    30 units, and where fewer than ten are expected on either side of the quantile.
    """
    values, n = np.asarray(values, dtype=np.float64), len(values)
    exact_q, tail = _exact_fraction(q), tail_probability(level)
    codes = encode_clusters(clusters, n)
    if codes is None:
        found = _interval_from_ranks(values, q, seed=seed, level=level) if n > 1 else None
    else:
        found = bootstrap_interval_of(
            lambda drawn: quantile_of(values[drawn], q), n, clusters=codes, seed=seed, level=level
        )
    if found is None or found.method == "all_equal":
        return None
    # Skewed draws are harmless here: the ends are observed values, whatever lies between them.
    flags = {
        "few": "few" in found.flags or found.units * min(exact_q, 1 - exact_q) < _FEW_BEYOND,
        "unstable": "unstable" in found.flags,
        "unbounded": float(max(exact_q, 1 - exact_q)) ** found.units > tail,
    }
    return replace(found, flags=tuple(flag for flag, given in flags.items() if given))


def _interval_from_ranks(values: Floats, q: float, *, seed: int, level: float) -> Interval | None:
    values = np.sort(values)
    n, rank = len(values), quantile_rank(q, len(values))
    places = np.ceil(n * np.random.default_rng(seed).beta(rank, n - rank + 1, _POSITIONS)).astype(np.intp)
    drawn = values[np.clip(places, 1, n) - 1]
    return percentile_interval(drawn, float(values[rank - 1]), n, n, level=level)
