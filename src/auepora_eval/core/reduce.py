"""Reducers: pure folds from the outcomes of samples to one number.

A fold sees only ``Scores``, in any subset and order: slices, resamples, shards and rescoring are the same call.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy

import numpy as np
import numpy.typing as npt

from ..stats.interval import Interval, Moments, mean_interval
from .exact import ExactSum, exact_sum
from .scores import Scores, Status

__all__ = ["Fold", "Mean", "Reducer", "RunningMean", "StatMeans", "SumsReducer", "counted_values", "mean"]

Clusters = npt.NDArray[np.intp]
"""An integer per sample; samples with the same one belong together."""


class Fold(ABC):
    """A fold in progress, fed batch by batch."""

    @abstractmethod
    def add(self, scores: Scores) -> None:
        """Take in the next batch, in sample order."""

    @abstractmethod
    def value(self) -> float:
        """The number so far; NaN while nothing has entered the fold."""

    def bounds(self, failed: int, low: float, high: float) -> tuple[float, float] | None:
        """The number if ``failed`` further samples had all scored ``low``, and ``high``; None if unknown."""
        return None

    def interval(self, low: float, high: float, *, binary: bool) -> Interval | None:
        """How far the number may be off, each sample taken for itself; None where that cannot be told."""
        return None


class Reducer(ABC):
    """Turns outcomes into a number."""

    name: str

    @abstractmethod
    def value(self, scores: Scores) -> float:
        """The number; NaN where no sample enters the fold."""

    def fold(self) -> Fold:
        """A fold that can be fed in parts. The default keeps everything; a fold in constant memory overrides it."""
        return _CollectingFold(self)

    def bounds(self, scores: Scores, low: float, high: float) -> tuple[float, float] | None:
        """What the number would be if every measure-failed sample had scored ``low``, and ``high``; None if unknown."""
        return None

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """How far the number may be off because other samples could have been drawn; None where that is unknown.

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
    """The arithmetic mean of what was counted, from a correctly rounded sum."""

    name = "mean"

    def value(self, scores: Scores) -> float:
        """The mean; NaN of nothing."""
        return mean(counted_values(scores))

    def fold(self) -> Fold:
        """A sum and a count."""
        return _MeanFold()

    def bounds(self, scores: Scores, low: float, high: float) -> tuple[float, float] | None:
        """The mean with every measure-failed sample at ``low``, and at ``high``."""
        fold = self.fold()
        fold.add(scores)
        return fold.bounds(int((scores.status == Status.MEASURE_FAILED).sum()), low, high)

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """Wilson's for shares, Student's t by cluster otherwise."""
        if clusters is not None:
            clusters = clusters[scores.counted]
        return mean_interval(counted_values(scores), clusters=clusters, binary=binary, lowest=low, highest=high)


_BLOCK = 1024
"""So many values are added to running moments at a time, however they come: then batches change no bit of them."""


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
    """A number that follows from the sums of statistics over all samples, such as corpus BLEU from its counts."""

    @abstractmethod
    def from_sums(self, sums: Sequence[float]) -> float:
        """The number from the sum of each statistic; NaN where they give none."""

    def value(self, scores: Scores) -> float:
        """The number; NaN of nothing."""
        fold = self.fold()
        fold.add(scores)
        return fold.value()

    def fold(self) -> Fold:
        """A sum per statistic."""
        return _SumsFold(self)

    def interval(
        self, scores: Scores, low: float, high: float, *, binary: bool = False, clusters: Clusters | None = None
    ) -> Interval | None:
        """By drawing samples, or clusters of them, anew and adding up their statistics.

        None where every draw gives the same number: how far one other sample could move it is then unknown, since for
        what is not a mean it may be any distance.
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

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Take in further numbers."""
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
    """The means of named statistics over what is in the fold, for a result's details; totals where named ``num_``."""

    def __init__(self, names: Sequence[str]) -> None:
        self._means = {name: RunningMean() for name in names}

    def add(self, scores: Scores) -> None:
        """Take in the next batch."""
        if self._means and scores.stats is not None:
            for mean_of, column in zip(self._means.values(), scores.stats[scores.counted].T, strict=True):
                mean_of.add(np.ascontiguousarray(column))

    def values(self) -> dict[str, float | None]:
        """The numbers by name; ``None`` where nothing is in the fold, 0 for a total."""
        means = {name: one.value if one.n else None for name, one in self._means.items()}
        return {**means, **{name: int(one.total) for name, one in self._means.items() if name.startswith("num_")}}


def counted_values(scores: Scores) -> npt.NDArray[np.float64]:
    """The values that enter the fold."""
    if not scores.status.any():
        return scores.values
    return scores.values[scores.counted]


def mean(values: npt.NDArray[np.float64]) -> float:
    """Correctly rounded sum over count; NaN of nothing."""
    return exact_sum(values) / len(values) if len(values) else float("nan")
