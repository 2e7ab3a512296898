"""Agreement of raters, people or judges: proportion of equal labels, Cohen's kappa, Krippendorff's alpha.

Agreement is the proportion of equal labels, part of which is due to chance. Kappa and alpha correct for chance: 1 is
complete agreement, 0 is chance agreement. If chance alone would give complete agreement, for instance because all
labels are the same, they are NaN; ``why_undefined`` of a report gives the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.errors import AlignmentError, BadTypeError, BadValueError
from .bootstrap import bootstrap_interval_of
from .estimate import Estimate
from .interval import wilson_interval

__all__ = [
    "AgreementReport",
    "Level",
    "Weights",
    "agreement",
    "agreement_report",
    "alpha_report",
    "cohen_kappa",
    "kappa_report",
    "krippendorff_alpha",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]
Level = Literal["nominal", "ordinal", "interval", "ratio"]
Weights = Literal["linear", "quadratic"]
AgreementReport = Estimate
"""A measure of agreement, with its interval."""

_LEVELS = ("nominal", "ordinal", "interval", "ratio")
_WEIGHTS = (None, "linear", "quadratic")
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


def agreement_report(a: Sequence[Any], b: Sequence[Any], *, level: float = 0.95) -> Estimate:
    """``agreement`` with Wilson's interval."""
    first, second, _ = _pairs(a, b)
    n = len(first)
    if not n:
        return Estimate(None, None, 0, _NO_PAIR)
    same = int(np.count_nonzero(first == second))
    return Estimate(same / n, wilson_interval(same, n, level=level), n)


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
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """``cohen_kappa`` with a bootstrap interval over the labelled items."""
    first, second, categories = _pairs(a, b)
    # Weighed by the categories in use in the whole, so that a draw without one of them measures the same.
    table = _category_weights(categories, weights)
    value = _kappa(first, second, table)
    why = _NO_PAIR if not len(first) else _ONE_VALUE
    return _agreement_report(
        value,
        lambda rows: _kappa(first[rows], second[rows], table),
        len(first),
        why,
        draws=draws,
        seed=seed,
        level=level,
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
    if weights not in _WEIGHTS:
        raise BadValueError(f"weights {weights!r}: choose 'linear' or 'quadratic', or None for labels without an order")
    places = np.arange(len(categories))
    if weights is None:
        return np.asarray(places[:, None] != places, dtype=np.float64)
    for one in categories:
        if not isinstance(one, Real):
            raise BadTypeError(
                f"weights={weights!r} asks for labels that have an order, as numbers have; {one!r} has none"
            )
    apart = np.abs(np.subtract.outer(places, places))
    return np.asarray(apart if weights == "linear" else apart**2, dtype=np.float64)


def _pairs(a: Sequence[Any], b: Sequence[Any]) -> tuple[Ints, Ints, list[Any]]:
    """The labels of what both labelled, as places among the categories in use, which are in order."""
    if len(a) != len(b):
        raise AlignmentError(len(a), len(b), what=("labels of the first", "labels of the second"))
    both = [(one, two) for one, two in zip(a, b, strict=True) if not (_missing(one) or _missing(two))]
    categories = _ordered({label for pair in both for label in pair})
    place = {label: number for number, label in enumerate(categories)}
    codes = np.array([[place[one], place[two]] for one, two in both], dtype=np.intp).reshape(-1, 2)
    return codes[:, 0], codes[:, 1], categories


# --- any number of raters --------------------------------------------------------------------------------------------


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
    return _RatingTable.of(ratings, level).overall()


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

    def drawn(rows: Ints) -> float:
        return table.alpha(np.bincount(rows, minlength=table.units).astype(np.float64))

    return _agreement_report(table.overall(), drawn, table.units, why, draws=draws, seed=seed, level=confidence)


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
        columns = _rating_columns(ratings)
        rated = [kept for kept in ([one for one in column if not _missing(one)] for column in columns) if len(kept) > 1]
        values = _ordered({one for column in rated for one in column})
        if level != "nominal":
            _require_numbers(values, level)
        place = {value: number for number, value in enumerate(values)}
        unit = np.repeat(np.arange(len(rated)), [len(column) for column in rated]).astype(np.intp)
        code = np.array([place[one] for column in rated for one in column], dtype=np.intp)
        pairs, share, start = [], [], 0
        for column in rated:
            m = len(column)
            pairs += [(start + i, start + j) for i in range(m) for j in range(i + 1, m)]
            share += [2 / (m - 1)] * (m * (m - 1) // 2)
            start += m
        numbers = np.arange(len(values), dtype=np.float64) if level == "nominal" else np.array(values, np.float64)
        pair_table = np.array(pairs, dtype=np.intp).reshape(-1, 2)
        return cls(level, len(rated), numbers, unit, code, pair_table, np.array(share, np.float64))

    def overall(self) -> float:
        """Alpha of all items; NaN for a single item, where observed and chance agreement are the same."""
        return self.alpha(np.ones(self.units)) if self.units > 1 else math.nan

    def alpha(self, weights: Floats) -> float:
        """Alpha where each thing comes as often as ``weights`` says."""
        counts: Floats = np.bincount(self.code, weights[self.unit], minlength=len(self.values)).astype(np.float64)
        n = counts.sum()
        if n < 2 or np.count_nonzero(counts) < 2:
            return math.nan
        values = np.cumsum(counts) - counts / 2 if self.level == "ordinal" else self.values
        one, two = self.code[self.pairs[:, 0]], self.code[self.pairs[:, 1]]
        observed = (
            float((weights[self.unit[self.pairs[:, 0]]] * self.share) @ self._distance(values[one], values[two])) / n
        )
        expected = self._expected(values, counts) / (n * (n - 1))
        return float(1 - observed / expected)

    def _distance(self, one: Floats, two: Floats) -> Floats:
        if self.level == "nominal":
            return np.asarray(one != two, dtype=np.float64)
        if self.level == "ratio":
            total = one + two
            return np.asarray(((one - two) / np.where(total > 0, total, 1.0)) ** 2, dtype=np.float64)
        return np.asarray((one - two) ** 2, dtype=np.float64)

    def _expected(self, values: Floats, counts: Floats) -> float:
        """The sum of the differences over all ordered pairs of ratings."""
        n = counts.sum()
        if self.level == "nominal":
            return float(n * n - counts @ counts)
        if self.level == "ratio":
            return float(
                sum(
                    count * (counts @ self._distance(values, value))
                    for value, count in zip(values, counts, strict=True)
                )
            )
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


# --- both ------------------------------------------------------------------------------------------------------------


def _agreement_report(
    value: float,
    of_rows: Callable[[Ints], float],
    units: int,
    why: str,
    *,
    draws: int,
    seed: int,
    level: float,
) -> Estimate:
    if math.isnan(value):
        return Estimate(None, None, units, why)
    interval = bootstrap_interval_of(of_rows, units, draws=draws, seed=seed, level=level, lowest=-1.0, highest=1.0)
    return Estimate(value, interval, units)


def _missing(label: Any) -> bool:
    return label is None or (isinstance(label, float | np.floating) and math.isnan(label))


def _ordered(labels: set[Hashable]) -> list[Any]:
    """Numbers in their order, then all other labels by their string."""
    numbers = sorted(one for one in labels if isinstance(one, Real | np.bool_))
    return [*numbers, *sorted((one for one in labels if not isinstance(one, Real | np.bool_)), key=str)]
