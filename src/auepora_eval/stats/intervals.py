"""Confidence intervals of a mean: Wilson for a proportion, Student's t by cluster otherwise; exact sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import AlignmentError, BadValueError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Bools = npt.NDArray[np.bool_]

# --- quantiles of Student's t, with the standard library only --------------------------------------------------------

_TINY = 1e-300
_DIGITS = 1e-15
_MANY = 1000


@lru_cache(maxsize=4096)
def t_quantile(tail: float, freedom: float) -> float:
    """The value that a t variable with these degrees of freedom exceeds with probability ``tail`` (below one half).

    Newton's method on the upper tail, which is convex there: from a start on the left it comes up to the root and never
    jumps past it. The start is the normal quantile, which lies left of every t quantile.
    """
    if not 0 < tail < 0.5 or not freedom > 0:
        raise BadValueError(f"no quantile for a tail of {tail!r} with {freedom!r} degrees of freedom")
    value = -NormalDist().inv_cdf(tail)
    if freedom > _MANY:
        return _near_normal(value, freedom)
    log_beta = math.lgamma(freedom / 2) + math.lgamma(0.5) - math.lgamma((freedom + 1) / 2)
    for _ in range(200):
        excess = t_tail(value, freedom) - tail
        density = math.exp(-(freedom + 1) / 2 * math.log1p(value * value / freedom) - log_beta) / math.sqrt(freedom)
        step = excess / density
        value += step
        if abs(step) <= _DIGITS * value:
            break
    return value


def _near_normal(z: float, freedom: float) -> float:
    """The t quantile from the normal one by its expansion in 1 / freedom (Fisher and Cornish 1960).

    With many degrees of freedom this is exact to rounding, while the gamma functions of the exact way lose digits.
    """
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom**power for power, term in enumerate(terms, 1))


def t_tail(value: float, freedom: float) -> float:
    """The probability of exceeding a positive value: half the incomplete beta function of freedom / (freedom + t²)."""
    squared = value * value
    a, b = freedom / 2, 0.5
    x, rest = freedom / (freedom + squared), squared / (freedom + squared)
    log_front = a * math.log(x) + b * math.log(rest) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front)
    # Either side of this the other expansion converges slowly.
    if x < (a + 1) / (a + b + 2):
        return 0.5 * front * _continued_fraction(x, a, b) / a
    return 0.5 * (1 - front * _continued_fraction(rest, b, a) / b)


def _continued_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, from the front (Lentz's method)."""
    numerator, denominator = 1.0, _away_from_zero(1 - (a + b) * x / (a + 1))
    denominator = 1 / denominator
    value = denominator
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for part in (even, odd):
            denominator = 1 / _away_from_zero(1 + part * denominator)
            numerator = _away_from_zero(1 + part / numerator)
            change = numerator * denominator
            value *= change
        if abs(change - 1) < _DIGITS:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


# --- intervals of a mean: Wilson for a proportion, Student's t by cluster otherwise ----------------------------------

# Below these a t or a Wilson interval is flagged "few"; docs/statistics/appendix.md has the coverage on both sides.
_FEW_FOR_T = 30
_FEW_FOR_WILSON = 5
# Below this a t interval is also flagged "few" where one more unit at an end of the range would move the mean out of
# it: from 59 units on, the chance that a twentieth of all units is not seen at all is below 5 %.
_FEW_FOR_RANGE = 59
# Cochran's rule: a mean of n values is close enough to normal when n >= 25 * skewness**2.
COCHRAN = 25
# The same for the skewness that mean, spread and range suggest, which varies less from sample to sample than that of
# the values: chosen so that intervals that cover below 90 % are flagged, and few others (benchmarks/skewed_means.py).
_COCHRAN_OF_SHAPE = 15
# Relative to the largest value, differences up to this are rounding: 0.1 + 0.2 and 0.3 are the same score.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval: it covers the true value with a probability of about ``level``."""

    low: float
    high: float
    method: Literal["wilson", "newcombe", "t", "all_equal", "bootstrap", "fieller", "wald"]
    units: int
    """How many independent units there are: clusters if there are any, samples otherwise."""
    level: float = 0.95
    flags: tuple[str, ...] = ()
    """Why it may cover less than ``level``: ``few``, ``skewed``, ``unbounded``, ``unstable``."""


def interval_ends(interval: Interval | None) -> list[float] | None:
    """Both ends of an interval, for JSON."""
    return None if interval is None else [interval.low, interval.high]


def wilson_interval(successes: float, n: int, *, level: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion: those whose sampling error would explain the observed one.

    It stays within 0 and 1 and has a width even where all or none succeed. Successes may be fractional: values between
    0 and 1 vary less than zeros and ones of the same mean, so the interval is then wider than it need be.
    """
    if n < 1 or not 0 <= successes <= n:
        raise BadValueError(f"{successes!r} successes of {n!r}: there must be at least one trial, and 0 to n successes")
    low, high = wilson_bounds(successes / n, n, level=level)
    flags: tuple[str, ...] = ("few",) if n < _FEW_FOR_WILSON else ()
    if round(min(successes, n - successes)) == 1:  # a rare outcome seen once: the end next to 0 or 1 may be too tight
        flags += ("skewed",)
    return Interval(low, high, "wilson", n, level, flags=flags)


def wilson_bounds(
    proportion: float, n: float, *, level: float = 0.95, freedom: int | None = None
) -> tuple[float, float]:
    """The ends of Wilson's interval of a proportion; ``n`` may be an effective sample size, not an integer.

    With ``freedom`` the quantile is that of Student's t with so many degrees of freedom.
    """
    tail = tail_probability(level)
    z = NormalDist().inv_cdf(1 - tail) if freedom is None else t_quantile(tail, freedom)
    shrink = 1 + z * z / n
    centre = (proportion + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(proportion * (1 - proportion) / n + (z / (2 * n)) ** 2)
    # At the borders the formula gives 0 and 1 up to rounding; make them exact. The proportion itself is inside, too.
    return min(centre - half, proportion) if proportion > 0 else 0.0, max(
        centre + half, proportion
    ) if proportion < 1 else 1.0


# With fewer units than this off the common extreme, their spread is not yet known.
_KNOWN_SPREAD = 20
_MOST_PER_UNIT = 50


def effective_interval(values: Floats, *, clusters: Ints | None = None, level: float = 0.95) -> Interval | None:
    r"""Wilson's interval of a mean of proportions, such as that of pass@k; None for a single unit.

    The number of trials is the one that would give the standard error of the mean over units, samples or clusters:
    :math:`n_\text{eff} = m (1 - m) / se^2`, with the quantile of Student's t. While fewer than 20 units are off the
    common extreme, 0 or 1, it is at most the number of units.
    """
    values = _finite_column(values)
    codes = unit_codes(clusters, len(values))
    sizes = np.bincount(codes)
    units = len(sizes)
    if units < 2:
        return None
    totals, mean = np.bincount(codes, values), float(values.mean())
    residuals = totals - mean * sizes
    variance = units / (units - 1) * float(residuals @ residuals) / len(values) ** 2
    trials = mean * (1 - mean) / variance if variance > 0 else units
    unlike = min(np.count_nonzero(totals < sizes), np.count_nonzero(totals > 0))
    trials = min(trials, units if unlike < _KNOWN_SPREAD else _MOST_PER_UNIT * units)
    low, high = wilson_bounds(mean, max(trials, 1.0), level=level, freedom=units - 1)
    return Interval(low, high, "wilson", units, level, flags=("few",) if units < _FEW_FOR_WILSON else ())


def ratio_interval(
    numerators: Floats, denominators: Floats, *, clusters: Ints | None = None, level: float = 0.95
) -> Interval | None:
    r"""Fieller's interval of a ratio of sums over units, samples or clusters; None where it is unbounded.

    With means x and y of the units, their variances and covariance, and :math:`k = t^2 / n`, the ends solve
    :math:`(y^2 - k v_y) r^2 - 2 (xy - k c_{xy}) r + x^2 - k v_x = 0`.
    """
    table = np.column_stack([_finite_column(numerators), _finite_column(denominators)])
    units = sums_by(unit_codes(clusters, len(table)), table)
    n = len(units)
    if n < 2:
        return None
    (x, y), ((v_x, c), (_, v_y)) = units.mean(axis=0), np.cov(units.T)
    k = t_quantile(tail_probability(level), n - 1) ** 2 / n
    square, linear, constant = y * y - k * v_y, x * y - k * c, x * x - k * v_x
    root = linear * linear - square * constant
    if square <= 0 or root < 0:
        return None
    low, high = (linear - math.sqrt(root)) / square, (linear + math.sqrt(root)) / square
    residuals = units[:, 0] - x / y * units[:, 1]
    squares, cubes = float(residuals @ residuals), float(residuals**2 @ residuals)
    flags = [("few", n < _FEW_FOR_T), ("skewed", squares > 0 and is_skewed(n, _skewness(squares, cubes, n)))]
    return Interval(
        low, high, method="fieller", units=n, level=level, flags=tuple(flag for flag, holds in flags if holds)
    )


def mean_interval(
    values: Floats,
    *,
    clusters: Ints | None = None,
    binary: bool = False,
    lowest: float = -math.inf,
    highest: float = math.inf,
    level: float = 0.95,
) -> Interval | None:
    r"""Interval of the mean of ``values``; None where there is none: no value, or one unit that is not binary.

    ``clusters`` holds an integer per sample; samples with the same one belong together. ``binary`` says that values
    are 0 or 1, and ``lowest`` and ``highest`` between which values they can lie at all.

    * Binary, each sample a unit of its own: Wilson.
    * Otherwise Student's t with C - 1 degrees of freedom for C units, cut at ``lowest`` and ``highest``. The standard
      error comes from the residual totals of the units, :math:`e_c = \sum_{i \in c} (x_i - \bar x)`:

      .. math:: se^2 = \frac{C}{C - 1} \cdot \frac{\sum_c e_c^2}{n^2}

      With clusters of one size it is the t interval of the cluster means; with one sample per unit the textbook one.
    * Where all values are equal, or all clusters have the same mean, that standard error is zero, which is too small.
      The observed values still give a bound: if a proportion q of all units differed, the probability of drawing
      none of them in C draws would be :math:`(1 - q)^C`. The largest q that leaves this chance at half of
      ``1 - level`` is taken, and the units that differ may lie as far away as the range allows, on either side. An
      end of the range that is infinite gives no bound: that end stays at the value, flagged ``unbounded``.
    """
    values = _finite_column(values)
    if binary:
        lowest, highest = 0.0, 1.0
    codes = encode_clusters(clusters, len(values))
    if codes is None:
        moments = Moments()
        moments.add(values)
        return moments.interval(binary=binary, lowest=lowest, highest=highest, level=level)
    tail_probability(level)
    sizes = np.bincount(codes)
    n, units = len(values), len(sizes)
    if units == 1:
        return None
    mean, smallest, largest = float(values.mean()), float(values.min()), float(values.max())
    lowest, highest = min(lowest, smallest), max(highest, largest)
    with np.errstate(over="ignore", invalid="ignore"):  # squares beyond all floats: the interval is infinite
        totals = np.bincount(codes, values - mean)
        squares, cubes = float(totals @ totals), float(totals**2 @ totals)
    if not squares or is_rounding(float(np.abs(totals / sizes).max()), smallest, largest):
        return all_equal_interval(math.fsum(values) / n, units, lowest=lowest, highest=highest, level=level)
    means = totals / sizes + mean
    ends = float(means.min()), float(means.max())
    shape = _Shape(mean, squares * units / n / n, *ends, lowest=lowest, highest=highest)
    # As many units of one size would weigh the same: a giant among dwarfs is hardly more than one unit.
    evenly = n * n / float(sizes @ sizes)
    half = t_quantile(tail_probability(level), units - 1) * math.sqrt(units / (units - 1) * squares) / n
    return Interval(
        max(mean - half, lowest),
        min(mean + half, highest),
        "t",
        units,
        level,
        flags=_t_flags(evenly, units, _skewness(squares, cubes, units), shape),
    )


class Moments:
    """Running moments of values that come in batches and are not kept; the interval of their mean at any time.

    Batches, their order and merging change the interval by rounding only. Deviations are summed around the mean of
    their own batch and moved to the common mean afterwards (Chan, Golub and LeVeque), because plain sums of squares
    lose every digit if the mean is large compared with the spread.
    """

    __slots__ = ("cubes", "largest", "mean", "n", "smallest", "squares")

    def __init__(self) -> None:
        self.n = 0
        self.mean = 0.0
        self.squares = 0.0
        """Sum of the squared deviations from the mean."""
        self.cubes = 0.0
        self.smallest = math.inf
        self.largest = -math.inf

    def add(self, values: Floats) -> None:
        """Add a batch of finite numbers."""
        values = _finite_column(values)
        if not len(values):
            return
        batch = Moments()
        batch.n, batch.mean = len(values), float(values.mean())
        deviations = values - batch.mean
        with np.errstate(over="ignore", invalid="ignore"):  # squares beyond all floats: the interval is infinite
            squared = deviations * deviations
            batch.squares, batch.cubes = float(squared.sum()), float(squared @ deviations)
        batch.smallest, batch.largest = float(values.min()), float(values.max())
        self.merge(batch)

    def merge(self, other: Moments) -> None:
        """Add the values of another one."""
        if not other.n:
            return
        n = self.n + other.n
        shift = other.mean - self.mean
        here, there = self.n / n, other.n / n
        between = (shift * here) * (shift * other.n)  # in this order zero for a first batch, however large its mean
        self.cubes += (
            other.cubes + between * shift * (here - there) + 3 * shift * (here * other.squares - there * self.squares)
        )
        self.squares += other.squares + between
        self.mean += shift * there
        self.n = n
        self.smallest, self.largest = min(self.smallest, other.smallest), max(self.largest, other.largest)

    def interval(
        self, *, binary: bool = False, lowest: float = -math.inf, highest: float = math.inf, level: float = 0.95
    ) -> Interval | None:
        """What ``mean_interval`` gives for the same values without clusters."""
        tail_probability(level)  # a level that cannot be meant is refused even where there is no interval
        n = self.n
        if binary and n:
            return wilson_interval(n * self.mean, n, level=level)
        if n < 2:
            return None
        # A score a rounding error beyond its range must not turn the interval inside out.
        lowest, highest = min(lowest, self.smallest), max(highest, self.largest)
        if not self.squares or is_rounding(self.largest - self.smallest, self.smallest, self.largest):
            # n * c / n is the mean that a correctly rounded sum of n times c gives, so that the interval holds it.
            return all_equal_interval(n * self.smallest / n, n, lowest=lowest, highest=highest, level=level)
        half = t_quantile(tail_probability(level), n - 1) * math.sqrt(self.squares / (n - 1) / n)
        shape = _Shape(self.mean, self.squares / n, self.smallest, self.largest, lowest=lowest, highest=highest)
        return Interval(
            max(self.mean - half, lowest),
            min(self.mean + half, highest),
            "t",
            n,
            level,
            flags=_t_flags(n, n, _skewness(self.squares, self.cubes, n), shape),
        )


def all_equal_interval(value: float, units: int, *, lowest: float, highest: float, level: float) -> Interval:
    """The interval where every unit gave ``value``; see ``mean_interval`` for why it is as wide as it is."""
    differ = 1 - tail_probability(level) ** (1 / units)
    unbounded = math.isinf(lowest) or math.isinf(highest)
    low = value if math.isinf(lowest) else value - differ * (value - lowest)
    high = value if math.isinf(highest) else value + differ * (highest - value)
    return Interval(
        min(low, value), max(high, value), "all_equal", units, level, flags=("unbounded",) if unbounded else ()
    )


def encode_clusters(clusters: Ints | None, n: int) -> Ints | None:
    """The clusters numbered from 0, or None where no two of the ``n`` samples share one."""
    if clusters is None:
        return None
    names, codes = np.unique(clusters, return_inverse=True)
    if codes.shape != (n,):
        raise BadValueError(f"{n} values but clusters of shape {np.shape(clusters)}: there must be one code per value")
    return None if len(names) == n else codes


def unit_codes(clusters: Ints | None, n: int) -> Ints:
    """The number of each sample's unit, from 0: of its cluster, or of the sample itself where no two share one."""
    codes = encode_clusters(clusters, n)
    return np.arange(n) if codes is None else codes


def mean_ranks(codes: Ints) -> Floats:
    """Ranks from 1 of values that are numbered from 0 in ascending order; equal values share the mean of theirs."""
    counts = np.bincount(codes)
    return (np.cumsum(counts) - (counts - 1) / 2)[codes]


def is_rounding(difference: float, smallest: float, largest: float) -> bool:
    """Whether a difference is a rounding error among numbers between these two."""
    return difference <= _ROUNDING * max(abs(smallest), abs(largest))


def _finite_column(values: Floats) -> Floats:
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1:
        raise BadValueError(f"the values must be one flat array, not one of shape {values.shape}")
    finite = np.isfinite(values)
    if not finite.all():
        place = int(np.argmin(finite))
        raise BadValueError(f"the value at index {place} is {values[place]}; leave out what has no score")
    return values


def paired_columns(scores: npt.ArrayLike, labels: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Scores and labels as flat arrays of the same length."""
    values, known = np.asarray(scores, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if values.shape != known.shape or values.ndim != 1:
        raise AlignmentError(values.size, known.size, what=("scores", "labels"))
    return values, known


def smallest_number(lowest: int, highest: int, suffices: Callable[[int], bool]) -> int:
    """The smallest integer that suffices, by bisection; ``highest`` does, and with a number all larger ones."""
    while lowest < highest:
        middle = (lowest + highest) // 2
        if suffices(middle):
            highest = middle
        else:
            lowest = middle + 1
    return lowest


def tail_probability(level: float) -> float:
    """The probability on each side outside an interval of that level."""
    if not 0 < level < 1:
        raise BadValueError(f"level must lie between 0 and 1, not at {level!r}; 0.95 is usual")
    return (1 - level) / 2


def _skewness(squares: float, cubes: float, units: int) -> float:
    return cubes / squares * math.sqrt(units / squares)


def is_skewed(units: int, skewness: float) -> bool:
    """Whether values are too skewed for their mean over ``units`` to be close to normal, by Cochran's rule."""
    return units < COCHRAN * skewness**2


@dataclass(frozen=True, slots=True)
class _Shape:
    """Mean, variance and ends of the values of units, and the range in which they can lie at all."""

    mean: float
    variance: float
    smallest: float
    largest: float
    lowest: float
    highest: float

    def skewness(self) -> float:
        """The skewness of a distribution of common shape with this mean and variance; 0 where there is no range.

        A beta distribution over a range with two ends. With one end, a gamma distribution that begins at the value
        closest to that end. A sample without a value from the long tail has too small a skewness, but its mean is
        still close to the short side relative to its spread.
        """
        if math.isfinite(self.lowest) and math.isfinite(self.highest):
            width = self.highest - self.lowest
            place = (self.mean - self.lowest) / width
            room = place * (1 - place)
            if not room > 0:
                return 0.0
            part = min(self.variance / width / width / room, 1.0)  # of the variance of the two ends alone
            return 2 * abs(1 - 2 * place) * math.sqrt(part / room) / (1 + part)
        if math.isfinite(self.lowest):
            side = self.mean - self.smallest
        elif math.isfinite(self.highest):
            side = self.largest - self.mean
        else:
            return 0.0
        return 2 * math.sqrt(self.variance) / side if side > 0 else 0.0

    def is_moved_by_one(self, units: float) -> bool:
        """Whether one more unit at an end of the range would move the mean out of its 95 % interval."""
        ends = [end for end in (self.lowest, self.highest) if math.isfinite(end)]
        half = t_quantile(0.025, units - 1) * math.sqrt(self.variance / (units - 1))
        return any(abs(self.mean - end) / (units + 1) > half for end in ends)


def _t_flags(evenly: float, units: int, skewness: float, shape: _Shape) -> tuple[str, ...]:
    few, skewed = evenly < _FEW_FOR_T, is_skewed(units, skewness)
    if not few:  # fewer units have their flag already, and no shape
        few = units < _FEW_FOR_RANGE and shape.is_moved_by_one(units)
        skewed = skewed or units < _COCHRAN_OF_SHAPE * shape.skewness() ** 2
    return (*(("few",) if few else ()), *(("skewed",) if skewed else ()))


# --- estimates: a value with its interval, or the reason why it is undefined -----------------------------------------


@dataclass(frozen=True, slots=True)
class Estimate:
    """The value of a statistic with its interval and its number of units."""

    value: float | None
    """``None`` where it is not defined."""
    interval: Interval | None
    units: int
    """How many independent units it was computed from."""
    why_undefined: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "value": self.value,
            "interval": interval_ends(self.interval),
            "units": self.units,
            "why_undefined": self.why_undefined,
        }


# --- exact sums: scores scaled to integers on a grid -----------------------------------------------------------------
# A sum of floats depends on the order of summation, which a matrix product does not fix. Integers below 2⁵³ add up
# exactly in any order, so a result does not depend on how the work was split.

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
    shares = sums_by(unit_codes(clusters, len(table)), shares)
    return np.rint(shares * 2.0 ** (_MAX_BITS - math.ceil(math.log2(max(len(table), 1)))))


def sums_by(codes: Ints, table: Floats) -> Floats:
    """The sums of each column over the rows with the same code."""
    return np.stack([np.bincount(codes, column) for column in table.T], axis=1)


def require_finite_table(table: Floats, what: str = "scores") -> Floats:
    """The table as an array; an error unless it has two dimensions and every number is finite."""
    table = np.asarray(table, dtype=np.float64)
    if table.ndim != 2:
        raise BadValueError(f"the {what} must be a table with a row per sample, not of shape {table.shape}")
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise BadValueError(f"the {what} at index {row} are {table[row].tolist()}; leave out what has none")
    return table


def can_enumerate(ways: int, units: int, draws: int) -> bool:
    """Whether ``ways ** units`` is at most ``draws``, so that all permutations can be enumerated."""
    return units < draws.bit_length() and ways**units <= draws


def pool_units(sums: Floats, most: int) -> Floats:
    """Pool the units into ``most`` groups if there are more of them; units of a group are then permuted together."""
    units = len(sums)
    return sums if units <= most else sums_by(np.arange(units) % most, sums)


def tail_proportion(values: Floats, seen: float, *, exact: bool) -> float:
    """The proportion of ``values`` that are at least the observed one (``seen``): its p-value.

    If the draws are exhaustive, the observed value is among them. Otherwise it counts as one more draw, without which
    a p-value could be zero.
    """
    reached = int(np.count_nonzero(values >= seen - _TIE))
    return reached / len(values) if exact else (1 + reached) / (1 + len(values))
