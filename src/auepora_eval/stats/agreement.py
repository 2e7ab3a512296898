"""Agreement of raters, and correlation of two columns of numbers, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from numbers import Real
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..errors import AlignmentError, BadTypeError, BadValueError
from .bootstrap import bootstrap_interval, bootstrap_interval_of
from .intervals import Estimate, Floats, Ints, mean_interval, mean_ranks, unit_codes

Level = Literal["nominal", "ordinal", "interval", "ratio"]
Weights = Literal["linear", "quadratic"]

_LEVELS = ("nominal", "ordinal", "interval", "ratio")
_NO_PAIR = "nothing was rated by two"
_ONE_VALUE = "everybody gave the same rating to everything, so that chance alone would agree as well"
_ONE_UNIT = "only one thing was rated by two, so that there is no chance agreement to compare with"


# --- two raters ------------------------------------------------------------------------------------------------------


def agreement(a: Sequence[Any], b: Sequence[Any]) -> float:
    """The proportion of items with the same label from both, among those that both labelled; NaN if there are none.

    ``None`` and NaN are labels that are missing. 1, 1.0 and ``True`` are the same label.
    """
    first, second, _ = _pairs(a, b)
    return float(np.mean(first == second)) if len(first) else math.nan


def agreement_report(
    a: Sequence[Any], b: Sequence[Any], *, clusters: Sequence[int] | Ints | None = None, level: float = 0.95
) -> Estimate:
    """``agreement`` with Wilson's interval, or with that of ``mean_interval`` where items share a cluster."""
    first, second, _ = _pairs(a, b)
    if not len(first):
        return Estimate(None, None, 0, _NO_PAIR)
    same = (first == second).astype(np.float64)
    codes = _clusters_of_pairs(a, b, clusters)
    interval = mean_interval(same, clusters=codes, binary=True, level=level)
    return Estimate(float(same.mean()), interval, _count_units(codes, len(same)))


def cohen_kappa(a: Sequence[Any], b: Sequence[Any], weights: Weights | None = None) -> float:
    r"""Cohen's kappa of two raters: agreement beyond chance; NaN where there is nothing beyond chance.

    With :math:`o_{ij}` the proportion of items that the first rater put into category i and the second into j, and
    :math:`e_{ij}` the product of the two raters' proportions,

    .. math:: \kappa = 1 - \frac{\sum_{ij} w_{ij} o_{ij}}{\sum_{ij} w_{ij} e_{ij}}

    where :math:`w_{ij}` is 1 for different categories. With ``weights``, which ask for numbers, it is the distance of
    the two among the categories in use, in order (``linear``), or its square (``quadratic``). As scikit-learn's
    ``cohen_kappa_score``. Things that one of them did not label are left out.
    """
    first, second, categories = _pairs(a, b)
    return _kappa(first, second, _category_weights(categories, weights))


def kappa_report(
    a: Sequence[Any],
    b: Sequence[Any],
    weights: Weights | None = None,
    *,
    clusters: Sequence[int] | Ints | None = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """``cohen_kappa`` with a bootstrap interval over the labelled items, or over their ``clusters``."""
    first, second, categories = _pairs(a, b)
    # Weighed by the categories in use in the whole, so that a draw without one of them measures the same.
    table = _category_weights(categories, weights)
    n, why = len(first), _NO_PAIR if not len(first) else _ONE_VALUE
    codes = _clusters_of_pairs(a, b, clusters)
    return _agreement_report(
        lambda rows: _kappa(first[rows], second[rows], table), n, why, codes, draws=draws, seed=seed, level=level
    )


def _kappa(first: Ints, second: Ints, weights: Floats) -> float:
    size = len(weights)
    if not len(first):
        return math.nan
    counts = np.bincount(first * size + second, minlength=size * size).reshape(size, size)
    # Whole numbers up to the last division: n times what was seen, against the products of the margins.
    expected = float((weights * np.outer(counts.sum(axis=1), counts.sum(axis=0))).sum())
    return 1 - len(first) * float((weights * counts).sum()) / expected if expected else math.nan


def _category_weights(categories: Sequence[Any], weights: Weights | None) -> Floats:
    if weights not in (None, "linear", "quadratic"):
        raise BadValueError(f"weights {weights!r}: choose 'linear' or 'quadratic', or None for labels without an order")
    places = np.arange(len(categories))
    if weights is None:
        return np.asarray(places[:, None] != places, dtype=np.float64)
    for category in categories:
        if not isinstance(category, Real):
            raise BadTypeError(
                f"weights={weights!r} asks for labels that have an order, as numbers have; {category!r} has none"
            )
    apart = np.abs(np.subtract.outer(places, places))
    return np.asarray(apart if weights == "linear" else apart**2, dtype=np.float64)


def _pairs(a: Sequence[Any], b: Sequence[Any]) -> tuple[Ints, Ints, list[Any]]:
    """The labels of what both labelled, as places among the categories in use, which are in order."""
    AlignmentError.check(len(a), len(b), what=("labels of the first", "labels of the second"))
    both = [(first, second) for first, second in zip(a, b, strict=True) if not (_missing(first) or _missing(second))]
    categories = _ordered(set(chain.from_iterable(both)))
    codes = _places(chain.from_iterable(both), categories).reshape(-1, 2)
    return codes[:, 0], codes[:, 1], categories


def _places(labels: Iterable[Any], ordered: Sequence[Any]) -> Ints:
    """The place of each label among all labels in order."""
    place = {label: number for number, label in enumerate(ordered)}
    return np.array([place[label] for label in labels], dtype=np.intp)


# --- any number of raters --------------------------------------------------------------------------------------------


def expected_kappa_half_width(n: int, *, agreement: float, proportion: float) -> float | None:
    r"""The half-width of the 95 % interval of Cohen's kappa to expect from ``n`` pairs of 0/1 labels.

    ``agreement`` is the expected proportion of equal labels, and ``proportion`` that of labels of 1, the same for both
    raters. The standard error is :math:`\sqrt{p_o (1 - p_o) / n} / (1 - p_e)`. ``None`` where kappa is undefined or
    ``n`` is below 2.
    """
    by_chance = proportion**2 + (1 - proportion) ** 2
    if n < 2 or by_chance >= 1:
        return None
    return NormalDist().inv_cdf(0.975) * math.sqrt(agreement * (1 - agreement) / n) / (1 - by_chance)


def krippendorff_alpha(ratings: Sequence[Sequence[Any]] | npt.NDArray[Any], level: Level = "nominal") -> float:
    r"""Krippendorff's alpha of any number of raters; NaN where it is not defined.

    ``ratings`` has a row per rater and a column per thing rated, with ``None`` or NaN where a rating is missing.

    .. math:: \alpha = 1 - \frac{D_o}{D_e}

    :math:`D_o` is the mean of :math:`\delta^2` over the pairs of ratings of the same thing, a thing with m ratings
    weighing as m, and :math:`D_e` that over all pairs of ratings, whatever they are of. How different two ratings are
    depends on ``level``:

    * ``nominal``: 1 if they differ. Texts will do.
    * ``ordinal``: the difference of their ranks among all ratings, squared; equal ratings share their mean rank.
    * ``interval``: their difference, squared.
    * ``ratio``: their difference over their sum, squared; for numbers from 0 on.

    What fewer than two rated is left out (K. Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011).
    """
    table = _RatingTable.of(ratings, level)
    return table.alpha(np.ones(table.units))


def alpha_report(
    ratings: Sequence[Sequence[Any]] | npt.NDArray[Any],
    level: Level = "nominal",
    *,
    draws: int = 1000,
    seed: int = 0,
    confidence: float = 0.95,
) -> Estimate:
    """``krippendorff_alpha`` with a bootstrap interval over the rated items."""
    table = _RatingTable.of(ratings, level)
    why = _NO_PAIR if not table.units else _ONE_VALUE if len(table.values) == 1 else _ONE_UNIT

    def of_rows(rows: Ints) -> float:
        return table.alpha(np.bincount(rows, minlength=table.units).astype(np.float64))

    return _agreement_report(of_rows, table.units, why, draws=draws, seed=seed, level=confidence)


@dataclass(frozen=True, slots=True, eq=False)
class _RatingTable:
    """The ratings of the items that two or more raters rated."""

    level: Level
    units: int
    values: Floats
    """The different ratings, in order; of names, their places."""
    unit: Ints
    """What each rating is of."""
    code: Ints
    """Which of ``values`` it is."""
    pairs: Ints
    """The places of the two ratings of every pair of the same thing."""
    share: Floats
    """What each pair weighs: a thing with m ratings has m (m - 1) / 2 pairs, which weigh m together."""

    @classmethod
    def of(cls, ratings: Sequence[Sequence[Any]] | npt.NDArray[Any], level: Level) -> _RatingTable:
        if level not in _LEVELS:
            raise BadValueError(f"level {level!r}: choose one of {', '.join(_LEVELS)}")
        rated: list[Any] = []
        sizes: list[int] = []
        pairs, shares = [np.zeros((0, 2), dtype=np.intp)], [np.zeros(0)]
        for column in _rating_columns(ratings):
            present = [rating for rating in column if not _missing(rating)]
            m = len(present)
            if m > 1:
                pairs.append(len(rated) + np.stack(np.triu_indices(m, 1), axis=1))
                shares.append(np.full(len(pairs[-1]), 2 / (m - 1)))
                rated += present
                sizes.append(m)
        values = _ordered(set(rated))
        if level != "nominal":
            _require_numbers(values, level)
        return cls(
            level,
            units=len(sizes),
            values=np.arange(len(values), dtype=np.float64) if level == "nominal" else np.array(values, np.float64),
            unit=np.repeat(np.arange(len(sizes)), sizes).astype(np.intp),
            code=_places(rated, values),
            pairs=np.concatenate(pairs),
            share=np.concatenate(shares),
        )

    def alpha(self, weights: Floats) -> float:
        """Alpha where each thing comes as often as ``weights`` says.

        NaN for a single item, where observed and chance agreement are the same.
        """
        counts: Floats = np.bincount(self.code, weights[self.unit], minlength=len(self.values)).astype(np.float64)
        n = counts.sum()
        if self.units < 2 or n < 2 or np.count_nonzero(counts) < 2:
            return math.nan
        values = np.cumsum(counts) - counts / 2 if self.level == "ordinal" else self.values
        first, second = self.pairs.T
        distances = self._distance(values[self.code[first]], values[self.code[second]])
        observed = float((weights[self.unit[first]] * self.share) @ distances) / n
        expected = self._expected(values, counts) / (n * (n - 1))
        return float(1 - observed / expected)

    def _distance(self, first: Floats, second: Floats) -> Floats:
        if self.level == "nominal":
            return np.asarray(first != second, dtype=np.float64)
        if self.level == "ratio":
            total = first + second
            return np.asarray(((first - second) / np.where(total > 0, total, 1.0)) ** 2, dtype=np.float64)
        return np.asarray((first - second) ** 2, dtype=np.float64)

    def _expected(self, values: Floats, counts: Floats) -> float:
        """The sum of the differences over all ordered pairs of ratings."""
        n = counts.sum()
        if self.level == "nominal":
            return float(n * n - counts @ counts)
        if self.level == "ratio":
            distances = [counts @ self._distance(values, value) for value in values]
            return float(sum(counts * distances))
        centred = values - counts @ values / n  # otherwise large numbers close together would lose their digits
        return float(2 * n * (counts @ centred**2))


def _rating_columns(ratings: Sequence[Sequence[Any]] | npt.NDArray[Any]) -> list[tuple[Any, ...]]:
    rows = ratings.tolist() if isinstance(ratings, np.ndarray) else [list(row) for row in ratings]
    if isinstance(ratings, np.ndarray) and ratings.ndim != 2:
        raise BadValueError(f"the ratings must be a table with a row per rater, not an array of shape {ratings.shape}")
    for number, row in enumerate(rows):
        if len(row) != len(rows[0]):
            found = f"rater {number} has {len(row)} ratings and rater 0 has {len(rows[0])}"
            raise BadValueError(f"{found}; write None for one that is missing")
    return list(zip(*rows, strict=True))


def _require_numbers(values: Sequence[Any], level: str) -> None:
    for value in values:
        if not isinstance(value, Real | np.bool_):
            raise BadTypeError(f"level={level!r} asks for numbers; the rating {value!r} is none")
        if not math.isfinite(value):
            raise BadValueError(f"level={level!r} asks for finite numbers, not {value!r}")
        if level == "ratio" and value < 0:
            raise BadValueError(f"level='ratio' asks for numbers from 0 on, not {value!r}")


# --- common parts ----------------------------------------------------------------------------------------------------


def _agreement_report(
    of_rows: Callable[[Ints], float],
    n: int,
    why: str,
    clusters: Ints | None = None,
    *,
    draws: int,
    seed: int,
    level: float,
) -> Estimate:
    """The value of all n items with its interval; ``why`` says why it is not defined where it is NaN."""
    value, units = of_rows(np.arange(n)), _count_units(clusters, n)
    if math.isnan(value):
        return Estimate(None, None, units, why)
    interval = bootstrap_interval_of(
        of_rows, n, clusters=clusters, draws=draws, seed=seed, level=level, lowest=-1.0, highest=1.0
    )
    return Estimate(value, interval, units)


def _clusters_of_pairs(a: Sequence[Any], b: Sequence[Any], clusters: Sequence[int] | Ints | None) -> Ints | None:
    """The clusters of the pairs in which neither value is missing."""
    if clusters is None:
        return None
    AlignmentError.check(len(a), len(clusters), what=("pairs", "clusters"))
    present = [not (_missing(first) or _missing(second)) for first, second in zip(a, b, strict=True)]
    return np.asarray(clusters, dtype=np.intp)[np.array(present, dtype=np.bool_)]


def _count_units(clusters: Ints | None, n: int) -> int:
    return n if clusters is None else len(np.unique(clusters))


def _missing(label: Any) -> bool:
    return label is None or (isinstance(label, float | np.floating) and math.isnan(label))


def _ordered(labels: set[Hashable]) -> list[Any]:
    """Numbers in their order, then all other labels by their string."""
    numbers = sorted(label for label in labels if isinstance(label, Real | np.bool_))
    return [*numbers, *sorted((label for label in labels if not isinstance(label, Real | np.bool_)), key=str)]


# --- reports on several raters: every pair, and all together ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RaterPair:
    """The agreement of two raters on the items that both rated."""

    first: str
    second: str
    agreement: Estimate
    kappa: Estimate
    """Cohen's; of ratings that have an order, weighted by the square of the distance."""


@dataclass(frozen=True, slots=True)
class RatersReport:
    """The agreement of several raters."""

    rated: Mapping[str, int]
    """How many things each rated."""
    level: Level
    pairs: tuple[RaterPair, ...]
    """Those that have something in common."""
    alpha: Estimate
    """Krippendorff's, of all together."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "annotators": dict(self.rated),
            "level": self.level,
            "alpha": self.alpha.to_dict(),
            "pairs": [
                {
                    "annotators": [pair.first, pair.second],
                    "agreement": pair.agreement.to_dict(),
                    "kappa": pair.kappa.to_dict(),
                }
                for pair in self.pairs
            ],
        }


def raters_report(
    ratings: Mapping[str, Sequence[Any]], level: Level = "nominal", *, draws: int = 1000, seed: int = 0
) -> RatersReport:
    """The agreement of raters by name; each has a rating per thing, ``None`` where there is none."""
    weights: Weights | None = None if level == "nominal" else "quadratic"
    pairs = []
    for first, second in combinations(ratings, 2):
        agreement = agreement_report(ratings[first], ratings[second])
        if agreement.units:
            kappa = kappa_report(ratings[first], ratings[second], weights, draws=draws, seed=seed)
            pairs.append(RaterPair(first, second, agreement, kappa))
    rated = {name: len(values) - list(values).count(None) for name, values in ratings.items()}
    return RatersReport(rated, level, tuple(pairs), alpha_report(list(ratings.values()), level, draws=draws, seed=seed))


# --- correlation: Pearson's r, Spearman's rho, Kendall's tau-b, each with its interval -------------------------------
# 1 means that one column rises with the other, -1 that it falls, 0 that there is no such relation. Pearson looks at the
# numbers, Spearman at their ranks, Kendall at pairs: how many are in the same order in both columns, less how many are
# not. All are NaN where a column has one value only; ``why_undefined`` of a report says so in words.

_TOO_FEW = "fewer than two pairs"
_CONSTANT = "one of the two is the same everywhere"


def pearson_report(
    a: Sequence[Any],
    b: Sequence[Any],
    *,
    clusters: Sequence[int] | Ints | None = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Pearson's r of the pairs in which neither number is missing (``None`` or NaN).

    The interval is from resampling the pairs, or their ``clusters``.
    """
    codes = _clusters_of_pairs(a, b, clusters)
    return _correlation_report(_pearson, _paired_columns(a, b), codes, draws=draws, seed=seed, level=level)


def spearman_report(
    a: Sequence[Any], b: Sequence[Any], *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Estimate:
    """Spearman's rho: Pearson's r of the ranks; equal numbers share the mean of their ranks."""
    return _correlation_report(_spearman, _codes(a, b), draws=draws, seed=seed, level=level)


def kendall_report(
    a: Sequence[Any], b: Sequence[Any], *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Estimate:
    r"""Kendall's tau-b.

    .. math:: \tau_b = \frac{C - D}{\sqrt{(C + D + T_a)(C + D + T_b)}}

    C pairs are in the same order in both columns, D in opposite order, :math:`T_a` are tied in b alone and :math:`T_b`
    in a alone.
    """
    return _correlation_report(_kendall, _codes(a, b), draws=draws, seed=seed, level=level)


def slope_report(
    x: Floats,
    y: Floats,
    *,
    clusters: Ints | None = None,
    why_constant: str = _CONSTANT,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    r"""The least-squares slope of y on x, with an interval from resampling clusters.

    .. math:: \sum_i (x_i - \bar x)(y_i - \bar y) \,/\, \sum_i (x_i - \bar x)^2

    On a column of zeros and ones it is the difference of two means. ``why_constant`` is the reason given where all x
    are equal, so that there is no slope.
    """
    AlignmentError.check(len(x), len(y), what=("numbers in the first column", "numbers in the second"))
    units = int(unit_codes(clusters, len(x)).max(initial=-1)) + 1
    if len(x) < 2 or (x == x[0]).all():
        return Estimate(None, None, units, _TOO_FEW if len(x) < 2 else why_constant)
    x_apart, y_apart = x - x.mean(), y - y.mean()  # centred, so that sums of squares lose no digits
    table = np.column_stack([np.ones_like(x_apart), x_apart, y_apart, x_apart * y_apart, x_apart * x_apart])

    def slopes(sums: Floats) -> Floats:
        n, x_sum, y_sum, products, squares = sums.T
        spread = n * squares - x_sum * x_sum
        return np.where(spread > _SMALLEST_SPREAD * n * n, (n * products - x_sum * y_sum) / spread, np.nan)

    interval = bootstrap_interval(table, slopes, clusters=clusters, draws=draws, seed=seed, level=level)
    return Estimate(float(x_apart @ y_apart) / float(x_apart @ x_apart), interval, units)


_SMALLEST_SPREAD = 1e-12
"""Variance of x below which a draw has no slope."""


def _correlation_report(
    statistic: Callable[[npt.NDArray[Any], npt.NDArray[Any]], float],
    columns: tuple[npt.NDArray[Any], npt.NDArray[Any]],
    clusters: Ints | None = None,
    *,
    draws: int,
    seed: int,
    level: float,
) -> Estimate:
    first, second = columns
    n, why = len(first), _TOO_FEW if len(first) < 2 else _CONSTANT
    return _agreement_report(
        lambda rows: statistic(first[rows], second[rows]), n, why, clusters, draws=draws, seed=seed, level=level
    )


def _paired_columns(a: Sequence[Any], b: Sequence[Any]) -> tuple[Floats, Floats]:
    AlignmentError.check(len(a), len(b), what=("numbers in the first column", "numbers in the second"))
    try:
        first, second = (np.array(column, dtype=np.float64) for column in (a, b))  # None is NaN
    except (TypeError, ValueError) as error:
        raise BadTypeError(f"a correlation is between numbers: {error}") from error
    there = ~(np.isnan(first) | np.isnan(second))
    return first[there], second[there]


def _codes(a: Sequence[Any], b: Sequence[Any]) -> tuple[Ints, Ints]:
    """Each number as its index among the distinct numbers of its column: statistics of order need no more.

    A column is sorted once, not once per draw.
    """
    first, second = _paired_columns(a, b)
    return np.unique(first, return_inverse=True)[1], np.unique(second, return_inverse=True)[1]


def _pearson(first: Floats, second: Floats) -> float:
    if len(first) < 2 or (first == first[0]).all() or (second == second[0]).all():
        return math.nan
    first_apart, second_apart = first - first.mean(), second - second.mean()
    spread = math.sqrt(float(first_apart @ first_apart)) * math.sqrt(float(second_apart @ second_apart))
    return min(1.0, max(-1.0, float(first_apart @ second_apart) / spread)) if spread else math.nan


def _spearman(first: Ints, second: Ints) -> float:
    return _pearson(mean_ranks(first), mean_ranks(second))


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
