"""Permutation tests: sign flips, swaps of two runs, adjusted p-values, Tukey's HSD and association."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import NormalDist

import numpy as np

from ..errors import BadValueError
from .difference import PairedStatistics
from .intervals import (
    Bools,
    Floats,
    Ints,
    can_enumerate,
    integer_sums,
    mean_ranks,
    paired_columns,
    pool_units,
    require_finite_table,
    sums_by,
    tail_proportion,
    unit_codes,
)

# --- sign-flip permutation test of paired differences ----------------------------------------------------------------
# If neither run is better, a cluster's differences could as well have had the other sign. So the signs of whole
# clusters are flipped at random, many times, and the p-value is how often the mean difference is as far from zero as
# the observed one. It needs no normal distribution and no equal variances.


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
    """The absolute value of z in each flip: a row per flip. ``max_t`` reads it."""
    exact: bool
    """Whether these are all flips there are."""


@dataclass(frozen=True, slots=True, eq=False)
class DifferenceSums:
    """The differences of all metrics as integer sums over units, which is all that sign flips need."""

    sums: Floats
    """A row per cluster, or per group of clusters if there are many, and a column per metric."""
    present: Bools
    """Whether a metric has any difference."""
    n: int
    """How many samples there are."""


def difference_sums(columns: Iterable[Floats], n: int, clusters: Ints | None = None) -> DifferenceSums:
    """The sums of the differences of ``n`` samples, metric by metric; NaN where a sample has none.

    Columns that are made one by one are not all in memory.
    """
    sums, present = [], []
    for column in columns:
        missing = np.isnan(column)
        present.append(not missing.all())
        sums.append(pool_units(integer_sums(np.where(missing, 0.0, column)[:, None], clusters), _MAX_UNITS))
    if not sums:
        units = int(unit_codes(clusters, n).max(initial=-1)) + 1
        sums.append(np.zeros((min(units, _MAX_UNITS), 0)))
    return DifferenceSums(np.concatenate(sums, axis=1), np.array(present, dtype=np.bool_), n)


def _columns(differences: Floats) -> Iterable[Floats]:
    differences = np.asarray(differences, dtype=np.float64)
    if differences.ndim != 2:
        raise BadValueError(
            f"the differences must be a table with a row per sample and a column per metric, not of shape "
            f"{differences.shape}"
        )
    return differences.T


def sign_flips(
    differences: Floats | DifferenceSums, clusters: Ints | None = None, *, draws: int = 10_000, seed: int = 0
) -> SignFlips:
    r"""Flip the signs of whole clusters, the same flips for all metrics.

    ``differences`` has a row per sample and a column per metric, NaN where a sample has no difference on a metric; or
    it is what ``difference_sums`` made of them with the same clusters. ``clusters`` holds an integer per sample;
    samples with the same one belong together.

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
    return permutation_test(differences, clusters, draws=draws, seed=seed)


# --- permutation test of any statistic: outputs of two runs are swapped by cluster -----------------------------------

_GRID = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class SwapStatistic:
    """A statistic of two runs that is not a function of sums, such as a quantile."""

    difference: Callable[[Bools], float]
    """The second run's value minus the first run's, with the samples in the mask swapped; NaN where there is none."""
    differs: Bools
    """Which samples a swap could matter for."""


def permutation_test(
    differences: Floats | DifferenceSums,
    clusters: Ints | None = None,
    *,
    sums: Iterable[PairedStatistics] = (),
    folds: Sequence[SwapStatistic] = (),
    draws: int = 10_000,
    seed: int = 0,
) -> SignFlips:
    """Permutation tests of means, then of functions of sums, then of any other statistics: a column each.

    ``differences`` are as in ``sign_flips``; every table in ``sums`` has a row per sample too. The distribution of a
    statistic that is not a mean may have any shape under swaps. To make it comparable with means, its z is the normal
    deviate with the same tail probability, and so are those of the swaps; p-values do not change.
    """
    if draws < 1:
        raise BadValueError(f"draws must be at least 1, not {draws!r}")
    if not isinstance(differences, DifferenceSums):
        differences = difference_sums(_columns(differences), len(differences), clusters)
    n, means = differences.n, differences.sums
    codes = unit_codes(clusters, n)
    tables = [_SwappedSums(pair, codes) for pair in sums]
    group_of = codes % _MAX_UNITS
    together = np.concatenate([means, *(table.sums for table in tables)], axis=1)
    informative: Bools = np.asarray(together.any(axis=1))
    for fold in folds:
        informative[group_of[fold.differs]] = True
    exact = can_enumerate(2, int(informative.sum()), draws)
    # Units without any difference change nothing, so they are left out if all swaps are enumerated.
    places = np.flatnonzero(informative) if exact else np.arange(len(together))
    moved, both = together[places], together.sum(axis=0)
    groups = np.zeros(len(together), dtype=np.bool_)
    parts = []
    for kept in _all_swaps(len(places)) if exact else _random_swaps(len(together), draws, seed):
        signed = 2.0 * (kept @ moved) - both
        columns, start = [signed[:, : means.shape[1]]], means.shape[1]
        for table in tables:
            end = start + table.sums.shape[1]
            columns.append(table.difference(signed[:, start:end])[:, None])
            start = end
        if folds:
            differences_of_folds = []
            for row in kept:
                groups[places] = row == 0
                swapped = groups[group_of]
                differences_of_folds.append([fold.difference(swapped) for fold in folds])
            columns.append(np.array(differences_of_folds))
        parts.append(np.concatenate(columns, axis=1))
    flipped = np.abs(np.concatenate(parts))
    observed = np.concatenate(
        [
            np.where(differences.present, means.sum(axis=0), np.nan),
            [float(table.difference(table.sums.sum(axis=0)[None, :])[0]) for table in tables],
            [fold.difference(np.zeros(n, dtype=np.bool_)) for fold in folds],
        ]
    )
    # Squares go beyond what adds up exactly, so this sum is rounded once, at its end: no order changes it either.
    spread = np.sqrt([math.fsum(column) for column in np.square(means).T])
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    z = observed.copy()
    for column in range(len(observed)):
        if column < len(scale):
            flipped[:, column] *= scale[column]
            z[column] *= scale[column]
        else:
            flipped[:, column], z[column] = _normal_deviates(flipped[:, column], float(observed[column]))
    p_values = np.full(len(z), np.nan)
    for column in np.flatnonzero(~np.isnan(z)).tolist():
        p_values[column] = tail_proportion(flipped[:, column], abs(float(z[column])), exact=exact)
    return SignFlips(p_values, z, flipped, exact)


class _SwappedSums:
    """A function of sums under swaps of the two runs: only sums over units are kept of its tables."""

    def __init__(self, pair: PairedStatistics, codes: Ints) -> None:
        self.sums = pool_units(sums_by(codes, pair.second - pair.first), _MAX_UNITS)
        self._both = pair.first.sum(axis=0) + pair.second.sum(axis=0)
        self._of_sums = pair.of_sums

    def difference(self, signed: Floats) -> Floats:
        """The difference of both runs' values, from the sums of the differences between the runs."""
        with np.errstate(divide="ignore", invalid="ignore"):
            second = np.asarray(self._of_sums((self._both + signed) / 2), dtype=np.float64)
            return second - np.asarray(self._of_sums((self._both - signed) / 2), dtype=np.float64)


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
    deviates = np.array([-normal.inv_cdf(proportion / 2) for proportion in known.tolist()])[places]
    return deviates[:-1], math.copysign(float(deviates[-1]), observed)


def _all_swaps(units: int) -> Iterator[Floats]:
    """Every way to keep (1) or swap (0) the units."""
    ways = np.arange(1 << units)
    yield ((ways[:, None] >> np.arange(units)) & 1).astype(np.float64)


def _random_swaps(units: int, draws: int, seed: int) -> Iterator[Floats]:
    """Random swaps, some at a time: 1 where a unit is kept, 0 where it is swapped.

    Bits come in whole words for each draw, so that they do not depend on how many are drawn at once.
    """
    words = -(-units // _WORD)
    at_once = max(1, _MULTIPLIED // max(words * _WORD, 1))
    source = np.random.PCG64(seed)
    for start in range(0, draws, at_once):
        rows = min(at_once, draws - start)
        raw = source.random_raw(rows * words).astype("<u8").reshape(rows, words)
        yield np.unpackbits(raw.view(np.uint8), axis=1)[:, :units].astype(np.float64)


# --- adjusted p-values: step-down max-T from the sign flips, or Holm; joint intervals --------------------------------
# Of twenty metrics that do not differ, one will have p < .05 in most comparisons. An adjusted p-value below .05 is
# wrong about any of the metrics it was adjusted among in 5 % of comparisons at most.


def max_t(flips: SignFlips, among: Sequence[int] | None = None) -> Floats:
    """P-values adjusted among the metrics with these column numbers (all if None); NaN for every other metric.

    Westfall and Young's step-down method. A metric's z is compared with the largest z of each flip, over itself and all
    metrics with a smaller z. Correlated metrics cost less than with Holm's method, since their largest z is hardly
    larger than one of them. Stepping down never gives a larger p-value than comparing all of them with the largest of
    all, and controls the same error rate.
    """
    columns = np.arange(len(flips.z)) if among is None else np.array(sorted(set(among)), dtype=np.intp)
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


# --- randomised Tukey HSD: all pairs of several runs at once ---------------------------------------------------------
# If no run differs from another, each unit's scores could as well belong to the runs in any other order. So the scores
# of each unit are permuted between the runs, many times, and each time the best run's mean minus the worst run's is
# noted: the largest of all pairs. A pair's p-value is how often it reaches the observed difference (B. Carterette, ACM
# TOIS 30, 2012). All pairs share one 5 %, as metrics do with max-T.

# More units than this are pooled into this many groups, which are permuted together, so that the cost stops growing.
_PERMUTED = 1 << 12
# How many scores are permuted at a time.
_TUKEY_CHUNK = 1 << 20


def tukey_hsd(scores: Floats, clusters: Ints | None = None, *, draws: int = 10_000, seed: int = 0) -> Floats:
    """The p-value of each pair of runs: a table with a row and a column per run, ones on its diagonal.

    ``scores`` has a row per sample and a column per run, and no gaps: samples that a run lacks are left out. Samples
    of one cluster are permuted alike. If there are no more than ``draws`` permutations, each is taken once and the
    p-value is exact. With two runs it is the p-value of ``sign_flips``.
    """
    scores = require_finite_table(scores)
    runs = scores.shape[1]
    if runs < 2:
        raise BadValueError(f"the scores must have a column per run, two at least, not {runs}")
    if draws < 1:
        raise BadValueError(f"draws must be at least 1, not {draws!r}")
    sums = pool_units(integer_sums(scores - scores.mean(axis=1, keepdims=True), clusters, one_grid=True), _PERMUTED)
    informative = sums[(sums != sums[:, :1]).any(axis=1)]
    exact = can_enumerate(math.factorial(runs), len(informative), draws)
    totals = _all_permutations(informative) if exact else _random_permutations(informative, draws, seed)
    ranges = np.concatenate([np.ptp(part, axis=1) for part in totals])
    means = informative.sum(axis=0)
    spread = math.sqrt(float(np.square(informative).sum())) or 1.0
    p_values = np.ones((runs, runs))
    for run in range(runs):
        for other in range(run):
            observed = abs(means[run] - means[other])
            p_values[run, other] = tail_proportion(ranges / spread, observed / spread, exact=exact)
            p_values[other, run] = p_values[run, other]
    return p_values


def _all_permutations(sums: Floats) -> Iterator[Floats]:
    """The runs' totals under every permutation, unit by unit."""
    totals = np.zeros((1, sums.shape[1]))
    for unit in sums:
        totals = np.concatenate([totals + order for order in permutations(unit)])
    yield totals


def _random_permutations(sums: Floats, draws: int, seed: int) -> Iterator[Floats]:
    """The runs' totals under random permutations, some at a time."""
    rng = np.random.Generator(np.random.PCG64(seed))
    at_once = max(1, _TUKEY_CHUNK // sums.size)
    for start in range(0, draws, at_once):
        rows = min(at_once, draws - start)
        yield rng.permuted(np.broadcast_to(sums, (rows, *sums.shape)), axis=2).sum(axis=1)


# --- association between scores and labels ---------------------------------------------------------------------------

# How many numbers are permuted at a time.
_ASSOCIATION_CHUNK = 1 << 20


def association_p_value(scores: Floats, labels: Floats, *, draws: int = 9_999, seed: int = 0) -> float:
    r"""One-sided p-value of the hypothesis that higher scores do not go with higher labels.

    The ranks of the scores are permuted ``draws`` times by a seed; with b of the permutations as high as the observed
    statistic, p is :math:`(1 + b) / (1 + draws)`. The statistic is the sum of ranks times labels, which for labels of 0
    and 1 is that of Mann and Whitney, so that the test is about AUROC. Equal scores share their mean rank. Where all
    scores or all labels are equal, p is 1.
    """
    scores, labels = paired_columns(scores, labels)
    if not len(scores) or np.ptp(scores) == 0 or np.ptp(labels) == 0:
        return 1.0
    ranks = mean_ranks(np.unique(scores, return_inverse=True)[1])
    ranks -= ranks.mean()
    labels = labels - labels.mean()
    reached = float(ranks @ labels) - 1e-9 * float(np.abs(ranks) @ np.abs(labels))  # ties but for rounding
    rng = np.random.default_rng(seed)
    rows = max(1, _ASSOCIATION_CHUNK // len(ranks))
    as_high = 0
    for start in range(0, draws, rows):
        permuted = rng.permuted(np.tile(ranks, (min(rows, draws - start), 1)), axis=1)
        as_high += int(np.count_nonzero(permuted @ labels >= reached))
    return (1 + as_high) / (1 + draws)


def rank_sum_p_value(scores: Floats, inside: Bools) -> float:
    """Two-sided p-value of Mann and Whitney's test that scores inside a part are like those outside, for many scores.

    By the normal distribution, with the variance of tied ranks; 1 where all scores are equal or all are in one part.
    """
    n, size = len(scores), int(inside.sum())
    ranks = mean_ranks(np.unique(scores, return_inverse=True)[1])
    ranks -= ranks.mean()
    variance = size * (n - size) * float(ranks @ ranks) / max(n * (n - 1), 1)
    if not variance:
        return 1.0
    return math.erfc(abs(float(ranks[inside].sum())) / math.sqrt(2 * variance))
