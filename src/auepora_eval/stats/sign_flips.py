"""Sign-flip permutation test of paired differences.

If neither run is better, a cluster's differences could as well have had the other sign. So the signs of whole clusters
are flipped at random, many times, and the p-value is how often the mean difference is as far from zero as the observed
one. It needs no normal distribution and no equal variances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..core.errors import BadValueError
from .integer_sums import can_enumerate, integer_sums, pool_units, tail_proportion

__all__ = ["SignFlips", "random_bits", "sign_flips"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

# How many signs go into one product of matrices: 17 MB of them.
_MULTIPLIED = 1 << 21
# More clusters than this are pooled into this many groups, whose signs are flipped together. That is a test of the same
# level, and its cost stops growing with the samples.
_MAX_UNITS = 1 << 16
_WORD = 64


@dataclass(frozen=True, slots=True, eq=False)
class SignFlips:
    """The result of a sign-flip or permutation test: a column per metric, in the order of the differences."""

    p_values: Floats
    """Two-sided; NaN for a metric without any difference given."""
    z: Floats
    """The sum of the differences over its spread under flips, which is the root of the squared cluster sums' sum."""
    flipped: Floats
    """The absolute value of z in each flip: a row per flip. ``adjust.max_t`` reads it."""
    exact: bool
    """Whether these are all flips there are."""


def sign_flips(differences: Floats, clusters: Ints | None = None, *, draws: int = 10_000, seed: int = 0) -> SignFlips:
    r"""Flip the signs of whole clusters, the same flips for all metrics.

    ``differences`` has a row per sample and a column per metric, NaN where a sample has no difference on a metric.
    ``clusters`` holds an integer per sample; samples with the same one belong together.

    The statistic is the sum of the differences, hence the mean that the interval is about: with :math:`S_c` the sum
    over a cluster and :math:`s_c = \pm 1` its sign,

    .. math:: z = \sum_c s_c S_c \Big/ \sqrt{\sum_c S_c^2}

    The divisor is the same in every flip. It changes no p-value; it makes metrics on different scales comparable, and
    a metric on which few clusters differ, k of them, stays below :math:`\sqrt k`. With clusters of one size z rises
    with Student's t of the interval, so both order the flips alike.

    If there are no more than ``draws`` ways to flip the clusters that differ at all, each is taken once and the p-value
    is the proportion that reaches the observed value. Otherwise ``draws`` flips are drawn, p = (1 + b) / (1 + draws).
    A metric's p-value does not depend on the other metrics, unless they decide whether all flips can be enumerated.
    """
    differences = np.asarray(differences, dtype=np.float64)
    if differences.ndim != 2:
        raise BadValueError(
            f"the differences must be a table with a row per sample and a column per metric, not of shape "
            f"{differences.shape}"
        )
    if draws < 1:
        raise BadValueError(f"draws must be at least 1, not {draws!r}")
    present = ~np.isnan(differences)
    sums = pool_units(integer_sums(np.where(present, differences, 0.0), clusters), _MAX_UNITS)
    # Squares go beyond what adds up exactly, so this sum is rounded once, at its end: no order changes it either.
    spread = np.sqrt([math.fsum(column) for column in np.square(sums).T])
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    informative = sums[sums.any(axis=1)]
    exact = can_enumerate(2, len(informative), draws)
    signed = _all_flips(informative) if exact else _random_flips(sums, draws, seed)
    flipped = np.empty((2 ** len(informative) if exact else draws, sums.shape[1]))
    done = 0
    for part in signed:
        np.abs(part, out=flipped[done : done + len(part)])
        done += len(part)
    flipped *= scale
    z = np.where(present.any(axis=0), sums.sum(axis=0) * scale, np.nan)
    p_values = [
        math.nan if math.isnan(observed) else tail_proportion(column, abs(observed), exact=exact)
        for column, observed in zip(flipped.T, z.tolist(), strict=True)
    ]
    return SignFlips(np.array(p_values), z, flipped, exact)


def _all_flips(sums: Floats) -> Iterator[Floats]:
    """The signed sums under every flip, by doubling: each cluster is added once and subtracted once."""
    signed = np.zeros((1, sums.shape[1]))
    for cluster in sums:
        signed = np.concatenate([signed + cluster, signed - cluster])
    yield signed


def _random_flips(sums: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """The signed sums under random flips, some at a time."""
    padded = np.zeros((-(-len(sums) // _WORD) * _WORD, sums.shape[1]))
    padded[: len(sums)] = sums
    at_once = max(1, min(draws, _MULTIPLIED // max(len(padded), 1)))
    added = np.empty((at_once, len(padded)))
    for bits in random_bits(len(sums), draws, seed, at_once=at_once):
        rows = added[: len(bits)]
        rows[:] = bits
        # The added sums minus the others: twice the added sums minus the total.
        yield 2.0 * (rows @ padded) - sums.sum(axis=0)


def random_bits(units: int, draws: int, seed: int, *, at_once: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Random bits, a row per draw, ``at_once`` rows at a time: 1 where a unit's sum is added, 0 where it is taken away.

    Rows are as long as whole words make them, so that they do not depend on how many are drawn at once.
    """
    words = -(-units // _WORD)
    source = np.random.PCG64(seed)
    for start in range(0, draws, at_once):
        rows = min(at_once, draws - start)
        raw = source.random_raw(rows * words).astype("<u8").reshape(rows, words)
        yield np.unpackbits(raw.view(np.uint8), axis=1)
