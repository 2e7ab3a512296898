"""Sums of whole numbers: scores put on a grid so fine that nobody sees it, and so coarse that adding rounds nothing.

A sum of floats depends on the order in which it is made, and a product of matrices makes it in whatever order suits the
processor. Whole numbers below 2⁵³ add up exactly in any order, so a result does not depend on how the work was cut up.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError
from .interval import encode_clusters

__all__ = ["can_enumerate", "integer_sums", "pool_units", "require_finite_table", "tail_proportion"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

# The most any sum may come to, so that twice as much is still exact.
_MAX_BITS = 52
# Standardised sums closer than this are the same: the grid and the adding up of scores move them by less.
_TIE = 1e-8


def integer_sums(table: Floats, clusters: Ints | None, *, one_grid: bool = False) -> Floats:
    """The sums of each column over each cluster, as whole numbers on a grid per column, or on one for all.

    ``table`` has a row per sample. All numbers of a column together come to 2⁵² at most, so that with n samples one
    number is known to one part in 2⁵²/n of the largest score. Clusters are in ascending order of their codes.
    """
    table = require_finite_table(table)
    largest = np.abs(table).max(axis=None if one_grid else 0, initial=0.0)
    shares = table / np.where(largest > 0, largest, 1.0)
    codes = encode_clusters(clusters, len(table))
    if codes is not None:
        shares = np.stack([np.bincount(codes, column) for column in shares.T], axis=1)
    return np.rint(shares * 2.0 ** (_MAX_BITS - math.ceil(math.log2(max(len(table), 1)))))


def require_finite_table(table: Floats) -> Floats:
    """The table as it is, if it has two dimensions and every number is finite."""
    table = np.asarray(table, dtype=np.float64)
    if table.ndim != 2:
        raise BadValueError(f"the scores must be a table with a row per sample, not of shape {table.shape}")
    if not np.isfinite(table).all():
        row = int(np.argmin(np.isfinite(table).all(axis=1)))
        raise BadValueError(f"the scores at index {row} are {table[row].tolist()}; leave out what has none")
    return table


def can_enumerate(ways: int, units: int, draws: int) -> bool:
    """Whether so many ways for each of so many units are no more than the draws."""
    return units < draws.bit_length() and ways**units <= draws


def pool_units(sums: Floats, most: int) -> Floats:
    """The units dealt into so many hands, if there are more of them: units of one hand then move together."""
    units = len(sums)
    if units <= most:
        return sums
    hands = np.zeros((most, sums.shape[1]))
    for start in range(0, units, most):
        part = sums[start : start + most]
        hands[: len(part)] += part
    return hands


def tail_proportion(values: Floats, seen: float, *, exact: bool) -> float:
    """How often a value drawn is as large as the one ``seen``: the p-value of ``seen``.

    Where the draws are all there are, the one seen is among them. Otherwise it is counted as one draw more, without
    which a p-value could be zero.
    """
    reached = int(np.count_nonzero(values >= seen - _TIE))
    return reached / len(values) if exact else (1 + reached) / (1 + len(values))
