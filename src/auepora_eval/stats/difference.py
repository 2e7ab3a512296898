"""Differences between two runs on the same samples: intervals, bootstrap intervals and power."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import AlignmentError, BadValueError
from .bootstrap import bootstrap_interval_of, bootstrap_sums, values_of_sums
from .intervals import (
    Floats,
    Interval,
    Ints,
    encode_clusters,
    is_rounding,
    mean_interval,
    require_finite_table,
    smallest_number,
    t_quantile,
    tail_probability,
    unit_codes,
    wilson_interval,
)

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
    of_second, of_first = wilson_interval(ones, n, level=level), wilson_interval(twos, n, level=level)
    down_one, up_one = ones / n - of_second.low, of_second.high - ones / n
    down_two, up_two = twos / n - of_first.low, of_first.high - twos / n
    phi = _correlation(*counts)
    seen = (second_only - first_only) / n
    low = seen - math.sqrt(max(0.0, down_one**2 - 2 * phi * down_one * up_two + up_two**2))
    high = seen + math.sqrt(max(0.0, up_one**2 - 2 * phi * up_one * down_two + down_two**2))
    return Interval(max(low, -1.0), min(high, 1.0), "newcombe", n, level, flags=("few",) if n < 10 else ())


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


# --- bootstrap intervals, for statistics that are not means ----------------------------------------------------------
# The same units are drawn in both runs, so the difficulty of a sample cancels out of the difference, as in a paired
# test.


@dataclass(frozen=True, slots=True, eq=False)
class PairedStatistics:
    """One measure of two runs: a row of statistics per sample and run, and how a value follows from their sums."""

    first: Floats
    second: Floats
    of_sums: Callable[[Floats], Floats]
    """Takes a table of column sums and gives a value per row, NaN where there is none."""
    lowest: float = -math.inf
    """The least value there can be; not the least difference."""
    highest: float = math.inf


def paired_bootstraps(
    pairs: Iterable[PairedStatistics],
    *,
    clusters: Ints | None = None,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Interval | None]:
    """The interval of each measure: the second run's value less the first's, as ``bootstrap_interval`` makes it of one.

    All are from the same draws, so that many cost hardly more than one. A sample that has no statistics for a measure
    has zeros there. Pairs that are made one by one are not all in memory.
    """
    found: list[tuple[Callable[[Floats], Floats], int, float]] = []
    rows: list[int] = []

    def tables() -> Iterator[Floats]:
        for pair in pairs:
            first, second = (require_finite_table(table, "statistics") for table in (pair.first, pair.second))
            rows.extend((len(first), len(second)))
            if other := next((count for count in rows if count != rows[0]), None):
                raise AlignmentError(rows[0], other, what=("rows of statistics", "rows of the other run's"))
            found.append((pair.of_sums, first.shape[1], pair.highest - pair.lowest))
            yield np.concatenate([first, second], axis=1)

    drawn = bootstrap_sums(tables(), clusters=clusters, draws=draws, seed=seed)
    if drawn is None:
        return [None] * len(found)
    intervals = []
    for sums, (of_sums, middle, width) in zip(drawn, found, strict=True):
        first, second = (values_of_sums(of_sums, part) for part in np.split(sums.totals, [middle], axis=1))
        intervals.append(sums.interval(second - first, level=level, lowest=-width, highest=width))
    return intervals


def paired_bootstrap_of(
    first: Callable[[Ints], float],
    second: Callable[[Ints], float],
    n: int,
    *,
    clusters: Ints | None = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> Interval | None:
    """The same for statistics that are not functions of sums; ``first`` and ``second`` take the drawn indices."""
    width = highest - lowest
    return bootstrap_interval_of(
        lambda drawn: second(drawn) - first(drawn),
        n,
        clusters=clusters,
        draws=draws,
        seed=seed,
        level=level,
        lowest=-width,
        highest=width,
    )


# --- power: the minimum detectable effect, and the units that a difference needs -------------------------------------


def unit_sd(differences: Floats, clusters: Ints | None = None) -> float:
    """The standard deviation of a unit: the standard error of the mean times the root of the number of units.

    Without clusters it is that of the differences, with clusters of one size that of the cluster means. NaN for fewer
    than two units, and where all units have the same mean: that says nothing about how they would spread. NaN as well
    where the squares of the differences are beyond what a float holds, or below.
    """
    differences = np.asarray(differences, dtype=np.float64)
    n = len(differences)
    codes = unit_codes(clusters, n)
    if n < 2:
        return math.nan
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        totals = np.bincount(codes, differences - differences.mean())
        squares = float(totals @ totals)
    sizes = np.bincount(codes)
    units = len(totals)
    if units < 2 or is_rounding(
        float(np.abs(totals / sizes).max()), float(differences.min()), float(differences.max())
    ):
        return math.nan
    sd = units * math.sqrt(squares / (units - 1)) / n if squares < math.inf else math.nan
    return sd if 0 < sd < math.inf else math.nan


def unit_totals(differences: Floats, most: float, clusters: Ints | None = None) -> tuple[Floats, float]:
    """The sum of each unit relative to the mean size of units, and the largest there can be; ``most`` of a sample."""
    codes = unit_codes(clusters, len(differences))
    sizes = np.bincount(codes)
    return np.bincount(codes, differences) / sizes.mean(), most * float(sizes.max() / sizes.mean())


def effect_size(differences: Floats) -> float:
    """The mean of the differences over their standard deviation (Cohen's d of paired scores).

    0 where every difference is zero; NaN for fewer than two, and where all are equal but not zero.
    """
    differences = np.asarray(differences, dtype=np.float64)
    if len(differences) > 1 and not differences.any():
        return 0.0
    return float(differences.mean()) / unit_sd(differences) if len(differences) else math.nan


def mde(sd: float, n: int, *, alpha: float = 0.05, power: float = 0.8) -> float:
    r"""The smallest true difference that ``n`` units detect with this power, at a two-sided level of alpha.

    .. math:: (t_{1 - \alpha/2} + t_{power}) \cdot sd / \sqrt n

    with quantiles of Student's t with n - 1 degrees of freedom. At the usual alpha it is within 0.3 % of what the
    noncentral t distribution gives from ten units on, and 1.2 % below it with five. NaN for fewer than two units or an
    unknown ``sd``.
    """
    _check(alpha, power)
    if n < 2 or math.isnan(sd):
        return math.nan
    if not 0 < sd < math.inf:
        raise BadValueError(f"sd must be a positive number, not {sd!r}")
    return _quantiles(n, alpha, power) * sd / math.sqrt(n)


def required_n(delta: float, sd: float, *, alpha: float = 0.05, power: float = 0.8, binary: bool = False) -> int | None:
    """The units it takes to detect a true difference of ``delta``; None for an unknown ``sd``, or beyond counting.

    ``binary``: the scores are 0 or 1, a sample per unit. Then the p-value of a verdict moves in steps, and is that of a
    difference which is smaller by one unit (a continuity correction, as for McNemar's test).

    ``delta`` is the difference that would matter, never the one observed: with that, every result that is not
    significant seems to need a few units more.
    """
    _check(alpha, power)
    if not 0 < delta < math.inf:
        raise BadValueError(f"delta must be a positive number, not {delta!r}")
    if math.isnan(sd):
        return None

    def suffices(n: int) -> bool:
        return mde(sd, n, alpha=alpha, power=power) <= delta - binary / n

    # Upwards from the normal distribution's answer, which is below that of any t distribution, until it suffices.
    most = 1 << 53  # with that many degrees of freedom t is normal
    root = _quantiles(most, alpha, power) * (sd / delta)
    if root >= math.sqrt(most):
        return None
    few = many = max(2, math.floor(root**2))
    while not suffices(many):
        many *= 2
    return smallest_number(few, many, suffices)


def _quantiles(n: int, alpha: float, power: float) -> float:
    return t_quantile(alpha / 2, n - 1) + t_quantile(1 - power, n - 1)


def _check(alpha: float, power: float) -> None:
    if not 0 < alpha < 1:
        raise BadValueError(f"alpha must lie between 0 and 1, not at {alpha!r}; 0.05 is usual")
    if not 0.5 < power < 1:
        raise BadValueError(f"power must lie between 0.5 and 1, not at {power!r}; 0.8 is usual")


def log_ratio_interval(
    factors: Sequence[Floats], divisors: Sequence[Floats], *, clusters: Ints | None = None, level: float = 0.95
) -> tuple[float, float, float] | None:
    """The product of the means of some columns over that of others, and its interval, which is one of the logarithm.

    Columns have a row per sample, so that what they have in common cancels out. ``None`` where a mean is not positive,
    or where there is one unit.
    """
    signed = [*((column, 1) for column in factors), *((column, -1) for column in divisors)]
    log_ratio, influence = 0.0, np.zeros(len(factors[0]))
    for column, sign in signed:
        mean = float(column.mean()) if len(column) else 0.0
        if not mean > 0:
            return None
        log_ratio += sign * math.log(mean)
        influence += sign * column / mean
    units = np.bincount(unit_codes(clusters, len(influence)), influence)
    if len(units) < 2:
        return None
    error = math.sqrt(len(units) / (len(units) - 1) * float(units @ units)) / len(influence)
    half = t_quantile(tail_probability(level), len(units) - 1) * error
    return math.exp(log_ratio), math.exp(log_ratio - half), math.exp(log_ratio + half)
