"""Correlation of two columns of numbers: Pearson's r, Spearman's rho, Kendall's tau-b, each with its interval.

1 means that one column rises with the other, -1 that it falls, 0 that there is no such relation. Pearson looks at the
numbers, Spearman at their ranks, Kendall at pairs: how many are in the same order in both columns, less how many are
not. All are NaN where a column has one value only; ``why_undefined`` of a report says so in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.errors import AlignmentError, BadTypeError
from .bootstrap import bootstrap_interval_of
from .estimate import Estimate

__all__ = ["kendall", "kendall_report", "pearson", "pearson_report", "spearman", "spearman_report"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
_TOO_FEW = "fewer than two pairs"
_CONSTANT = "one of the two is the same everywhere"


def pearson(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Pearson's r of the pairs in which neither number is missing (``None`` or NaN)."""
    return _pearson(*_paired_columns(a, b))


def spearman(a: Sequence[Any], b: Sequence[Any]) -> float:
    """Spearman's rho: Pearson's r of the ranks; equal numbers share the mean of their ranks."""
    return _spearman(*_codes(a, b))


def kendall(a: Sequence[Any], b: Sequence[Any]) -> float:
    r"""Kendall's tau-b.

    .. math:: \tau_b = \frac{C - D}{\sqrt{(C + D + T_a)(C + D + T_b)}}

    C pairs are in the same order in both columns, D in opposite order, :math:`T_a` are tied in b alone and :math:`T_b`
    in a alone.
    """
    return _kendall(*_codes(a, b))


def pearson_report(
    a: Sequence[Any], b: Sequence[Any], *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """``pearson`` with an interval from resampling the pairs."""
    return _correlation_report(_pearson, _paired_columns(a, b), draws=draws, seed=seed, level=level)


def spearman_report(
    a: Sequence[Any], b: Sequence[Any], *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """``spearman`` with an interval from resampling the pairs."""
    return _correlation_report(_spearman, _codes(a, b), draws=draws, seed=seed, level=level)


def kendall_report(
    a: Sequence[Any], b: Sequence[Any], *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """``kendall`` with an interval from resampling the pairs."""
    return _correlation_report(_kendall, _codes(a, b), draws=draws, seed=seed, level=level)


def _correlation_report(
    statistic: Callable[[npt.NDArray[Any], npt.NDArray[Any]], float],
    columns: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    *,
    draws: int,
    seed: int,
    level: float,
) -> Estimate:
    first, second = columns
    n = len(first)
    value = statistic(first, second)
    if math.isnan(value):
        return Estimate(None, None, n, _TOO_FEW if n < 2 else _CONSTANT)
    interval = bootstrap_interval_of(
        lambda rows: statistic(first[rows], second[rows]),
        n,
        draws=draws,
        seed=seed,
        level=level,
        lowest=-1.0,
        highest=1.0,
    )
    return Estimate(value, interval, n)


def _paired_columns(a: Sequence[Any], b: Sequence[Any]) -> tuple[Floats, Floats]:
    if len(a) != len(b):
        raise AlignmentError(len(a), len(b), what=("numbers in the first column", "numbers in the second"))
    try:
        pairs = np.array([[math.nan if one is None else float(one) for one in column] for column in (a, b)])
    except (TypeError, ValueError) as error:
        raise BadTypeError(f"a correlation is between numbers: {error}") from error
    pairs = pairs.reshape(2, -1)
    there = ~np.isnan(pairs).any(axis=0)
    return pairs[0, there], pairs[1, there]


def _codes(a: Sequence[Any], b: Sequence[Any]) -> tuple[Ints, Ints]:
    """Each number as its index among the distinct numbers of its column: statistics of order need no more.

    A column is sorted once, not once per draw.
    """
    first, second = _paired_columns(a, b)
    return np.unique(first, return_inverse=True)[1], np.unique(second, return_inverse=True)[1]


def _pearson(first: Floats, second: Floats) -> float:
    if len(first) < 2 or (first == first[0]).all() or (second == second[0]).all():
        return math.nan
    one, two = first - first.mean(), second - second.mean()
    spread = math.sqrt(float(one @ one)) * math.sqrt(float(two @ two))
    return min(1.0, max(-1.0, float(one @ two) / spread)) if spread else math.nan


def _spearman(first: Ints, second: Ints) -> float:
    return _pearson(_ranks(first), _ranks(second))


def _ranks(codes: Ints) -> Floats:
    """Ranks from 1; equal values share the mean of theirs."""
    counts = np.bincount(codes)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[codes]
    return ranks


def _kendall(first: Ints, second: Ints) -> float:
    n = len(first)
    if n < 2:
        return math.nan
    shape = int(first.max()) + 1, int(second.max()) + 1
    table = np.bincount(first * shape[1] + second, minlength=shape[0] * shape[1]).reshape(shape)
    # Of each cell, how many pairs lie in smaller rows: in smaller columns the order is the same, in larger opposite.
    above = np.cumsum(np.cumsum(table, axis=0), axis=1)[:-1]
    same = int((table[1:, 1:] * above[:, :-1]).sum())
    opposite = int((table[1:] * (above[:, -1:] - above)).sum())
    pairs = n * (n - 1) // 2
    tied = [int((counts * (counts - 1) // 2).sum()) for counts in (table.sum(axis=1), table.sum(axis=0))]
    spread = math.sqrt(pairs - tied[0]) * math.sqrt(pairs - tied[1])
    return min(1.0, max(-1.0, (same - opposite) / spread)) if spread else math.nan
