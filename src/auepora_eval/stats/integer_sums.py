"""Exact sums: scores scaled to integers, on a grid fine enough not to matter and coarse enough to add exactly.

A sum of floats depends on the order of summation, which a matrix product does not fix. Integers below 2⁵³ add up
exactly in any order, so a result does not depend on how the work was split.
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

# The largest sum in bits, so that twice as much is still exact.
_MAX_BITS = 52
# Standardised sums closer than this are the same: the grid and the adding up of scores move them by less.
_TIE = 1e-8


def integer_sums(table: Floats, clusters: Ints | None, *, one_grid: bool = False) -> Floats:
    """The sums of each column over each cluster, as integers on a grid per column, or on one grid for all.

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
    """The table as an array; an error unless it has two dimensions and every number is finite."""
    table = np.asarray(table, dtype=np.float64)
    if table.ndim != 2:
        raise BadValueError(f"the scores must be a table with a row per sample, not of shape {table.shape}")
    if not np.isfinite(table).all():
        row = int(np.argmin(np.isfinite(table).all(axis=1)))
        raise BadValueError(f"the scores at index {row} are {table[row].tolist()}; leave out what has none")
    return table


def can_enumerate(ways: int, units: int, draws: int) -> bool:
    """Whether ``ways ** units`` is at most ``draws``, so that all permutations can be enumerated."""
    return units < draws.bit_length() and ways**units <= draws


def pool_units(sums: Floats, most: int) -> Floats:
    """Pool the units into ``most`` groups if there are more of them; units of a group are then permuted together."""
    units = len(sums)
    if units <= most:
        return sums
    hands = np.zeros((most, sums.shape[1]))
    for start in range(0, units, most):
        part = sums[start : start + most]
        hands[: len(part)] += part
    return hands


def tail_proportion(values: Floats, seen: float, *, exact: bool) -> float:
    """The proportion of ``values`` that are at least the observed one (``seen``): its p-value.

    If the draws are exhaustive, the observed value is among them. Otherwise it counts as one more draw, without which
    a p-value could be zero.
    """
    reached = int(np.count_nonzero(values >= seen - _TIE))
    return reached / len(values) if exact else (1 + reached) / (1 + len(values))
