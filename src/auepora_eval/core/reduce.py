"""Reducers: pure functions from the outcomes of samples to one number, with exact sums."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy

import numpy as np

from ..stats.intervals import Floats, Interval, Ints, Moments, effective_interval, mean_interval
from .scores import Scores, Status

# --- exact sums ------------------------------------------------------------------------------------------------------

# Sums are kept as one integer in units of 2**-_UNIT, fine enough for the smallest float there is (2**-1074).
_UNIT = 1200
# Digits of 31 bits: 2**22 of them can be added in float64 and every partial sum is still an exact integer. Scores of a
# metric are close enough in size that two digits represent nearly all of them.
_DIGIT = 31
_MAX_VALUES = 1 << 22


class ExactSum:
    """A running sum without rounding error; ``value`` rounds once, at the end."""

    __slots__ = ("_total",)

    def __init__(self) -> None:
        self._total = 0

    def add(self, values: Floats) -> None:
        """Add finite numbers."""
        for start in range(0, len(values), _MAX_VALUES):
            self._add(values[start : start + _MAX_VALUES])

    def _add(self, values: Floats) -> None:
        # Split each number into digits, most significant first. Scaling by powers of two and taking off the
        # integer part are exact, so adding up one digit position at a time is integer arithmetic in disguise.
        largest = max(float(values.max()), -float(values.min()))
        if not largest:
            return
        exponent = math.frexp(largest)[1] - _DIGIT
        # Multiplying is several times faster than ldexp and as exact, as long as the factor is a float.
        rest = values * math.ldexp(1.0, -exponent) if -1000 < exponent < 1000 else np.ldexp(values, -exponent)
        if exponent > 0 and not np.array_equal(np.ldexp(rest, exponent), values):
            # Numbers so small compared with the largest that scaling loses bits; rare enough to add one by one.
            for numerator, denominator in map(float.as_integer_ratio, values.tolist()):
                self._total += numerator * ((1 << _UNIT) // denominator)
            return
        digits = np.empty_like(rest)
        while True:
            np.trunc(rest, out=digits)
            self._total += int(digits.sum()) << (_UNIT + exponent)
            rest -= digits
            if not (rest.max() or rest.min()):  # on floats faster than any()
                return
            rest *= 1 << _DIGIT
            exponent -= _DIGIT

    def merge(self, other: ExactSum) -> None:
        """Add another running sum."""
        self._total += other._total

    @property
    def value(self) -> float:
        """The correctly rounded sum (dividing integers rounds once, half to even)."""
        return self._total / (1 << _UNIT)


def exact_sum(values: Floats) -> float:
    """The correctly rounded sum of finite numbers, bit for bit ``math.fsum(values)``."""
    total = ExactSum()
    total.add(values)
    return total.value


# --- reducers: pure functions from the outcomes of samples to one number ---------------------------------------------

Clusters = Ints
"""A cluster id per sample."""


class Fold(ABC):
    """The state of a reduction in progress, updated batch by batch."""

    @abstractmethod
    def add(self, scores: Scores) -> None:
        """Add the next batch, in sample order."""

    @abstractmethod
    def value(self) -> float:
        """The number so far; NaN while no sample counts."""

    def bounds(self, failed: int, low: float, high: float) -> tuple[float, float] | None:
        """The number if ``failed`` further samples had all scored ``low``, and ``high``; None if unknown."""
        return None

    def interval(self, low: float, high: float, *, binary: bool) -> Interval | None:
        """The confidence interval, samples being independent; None where it is unknown."""
        return None


class Reducer(ABC):
    """Turns outcomes into a number."""

    name: str

    def value(self, scores: Scores) -> float:
        """The number; NaN where no sample counts. A reducer implements this, or ``fold``."""
        fold = self.fold()
        fold.add(scores)
        return fold.value()

    def fold(self) -> Fold:
        """A new fold. The default keeps all scores; a reducer with constant memory overrides it."""
        return _CollectingFold(self)

    def bounds(self, scores: Scores, low: float, high: float) -> tuple[float, float] | None:
        """What the number would be if every measure-failed sample had scored ``low``, and ``high``; None if unknown."""
        fold = self.fold()
        fold.add(scores)
        return fold.bounds(int((scores.status == Status.MEASURE_FAILED).sum()), low, high)

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """The confidence interval of the number; None where it is unknown.

        Scores lie between ``low`` and ``high``, and are 0 or 1 where they are ``binary``.
        """
        return None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))


class _CollectingFold(Fold):
    def __init__(self, reducer: Reducer) -> None:
        self._reducer = reducer
        self._parts: list[Scores] = []

    def add(self, scores: Scores) -> None:
        self._parts.append(scores)

    def value(self) -> float:
        return self._reducer.value(Scores.concat(self._parts))


class Mean(Reducer):
    """The arithmetic mean of the samples that count, from a correctly rounded sum."""

    name = "mean"

    def __init__(self, *, of_proportions: bool = False) -> None:
        self.of_proportions = of_proportions
        """Whether each score is a proportion of trials, so that its mean has an effective number of trials."""

    def value(self, scores: Scores) -> float:
        """The mean; NaN of nothing."""
        return mean(counted_values(scores))

    def fold(self) -> Fold:
        """A sum and a count."""
        return _MeanFold()

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """Wilson's interval for proportions, otherwise Student's t by cluster."""
        if clusters is not None:
            clusters = clusters[scores.counted]
        if self.of_proportions:
            return effective_interval(counted_values(scores), clusters=clusters)
        return mean_interval(counted_values(scores), clusters=clusters, binary=binary, lowest=low, highest=high)


_BLOCK = 1024
"""Number of values added to running moments at a time, so that batch sizes do not change the result."""


class _MeanFold(Fold):
    def __init__(self) -> None:
        self._mean = RunningMean()
        self._moments = Moments()
        self._rest = np.zeros(0)

    def add(self, scores: Scores) -> None:
        values = counted_values(scores)
        self._mean.add(values)
        rest = np.concatenate([self._rest, values]) if len(self._rest) else values
        whole = len(rest) - len(rest) % _BLOCK
        for start in range(0, whole, _BLOCK):
            self._moments.add(rest[start : start + _BLOCK])
        self._rest = rest[whole:].copy()  # not a view, which would keep the whole batch

    def interval(self, low: float, high: float, *, binary: bool) -> Interval | None:
        moments = copy(self._moments)
        moments.add(self._rest)
        return moments.interval(lowest=low, highest=high, binary=binary)

    def value(self) -> float:
        return self._mean.value

    def bounds(self, failed: int, low: float, high: float) -> tuple[float, float] | None:
        total, n = self._mean.total, self._mean.n + failed
        if not (math.isfinite(low) and math.isfinite(high)):
            return None
        return ((total + failed * low) / n, (total + failed * high) / n) if n else None


class SumsReducer(Reducer):
    """A reducer that computes a number from sums of statistics over all samples, such as corpus BLEU."""

    @abstractmethod
    def from_sums(self, sums: Sequence[float]) -> float:
        """The number from the sum of each statistic; NaN where they give none."""

    def fold(self) -> Fold:
        """A sum per statistic."""
        return _SumsFold(self)

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """By resampling samples, or clusters of them, and adding up their statistics.

        None where every resample gives the same number: how far another sample could move it is then unknown.
        """
        if scores.stats is None:
            return None
        from ..stats.bootstrap import bootstrap_interval

        counted = scores.counted
        interval = bootstrap_interval(
            scores.stats[counted],
            lambda drawn: np.array([self.from_sums(sums) for sums in drawn.tolist()]),
            clusters=None if clusters is None else clusters[counted],
            lowest=low,
            highest=high,
        )
        return None if interval is None or interval.method == "all_equal" else interval


class _SumsFold(Fold):
    def __init__(self, reducer: SumsReducer) -> None:
        self._reducer = reducer
        self._sums: list[ExactSum] = []
        self._counted = 0

    def add(self, scores: Scores) -> None:
        if scores.stats is None:  # absent only where there is not a single sample
            return
        counted = scores.stats[scores.counted]
        self._counted += len(counted)
        self._sums = self._sums or [ExactSum() for _ in range(counted.shape[1])]
        for total, column in zip(self._sums, counted.T, strict=True):
            total.add(np.ascontiguousarray(column))

    def value(self) -> float:
        return self._reducer.from_sums([total.value for total in self._sums]) if self._counted else float("nan")


class RunningMean:
    """The mean of numbers that come in parts, from an exact sum."""

    def __init__(self) -> None:
        self._sum = ExactSum()
        self.n = 0

    def add(self, values: Floats) -> None:
        """Add further numbers."""
        self._sum.add(values)
        self.n += len(values)

    @property
    def total(self) -> float:
        """The sum so far."""
        return self._sum.value

    @property
    def value(self) -> float:
        """The mean so far; NaN of nothing."""
        return self.total / self.n if self.n else float("nan")


class StatMeans:
    """The means of named statistics over the samples that count, for details; totals where named ``num_``."""

    def __init__(self, names: Sequence[str]) -> None:
        self._means = {name: RunningMean() for name in names}

    def add(self, scores: Scores) -> None:
        """Add the next batch."""
        if self._means and scores.stats is not None:
            for mean_of, column in zip(self._means.values(), scores.stats[scores.counted].T, strict=True):
                mean_of.add(np.ascontiguousarray(column))

    def values(self) -> dict[str, float | None]:
        """The numbers by name; ``None`` where no sample counts, 0 for a total."""
        means = {name: total.value if total.n else None for name, total in self._means.items()}
        return {**means, **{name: int(total.total) for name, total in self._means.items() if name.startswith("num_")}}


def counted_values(scores: Scores) -> Floats:
    """The values of the samples that count."""
    if not scores.status.any():
        return scores.values
    return scores.values[scores.counted]


def mean(values: Floats) -> float:
    """Correctly rounded sum over count; NaN of nothing."""
    return exact_sum(values) / len(values) if len(values) else float("nan")
