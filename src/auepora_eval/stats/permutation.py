"""Sign flips for what is not a mean: the two runs' answers to a cluster are swapped, the same swaps for all metrics.

To flip the sign of a difference is to swap which run gave which score. Said so, it holds for any number that is made of
the samples: swap, compute the number of both runs anew, and see how far they come apart. For means it is the same
thing as ``paired.sign_flips``, from the same random signs.
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

# As in ``paired``: how many signs are at hand at once, and how many clusters have a sign of their own.
_AT_ONCE = 1 << 21
_MAX_UNITS = 1 << 16
_GRID = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class SwapStatistic:
    """A number of two runs that does not follow from sums, such as a quantile."""

    difference: Callable[[Bools], float]
    """The second run's number less the first run's, with the samples in the mask swapped; NaN where there is none."""
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
    """Sign flips of means, then of numbers made of sums, then of any others: a column each, in this order.

    ``differences`` are as in ``sign_flips``; every table in ``sums`` has a row per sample too. How far a number that is
    no mean goes under swaps may follow any distribution: a quantile jumps. So that it can be held against means, its z
    is the normal deviate that is as rare as what was seen, and so are those of the swaps: a function of the p-value,
    which it does not change.
    """
    if not sums and not folds:
        return sign_flips(differences, clusters, draws=draws, seed=seed)
    differences = np.asarray(differences, dtype=np.float64)
    n = len(differences)
    given = ~np.isnan(differences)
    codes = encode_clusters(clusters, n)
    units = np.arange(n) if codes is None else codes
    means = np.zeros((int(units.max(initial=-1)) + 1, 0))
    if differences.shape[1]:
        means = integer_sums(np.where(given, differences, 0.0), clusters)
    means = pool_units(means, _MAX_UNITS)
    tables = [pool_units(_cluster_sums(pair.second - pair.first, codes), _MAX_UNITS) for pair in sums]
    hand_of = units % _MAX_UNITS
    telling: Bools = np.asarray(means.any(axis=1))
    for table in tables:
        telling |= table.any(axis=1)
    for fold in folds:
        telling[hand_of[fold.differs]] = True
    together = np.concatenate([means, *tables], axis=1)
    exact = can_enumerate(2, int(telling.sum()), draws)
    # What differs nowhere adds nothing: where every swap is made, it need not be among those that are.
    places = np.flatnonzero(telling) if exact else np.arange(len(together))
    moved, both = together[places], together.sum(axis=0)
    parts = []
    for kept in _all_swaps(len(places)) if exact else _random_swaps(len(together), draws, seed):
        signed = 2.0 * (kept @ moved) - both
        columns, start = [signed[:, : means.shape[1]]], means.shape[1]
        for pair, table in zip(sums, tables, strict=True):
            columns.append(_of_sums(pair, signed[:, start : start + table.shape[1]])[:, None])
            start += table.shape[1]
        if folds:
            hands = np.zeros(len(together), dtype=np.bool_)
            columns.append(np.array([_swapped_differences(folds, row, places, hands, hand_of) for row in kept]))
        parts.append(np.concatenate(columns, axis=1))
    flipped = np.abs(np.concatenate(parts))
    seen = np.concatenate(
        [
            np.where(given.any(axis=0), means.sum(axis=0), np.nan),
            [float(_of_sums(pair, table.sum(axis=0)[None, :])[0]) for pair, table in zip(sums, tables, strict=True)],
            [fold.difference(np.zeros(n, dtype=np.bool_)) for fold in folds],
        ]
    )
    spread = np.sqrt(np.square(means).sum(axis=0))
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    z = seen.copy()
    for column in range(len(seen)):
        if column < len(scale):
            flipped[:, column] *= scale[column]
            z[column] *= scale[column]
        else:
            flipped[:, column], z[column] = _normal_deviates(flipped[:, column], float(seen[column]))
    p_values = [
        math.nan if math.isnan(one) else tail_proportion(column, abs(one), exact=exact)
        for column, one in zip(flipped.T, z.tolist(), strict=True)
    ]
    return SignFlips(np.array(p_values), z, flipped, exact)


def _cluster_sums(table: Floats, codes: Ints | None) -> Floats:
    return table if codes is None else np.stack([np.bincount(codes, column) for column in table.T], axis=1)


def _of_sums(pair: PairedStatistics, signed: Floats) -> Floats:
    """The difference of both runs' numbers, from the sums of what the second has more than the first."""
    both = pair.first.sum(axis=0) + pair.second.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        second = np.asarray(pair.of_sums((both + signed) / 2), dtype=np.float64)
        return second - np.asarray(pair.of_sums((both - signed) / 2), dtype=np.float64)


def _normal_deviates(flipped: Floats, seen: float) -> tuple[Floats, float]:
    """How rare the absolute difference of each swap is among all of them, and the one seen, as normal deviates."""
    # A swap that leaves a number undefined says nothing: it counts as one that changes nothing.
    sizes = np.nan_to_num(flipped, nan=0.0)
    largest = float(sizes.max(initial=0.0))
    if math.isnan(seen) or (largest == 0 and seen == 0):
        return np.zeros(len(sizes)), 0.0 if seen == 0 else math.nan
    # On a grid, so that the same difference added up in another order is the same.
    sizes = np.rint(sizes / max(largest, abs(seen)) * _GRID)
    ordered = np.sort(sizes)
    own = round(abs(seen) / max(largest, abs(seen)) * _GRID)
    reached = len(sizes) - np.searchsorted(ordered, np.append(sizes, own), side="left")
    shares = np.maximum(reached, 0.5) / len(sizes)
    known, places = np.unique(shares, return_inverse=True)
    normal = NormalDist()
    deviates = np.array([-normal.inv_cdf(share / 2) if share < 1 else 0.0 for share in known.tolist()])[places]
    return deviates[:-1], math.copysign(float(deviates[-1]), seen)


def _swapped_differences(
    folds: Sequence[SwapStatistic], kept: Floats, places: Ints, hands: Bools, hand_of: Ints
) -> list[float]:
    """The differences under one swap; ``hands`` holds what is swapped, and is used again."""
    hands[places] = kept == 0
    swapped = hands[hand_of]
    return [fold.difference(swapped) for fold in folds]


def _all_swaps(units: int) -> Iterator[Floats]:
    """Every way to keep (1) or swap (0) so many units."""
    ways = np.arange(1 << units)
    yield ((ways[:, None] >> np.arange(units)) & 1).astype(np.float64)


def _random_swaps(units: int, draws: int, seed: int) -> Iterator[Floats]:
    """Random ways to do so, some at a time; the same ones that ``sign_flips`` draws."""
    at_once = max(1, min(draws, _AT_ONCE // max(units, 1)))
    for bits in random_bits(units, draws, seed, at_once=at_once):
        yield bits[:, :units].astype(np.float64)
