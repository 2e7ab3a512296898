"""Permutation test for any statistic: the outputs of the two runs are swapped by cluster, alike for all metrics.

Flipping the sign of a difference is the same as swapping which run produced which score. A swap works for any statistic
of the samples: swap, recompute the statistic of both runs, and take the difference. For means it is the same as
``sign_flips.sign_flips``, from the same random signs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from .integer_sums import can_enumerate, integer_sums, pool_units, tail_proportion
from .interval import encode_clusters
from .paired_bootstrap import PairedStatistics
from .sign_flips import SignFlips, random_bits, sign_flips

__all__ = ["SwapStatistic", "permutation_test"]

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]

# As in ``sign_flips``: how many signs are in memory at once, and how many clusters have a sign of their own.
_PERMUTATION_CHUNK = 1 << 21
_MAX_UNITS = 1 << 16
_GRID = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class SwapStatistic:
    """A statistic of two runs that is not a function of sums, such as a quantile."""

    difference: Callable[[Bools], float]
    """The second run's value minus the first run's, with the samples in the mask swapped; NaN where there is none."""
    differs: Bools
    """Which samples a swap could matter for."""


def permutation_test(
    differences: Floats,
    clusters: Ints | None = None,
    *,
    sums: Sequence[PairedStatistics] = (),
    folds: Sequence[SwapStatistic] = (),
    draws: int = 10_000,
    seed: int = 0,
) -> SignFlips:
    """Permutation tests of means, then of functions of sums, then of any other statistics: a column each.

    ``differences`` are as in ``sign_flips``; every table in ``sums`` has a row per sample too. The distribution of a
    statistic that is not a mean may have any shape under swaps. To make it comparable with means, its z is the normal
    deviate with the same tail probability, and so are those of the swaps; p-values do not change.
    """
    if not sums and not folds:
        return sign_flips(differences, clusters, draws=draws, seed=seed)
    differences = np.asarray(differences, dtype=np.float64)
    n = len(differences)
    present = ~np.isnan(differences)
    codes = encode_clusters(clusters, n)
    units = np.arange(n) if codes is None else codes
    means = np.zeros((int(units.max(initial=-1)) + 1, 0))
    if differences.shape[1]:
        means = integer_sums(np.where(present, differences, 0.0), clusters)
    means = pool_units(means, _MAX_UNITS)
    tables = [pool_units(_cluster_sums(pair.second - pair.first, codes), _MAX_UNITS) for pair in sums]
    group_of = units % _MAX_UNITS
    informative: Bools = np.asarray(means.any(axis=1))
    for table in tables:
        informative |= table.any(axis=1)
    for fold in folds:
        informative[group_of[fold.differs]] = True
    together = np.concatenate([means, *tables], axis=1)
    exact = can_enumerate(2, int(informative.sum()), draws)
    # Units without any difference change nothing, so they are left out if all swaps are enumerated.
    places = np.flatnonzero(informative) if exact else np.arange(len(together))
    moved, both = together[places], together.sum(axis=0)
    parts = []
    for kept in _all_swaps(len(places)) if exact else _random_swaps(len(together), draws, seed):
        signed = 2.0 * (kept @ moved) - both
        columns, start = [signed[:, : means.shape[1]]], means.shape[1]
        for pair, table in zip(sums, tables, strict=True):
            columns.append(_of_sums(pair, signed[:, start : start + table.shape[1]])[:, None])
            start += table.shape[1]
        if folds:
            groups = np.zeros(len(together), dtype=np.bool_)
            columns.append(np.array([_swapped_differences(folds, row, places, groups, group_of) for row in kept]))
        parts.append(np.concatenate(columns, axis=1))
    flipped = np.abs(np.concatenate(parts))
    observed = np.concatenate(
        [
            np.where(present.any(axis=0), means.sum(axis=0), np.nan),
            [float(_of_sums(pair, table.sum(axis=0)[None, :])[0]) for pair, table in zip(sums, tables, strict=True)],
            [fold.difference(np.zeros(n, dtype=np.bool_)) for fold in folds],
        ]
    )
    spread = np.sqrt(np.square(means).sum(axis=0))
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    z = observed.copy()
    for column in range(len(observed)):
        if column < len(scale):
            flipped[:, column] *= scale[column]
            z[column] *= scale[column]
        else:
            flipped[:, column], z[column] = _normal_deviates(flipped[:, column], float(observed[column]))
    p_values = [
        math.nan if math.isnan(one) else tail_proportion(column, abs(one), exact=exact)
        for column, one in zip(flipped.T, z.tolist(), strict=True)
    ]
    return SignFlips(np.array(p_values), z, flipped, exact)


def _cluster_sums(table: Floats, codes: Ints | None) -> Floats:
    return table if codes is None else np.stack([np.bincount(codes, column) for column in table.T], axis=1)


def _of_sums(pair: PairedStatistics, signed: Floats) -> Floats:
    """The difference of both runs' values, from the sums of the differences between the runs."""
    both = pair.first.sum(axis=0) + pair.second.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        second = np.asarray(pair.of_sums((both + signed) / 2), dtype=np.float64)
        return second - np.asarray(pair.of_sums((both - signed) / 2), dtype=np.float64)


def _normal_deviates(flipped: Floats, observed: float) -> tuple[Floats, float]:
    """The absolute differences of all swaps, and the observed one, as normal deviates of their tail probability."""
    # A swap with an undefined value counts as a difference of zero.
    sizes = np.nan_to_num(flipped, nan=0.0)
    largest = float(sizes.max(initial=0.0))
    if math.isnan(observed) or (largest == 0 and observed == 0):
        return np.zeros(len(sizes)), 0.0 if observed == 0 else math.nan
    # On a grid, so that the order of summation does not matter.
    sizes = np.rint(sizes / max(largest, abs(observed)) * _GRID)
    ordered = np.sort(sizes)
    own = round(abs(observed) / max(largest, abs(observed)) * _GRID)
    reached = len(sizes) - np.searchsorted(ordered, np.append(sizes, own), side="left")
    proportions = np.maximum(reached, 0.5) / len(sizes)
    known, places = np.unique(proportions, return_inverse=True)
    normal = NormalDist()
    deviates = np.array([-normal.inv_cdf(proportion / 2) if proportion < 1 else 0.0 for proportion in known.tolist()])[
        places
    ]
    return deviates[:-1], math.copysign(float(deviates[-1]), observed)


def _swapped_differences(
    folds: Sequence[SwapStatistic], kept: Floats, places: Ints, groups: Bools, group_of: Ints
) -> list[float]:
    """The differences under one swap; ``groups`` is a buffer for the mask of swapped groups."""
    groups[places] = kept == 0
    swapped = groups[group_of]
    return [fold.difference(swapped) for fold in folds]


def _all_swaps(units: int) -> Iterator[Floats]:
    """Every way to keep (1) or swap (0) the units."""
    ways = np.arange(1 << units)
    yield ((ways[:, None] >> np.arange(units)) & 1).astype(np.float64)


def _random_swaps(units: int, draws: int, seed: int) -> Iterator[Floats]:
    """Random swaps, some at a time; the same ones that ``sign_flips`` draws."""
    at_once = max(1, min(draws, _PERMUTATION_CHUNK // max(units, 1)))
    for bits in random_bits(units, draws, seed, at_once=at_once):
        yield bits[:, :units].astype(np.float64)
