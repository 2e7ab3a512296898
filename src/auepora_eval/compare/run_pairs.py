"""The scores of one metric in two runs, paired by sample and made comparable: which samples enter, and how."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..core.reduce import Reducer, SumsReducer, mean
from ..core.scores import Scores, Status
from ..stats.difference import paired_differences
from ..stats.paired_bootstrap import PairedStatistics
from ..stats.permutation import SwapStatistic
from .metric_meta import MetricMeta

__all__ = [
    "Fill",
    "MetricPair",
    "RunPairScores",
    "completed_difference",
    "exclude_rows",
    "failed_without_value",
    "pair_scores",
    "reduce_or_nan",
]

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]

Fill = Literal["low", "high"]
"""Failed measurements filled with the values that make the difference smallest, or largest."""


@dataclass(frozen=True, slots=True, eq=False)
class MetricPair:
    """A metric's scores in two runs on the same samples, in the same order."""

    name: str
    definition: MetricMeta
    first: Scores
    second: Scores
    missing: tuple[int, int] = (0, 0)
    """How many outputs each run lacks."""
    at_worst: tuple[Bools, Bools] | None = None
    """Which samples of each run have a worst value because their output is missing."""

    @property
    def measure_failures(self) -> int:
        """How many samples have a failed measurement in either run, even if the other run skipped them."""
        return int(_measure_failed(self).sum())

    def without_failures(self, *, second: bool) -> MetricPair:
        """The pair on the samples that one of the systems answered."""
        failed = (self.second if second else self.first).status == Status.SYSTEM_FAILED
        return replace(self, first=exclude_rows(self.first, failed), second=exclude_rows(self.second, failed))

    @property
    def can_fill(self) -> bool:
        """Whether failed measurements can be bounded: the metric is a mean with a finite range."""
        return self.definition.is_mean and all(map(math.isfinite, self.definition.range))


@dataclass(frozen=True, slots=True, eq=False)
class RunPairScores:
    """The paired scores that enter a comparison. At most one of ``values``, ``sums`` and ``fold`` is set."""

    first: Scores
    second: Scores
    """Scores that enter: NaN for samples that do not."""
    a: float
    b: float
    values: tuple[Floats, Floats] | None = None
    """For a mean over the same samples in both runs: their scores, NaN for other samples."""
    sums: PairedStatistics | None = None
    """For a value computed from sums; the samples need not be the same."""
    fold: SwapStatistic | None = None
    """For any other value."""
    of_rows: tuple[Callable[[npt.NDArray[np.intp]], float], Callable[[npt.NDArray[np.intp]], float]] | None = None
    """With ``fold``: each run's value over some of the samples in ``used``."""

    @property
    def used(self) -> Bools:
        """Which samples enter, in either run."""
        return self.first.counted | self.second.counted

    @property
    def both(self) -> Bools:
        """Which samples have a score in both."""
        return self.first.counted & self.second.counted

    @property
    def differences(self) -> Floats:
        """The second run's score minus the first's on each sample; NaN where one of the two has no score."""
        return paired_differences(self.first.values, self.second.values)

    @property
    def has_test(self) -> bool:
        """Whether there is a test of the difference."""
        return self.values is not None or self.sums is not None or self.fold is not None

    @property
    def identical(self) -> bool:
        """Whether both runs have the same values, and at least one sample is scored in both."""
        scored = (self.first.status == Status.SCORED) & (self.second.status == Status.SCORED)
        if not scored.any():
            return False
        if self.sums is not None:
            return np.array_equal(self.sums.first, self.sums.second)
        if self.fold is not None:
            return not self.fold.differs.any()
        return self.values is not None and not self.differences[self.used].any()

    @property
    def delta(self) -> float:
        """The second run's value minus the first's; NaN if a run has no value."""
        if self.values is not None and self.used.any() and not self.differences[self.used].any():
            return 0.0  # without rounding errors
        return self.b - self.a


def pair_scores(pair: MetricPair, fill: Fill | None = None) -> RunPairScores:
    """The paired scores of a metric.

    A failure without a score (a failed measurement, or a failed output of a metric without a worst value, such as
    latency) excludes its sample from both runs. With ``fill``, failed measurements count at an end of the range.
    """
    first, second = pair.first, pair.second
    if fill is not None and pair.can_fill:
        low, high = pair.definition.range
        up, down = (low, high) if fill == "high" else (high, low)
        first, second = _fill_failed(first, up), _fill_failed(second, down)
    excluded = failed_without_value(first) | failed_without_value(second)
    first, second = exclude_rows(first, excluded), exclude_rows(second, excluded)
    if pair.definition.reducer is None:
        return RunPairScores(first, second, math.nan, math.nan)
    if pair.definition.is_mean:
        return _pair_means(first, second)
    reducer = pair.definition.reducer
    a, b = reduce_or_nan(reducer, first), reduce_or_nan(reducer, second)
    if isinstance(reducer, SumsReducer) and first.stats is not None and second.stats is not None:
        low, high = pair.definition.range
        table = PairedStatistics(_zero_excluded(first), _zero_excluded(second), _reduce_rows(reducer), low, high)
        return RunPairScores(first, second, a, b, sums=table)
    if any(reducer.interval(one, *pair.definition.range) is not None for one in (first, second)):
        return _pair_folds(reducer, first, second)
    # A value without an interval in one run, since its samples cannot be resampled or swapped one by one.
    return RunPairScores(first, second, a, b)


def completed_difference(pair: MetricPair) -> float:
    """The difference over the samples that both systems answered."""
    return pair_scores(pair.without_failures(second=False).without_failures(second=True)).delta


def _pair_means(first: Scores, second: Scores) -> RunPairScores:
    a, b = mean(first.values[first.counted]), mean(second.values[second.counted])
    if np.array_equal(first.counted, second.counted):
        return RunPairScores(first, second, a, b, values=(first.values, second.values))
    # Which samples a metric applies to may depend on the answers, for instance on refusals. Then the value is a ratio,
    # a sum over a count, and both of them vary.
    tables = [np.column_stack([np.nan_to_num(one.values, nan=0.0), one.counted]) for one in (first, second)]
    return RunPairScores(first, second, a, b, sums=PairedStatistics(tables[0], tables[1], _ratio))


def _ratio(sums: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sums[:, 1] > 0, sums[:, 0] / sums[:, 1], np.nan)


def _pair_folds(reducer: Reducer, first: Scores, second: Scores) -> RunPairScores:
    """A value of any reducer, over the samples scored in both runs, so that a swap keeps their count."""
    both = first.counted & second.counted
    first, second = exclude_rows(first, ~both), exclude_rows(second, ~both)
    rows = np.flatnonzero(both)
    scored = first.take(rows), second.take(rows)
    n = len(rows)
    places = np.arange(n)
    of_rows = (lambda drawn: reducer.value(scored[0].take(drawn)), lambda drawn: reducer.value(scored[1].take(drawn)))
    if all(one.stats is None and one.keys is None and one.repeats is None for one in scored):
        # Only values are read, ten thousand times, so nothing else is copied.
        of_rows = (
            lambda drawn: reducer.value(_scores_of_values(scored[0].values[drawn])),
            lambda drawn: reducer.value(_scores_of_values(scored[1].values[drawn])),
        )

        def difference(swapped: Bools) -> float:
            swapped_rows = swapped if n == len(swapped) else swapped[rows]
            one = np.where(swapped_rows, scored[1].values, scored[0].values)
            other = np.where(swapped_rows, scored[0].values, scored[1].values)
            return reducer.value(_scores_of_values(other)) - reducer.value(_scores_of_values(one))
    else:
        joined = Scores.concat(list(scored))

        def difference(swapped: Bools) -> float:
            swapped_rows = swapped[rows]
            one, other = np.where(swapped_rows, places + n, places), np.where(swapped_rows, places, places + n)
            return reducer.value(joined.take(other)) - reducer.value(joined.take(one))

    fold = SwapStatistic(difference, both & (first.values != second.values))
    return RunPairScores(first, second, of_rows[0](places), of_rows[1](places), fold=fold, of_rows=of_rows)


def _scores_of_values(values: Floats) -> Scores:
    """Scores made of values alone, all of them counted."""
    return Scores(values, np.zeros(len(values), np.uint8), np.zeros(len(values), np.int16))


def _reduce_rows(reducer: SumsReducer) -> Callable[[Floats], Floats]:
    return lambda sums: np.array([reducer.from_sums(row) for row in sums.tolist()], dtype=np.float64)


def reduce_or_nan(reducer: Reducer, scores: Scores) -> float:
    """The value of a reducer; NaN if it raises because not all that it reads is stored."""
    try:
        return reducer.value(scores)
    except Exception:  # it reads something besides the scores, such as answers, that was not stored
        return math.nan


def _measure_failed(pair: MetricPair) -> Bools:
    failed: Bools = (pair.first.status == Status.MEASURE_FAILED) | (pair.second.status == Status.MEASURE_FAILED)
    return failed


def failed_without_value(scores: Scores) -> Bools:
    """A mask of the samples that failed and have no score."""
    failed: Bools = (scores.status == Status.SYSTEM_FAILED) | (scores.status == Status.MEASURE_FAILED)
    return failed & ~scores.counted


def _fill_failed(scores: Scores, value: float) -> Scores:
    failed = (scores.status == Status.MEASURE_FAILED) & ~scores.counted
    return scores.replaced(failed, Status.MEASURE_FAILED, "filled", value) if failed.any() else scores


def exclude_rows(scores: Scores, rows: Bools) -> Scores:
    """The scores with some samples excluded from the reducer."""
    return scores.replaced(rows, Status.SKIPPED, "left_out", math.nan) if rows.any() else scores


def _zero_excluded(scores: Scores) -> Floats:
    """The statistics with zeros for samples that do not enter."""
    assert scores.stats is not None
    return np.where(scores.counted[:, None] & np.isfinite(scores.stats), scores.stats, 0.0)
