"""Bootstrap intervals by cluster for statistics that are not means: ratios, BLEU, quantiles, AUROC."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from ..errors import BadValueError
from .intervals import (
    Floats,
    Interval,
    Ints,
    all_equal_interval,
    encode_clusters,
    is_rounding,
    pool_units,
    require_finite_table,
    sums_by,
    tail_probability,
    unit_codes,
)

# How many units are drawn and counted at a time: small enough for a processor's cache. And how many counts go into one
# product of matrices (8 bytes each, 17 MB): a threaded product that has to wait for a busy core waits once per call, so
# there should be few. A single draw of more units than that is made at once.
_COUNTED = 1 << 16
# More units than this are pooled into this many groups, and groups are drawn: their sums vary as those of the units
# do, to about one part in a hundred, and an interval costs the same however many samples there are.
_MAX_UNITS = 1 << 12
_MULTIPLIED = 1 << 21
# Fewer units than this are flagged "few": unlike Student's t, the method makes no allowance for a small sample.
_FEW = 30
# The skewness of the draws beyond which the flag is "skewed": for a mean it is the units' skewness over the root of
# their number, so this is Cochran's rule n >= 25 * skewness**2 for statistics of any kind.
_SKEWED = 0.2
# The proportion of draws without a value beyond which the flag is "unstable".
_UNSTABLE = 0.05


def bootstrap_interval(
    statistics: Floats,
    of_sums: Callable[[Floats], Floats],
    *,
    clusters: Ints | None = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> Interval | None:
    """Interval of a statistic that follows from sums over the samples; None for fewer than two units.

    ``statistics`` has a row per sample. ``of_sums`` takes a table of column sums, a row per draw and one for the
    samples as they are, and returns a value per row, NaN where it has none. Sums make it fast: a draw is a vector of
    counts, and many draws are one product of matrices. Many thousand units are drawn in groups. Units whose sums are
    all zero take part in the draws but do not inform the statistic, so they are not counted for ``few``. The same
    seed gives the same draws as in ``bootstrap_interval_of``, unless they are of groups.
    """
    drawn = bootstrap_sums([statistics], clusters=clusters, draws=draws, seed=seed)
    if drawn is None:
        return None
    return drawn[0].interval(values_of_sums(of_sums, drawn[0].totals), level=level, lowest=lowest, highest=highest)


@dataclass(frozen=True, slots=True, eq=False)
class BootstrapSums:
    """Column sums of a table over units drawn with replacement, and over the samples as they are."""

    totals: Floats
    """A row per draw, and a last one for the samples as they are."""
    units: int
    """How many units there were to draw from."""
    informative: int
    """How many of them have a sum other than zero in any column.

    Of 1,000 questions of which four were refused, four inform the precision of refusals.
    """

    def interval(self, values: Floats, *, level: float, lowest: float, highest: float) -> Interval | None:
        """The interval of a statistic with this value for each row of the totals."""
        return percentile_interval(
            values[:-1],
            float(values[-1]),
            self.units,
            self.informative,
            level=level,
            lowest=lowest,
            highest=highest,
        )


def bootstrap_sums(
    tables: Iterable[Floats], *, clusters: Ints | None = None, draws: int = 1000, seed: int = 0
) -> list[BootstrapSums] | None:
    """What ``bootstrap_interval`` computes its values from, for each of several tables; None below two units.

    A column's sums depend on the seed and on the clusters, not on the other columns. Of each table only the sums of
    its units are kept, so tables that are made one by one are not all in memory.
    """
    pooled: list[Floats] = []
    observed: list[Floats] = []
    informative: list[int] = []
    units = 0
    for table in tables:
        statistics = require_finite_table(table, "statistics")
        sums = sums_by(unit_codes(clusters, len(statistics)), statistics)
        units = len(sums)
        informative.append(int(np.count_nonzero(sums.any(axis=1))))
        observed.append(sums.sum(axis=0))
        pooled.append(pool_units(sums, _MAX_UNITS))
    if units < 2:
        return None
    together = pooled[0] if len(pooled) == 1 else np.concatenate(pooled, axis=1)
    totals = np.empty((draws + 1, together.shape[1]))
    totals[-1] = np.concatenate(observed)
    done = 0
    for counts in _counts(len(together), draws, seed):
        totals[done : done + len(counts)] = counts @ together
        done += len(counts)
    ends = np.cumsum([len(sums) for sums in observed])
    parts = np.split(totals, ends[:-1], axis=1)
    return [BootstrapSums(part, units, count) for part, count in zip(parts, informative, strict=True)]


def values_of_sums(of_sums: Callable[[Floats], Floats], totals: Floats) -> Floats:
    """The value of each row of sums, NaN where it has none."""
    with np.errstate(divide="ignore", invalid="ignore"):  # a draw without any positive has no value
        values = np.asarray(of_sums(totals), dtype=np.float64)
    if values.shape != (len(totals),):
        raise BadValueError(
            f"of_sums must give one value for each of {len(totals)} rows, not an array of {values.shape}"
        )
    return values


def bootstrap_interval_of(
    value: Callable[[Ints], float],
    n: int,
    *,
    clusters: Ints | None = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> Interval | None:
    """Interval of any statistic of ``n`` samples, such as a quantile; None for fewer than two units.

    ``value`` is called with the indices of each draw's samples, repeats included, and once with all of them; it
    returns NaN where it has no value.
    """
    units = int(unit_codes(clusters, n).max(initial=-1)) + 1
    if units < 2:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.array(
            [value(drawn) for drawn in bootstrap_indices(n, clusters=clusters, draws=draws, seed=seed)], np.float64
        )
        observed = float(value(np.arange(n)))
    return percentile_interval(values, observed, units, units, level=level, lowest=lowest, highest=highest)


def bootstrap_indices(n: int, *, clusters: Ints | None = None, draws: int = 1000, seed: int = 0) -> Iterator[Ints]:
    """The sample indices of each draw: units with replacement, as many as there are, each with all its samples."""
    codes = encode_clusters(clusters, n)
    rng = np.random.default_rng(seed)
    if codes is None:
        for _ in range(draws if n else 0):
            yield _draw_units(rng, n, 1)[0]
        return
    members = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    starts = np.cumsum(sizes) - sizes
    for _ in range(draws):
        drawn = _draw_units(rng, len(sizes), 1)[0]
        lengths = sizes[drawn]
        ends = np.cumsum(lengths)
        # Each drawn cluster is a run of neighbours in `members`: its start, and then on by one.
        within = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        yield members[np.repeat(starts[drawn], lengths) + within]


def _counts(units: int, draws: int, seed: int) -> Iterator[Floats]:
    """How often each unit comes in each draw, some draws at a time; the table yielded is overwritten by the next."""
    rng = np.random.default_rng(seed)
    at_once, counted = max(1, _MULTIPLIED // units), max(1, _COUNTED // units)
    table = np.empty((min(at_once, draws), units))
    for start in range(0, draws, at_once):
        rows = table[: draws - start]
        for row in range(0, len(rows), counted):
            drawn = _draw_units(rng, units, min(counted, len(rows) - row))
            # Number the units of each draw on from those of the draw before, so that one count serves them all.
            drawn += np.arange(0, drawn.size, units)[:, None]
            rows[row : row + len(drawn)] = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        yield rows


def _draw_units(rng: np.random.Generator, units: int, rows: int) -> Ints:
    """Draws of units with replacement, one per row; the same ones whether made one by one or together."""
    return rng.integers(0, units, (rows, units), dtype=np.intp)


def percentile_interval(
    values: Floats,
    observed: float,
    units: int,
    informative: int,
    *,
    level: float = 0.95,
    lowest: float = -math.inf,
    highest: float = math.inf,
) -> Interval | None:
    """The percentile interval of the draws' ``values``; ``observed`` is the value of the samples as they are.

    Of the ``units`` drawn from, ``informative`` ones have non-zero sums. None if no draw has a value.
    """
    tail = tail_probability(level)
    defined = values[np.isfinite(values)]
    if not len(defined):
        return None
    undefined = len(values) - len(defined) > _UNSTABLE * len(values)
    smallest, largest = float(defined.min()), float(defined.max())
    lowest, highest = min(lowest, smallest), max(highest, largest)
    if is_rounding(largest - smallest, smallest, largest):
        # Resampling shows no unseen values, and no width is no interval. The bound for equal units is strict if they
        # have equal weights, and the best available otherwise.
        equal = all_equal_interval(smallest, max(informative, 1), lowest=lowest, highest=highest, level=level)
        return replace(equal, units=units, flags=equal.flags + (("unstable",) if undefined else ()))
    low, high = map(float, np.quantile(defined, [tail, 1 - tail]))
    deviations = defined - defined.mean()
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # of numbers whose cubes are no floats: unknown
        skewness = float(np.mean(deviations**3) / np.mean(deviations**2) ** 1.5)
    flags = {
        "few": informative < _FEW,
        "skewed": abs(skewness) > _SKEWED,
        # Draws repeat samples, so a statistic that counts distinct things is lower in every draw.
        "unstable": undefined or not low <= observed <= high,
    }
    return Interval(low, high, "bootstrap", units, level, flags=tuple(flag for flag, given in flags.items() if given))


# --- quantiles as observed values, and their bootstrap intervals -----------------------------------------------------

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
